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


def brief(engine="threads", learners=(sp.OGD,), seeds=(0,), **more):
    return sp.sweep(list(learners), {"abrupt": stream}, seeds, engine, domain=DOMAIN, **more)


LEARNER = sp.OGD(DOMAIN, stream(0).assumptions(DOMAIN))


@pytest.mark.parametrize(
    ("wrong", "error", "told"),
    [
        ({"learners": [LEARNER]}, TypeError, "list of learners is of classes"),
        ({"learners": {"mine": LEARNER}}, TypeError, "'mine' must be a function of a stream"),
        ({"learners": sp.OGD}, TypeError, "a list of classes"),
        ({"streams": [stream]}, TypeError, "name -> function of a seed"),
        ({"streams": {"abrupt": stream(0)}}, TypeError, "'abrupt' must be a function of a seed"),
        ({"seeds": 5}, TypeError, r"say range\(5\)"),
        ({"seeds": [1.7]}, TypeError, "whole numbers"),
        ({"jobs": 0}, ValueError, "at least 1, or -1"),
        ({"jobs": 1.5}, TypeError, "integer"),
        ({"measure": lambda run, stream: {"seed": 3.0}}, SweepError, "'seed' is taken"),
    ],
)
def test_arguments_of_the_wrong_kind_are_named(wrong, error, told):
    right = {"learners": [sp.OGD], "streams": {"abrupt": stream}, "seeds": [0], "domain": DOMAIN}
    with pytest.raises(error, match=told):
        sp.sweep(**{**right, **wrong})


def test_seeds_may_come_one_by_one_and_jobs_may_be_counted_from_the_end():
    table = brief(learners=[sp.OGD, sp.OEGD], seeds=(seed for seed in range(2)), jobs=-2)
    assert table["seed"].tolist() == [0, 1, 0, 1]
    named = sp.sweep({"OGD": sp.OGD, "OEGD": sp.OEGD}, {"abrupt": stream}, [0, 1], domain=DOMAIN)
    assert dump(named) == dump(table)


def test_a_disk_that_is_full_leaves_no_half_plan(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            brief(folder=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["games"]
    assert dump(brief(folder=tmp_path)) == dump(brief())


@pytest.mark.parametrize("content", ["", "{", "[]"])
def test_a_plan_that_cannot_be_read_is_named(tmp_path, content):
    brief(folder=tmp_path)
    (tmp_path / "sweep.json").write_text(content)
    with pytest.raises(ValueError, match=r"sweep\.json cannot be read.*delete the file"):
        brief(folder=tmp_path)


@pytest.mark.parametrize("content", [b"", b'{"loss": 1', b"\xff\x00"])
def test_a_result_that_cannot_be_read_is_made_again(tmp_path, content):
    whole = brief(folder=tmp_path, seeds=range(3))
    lost = sorted((tmp_path / "games").iterdir())[0]
    lost.write_bytes(content)
    with pytest.warns(UserWarning, match=f"{lost.name} cannot be read"):
        again = brief(folder=tmp_path, seeds=range(3))
    assert dump(again) == dump(whole)


def mine(run, stream):
    return {"mine": 1.0}


def test_a_folder_is_for_one_experiment(tmp_path):
    class OGD(sp.OEGD):
        pass

    brief(folder=tmp_path)
    brief(folder=tmp_path, learners=[sp.OEGD])  # more learners may come
    wide = sp.Ball(dim=3, radius=5.0)
    with pytest.raises(ValueError, match=r"radius=1\.0.*radius=5\.0.*domain differ"):
        sp.sweep([sp.OGD], {"abrupt": stream}, [0], domain=wide, folder=tmp_path)
    with pytest.raises(ValueError, match=r"sweeps\.standard.*test_sweeps\.mine.*measure differ"):
        brief(folder=tmp_path, measure=mine)
    with pytest.raises(ValueError, match="OGD differ"):
        brief(folder=tmp_path, learners=[OGD])
    assert dump(brief(folder=tmp_path)) == dump(brief())
