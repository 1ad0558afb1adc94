"""Running time, measured honestly: compiled code is warm, and a learner's chunks are spread out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from swordplay.assumptions import Assumptions
from swordplay.domains import Ball
from swordplay.engines import Advance
from swordplay.experiments.contenders import Contender
from swordplay.experiments.experiment import Player, Work
from swordplay.experiments.games import Game
from swordplay.experiments.tables import Columns, Table, constant, stack
from swordplay.play import play
from swordplay.streams import LinearStream, abrupt_drift


def slices(stream: LinearStream, chunk: int) -> list[LinearStream]:
    """Return the stream in consecutive pieces of ``chunk`` rounds; a shorter rest is left out.

    >>> import swordplay as sp
    >>> stream = sp.streams.abrupt_drift(horizon=2500, dim=2, every=500, seed=0)
    >>> [len(piece) for piece in slices(stream, 1000)]
    [1000, 1000]
    """
    chunk = min(chunk, len(stream))
    return [
        LinearStream(stream.features[at : at + chunk], stream.targets[at : at + chunk], stream.loss)
        for at in range(0, len(stream) - chunk + 1, chunk)
    ]


def chunk_times(
    game: Callable[[], Game], players: Sequence[Player], chunk: int, repeats: int
) -> Work:
    """Return the work of a timing task: microseconds a round, for every chunk of a game.

    Before the clock starts, a copy of every learner plays the first chunk, so that nothing is left
    to compile. Then the learners take turns, chunk by chunk, so that a busy moment of the machine
    hits all of them; the clock covers the game loop alone.

    Args:
        game: makes the game.
        players: who is timed.
        chunk: rounds between two looks at the clock.
        repeats: how many times the whole game is played, from fresh learners.
    """

    def work(advance: Advance) -> dict[str, Columns]:
        here = game()
        pieces = slices(here.stream, chunk)
        rows: list[Columns] = []
        for player in players:
            play(player.build(here), pieces[0])
        for repeat in range(repeats):
            learners = [player.build(here) for player in players]
            for index, piece in enumerate(pieces):
                for player, learner in zip(players, learners, strict=True):
                    asked = learner.gradient_queries
                    run = play(learner, piece)
                    told = {**player.labels, "repeat": repeat, "chunk": index}
                    rows.append(
                        {
                            **constant(1, told),
                            "rounds": [len(piece)],
                            "microseconds": [1e6 * run.seconds / len(piece)],
                            "gradients_per_round": [
                                (learner.gradient_queries - asked) / len(piece)
                            ],
                        }
                    )
                advance(len(piece) * len(players))
        return {"chunks": stack(rows).columns}

    return work


def table(
    names: Sequence[str], dims: Sequence[int], rounds: int, repeats: int, advance: Advance
) -> list[dict[str, Any]]:
    """Return the benchmark: median microseconds a round, one row for each learner and dimension."""
    found = []
    for dim in dims:
        players = [Contender(name) for name in names]
        work = chunk_times(
            partial(_random_game, dim, rounds), players, max(100, rounds // 20), repeats
        )
        chunks = Table(work(advance)["chunks"])
        for name in names:
            mine = chunks.where(learner=name)
            low, middle, high = np.quantile(mine["microseconds"], (0.25, 0.5, 0.75))
            found.append(
                {
                    "learner": name,
                    "dim": dim,
                    "microseconds": float(middle),
                    "quartiles": [float(low), float(high)],
                    "gradients_per_round": float(mine["gradients_per_round"][0]),
                }
            )
    return found


def _random_game(dim: int, rounds: int) -> Game:
    stream = abrupt_drift(rounds, dim, every=1000, seed=0)
    return Game(stream, Ball(dim, 1.0), Assumptions(2.0, 1.0, rounds))
