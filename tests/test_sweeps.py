"""Sweeps: one table from every engine, and nothing finished is ever done again."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

import swordplay as sp
from swordplay.sweeps import SweepError

DOMAIN = sp.Ball(dim=3, radius=1.0)
LEARNERS = [sp.OGD, sp.OEGD, sp.SwordPP, sp.Ader, sp.Sword]


def stream(seed, horizon=200):
    return sp.streams.abrupt_drift(horizon=horizon, dim=3, every=50, seed=seed)


def dump(table):
    return json.dumps({name: column.tolist() for name, column in table.items()})


def run(engine="threads", **more):
    return sp.sweep(LEARNERS, {"abrupt": stream}, range(4), engine, domain=DOMAIN, jobs=2, **more)


def test_a_sweep_is_a_tidy_table_of_plain_games():
    table = run()
    assert {len(column) for column in table.values()} == {20}
    learner = sp.SwordPP(DOMAIN, stream(3).assumptions(DOMAIN))
    alone = sp.play(learner, stream(3))
    row = np.flatnonzero((table["learner"] == "SwordPP") & (table["seed"] == 3))
    assert table["loss"][row].tolist() == [alone.cumulative_loss]
    expected = sp.regret.dynamic_regret(alone, stream(3), stream(3).comparators)
    assert table["regret"][row] == pytest.approx(expected)


def test_processes_give_the_same_table():
    assert dump(run("processes")) == dump(run("threads"))


def test_dask_gives_the_same_table():
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        assert dump(run("dask")) == dump(run("threads"))


IN_A_ROOM = """
import subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
out = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
assert len(out.splitlines()) == 1, out  # nothing but lo: Ray listens on every interface
import ray
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
sys.path.insert(0, {tests!r})
from test_sweeps import dump, run
print("TABLE" + dump(run("ray")))
"""


def test_ray_gives_the_same_table_behind_closed_doors(tmp_path):
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed (extra ray)")
    if not (shutil.which("unshare") and shutil.which("ip")):
        pytest.skip("Ray listens on every interface, and no network namespace can be made here")
    room = ["unshare", "-rn"]
    if subprocess.run([*room, "ip", "link", "set", "lo", "up"], check=False).returncode:
        room = ["unshare", "-n"]
        if subprocess.run([*room, "ip", "link", "set", "lo", "up"], check=False).returncode:
            pytest.skip("Ray listens on every interface, and no network namespace can be made here")
    tests = str(Path(__file__).parent)
    code = IN_A_ROOM.format(tests=tests)
    surroundings = {**os.environ, "PYTHONPATH": tests, "HOME": str(tmp_path)}
    done = subprocess.run(
        [*room, sys.executable, "-c", code],
        capture_output=True, text=True, timeout=300, env=surroundings, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    table = done.stdout.split("TABLE")[1].strip()
    assert table == dump(run("threads"))


def counted(folder, seed):
    (Path(folder) / f"{seed}-{os.getpid()}-{os.urandom(4).hex()}").touch()
    return stream(seed)


def test_a_sweep_goes_on_where_it_was_stopped(tmp_path):
    log = tmp_path / "log"
    log.mkdir()
    make = {"abrupt": partial(counted, log)}
    how = {"domain": DOMAIN, "folder": tmp_path / "out"}
    sp.sweep([sp.OGD], make, range(3), **how)
    assert len(list(log.iterdir())) == 3
    table = sp.sweep([sp.OGD, sp.OEGD], make, range(4), **how)
    assert len(list(log.iterdir())) == 8
    whole = sp.sweep([sp.OGD, sp.OEGD], {"abrupt": stream}, range(4), domain=DOMAIN)
    assert dump(table) == dump(whole)


def killed_once(folder, seed):
    mark = Path(folder) / str(seed)
    if seed == 2 and not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return stream(seed)


def test_a_killed_worker_costs_only_its_own_game(tmp_path):
    make = {"abrupt": partial(killed_once, tmp_path)}
    table = sp.sweep([sp.OGD], make, range(6), "processes", domain=DOMAIN, jobs=2)
    assert dump(table) == dump(sp.sweep([sp.OGD], {"abrupt": stream}, range(6), domain=DOMAIN))


def test_a_game_that_fails_is_named_and_the_others_stay(tmp_path):
    def odd(seed):
        if seed == 1:
            raise ZeroDivisionError("no such seed")
        return stream(seed)

    with pytest.raises(SweepError, match=r"(?s)'abrupt', 1\).*no such seed"):
        sp.sweep([sp.OGD], {"abrupt": odd}, range(3), domain=DOMAIN, folder=tmp_path)
    assert len(list((tmp_path / "games").iterdir())) == 2


def test_wrong_requests_are_refused(tmp_path):
    with pytest.raises(ValueError, match="engine must be one of"):
        run("fork")
    with pytest.raises(ValueError, match="need a domain"):
        sp.sweep([sp.OGD], {"abrupt": stream}, [0])
    with pytest.raises(ValueError, match="twice"):
        sp.sweep([sp.OGD], {"abrupt": stream}, [0, 0], domain=DOMAIN)
    (tmp_path / "sweep.json").write_text('{"format": 0}')
    with pytest.raises(ValueError, match="holds a sweep by"):
        sp.sweep([sp.OGD], {"abrupt": stream}, [0], domain=DOMAIN, folder=tmp_path)
