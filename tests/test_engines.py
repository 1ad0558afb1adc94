"""Engines: every job once, its result whole or not at all, and errors are not dead workers."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pytest

from swordplay import engines
from swordplay.engines import Engine, Job
from swordplay.engines.jobs import keep

PROCESSES = Engine("processes", workers=2)


def write(path, result):
    path.write_text(f"{result} {os.getpid()}")


def jobs_of(folder, work, count=6, **more):
    return [
        Job(folder / str(number), partial(work, folder, number), write, **more)
        for number in range(count)
    ]


def results(jobs):
    return [job.place.read_text().split()[0] for job in jobs]


def writers(jobs):
    return {int(job.place.read_text().split()[1]) for job in jobs}


def square(folder, number, advance):
    advance(1)
    return number**2


def left_over(folder):
    return [path.name for path in folder.iterdir() if not path.name.isdigit()]


@pytest.mark.parametrize("engine", [Engine(), Engine(workers=1), PROCESSES])
def test_every_job_is_done_and_told_of_once(tmp_path, engine):
    jobs, heard, advanced = jobs_of(tmp_path, square), [], []
    told = {"heard": heard.append, "advance": advanced.append}
    assert engines.do(jobs, tmp_path, engine, **told) == []
    assert results(jobs) == ["0", "1", "4", "9", "16", "25"]
    assert set(heard) == set(jobs)
    assert sum(advanced) == len(heard) == 6
    before = {job: job.place.stat().st_mtime_ns for job in jobs}
    assert engines.do(jobs, tmp_path, engine, **told) == []
    assert before == {job: job.place.stat().st_mtime_ns for job in jobs}
    assert len(heard) == 6
    assert left_over(tmp_path) == []


def test_workers_keep_their_results_themselves(tmp_path):
    jobs = jobs_of(tmp_path, square)
    engines.do(jobs, tmp_path, PROCESSES)
    assert os.getpid() not in writers(jobs)


def without_our_disk(folder, number, advance):
    """Hide, for the worker, that the folder is the coordinator's."""
    for mark in folder.glob(".*"):
        mark.unlink(missing_ok=True)
    return number


def test_what_workers_cannot_keep_is_sent_back_and_kept_here(tmp_path):
    jobs = jobs_of(tmp_path, without_our_disk, count=4)
    assert engines.do(jobs, tmp_path, PROCESSES) == []
    assert results(jobs) == ["0", "1", "2", "3"]
    assert writers(jobs) == {os.getpid()}


def killed_once(folder, number, advance):
    attempts = folder / "attempts"
    (attempts / f"{number}-{os.urandom(4).hex()}").touch()
    if number == 2 and len(list(attempts.glob("2-*"))) == 1:
        time.sleep(0.5)  # until the others are on disk, all but the one beside it
        os.kill(os.getpid(), signal.SIGKILL)
    if number == 5:
        time.sleep(1)
    return number


def test_a_killed_worker_costs_what_was_under_way_and_no_more(tmp_path):
    (tmp_path / "attempts").mkdir()
    jobs = jobs_of(tmp_path, killed_once)
    assert engines.do(jobs, tmp_path, PROCESSES) == []
    assert results(jobs) == list("012345")
    tries = [len(list((tmp_path / "attempts").glob(f"{n}-*"))) for n in range(6)]
    assert tries == [1, 1, 2, 1, 1, 2]


def each_kills_one(folder, number, advance):
    mark = folder / "marks" / str(number)
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def test_more_workers_may_die_than_attempts_are_made_in_a_row(tmp_path):
    (tmp_path / "marks").mkdir()
    jobs = jobs_of(tmp_path, each_kills_one, count=2 * engines.ATTEMPTS + 2)
    assert engines.do(jobs, tmp_path, PROCESSES) == []
    assert results(jobs) == [str(number) for number in range(len(jobs))]


def always_killed(killers, folder, number, advance):
    if number in killers:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(0.2)  # whoever is beside one of them dies with it
    return number


@pytest.mark.parametrize(
    ("engine", "killers"), [("processes", {2}), ("processes", {2, 3}), ("dask", {2})]
)
def test_a_job_that_kills_every_worker_fails_and_the_others_do_not(tmp_path, engine, killers):
    if engine == "dask":
        pytest.importorskip("distributed", reason="needs the extra dask")
    jobs = jobs_of(tmp_path, partial(always_killed, killers))
    failed = dict(engines.do(jobs, tmp_path, Engine(engine, workers=2)))
    assert {jobs.index(job) for job in failed} == killers
    assert [job.done for job in jobs] == [number not in killers for number in range(6)]
    assert all("worker" in str(error).lower() for error in failed.values())
    assert left_over(tmp_path) == []


def test_an_engine_that_does_nothing_is_given_up(tmp_path, monkeypatch):
    def broken(calls):
        raise OSError("no worker can be started")

    monkeypatch.setattr(engines, "session", lambda engine: nullcontext(broken))
    jobs = jobs_of(tmp_path, square, count=40)
    with pytest.raises(OSError, match="no worker can be started"):
        engines.do(jobs, tmp_path, PROCESSES)


class Odd(Exception):
    """An error that cannot be rebuilt from its arguments."""

    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")


def failing(log, error, folder, number, advance):
    (log / f"{number}-{os.urandom(4).hex()}").touch()
    if number == 1:
        raise error()
    return number


@pytest.mark.parametrize("engine", [Engine(), PROCESSES])
@pytest.mark.parametrize(
    ("error", "kind", "says"),
    [
        (partial(ZeroDivisionError, "by what"), ZeroDivisionError, "by what"),
        (partial(Odd, 1, 2), (Odd, RuntimeError), "1 and 2"),
    ],
)
def test_an_error_of_a_job_is_no_dead_worker(tmp_path, engine, error, kind, says):
    log = tmp_path / "log"
    log.mkdir()
    jobs = jobs_of(tmp_path, partial(failing, log, error), count=4)
    ((job, wrong),) = engines.do(jobs, tmp_path, engine)
    assert job is jobs[1]
    assert isinstance(wrong, kind)
    assert says in str(wrong)
    assert [job.done for job in jobs] == [True, False, True, True]
    assert len(list(log.iterdir())) == 4  # it was not tried again
    if engine is PROCESSES:
        assert "in failing" in wrong.__notes__[0]


def test_what_cannot_travel_is_refused_before_anything_is_tried(tmp_path):
    jobs = jobs_of(tmp_path, partial(lambda lock, folder, number, advance: 1, threading.Lock()))
    with pytest.raises(TypeError, match="pickle"):
        engines.do(jobs, tmp_path, PROCESSES)
    assert list(tmp_path.iterdir()) == []


def test_closures_travel(tmp_path):
    factor = 7
    jobs = [Job(tmp_path / "0", lambda advance: 6 * factor, lambda p, r: p.write_text(f"{r} 0"))]
    assert engines.do(jobs, tmp_path, PROCESSES) == []
    assert results(jobs) == ["42"]


# ---------------------------------------------------------------------- results


def test_a_result_that_is_cut_off_while_it_is_written_is_not_there(tmp_path):
    def cut(path, result):
        path.mkdir()
        (path / "half").write_text(result)
        raise OSError("the disk is full")

    job = Job(tmp_path / "0", lambda advance: "x", cut)
    ((_, error),) = engines.do([job], tmp_path)
    assert "disk is full" in str(error)
    assert list(tmp_path.iterdir()) == []


def folder_of(path, result):
    path.mkdir()
    (path / "table").write_text(result)


@pytest.mark.parametrize("how", [folder_of, lambda path, result: path.write_text(result)])
def test_two_who_keep_the_same_result_do_not_disturb_each_other(tmp_path, how):
    job, errors = Job(tmp_path / "0", lambda advance: "x", how), []

    def keep_it():
        try:
            keep(job, "x" * 100_000, lasting=False)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=keep_it) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert [path.name for path in tmp_path.iterdir()] == ["0"]
    kept = tmp_path / "0" / "table" if how is folder_of else tmp_path / "0"
    assert kept.read_text() == "x" * 100_000


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_a_result_reaches_the_disk_before_its_name_does(tmp_path, monkeypatch):
    seen, fsync, replace = [], os.fsync, os.replace

    def watched_fsync(handle):
        seen.append(Path(os.readlink(f"/proc/self/fd/{handle}")).name.split(".")[0])
        fsync(handle)

    def watched_replace(a, b):
        seen.append("renamed")
        replace(a, b)

    monkeypatch.setattr(os, "fsync", watched_fsync)
    monkeypatch.setattr(os, "replace", watched_replace)
    keep(Job(tmp_path / "0", lambda advance: "x", folder_of), "x", lasting=True)
    assert seen == ["table", "0", "renamed"]
    seen.clear()
    keep(Job(tmp_path / "1", lambda advance: "x", folder_of), "x", lasting=False)
    assert seen == ["renamed"]


# ---------------------------------------------------------------------- engines


def test_wrong_engines_are_refused():
    with pytest.raises(ValueError, match="engine must be one of threads, processes, ray, dask"):
        Engine("fork")
    with pytest.raises(ValueError, match="At least one"):
        Engine(workers=0)
    with pytest.raises(ValueError, match="A scheduler is for Ray and Dask"):
        Engine("processes", scheduler="tcp://127.0.0.1:8786")


@pytest.mark.parametrize(
    ("engine", "module", "extra"),
    [("processes", "joblib", "jobs"), ("ray", "ray", "ray"), ("dask", "distributed", "dask")],
)
def test_an_engine_that_is_not_installed_says_what_to_install(engine, module, extra, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(engines.Missing, match=rf'pip install "swordplay\[{extra}\]"'):
        Engine(engine)


def test_threads_need_no_extra(tmp_path):
    code = (
        "import sys\n"
        "for name in ('joblib', 'cloudpickle', 'ray', 'distributed'): sys.modules[name] = None\n"
        "import swordplay as sp\n"
        "make = lambda seed: sp.streams.abrupt_drift(50, dim=2, every=10, seed=seed)\n"
        "print(len(sp.sweep([sp.OGD], {'a': make}, range(3), domain=sp.Ball(2))['loss']))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "3\n"


def sockets(folder, number, advance):
    """Return the addresses on which this machine's Dask processes listen."""
    told = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
    parent = os.getppid()
    family = {os.getpid(), parent, int(Path(f"/proc/{parent}/stat").read_text().split()[3])}
    return ",".join(
        line.split()[3] for line in told.splitlines() if any(f"pid={p}," in line for p in family)
    )


@pytest.mark.skipif(not Path("/usr/bin/ss").exists(), reason="needs ss")
def test_dask_listens_on_loopback_alone(tmp_path):
    pytest.importorskip("distributed", reason="needs the extra dask")
    jobs = jobs_of(tmp_path, sockets, count=2)
    assert engines.do(jobs, tmp_path, Engine("dask", workers=2)) == []
    addresses = [a for told in results(jobs) for a in told.split(",")]
    assert addresses
    assert all(address.startswith("127.0.0.1:") for address in addresses), addresses
