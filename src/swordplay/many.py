"""Many games at once, on every core."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from swordplay.ensemble import Ensemble
from swordplay.play import Run, play
from swordplay.streams.files import FileStream
from swordplay.streams.linear import LinearStream
from swordplay.streams.stream import Stream


def play_many(
    learners: Iterable[Ensemble],
    streams: Iterable[Stream] | Stream,
    jobs: int | None = None,
    **how: Any,
) -> list[Run]:
    """Let every learner play its stream, and return the runs in the same order.

    Compiled games run on threads (kernels hold no lock), so nothing is copied and the learners are
    changed as by ``play``. Games with parts of your own in Python hold the lock; with joblib
    installed they run in processes, and the learners are brought up to date afterwards. The results
    do not depend on ``jobs``.

    Args:
        learners: one for each game; no learner twice.
        streams: one for each learner, or one for all.
        jobs: how many games at a time; default one for each core.
        how: passed on to ``play`` (record, every, ...).

    >>> import swordplay as sp
    >>> stream = sp.streams.abrupt_drift(horizon=1000, dim=5, every=100, seed=0)
    >>> domain = sp.Ball(dim=5, radius=1.0)
    >>> facts = stream.assumptions(domain)
    >>> runs = play_many([sp.OGD(domain, facts), sp.SwordPP(domain, facts)], stream, jobs=2)
    >>> [len(run) for run in runs]
    [1000, 1000]
    """
    players = list(learners)
    games: Sequence[Stream]
    games = [streams] * len(players) if isinstance(streams, Stream) else list(streams)
    if len(games) != len(players):
        raise ValueError(f"There are {len(players)} learners, but {len(games)} streams.")
    if len({id(player) for player in players}) != len(players):
        raise ValueError("A learner stands in the list twice; give each game its own copy().")
    cores = os.cpu_count() or 1
    if jobs is not None and jobs < 1:
        raise ValueError(f"jobs must be at least 1, not {jobs!r}.")
    workers = min(cores if jobs is None else jobs, max(1, len(players)))

    in_python = [
        k
        for k, (player, game) in enumerate(zip(players, games, strict=True))
        if not (player._compiled and isinstance(game, LinearStream | FileStream))
    ]
    runs: dict[int, Run] = {}
    if in_python and workers > 1:
        runs.update(_in_processes(players, games, in_python, workers, how))
    rest = [k for k in range(len(players)) if k not in runs]
    if workers == 1:
        return [
            runs[k] if k in runs else play(players[k], games[k], **how) for k in range(len(players))
        ]
    with ThreadPoolExecutor(workers) as threads:
        futures = {k: threads.submit(play, players[k], games[k], **how) for k in rest}
        runs.update({k: future.result() for k, future in futures.items()})
    return [runs[k] for k in range(len(players))]


def _in_processes(
    players: list[Ensemble],
    games: Sequence[Stream],
    which: list[int],
    workers: int,
    how: dict[str, Any],
) -> dict[int, Run]:
    """Play games in other processes; none where joblib is not installed."""
    try:
        from joblib import Parallel, delayed
    except ImportError:
        return {}
    results = Parallel(n_jobs=workers)(
        delayed(_play_elsewhere)(players[k], games[k], how) for k in which
    )
    for k, (row, _) in zip(which, results, strict=True):
        players[k]._adopt(row)
    return {k: run for k, (_, run) in zip(which, results, strict=True)}


def _play_elsewhere(player: Ensemble, game: Stream, how: dict[str, Any]) -> tuple[Any, Run]:
    run = play(player, game, **how)
    return player._row, run
