"""Sweeps: every learner on every stream with every seed, on every core or on a cluster.

Threads, processes, Ray and Dask all give the same table (see ``engines``). A result is on disk as
soon as it is known, so whatever ends a worker, or the sweep, costs only what was under way.
"""

from __future__ import annotations

import hashlib
import json
import operator
import os
import sys
import tempfile
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from swordplay import engines, regret, state
from swordplay._types import Array
from swordplay.domains import Domain
from swordplay.engines import Advance, Engine, Job
from swordplay.ensemble import Ensemble
from swordplay.play import Run, play
from swordplay.streams.linear import LinearStream
from swordplay.streams.stream import Stream

MakeStream = Callable[[int], Stream]
MakeLearner = Callable[[Stream], Ensemble]
Measure = Callable[[Run, Stream], Mapping[str, float]]


class SweepError(RuntimeError):
    """A game of a sweep failed; the others are on disk."""


def sweep(
    learners: Mapping[str, MakeLearner | type[Ensemble]] | Iterable[type[Ensemble]],
    streams: Mapping[str, MakeStream],
    seeds: Iterable[int],
    engine: str = "threads",
    *,
    domain: Domain | None = None,
    folder: str | os.PathLike[str] | None = None,
    jobs: int = -1,
    scheduler: str | None = None,
    measure: Measure | None = None,
    progress: bool = False,
) -> dict[str, Array]:
    """Play every learner on every stream with every seed; return a tidy table, a row for each game.

    The table is the same whatever the engine, the number of workers, and however often the sweep
    was stopped on its way. It is a dict of columns: ``pandas.DataFrame(table)`` makes a frame.

    Args:
        learners: name -> function of a stream that builds a learner; or classes of learners, in a
            list or by names, which are built with ``domain`` and ``stream.assumptions(domain)``.
        streams: name -> function of a seed that builds a stream.
        seeds: whole numbers.
        engine: "threads" (compiled games hold no lock), "processes" (games with parts in Python),
            "ray" or "dask". **Ray listens on every network interface, whatever address it is
            given**: start it only where nobody else can reach it. Scripts that use Dask need
            ``if __name__ == "__main__":``.
        domain: where learners given as classes play.
        folder: where results are kept; a later sweep into it does only what is missing. It must be
            for one experiment: another domain, another measure or another class of a learner's name
            is refused; what a function builds or measures, only its name tells. Default a temporary
            folder.
        jobs: how many games at a time; -1 is one for each core, -2 leaves one core out.
        scheduler: the address of a running Ray or Dask. Without, the one that this process is
            connected to, or else one that is started on this machine until the sweep is done.
        measure: what to note of a game; default its loss, its mean loss, its gradients and, where
            the stream brings comparators, its dynamic regret against them. Names of its own:
            not "learner", "stream", "seed" or "rounds".
        progress: show a progress bar on stderr, if that is a terminal.

    >>> import swordplay as sp
    >>> table = sp.sweep(
    ...     [sp.OGD, sp.SwordPP],
    ...     {"abrupt": lambda seed: sp.streams.abrupt_drift(500, dim=3, every=100, seed=seed)},
    ...     seeds=range(2),
    ...     domain=sp.Ball(dim=3, radius=1.0),
    ... )
    >>> table["learner"].tolist(), table["seed"].tolist(), table["gradients"].tolist()
    (['OGD', 'OGD', 'SwordPP', 'SwordPP'], [0, 1, 0, 1], [500.0, 500.0, 500.0, 500.0])
    """
    where = Engine(engine, _workers(jobs), scheduler)
    builders, makers = _builders(learners, domain), _makers(streams)
    numbers = _seeds(seeds)
    games = [(a, b, seed) for a in builders for b in makers for seed in numbers]
    measure = standard if measure is None else measure
    with nullcontext(folder) if folder is not None else tempfile.TemporaryDirectory() as out:
        parts = _open(Path(out), _plan(builders, domain, measure))
        todo = [
            Job(
                _part(parts, game),
                partial(_play_one, game, builders[game[0]], makers[game[1]], measure),
                _write,
            )
            for game in games
        ]
        _drop_unreadable([job.place for job in todo])
        failed = engines.do(
            todo,
            parts,
            where,
            lasting=folder is not None,
            advance=_Bar(sum(not job.done for job in todo), progress).advance,
        )
        if failed:
            game = games[todo.index(failed[0][0])]
            told = "".join(traceback.format_exception(failed[0][1]))
            raise SweepError(f"{len(failed)} games failed; {game} was the first:\n{told}")
        return _table([json.loads(job.place.read_text("utf-8")) for job in todo])


def standard(run: Run, stream: Stream) -> dict[str, float]:
    """Return what is noted of a game by default."""
    noted = {
        "loss": run.cumulative_loss,
        "mean_loss": run.cumulative_loss / max(1, len(run)),
        "gradients": float(run.gradient_queries),
    }
    comparators = getattr(stream, "comparators", None)
    if comparators is not None and isinstance(stream, LinearStream):
        noted["regret"] = float(regret.dynamic_regret(run, stream, comparators))
    return noted


# ---------------------------------------------------------------------- what was asked for


def _workers(jobs: int) -> int | None:
    """Return how many games at a time, None for as many as there are cores; as joblib counts."""
    jobs = operator.index(jobs)
    if jobs == 0:
        raise ValueError("jobs must be at least 1, or -1 for one on each core; not 0.")
    return None if jobs == -1 else jobs if jobs > 0 else max(1, (os.cpu_count() or 1) + 1 + jobs)


def _builders(learners: Any, domain: Domain | None) -> dict[str, MakeLearner]:
    if isinstance(learners, Mapping):
        named = dict(learners)
    elif isinstance(learners, Iterable):
        classes = list(learners)
        for kind in classes:
            if not isinstance(kind, type):
                raise TypeError(
                    f"A list of learners is of classes, say [OGD, SwordPP]; {kind!r} is none. Give "
                    "name -> function of a stream for anything else."
                )
        named = {kind.__name__: kind for kind in classes}
        if len(named) != len(classes):
            raise ValueError("A learner stands in the list twice; give name -> function.")
    else:
        raise TypeError(
            f"learners must be a list of classes, or name -> function of a stream; not {learners!r}"
        )
    return {name: _builder(name, made, domain) for name, made in named.items()}


def _builder(name: str, made: Any, domain: Domain | None) -> MakeLearner:
    if isinstance(made, type):
        if domain is None:
            raise ValueError("Learners given as classes need a domain=; or give name -> function.")
        return _Built(made, domain)
    if not callable(made):
        raise TypeError(f"The learner {name!r} must be a function of a stream, not {made!r}.")
    build: MakeLearner = made
    return build


def _makers(streams: Any) -> dict[str, MakeStream]:
    if not isinstance(streams, Mapping):
        raise TypeError(f"streams must be name -> function of a seed; not {streams!r}.")
    for name, make in streams.items():
        if not callable(make):
            raise TypeError(
                f"The stream {name!r} must be a function of a seed, say lambda seed: ...; not "
                f"{make!r}."
            )
    return dict(streams)


def _seeds(seeds: Any) -> list[int]:
    if not isinstance(seeds, Iterable):
        raise TypeError(f"seeds must be a list of whole numbers, say range(5); not {seeds!r}.")
    try:
        numbers = [operator.index(seed) for seed in seeds]
    except TypeError as error:
        raise TypeError(f"Seeds must be whole numbers: {error}.") from error
    if len(set(numbers)) != len(numbers):
        raise ValueError("A seed stands in the list twice.")
    return numbers


class _Built:
    """A class of learners, built for a stream: other than a closure, every engine can ship it."""

    def __init__(self, kind: type[Ensemble], domain: Domain) -> None:
        self.kind, self.domain = kind, domain

    def __call__(self, stream: Stream) -> Ensemble:
        if not isinstance(stream, LinearStream):
            raise TypeError("Only linear streams know G and L: give learners as name -> function.")
        return self.kind(self.domain, stream.assumptions(self.domain))


# ---------------------------------------------------------------------- results on disk


def _plan(
    builders: Mapping[str, MakeLearner], domain: Domain | None, measure: Measure
) -> dict[str, Any]:
    """Return what results depend on, as far as it can be told in words."""
    own = type(domain).__repr__ is not object.__repr__
    return {
        "format": 2,
        "swordplay": version("swordplay"),
        "domain": repr(domain) if own else _called(type(domain)),
        "measure": _called(measure),
        "learners": {
            name: _called(build.kind) for name, build in builders.items() if type(build) is _Built
        },
    }


def _called(thing: Any) -> str:
    """Return the full name of a class or a function; of any other callable, that of its class."""
    thing = thing if hasattr(thing, "__qualname__") else type(thing)
    return f"{thing.__module__}.{thing.__qualname__}"


def _open(folder: Path, plan: dict[str, Any]) -> Path:
    """Return the folder of finished games, or refuse one of another experiment or version."""
    path, parts = folder / "sweep.json", folder / "games"
    parts.mkdir(parents=True, exist_ok=True)
    there: dict[str, Any] = {}
    if path.exists():
        there = _read(path) or {}
        if not there:
            raise ValueError(
                f"{path} cannot be read, so nobody knows what its folder holds. If that is this "
                "experiment, by this version, delete the file and go on; else choose another "
                "folder."
            )
        known = there.get("learners", {})
        both = {**plan, "learners": {**known, **plan["learners"]}}  # more learners may come
        differ = [name for name in both if name != "learners" and both[name] != there.get(name)]
        differ += [name for name in known if known[name] != both["learners"][name]]
        if differ:
            raise ValueError(
                f"{folder} holds a sweep by {there}, this is {plan}: {', '.join(differ)} differ, "
                "and so may results. Choose another folder."
            )
        plan = both
    if plan != there:
        state.write(path, json.dumps(plan).encode())
    return parts


def _read(path: Path) -> dict[str, Any] | None:
    """Return what a file holds, or None where that is not what was once written."""
    try:
        told = json.loads(path.read_text("utf-8"))
    except ValueError:
        return None
    return told if isinstance(told, dict) else None


def _drop_unreadable(places: Iterable[Path]) -> None:
    """Remove results that a disk has lost, so that their games are played again."""
    for place in places:
        if place.exists() and not _read(place):
            warnings.warn(f"{place} cannot be read: its game is played again.", stacklevel=3)
            place.unlink()


def _part(parts: Path, game: Sequence[Any]) -> Path:
    return parts / (hashlib.sha256(json.dumps(game).encode()).hexdigest()[:24] + ".json")


def _write(path: Path, content: str) -> None:
    path.write_text(content, "utf-8")


def _play_one(
    game: tuple[str, str, int],
    build: MakeLearner,
    make: MakeStream,
    measure: Measure,
    advance: Advance,
) -> str:
    """Play one game, in whatever worker; return its row as JSON."""
    stream = make(game[2])
    run = play(build(stream), stream)
    row = {"learner": game[0], "stream": game[1], "seed": game[2], "rounds": len(run)}
    noted = {name: float(value) for name, value in measure(run, stream).items()}
    if taken := row.keys() & noted.keys():
        raise ValueError(f"A measure needs names of its own; {sorted(taken)[0]!r} is taken.")
    advance(1)
    return json.dumps({**row, **noted})


def _table(rows: list[dict[str, Any]]) -> dict[str, Array]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}


class _Bar:
    """A bar on stderr, if that is a terminal: this module needs no library for it."""

    def __init__(self, games: int, wanted: bool) -> None:
        self.games, self.wanted = games, wanted and sys.stderr.isatty()
        self.finished, self.lock, self.began = 0, threading.Lock(), time.perf_counter()

    def advance(self, games: int) -> None:
        """Move on; workers may do so at the same time."""
        if not self.wanted:
            return
        with self.lock:
            self.finished += games
            filled = 30 * self.finished // self.games
            passed = time.perf_counter() - self.began
            left = passed * (self.games - self.finished) / self.finished
            sys.stderr.write(
                f"\r[{'#' * filled}{'.' * (30 - filled)}] {self.finished:,}/{self.games:,} games, "
                f"{left:.0f} s left   {chr(10) if self.finished == self.games else ''}"
            )
