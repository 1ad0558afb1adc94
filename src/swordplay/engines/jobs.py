"""One job: what it is, and how its result gets to its place whole or not at all."""

from __future__ import annotations

import os
import pickle
import shutil
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

Advance = Callable[[int], None]
"""Called with how much of a job was done since the last call."""
Outcome = tuple[int, bool, Any, Exception | None]
"""Of a job elsewhere: its number, whether it is kept, what to keep if not, what went wrong."""


@dataclass(frozen=True, eq=False)
class Job:
    """Work that depends on nothing but itself. To leave this process it must pickle (closures may).

    What it makes must be the same however often and wherever it is done.
    """

    place: Path
    """The file or folder that is there once the job is done."""
    work: Callable[[Advance], Any]
    """Returns the result; calls its argument now and then, in all with ``size``."""
    write: Callable[[Path, Any], None]
    """Writes a result to a path that is not there yet."""
    size: int = 1
    """Its share of the progress; large jobs go first."""

    @property
    def done(self) -> bool:
        """Whether the result is in its place."""
        return self.place.exists()


def keep(job: Job, result: Any, lasting: bool) -> None:
    """Put a result in its place by one rename, whoever else is about to do the same."""
    job.place.parent.mkdir(parents=True, exist_ok=True)
    beside = job.place.with_name(f"{job.place.name}.{uuid4().hex[:12]}.part")
    try:
        job.write(beside, result)
        if lasting:
            _settle(beside)
        os.replace(beside, job.place)
    except OSError:
        if not job.place.is_dir():  # somebody was quicker, with the same result
            raise
    finally:
        shutil.rmtree(beside) if beside.is_dir() else beside.unlink(missing_ok=True)


def _settle(path: Path) -> None:
    """Wait until a file, or a folder with all its files, has reached the disk."""
    if path.is_dir():
        for entry in path.iterdir():
            _settle(entry)
        if os.name == "nt":
            return  # no folder can be opened there
    handle = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def do_elsewhere(number: int, shipped: bytes, mark: Path, lasting: bool) -> Outcome:
    """Do a job in another process, maybe on another machine; keep it if ``mark`` is seen there.

    An error of the job is returned, so that one that is raised is known to be the engine's own.
    """
    try:
        job: Job = pickle.loads(shipped)
        result = job.work(lambda amount: None)
        if not mark.exists():
            return number, False, result, None
        keep(job, result, lasting)
    except Exception as error:
        return number, False, None, _portable(error)
    return number, True, None, None


def _portable(error: Exception) -> Exception:
    """Return an error that can be sent, its traceback in a note."""
    told = f"\nIn the worker:\n{traceback.format_exc()}"
    try:
        same = type(pickle.loads(pickle.dumps(error))) is type(error)
    except Exception:  # its class is in no module, say, or wants other arguments
        same = False
    if not same:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(told)
    return error
