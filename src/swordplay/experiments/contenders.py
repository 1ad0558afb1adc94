"""Who plays: the learners by name, and the two sets of constants they play with."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from swordplay import step_sizes
from swordplay._types import Array
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
from swordplay.domains import Domain
from swordplay.ensemble import Ensemble
from swordplay.experiments.games import Game
from swordplay.hints import NOTHING

LEARNERS: dict[str, Callable[..., Ensemble]] = {
    "OGD": OGD,
    "OEGD": OEGD,
    "Ader": Ader,
    "Ader++": lambda domain, facts, **common: Ader(domain, facts, surrogate=True, **common),
    "SwordSmall": SwordSmall,
    "SwordBest": SwordBest,
    "Sword": Sword,
    "Sword++": SwordPP,
    "Sword.optimism": SwordOptimism,
}

OWN, COMMON = "theorems' constants", "common pool"
"""The two parameter sets: each learner's own pool, or one pool for all of them."""


def common_pool(domain: Domain, facts: Assumptions) -> Array:
    r"""Return :math:`D/(G\sqrt T)`, doubled up to 1/(8L), which is the last one.

    The authors' published experiments give this pool to every learner; the first is OGD's step.

    >>> import swordplay as sp
    >>> facts = sp.Assumptions(lipschitz=2.0, smoothness=1.0, horizon=50_000)
    >>> common_pool(sp.Ball(dim=5), facts).round(4)
    array([0.0045, 0.0089, 0.0179, 0.0358, 0.0716, 0.125 ])
    """
    if facts.horizon is None:
        raise ValueError("The common pool needs a horizon (T).")
    first = step_sizes.single(domain.diameter, facts.lipschitz, facts.horizon)
    last = 1 / (8 * facts.smooth("The common pool"))
    count = max(1, math.ceil(math.log2(last / first)) + 1) if last > first else 1
    return np.asarray(step_sizes.doubling(first, count, last))


@dataclass(frozen=True)
class Contender:
    """A learner by name and the constants it plays with."""

    learner: str
    parameters: str = OWN

    def __post_init__(self) -> None:
        if self.learner not in LEARNERS:
            raise ValueError(
                f"No learner is called {self.learner!r}; there are {', '.join(LEARNERS)}."
            )

    @property
    def labels(self) -> dict[str, Any]:
        """The columns that tell this contender from others."""
        return {"parameters": self.parameters, "learner": self.learner}

    def build(self, game: Game) -> Ensemble:
        """Return a learner that has not played."""
        more: dict[str, Any] = {} if game.start is None else {"start": game.start}
        if self.parameters == COMMON:
            pool = common_pool(game.domain, game.facts)
            more["step_sizes"] = pool[:1] if self.learner in ("OGD", "OEGD") else pool
        return LEARNERS[self.learner](game.domain, game.facts, **more)


class Unhinted(SwordOptimism):
    """Sword++ whose hint is taken away: M_t = 0."""

    hint = NOTHING


@dataclass(frozen=True)
class Collaborator:
    """Sword++ with the correction lambda = ``times`` L, with its hint or without."""

    times: float
    hinted: bool

    @property
    def labels(self) -> dict[str, Any]:
        """The columns that tell this contender from others."""
        return {"correction": f"{self.times:g}L" if self.times else "0", "hint": self.hinted}

    def build(self, game: Game) -> Ensemble:
        """Return a learner that has not played."""
        strength = self.times * game.facts.smooth("The correction")
        kind = SwordOptimism if self.hinted else Unhinted
        return kind(game.domain, game.facts, correction=strength)
