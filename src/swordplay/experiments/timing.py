"""Running time, measured honestly: compiled code is warm, and a learner's chunks are spread out."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from swordplay.experiments.experiment import Advance, Player
from swordplay.experiments.games import Game
from swordplay.experiments.tables import Columns, constant, stack
from swordplay.play import play
from swordplay.streams import LinearStream


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
) -> Callable[[Advance], dict[str, Columns]]:
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
