"""Where compiled kernels are kept, when the usual places cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from swordplay.kernels import compiled

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders without permission")


def test_a_folder_that_cannot_be_written_is_replaced_and_said_once(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(compiled.config, "CACHE_DIR", "/proc/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    folder = compiled.cache_folder()
    assert folder is not None
    assert folder.parent == tmp_path / "swordplay"
    assert "cannot be written" in capsys.readouterr().err
    assert compiled.cache_folder() == folder
    assert capsys.readouterr().err == ""


def test_without_a_home_the_temporary_folder_serves(monkeypatch):
    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", staticmethod(homeless))
    assert str(os.getuid()) in compiled._user_cache().name


def test_nothing_that_can_be_written_is_said_and_works(tmp_path, monkeypatch):
    monkeypatch.setattr(compiled.config, "CACHE_DIR", "/proc/nowhere")
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere/either")
    with pytest.warns(UserWarning, match="compiled anew in every process"):
        assert compiled.cache_folder() is None


def test_what_other_versions_left_is_removed_after_a_week(tmp_path):
    for name, age in (("swordplay-old", 8), ("swordplay-new", 1), ("swordplay-mine", 30)):
        (tmp_path / name).mkdir()
        then = (tmp_path / name).stat().st_mtime - age * 24 * 3600
        os.utime(tmp_path / name, (then, then))
    compiled._prune(tmp_path, "swordplay-mine")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["swordplay-mine", "swordplay-new"]


def test_a_second_process_compiles_nothing(tmp_path):
    code = (
        "import numpy as np, swordplay as sp\n"
        "from swordplay.kernels import projections\n"
        "sp.Ball(2).project(np.ones(2))\n"
        "stats = projections.project_rows.stats\n"
        "print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))\n"
    )
    assert twice(code, tmp_path) == ["0 1\n", "1 0\n"]


GAMES = """
import hashlib, numpy as np, scipy.sparse as sparse, swordplay as sp
from swordplay.fleet import Fleet

def told(*arrays):
    return hashlib.sha256(b"".join(np.ascontiguousarray(a).tobytes() for a in arrays)).hexdigest()

stream = sp.streams.abrupt_drift(horizon=10_000, dim=5, every=100, seed=0)
X, y = stream.features, stream.targets
for domain in (sp.Ball(5), sp.Box(-np.ones(5), np.ones(5)), sp.Simplex(5)):
    facts = stream.assumptions(domain)
    for kind in (sp.OGD, sp.SwordPP, sp.Sword, sp.SwordBest):
        run = sp.play(kind(domain, facts), stream, record=("decisions", "weights"))
        print(kind.__name__, domain, told(run.losses, run.decisions, run.weights))
    learner = sp.SwordPP(domain, facts)
    for x in X[:2000]:
        learner.learn((x @ learner.decide()) * x)
    print("asked", domain, told(learner.decide()))
rows = sp.LinearStream(sparse.csr_array(X * (X > 0)), y, stream.loss)
run = sp.play(sp.SwordPP(sp.Ball(5), facts), rows)
print("sparse", told(run.losses))
fleet = Fleet(sp.SwordPP(sp.Ball(5), facts), stream.loss)
print("fleet", told(fleet.predict_then_learn(np.arange(len(X)) % 7, X, y)))
"""


@pytest.mark.slow
def test_what_was_compiled_here_and_what_is_read_from_disk_add_up_alike(tmp_path):
    here, read = twice(GAMES, tmp_path)
    assert here.splitlines() == read.splitlines()
    assert len(here.splitlines()) == 17


def twice(code, cache):
    """Run code in two processes; the second finds what the first has compiled."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    environment.pop("NUMBA_DISABLE_JIT", None)
    return [
        subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for _ in range(2)
    ]
