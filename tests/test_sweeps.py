"""Sweeps: one table from every engine, and nothing finished is ever done again."""

from __future__ import annotations

import io
import json
import os
import signal
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from rooms import in_a_room

import swordplay as sp
from swordplay.sweeps import SweepError

DOMAIN = sp.Ball(dim=3, radius=1.0)
LEARNERS = [sp.OGD, sp.OEGD, sp.SwordPP, sp.Ader, sp.Sword]


def stream(seed, horizon=200):
    return sp.streams.abrupt_drift(horizon=horizon, dim=3, every=50, seed=seed)


def dump(table):
    return json.dumps({name: column.tolist() for name, column in table.items()})


def run(engine="threads", **more):
    return sp.sweep(LEARNERS, {"abrupt": stream}, range(20), engine, domain=DOMAIN, jobs=2, **more)


def test_a_sweep_is_a_tidy_table_of_plain_games():
    table = run()
    assert {len(column) for column in table.values()} == {100}
    learner = sp.SwordPP(DOMAIN, stream(3).assumptions(DOMAIN))
    alone = sp.play(learner, stream(3))
    row = np.flatnonzero((table["learner"] == "SwordPP") & (table["seed"] == 3))
    assert table["loss"][row].tolist() == [alone.cumulative_loss]
    expected = sp.regret.dynamic_regret(alone, stream(3), stream(3).comparators)
    assert table["regret"][row] == pytest.approx(expected)


def test_processes_give_the_same_table():
    assert dump(run("processes")) == dump(run("threads"))


def test_dask_gives_the_same_table_on_a_cluster_of_its_own():
    pytest.importorskip("distributed", reason="needs the extra dask")
    assert dump(run("dask")) == dump(run("threads"))


def test_dask_gives_the_same_table_on_a_cluster_that_is_there(monkeypatch):
    distributed = pytest.importorskip("distributed", reason="needs the extra dask")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        monkeypatch.setattr(distributed, "LocalCluster", None)  # no other one is started
        assert dump(run("dask")) == dump(run("threads"))
        there = {"scheduler": cluster.scheduler_address}
        assert dump(run("dask", **there)) == dump(run("threads"))


def test_ray_gives_the_same_table_behind_closed_doors(tmp_path):
    code = 'from test_sweeps import dump, run; print("TABLE" + dump(run("ray")))'
    assert in_a_room(code, tmp_path).split("TABLE")[1].strip() == dump(run("threads"))


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


def with_a_kill(folder, engine):
    make = {"abrupt": partial(killed_once, folder)}
    return sp.sweep([sp.OGD], make, range(6), engine, domain=DOMAIN, jobs=2)


@pytest.mark.parametrize("engine", ["processes", "dask", "ray"])
def test_a_killed_worker_does_not_end_a_sweep(tmp_path, engine):
    whole = dump(sp.sweep([sp.OGD], {"abrupt": stream}, range(6), domain=DOMAIN))
    if engine == "dask":
        pytest.importorskip("distributed", reason="needs the extra dask")
    if engine == "ray":
        code = (
            "from test_sweeps import dump, with_a_kill\n"
            f"print('TABLE' + dump(with_a_kill({str(tmp_path)!r}, 'ray')))"
        )
        assert in_a_room(code, tmp_path).split("TABLE")[1].strip() == whole
    else:
        assert dump(with_a_kill(tmp_path, engine)) == whole
    assert (tmp_path / "2").exists()


def test_a_game_that_fails_is_named_and_the_others_stay(tmp_path):
    def odd(seed):
        if seed == 1:
            raise ZeroDivisionError("no such seed")
        return stream(seed)

    with pytest.raises(SweepError, match=r"(?s)'abrupt', 1\).*no such seed"):
        sp.sweep([sp.OGD], {"abrupt": odd}, range(3), domain=DOMAIN, folder=tmp_path)
    assert len(list((tmp_path / "games").iterdir())) == 2


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_a_bar_is_shown_on_a_terminal_and_nowhere_else(monkeypatch, engine):
    monkeypatch.setattr(sys, "stderr", told := Terminal())
    run(engine, progress=True)
    assert "100/100 games" in told.getvalue()
    assert told.getvalue().endswith("\n")
    monkeypatch.setattr(sys, "stderr", told := io.StringIO())
    run(engine, progress=True)
    assert told.getvalue() == ""


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
