"""What is played: a stream, where decisions live, and what is known before the first round."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from swordplay import regret
from swordplay._types import Array
from swordplay.assumptions import Assumptions
from swordplay.domains import Ball, Domain
from swordplay.losses import Huber, Squared
from swordplay.streams import (
    LinearStream,
    abrupt_drift,
    instance_one,
    instance_two,
    rademacher,
)

DELTA = 2.0  # of the Huber loss, section 8
RADIUS = 1.0  # D / 2
SRU_TARGETS = {"SO2": "y2", "H2S": "y1"}


@dataclass(frozen=True)
class Game:
    """A stream, a domain, G, L and T, and (where a repetition draws one) the first decision."""

    stream: LinearStream
    domain: Domain
    facts: Assumptions
    start: Array | None = None
    _best: dict[int, Array] = field(default_factory=dict, repr=False, compare=False)

    def best(self, switches: int) -> Array:
        """Return the best comparators with this many switches, computed once."""
        if switches not in self._best:
            self._best[switches] = regret.best_piecewise(self.stream, self.domain, switches + 1)
        return self._best[switches]


def synthetic(seed: int, rounds: int, every: int = 1000) -> Game:
    """Return the paper's synthetic stream: d = 5, Gamma = 1, D = 2, delta = 2, so G = 2, L = 1."""
    stream = abrupt_drift(horizon=rounds, dim=5, every=every, seed=seed, loss=Huber(DELTA))
    return Game(stream, Ball(5, RADIUS), Assumptions(DELTA, 1.0, rounds))


def sulfur(path: Path, target: str, rounds: int | None = None, seed: int | None = None) -> Game:
    """Return the Sulfur Recovery Unit stream: rows in [0, 1]^5, so G = delta sqrt 5, L = 5.

    The data are one stream, so a repetition draws the first decision, uniform in the ball; without
    a seed it is the centre.
    """
    from swordplay.experiments import datasets

    data = datasets.read_sulfur(path)
    features = np.column_stack([data[f"u{j}"] for j in range(1, 6)])[:rounds]
    stream = LinearStream(features, data[SRU_TARGETS[target]][:rounds], Huber(DELTA))
    domain = Ball(5, RADIUS)
    start = None if seed is None else domain.sample(np.random.default_rng(seed))
    return Game(stream, domain, Assumptions(DELTA * math.sqrt(5), 5.0, len(stream)), start)


def instance(which: int, rounds: int) -> Game:
    """Return Instance 1 or 2 of section 6.3 on [-1, 1], started at 0; Instance 1 has T odd."""
    stream = instance_one(rounds - 1 + rounds % 2) if which == 1 else instance_two(rounds)
    domain = Ball(1, 1.0)
    return Game(stream, domain, stream.assumptions(domain))


def coin_flips(seed: int, rounds: int) -> Game:
    """Return section 6.4's construction for d = 1: f_t(x) = (x - e_t)^2, e_t random signs.

    It is a linear model with squared loss: (sqrt 2 x - sqrt 2 e_t)^2 / 2.
    """
    signs = rademacher(rounds, 1, seed).centers
    root = math.sqrt(2)
    stream = LinearStream(
        np.full((rounds, 1), root), root * signs[:, 0], Squared(), comparators=signs
    )
    domain = Ball(1, 1.0)
    return Game(stream, domain, stream.assumptions(domain))


def checkpoints(rounds: int, points: int = 200) -> Array:
    """Return up to ``points`` round numbers, evenly spread, the last round among them."""
    return np.unique(np.linspace(0, rounds, min(points, rounds) + 1).astype(int)[1:])


def doublings(first: int, last: int, step: int = 1) -> Iterable[int]:
    """Return 2^first, ..., 2^last."""
    return [2**exponent for exponent in range(first, last + 1, step)]
