"""The paper's synthetic stream (section 8), played by every algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from swordplay.algorithms import (
    OEGD,
    OGD,
    Ader,
    Sword,
    SwordBest,
    SwordOptimism,
    SwordPP,
    SwordSmall,
)
from swordplay.assumptions import Assumptions
from swordplay.domains import Ball, Domain
from swordplay.ensemble import Ensemble
from swordplay.losses import Huber
from swordplay.play import play
from swordplay.regret import dynamic_regret
from swordplay.streams import LinearStream, abrupt_drift

LEARNERS: dict[str, Callable[[Domain, Assumptions], Ensemble]] = {
    "OGD": OGD,
    "OEGD": OEGD,
    "Ader": Ader,
    "Ader++": lambda domain, facts: Ader(domain, facts, surrogate=True),
    "SwordSmall": SwordSmall,
    "SwordBest": SwordBest,
    "Sword": Sword,
    "Sword++": SwordPP,
    "Sword.optimism": SwordOptimism,
}


@dataclass(frozen=True)
class Row:
    """One learner on one stream."""

    learner: str
    seed: int
    rounds: int
    cumulative_loss: float
    dynamic_regret: float
    """Against the models that made the stream."""
    gradients_per_round: float
    microseconds_per_round: float


def compare(
    rounds: int = 50_000,
    seeds: Iterable[int] = (0,),
    on_play: Callable[[str, int], None] = lambda learner, seed: None,
) -> list[Row]:
    """Let every learner play one stream per seed: d = 5, a new model every 1000 rounds, Huber(2).

    Every learner has the constants of its theorem. What compilation takes is not in the times.

    Args:
        rounds: T.
        seeds: of the streams.
        on_play: called with the learner's name and the seed before each play.

    >>> rows = compare(rounds=2000)
    >>> len(rows), rows[0].learner, rows[0].gradients_per_round
    (9, 'OGD', 1.0)
    """
    domain = Ball(dim=5, radius=1.0)
    rows = []
    for seed in seeds:
        stream = abrupt_drift(horizon=rounds, dim=5, every=1000, seed=seed, loss=Huber(delta=2.0))
        facts, models = stream.assumptions(domain), stream.comparators
        assert models is not None, "generated streams come with their models"
        for name, make in LEARNERS.items():
            on_play(name, seed)
            learner = make(domain, facts)
            # A copy plays one round first, so that the kernel is compiled when the clock starts.
            play(learner.copy(), LinearStream(stream.features[:1], stream.targets[:1], stream.loss))
            run = play(learner, stream)
            rows.append(
                Row(
                    learner=name,
                    seed=seed,
                    rounds=rounds,
                    cumulative_loss=run.cumulative_loss,
                    dynamic_regret=float(dynamic_regret(run, stream, models)),
                    gradients_per_round=run.gradient_queries / rounds,
                    microseconds_per_round=1e6 * run.seconds / rounds,
                )
            )
    return rows
