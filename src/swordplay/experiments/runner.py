"""Run experiments into a folder, task by task, so that a run that was stopped can go on.

A folder holds

    plan.json         what is being run, with which versions: a run is resumed only on the same plan
    parts/            one folder for each finished task, put there whole or not at all
    tables/           the results: the same bytes however often the run was stopped
    timing/           tables with times in them, which no two runs share
    figures/          PDF, PNG and CSV of every figure
    report.html       everything in one page
    manifest.json     versions, machine, command, constants, seeds, check sums
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from swordplay import engines, state
from swordplay.engines import THREADS, Advance, Engine, Job
from swordplay.experiments import tables
from swordplay.experiments.experiment import Experiment, Task, Work
from swordplay.experiments.manifest import versions
from swordplay.experiments.tables import Table

OURS = ("plan.json", "parts", "tables", "timing", "figures", "report.html", "manifest.json")


class FolderTaken(Exception):
    """The folder holds something that must not be overwritten; the message says what to do."""


class Watcher(Protocol):
    """Somebody who wants to know how far the run is; called from several threads."""

    def expect(self, rounds: int) -> None:
        """Say how many rounds are left to play in all."""

    def begin(self, experiment: Experiment, task: Task) -> None:
        """Say that a task begins or, of one that another process does, that it is done."""

    def advance(self, rounds: int) -> None:
        """Say that so many rounds were played."""

    def draw(self, done: int, of: int) -> None:
        """Say how many figures are drawn."""


class Silent:
    """A watcher who says nothing."""

    def expect(self, rounds: int) -> None:
        """Say nothing."""

    def begin(self, experiment: Experiment, task: Task) -> None:
        """Say nothing."""

    def advance(self, rounds: int) -> None:
        """Say nothing."""

    def draw(self, done: int, of: int) -> None:
        """Say nothing."""


@dataclass(frozen=True)
class Results:
    """The finished tables of a folder, by experiment and name."""

    folder: Path
    tables: dict[str, dict[str, Table]]


def prepare(
    folder: Path, settings: Mapping[str, Any], *, resume: bool = False, overwrite: bool = False
) -> None:
    """Make the folder ready for a run with these settings, or raise :class:`FolderTaken`.

    Args:
        folder: where results go.
        settings: what distinguishes this run from others (seeds, sizes, data).
        resume: go on with what is in the folder; the settings and versions must be the same.
        overwrite: throw away what an earlier run left there (nothing else).
    """
    plan = json.dumps({"settings": settings, "versions": versions()}, indent=2, sort_keys=True)
    path = folder / "plan.json"
    if folder.exists() and not folder.is_dir():
        raise FolderTaken(f"{folder} is a file: choose another --out.")
    if resume and path.exists():
        there = path.read_text(encoding="utf-8")
        if there != plan + "\n":
            raise FolderTaken(
                f"{folder} holds a run with other settings or versions "
                f"({_difference(json.loads(there), json.loads(plan))}). Resume with the same ones, "
                "start again with --overwrite, or choose another --out."
            )
        return
    begun = folder / "plan.json.part"  # by a run that was killed before its plan was written
    if folder.exists() and any(entry != begun for entry in folder.iterdir()):
        if not overwrite:
            raise FolderTaken(
                f"{folder} is not empty. Go on with it (--resume), replace what an earlier run "
                "left there (--overwrite), or choose another --out."
            )
        for name in OURS:
            old = folder / name
            shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
    folder.mkdir(parents=True, exist_ok=True)
    state.write(path, f"{plan}\n".encode())


def run(
    experiments: Sequence[Experiment],
    folder: Path,
    settings: Mapping[str, Any] | None = None,
    *,
    resume: bool = False,
    overwrite: bool = False,
    watcher: Watcher | None = None,
    engine: Engine = THREADS,
) -> Results:
    """Do every task that is not done yet, then put the tables together.

    The tables are the same, byte for byte, whether the run was stopped on the way or not, on every
    engine, and however many tasks are done at a time. A run may be resumed on another engine. Tasks
    that are timed run alone, in this process. Where a task fails the others are done and kept, and
    its error is raised then.

    Args:
        experiments: what to run.
        folder: where results go.
        settings: see :func:`prepare`.
        resume: go on with what is in the folder.
        overwrite: throw away what an earlier run left there.
        watcher: is told of the progress.
        engine: where tasks are done; default threads of this process.
    """
    chosen = dict(settings or {"experiments": [e.name for e in experiments]})
    prepare(folder, chosen, resume=resume, overwrite=overwrite)
    told = watcher or Silent()
    here = engine.name == "threads"
    tasks = {
        Job(
            _part(folder, e, task),
            task.work if here or e.timed else partial(_quietly, task.work),
            _write,
            task.rounds,
        ): (e, task)
        for e in experiments
        for task in e.tasks
    }
    told.expect(sum(job.size for job in tasks if not job.done))

    def do(timed: bool, engine: Engine) -> list[tuple[Job, Exception]]:
        return engines.do(
            [job for job, (e, _) in tasks.items() if e.timed == timed],
            folder / "parts",
            engine,
            heard=lambda job: told.begin(*tasks[job]),
            advance=told.advance,
        )

    for _, error in do(True, Engine(workers=1)) + do(False, engine):
        raise error
    return assemble(experiments, folder)


def progress(experiments: Sequence[Experiment], folder: Path) -> tuple[int, int]:
    """Return how many tasks are done, and how many there are."""
    every = [(e, task) for e in experiments for task in e.tasks]
    return sum(_part(folder, e, task).exists() for e, task in every), len(every)


def assemble(experiments: Sequence[Experiment], folder: Path) -> Results:
    """Join the parts of every table, in the order of the tasks, and write the tables."""
    found: dict[str, dict[str, Table]] = {}
    for experiment in experiments:
        target = folder / ("timing" if experiment.timed else "tables")
        target.mkdir(exist_ok=True)
        parts = [_part(folder, experiment, task) for task in experiment.tasks]
        names = list(dict.fromkeys(p.stem for part in parts for p in sorted(part.iterdir())))
        found[experiment.name] = {}
        for name in names:
            files = [part / f"{name}.parquet" for part in parts]
            table = tables.stack(tables.read(file) for file in files if file.exists())
            tables.write(target / f"{experiment.name}.{name}.parquet", table)
            found[experiment.name][name] = table
    return Results(folder, found)


def _part(folder: Path, experiment: Experiment, task: Task) -> Path:
    return folder / "parts" / experiment.name / task.key


def _quietly(work: Work, advance: Advance) -> dict[str, tables.Columns]:
    """Work in a process whose warnings nobody sorts out: the certificates say what they say."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return work(advance)


def _write(part: Path, made: Mapping[str, tables.Columns]) -> None:
    """Write a task's tables into a new folder."""
    part.mkdir()
    for name, columns in made.items():
        tables.write(part / f"{name}.parquet", columns)


def _difference(there: Any, here: Any) -> str:
    told = []
    for kind in ("settings", "versions"):
        old, new = there.get(kind, {}), here.get(kind, {})
        told += [
            f"{name}: {old.get(name)} there, {new.get(name)} now"
            for name in sorted(old.keys() | new.keys())
            if old.get(name) != new.get(name)
        ]
    return "; ".join(told)
