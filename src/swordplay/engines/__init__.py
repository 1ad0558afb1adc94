"""Independent jobs on threads, processes, Ray or Dask, each kept on disk once it is done.

A result appears in its place whole or not at all. The worker that made it puts it there where it
sees the same disk; elsewhere the coordinator does, with what was sent back. So whatever ends a
worker costs what was under way, and whatever ends everything costs no more: the next run does what
is missing, on any engine. Threads need nothing that is not installed; the others go through joblib.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

from swordplay.engines.backends import ENGINES, THREADS, Engine, Missing, Spread, session
from swordplay.engines.jobs import Advance, Job, keep

__all__ = ["ENGINES", "THREADS", "Advance", "Engine", "Job", "Missing", "do"]

ATTEMPTS = 3  # at a job alone whose worker dies each time, after which it has failed
IDLE = 12  # attempts in a row in which nothing gets done, after which nothing is begun again
LOOK = 0.2  # seconds between two looks at what other processes have finished

Heard = Callable[[Job], None]


class Stopped(BaseException):
    """Raised inside a job when everything is being stopped."""


def do(
    jobs: Sequence[Job],
    folder: Path,
    engine: Engine = THREADS,
    *,
    lasting: bool = True,
    heard: Heard = lambda job: None,
    advance: Advance = lambda amount: None,
) -> list[tuple[Job, Exception]]:
    """Do every job that is not done; return those that failed, with what went wrong in them.

    Args:
        jobs: in any order; each has a place of its own.
        folder: where all the places are.
        engine: where; default threads of this process.
        lasting: results survive a power cut as well, at about a millisecond each.
        heard: is told of a job that begins or, of one that another process does, that it is done.
        advance: is told how much was done, in all the size of every job that there was to do.
    """
    # The long ones first, so that no core waits for the last job.
    todo = sorted((job for job in jobs if not job.done), key=lambda job: -job.size)
    if not todo:
        return []
    if engine.name == "threads":
        failed = _on_threads(todo, engine.workers, lasting, heard, advance)
    else:
        with _watching(todo, heard, advance), session(engine) as spread:
            failed = _elsewhere(todo, folder, lasting, spread)
    return [(job, failed[job]) for job in jobs if job in failed]


def _on_threads(
    jobs: Sequence[Job], workers: int | None, lasting: bool, heard: Heard, advance: Advance
) -> dict[Job, Exception]:
    """Do jobs here: compiled games hold no lock. What was begun when a stop comes is dropped."""
    stop = threading.Event()
    failed: dict[Job, Exception] = {}

    def told(amount: int) -> None:
        if stop.is_set():
            raise Stopped
        advance(amount)

    def finish(job: Job) -> None:
        heard(job)
        try:
            keep(job, job.work(told), lasting)
        except Exception as error:
            failed[job] = error

    with ThreadPoolExecutor(workers or os.cpu_count() or 1) as threads:
        try:
            for future in as_completed([threads.submit(finish, job) for job in jobs]):
                future.result()
        except BaseException:
            stop.set()
            threads.shutdown(wait=False, cancel_futures=True)
            raise
    return failed


def _elsewhere(
    jobs: Sequence[Job], folder: Path, lasting: bool, spread: Spread
) -> dict[Job, Exception]:
    """Do jobs in other processes; go on with the others where a job takes its worker along.

    loky and Ray drop everything that is under way when a worker dies, and do not say what it was
    doing. So where nothing gets done because of it, the halves are tried apart, down to single
    jobs: one whose worker dies again and again is one that failed.
    """
    import cloudpickle

    # Pickled here and as bytes: what cannot travel is not taken for a worker that died, and arrays
    # arrive as they were (engines hand out read-only views of large ones, which compile anew).
    shipped = {job: cloudpickle.dumps(job) for job in jobs}
    failed: dict[Job, Exception] = {}
    folder.mkdir(parents=True, exist_ok=True)
    mark = folder / f".{uuid4().hex}"  # who sees this sees our disk
    mark.touch()

    def attempt(some: Sequence[Job]) -> Exception | None:
        try:
            for number, kept, result, wrong in spread(
                (at, shipped[job], mark, lasting) for at, job in enumerate(some)
            ):
                if wrong is not None:
                    failed[some[number]] = wrong
                elif not kept:
                    _keep_or_note(some[number], result, lasting, failed)
        except Exception as error:
            return error
        return None

    groups, alone, idle = deque([list(jobs)]), Counter[Job](), 0
    try:
        while groups:
            group = groups.popleft()
            died = attempt(group)
            left = [job for job in group if job not in failed and not job.done]
            if not left:
                idle = 0
            elif len(left) < len(group):
                idle = 0
                groups.append(left)
            elif idle == IDLE:  # whatever is tried: it is the engine, not a job
                raise died or RuntimeError(f"{len(left)} results never appeared in {folder}.")
            else:
                idle += 1
                alone[left[0]] += len(left) == 1
                if alone[left[0]] == ATTEMPTS:
                    failed[left[0]] = died or RuntimeError(f"{left[0].place} never appeared.")
                else:
                    half = (len(left) + 1) // 2
                    groups.extend(filter(None, (left[:half], left[half:])))
    finally:
        mark.unlink(missing_ok=True)
    return failed


def _keep_or_note(job: Job, result: object, lasting: bool, failed: dict[Job, Exception]) -> None:
    """Keep what was sent back; a full disk is no worker that died."""
    try:
        keep(job, result, lasting)
    except Exception as error:
        failed[job] = error


@contextmanager
def _watching(jobs: Sequence[Job], heard: Heard, advance: Advance) -> Iterator[None]:
    """Tell of jobs as their results appear on disk: it is the same whoever does them."""
    finished = threading.Event()

    def watch() -> None:
        missing = list(jobs)
        while missing:
            last = finished.wait(LOOK)
            for job in [job for job in missing if job.done]:
                missing.remove(job)
                heard(job)
                advance(job.size)
            if last:
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        finished.set()
        thread.join()
