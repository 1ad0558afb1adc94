"""Sweeps: every learner on every stream with every seed, on every core or on a cluster.

Threads, processes, Ray and Dask all go through joblib and all give the same table. A result is on
disk as soon as it is known, so whatever ends a worker, or the sweep, costs only what was under way.
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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from swordplay import regret
from swordplay._types import Array
from swordplay.domains import Domain
from swordplay.ensemble import Ensemble
from swordplay.play import Run, play
from swordplay.streams.linear import LinearStream
from swordplay.streams.stream import Stream

ENGINES = {"threads": "threading", "processes": "loky", "ray": "ray", "dask": "dask"}
ATTEMPTS = 3  # in a row in which nothing was finished, after which a sweep gives up

MakeStream = Callable[[int], Stream]
MakeLearner = Callable[[Stream], Ensemble]
Measure = Callable[[Run, Stream], Mapping[str, float]]


class Missing(ImportError):
    """An engine is not installed."""


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
            given**: start it only where nobody else can reach it. Dask needs a running client, and
            scripts with either need ``if __name__ == "__main__":``.
        domain: where learners given as classes play.
        folder: where results are kept; a later sweep into it does only what is missing. It must be
            for one experiment: a name stands for one learner. Default a temporary folder.
        jobs: how many games at a time; -1 is one for each core.
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
    if engine not in ENGINES:
        raise ValueError(f"engine must be one of {', '.join(ENGINES)}; not {engine!r}.")
    builders = _named(learners, domain)
    games = [(a, b, int(seed)) for a in builders for b in streams for seed in seeds]
    if len(set(games)) != len(games):
        raise ValueError("A seed stands in the list twice.")
    with nullcontext(folder) if folder is not None else tempfile.TemporaryDirectory() as where:
        parts = _open(Path(where))
        with _bar(parts, games, progress):
            _finish(parts, games, builders, streams, measure or standard, engine, jobs)
        return _table([json.loads(_part(parts, game).read_text("utf-8")) for game in games])


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
    """Put a file there whole or not at all, whoever else is writing it."""
    beside = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
    beside.write_text(content, "utf-8")
    os.replace(beside, path)


def _play_one(
    path: Path, game: tuple[str, str, int], build: MakeLearner, make: MakeStream, measure: Measure
) -> tuple[str, str]:
    """Play one game, in whatever worker; return its result as JSON, or what went wrong."""
    try:
        stream = make(game[2])
        run = play(build(stream), stream)
        row = {"learner": game[0], "stream": game[1], "seed": game[2], "rounds": len(run)}
        row |= {name: float(value) for name, value in measure(run, stream).items()}
        content = json.dumps(row)
    except Exception:  # anything of the user's; it must not look like a worker that died
        return "", traceback.format_exc()
    if path.parent.is_dir():  # not on another machine without this disk
        _write(path, content)
    return content, ""


def _finish(
    parts: Path,
    games: list[tuple[str, str, int]],
    builders: Mapping[str, MakeLearner],
    streams: Mapping[str, MakeStream],
    measure: Measure,
    engine: str,
    jobs: int,
) -> None:
    """Play what is missing; begin again where a worker died, as long as something gets done."""
    idle = 0
    while missing := [game for game in games if not _part(parts, game).exists()]:
        try:
            results = _run(
                engine,
                jobs,
                [
                    (_part(parts, game), game, builders[game[0]], streams[game[1]], measure)
                    for game in missing
                ],
            )
        except Missing:
            raise
        except Exception:
            left = sum(not _part(parts, game).exists() for game in games)
            idle = 0 if left < len(missing) else idle + 1
            if idle >= ATTEMPTS:
                raise
            continue
        for game, (content, _) in zip(missing, results, strict=True):
            if content and not _part(parts, game).exists():
                _write(_part(parts, game), content)
        wrong = [(g, error) for g, (_, error) in zip(missing, results, strict=True) if error]
        if wrong:
            game, error = wrong[0]
            raise SweepError(f"{len(wrong)} games failed; {game} was the first:\n{error}")


def _run(engine: str, jobs: int, tasks: list[tuple[Any, ...]]) -> list[tuple[str, str]]:
    try:
        from joblib import Parallel, delayed, parallel_config

        if engine == "ray":
            from ray.util.joblib import register_ray

            register_ray()
        elif engine == "dask":
            import distributed  # noqa: F401 - joblib looks for its client
    except ImportError as error:
        extra = {"ray": "ray", "dask": "dask"}.get(engine, "jobs")
        raise Missing(
            f'engine={engine!r} needs its extra: pip install "swordplay[{extra}]" ({error})'
        ) from error
    with parallel_config(backend=ENGINES[engine], n_jobs=jobs):
        results: list[tuple[str, str]] = Parallel(batch_size=1)(
            delayed(_play_one)(*task) for task in tasks
        )
    return results


def _table(rows: list[dict[str, Any]]) -> dict[str, Array]:
    names = list(dict.fromkeys(name for row in rows for name in row))
    return {name: np.array([row.get(name, np.nan) for row in rows]) for name in names}


@contextmanager
def _bar(parts: Path, games: list[Any], wanted: bool) -> Iterator[None]:
    """Show how many games are on disk: it works the same whoever plays them."""
    if not (wanted and sys.stderr.isatty()):
        yield
        return
    paths, done = [_part(parts, game) for game in games], threading.Event()
    began = time.perf_counter()

    def watch() -> None:
        before = sum(path.exists() for path in paths)
        while True:
            last = done.wait(0.2)
            count = sum(path.exists() for path in paths)
            filled = 30 * count // max(1, len(paths))
            rate = (count - before) / max(1e-9, time.perf_counter() - began)
            left = f", {(len(paths) - count) / rate:.0f} s left" if rate else ""
            sys.stderr.write(
                f"\r[{'#' * filled}{'.' * (30 - filled)}] {count:,}/{len(paths):,} games{left}   "
            )
            if last:
                sys.stderr.write("\n")
                return

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
