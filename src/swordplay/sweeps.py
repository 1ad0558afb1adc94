"""Sweeps: every learner on every stream with every seed, on every core or on a cluster.

Threads, processes, Ray and Dask all give the same table (see ``engines``). A result is on disk as
soon as it is known, so whatever ends a worker, or the sweep, costs only what was under way.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from swordplay import engines, regret
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
    learners: Mapping[str, MakeLearner] | Iterable[type[Ensemble]],
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
    was stopped on its way.

    Args:
        learners: name -> function of a stream that builds a learner; or classes of learners, which
            are built with ``domain`` and ``stream.assumptions(domain)``.
        streams: name -> function of a seed that builds a stream.
        seeds: whole numbers.
        engine: "threads" (compiled games hold no lock), "processes" (games with parts in Python),
            "ray" or "dask". **Ray listens on every network interface, whatever address it is
            given**: start it only where nobody else can reach it. Scripts that use Dask need
            ``if __name__ == "__main__":``.
        domain: where learners given as classes play.
        folder: where results are kept; a later sweep into it does only what is missing. It must be
            for one experiment: a name stands for one learner. Default a temporary folder.
        jobs: how many games at a time; -1 is one for each core.
        scheduler: the address of a running Ray or Dask. Without, the one that this process is
            connected to, or else one that is started on this machine until the sweep is done.
        measure: what to note of a game; default its loss, its mean loss, its gradients and, where
            the stream brings comparators, its dynamic regret against them.
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
    where = Engine(engine, None if jobs == -1 else jobs, scheduler)
    builders = _named(learners, domain)
    games = [(a, b, int(seed)) for a in builders for b in streams for seed in seeds]
    if len(set(games)) != len(games):
        raise ValueError("A seed stands in the list twice.")
    with nullcontext(folder) if folder is not None else tempfile.TemporaryDirectory() as out:
        parts = _open(Path(out))
        todo = [
            Job(
                _part(parts, game),
                partial(_play_one, game, builders[game[0]], streams[game[1]], measure or standard),
                _write,
            )
            for game in games
        ]
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


def _named(
    learners: Mapping[str, MakeLearner] | Iterable[type[Ensemble]], domain: Domain | None
) -> dict[str, MakeLearner]:
    if isinstance(learners, Mapping):
        return dict(learners)
    if domain is None:
        raise ValueError("Learners given as classes need a domain=; or give name -> function.")
    classes = list(learners)
    named: dict[str, MakeLearner] = {kind.__name__: _Built(kind, domain) for kind in classes}
    if len(named) != len(classes):
        raise ValueError("A learner stands in the list twice; give name -> function.")
    return named


class _Built:
    """A class of learners, built for a stream: other than a closure, every engine can ship it."""

    def __init__(self, kind: type[Ensemble], domain: Domain) -> None:
        self.kind, self.domain = kind, domain

    def __call__(self, stream: Stream) -> Ensemble:
        if not isinstance(stream, LinearStream):
            raise TypeError("Only linear streams know G and L: give learners as name -> function.")
        return self.kind(self.domain, stream.assumptions(self.domain))


# ---------------------------------------------------------------------- results on disk


def _open(folder: Path) -> Path:
    """Return the folder of finished games, or refuse one of another version."""
    plan = {"format": 1, "swordplay": version("swordplay")}
    path, parts = folder / "sweep.json", folder / "games"
    parts.mkdir(parents=True, exist_ok=True)
    if path.exists():
        there = json.loads(path.read_text("utf-8"))
        if there != plan:
            raise ValueError(
                f"{folder} holds a sweep by {there}, this is {plan}: results may differ. Choose "
                "another folder."
            )
    else:
        path.write_text(json.dumps(plan), "utf-8")
    return parts


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
    row |= {name: float(value) for name, value in measure(run, stream).items()}
    advance(1)
    return json.dumps(row)


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
