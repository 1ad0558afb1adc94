"""The streams of the paper, made from a seed."""

from __future__ import annotations

import numpy as np

from swordplay._types import Array
from swordplay.domains import Ball
from swordplay.losses import Huber, Loss, Squared
from swordplay.streams.functions import QuadraticStream
from swordplay.streams.linear import LinearStream


def _whole(name: str, value: int, least: int = 1) -> int:
    if int(value) != value or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}.")
    return int(value)


def _regression(
    rng: np.random.Generator, models: Array, radius: float, noise: float, loss: Loss | None
) -> LinearStream:
    horizon, dim = models.shape
    features = Ball(dim, radius).sample(rng, horizon)
    targets = np.einsum("td,td->t", features, models) + noise * rng.random(horizon)
    return LinearStream(
        features, targets, Huber(delta=2.0) if loss is None else loss, comparators=models
    )


def abrupt_drift(
    horizon: int = 50_000,
    dim: int = 5,
    every: int = 1000,
    seed: int = 0,
    *,
    radius: float = 1.0,
    diameter: float = 2.0,
    noise: float = 0.1,
    loss: Loss | None = None,
) -> LinearStream:
    r"""Return the synthetic stream of the paper's experiments (section 8).

    Features uniform in the ball of radius Gamma, y_t = <features_t, x*_t> + noise with noise
    uniform on [0, 0.1], and x*_t uniform in the ball of radius D/2, drawn anew every S rounds. The
    comparators that come with it are the models x*_t.

    Args:
        horizon: T.
        dim: d.
        every: S, the rounds between two models.
        seed: of the random numbers; the same seed, the same stream.
        radius: Gamma.
        diameter: D.
        noise: the largest noise.
        loss: default Huber(delta=2.0).

    >>> stream = abrupt_drift(horizon=1000, dim=5, every=100, seed=1)
    >>> len(stream), stream.dim, len(np.unique(stream.comparators, axis=0))
    (1000, 5, 10)
    """
    horizon, dim, every = _whole("horizon", horizon), _whole("dim", dim), _whole("every", every)
    rng = np.random.default_rng(seed)
    stages = Ball(dim, diameter / 2).sample(rng, -(-horizon // every))
    models = np.repeat(stages, every, axis=0)[:horizon]
    return _regression(rng, models, radius, noise, loss)


def gradual_drift(
    horizon: int = 50_000,
    dim: int = 5,
    every: int = 1000,
    seed: int = 0,
    *,
    radius: float = 1.0,
    diameter: float = 2.0,
    noise: float = 0.1,
    loss: Loss | None = None,
) -> LinearStream:
    """Return the same regression with a model that travels on straight lines, never jumping.

    The models that ``abrupt_drift`` jumps between are waypoints here, ``every`` rounds apart.

    >>> stream = gradual_drift(horizon=1000, dim=5, every=100, seed=1)
    >>> steps = np.linalg.norm(np.diff(stream.comparators, axis=0), axis=1)
    >>> bool(steps.max() < 0.02)
    True
    """
    horizon, dim, every = _whole("horizon", horizon), _whole("dim", dim), _whole("every", every)
    rng = np.random.default_rng(seed)
    waypoints = Ball(dim, diameter / 2).sample(rng, -(-horizon // every) + 1)
    leg, along = np.divmod(np.arange(horizon), every)
    share = (along / every)[:, None]
    models = (1 - share) * waypoints[leg] + share * waypoints[leg + 1]
    return _regression(rng, models, radius, noise, loss)


def instance_one(horizon: int) -> LinearStream:
    r"""Return Instance 1 of section 6.3: V_T = O(1) while F_T = Theta(T).

    f_t(x) = (a_t x - b_t)^2 / 2 on [-1, 1] with a_t = 1/2 - (t-1)/T and b_t = 1; the comparators
    are its minimisers, +1 while a_t > 0, then -1. The paper takes T odd; for T even one a_t is 0,
    every x is a minimiser of that round, and the comparator stays at +1.
    """
    horizon = _whole("horizon", horizon)
    a = 0.5 - np.arange(horizon) / horizon
    return LinearStream(
        a[:, None],
        np.ones(horizon),
        Squared(),
        comparators=np.where(a >= 0, 1.0, -1.0)[:, None],
    )


def instance_two(horizon: int) -> LinearStream:
    r"""Return Instance 2 of section 6.3: F_T = 0 while V_T = Theta(T).

    f_t(x) = (a_t x - b_t)^2 / 2 on [-1, 1] with (a_t, b_t) = (1, 1) and (1/2, 1/2) in turn in the
    first half, (1, -1) and (1/2, -1/2) in the second; the comparators are its minimisers, +1 then
    -1.
    """
    horizon = _whole("horizon", horizon)
    t = np.arange(1, horizon + 1)
    a = np.where(t % 2 == 1, 1.0, 0.5)
    sign = np.where(t <= horizon // 2, 1.0, -1.0)
    return LinearStream(a[:, None], a * sign, Squared(), comparators=sign[:, None])


def rademacher(horizon: int, dim: int = 1, seed: int = 0, *, sigma: float = 1.0) -> QuadraticStream:
    r"""Return the construction behind the lower bound, f_t(x) = |x - sigma e_t|^2.

    The e_t are random signs: F_T = 0 for the comparators sigma e_t, and no algorithm can follow
    them: the regret grows like T while sqrt((1 + F_T)(1 + P_T)) grows like sqrt T. Play it on
    Ball(dim, sigma sqrt(dim)).
    """
    horizon, dim = _whole("horizon", horizon), _whole("dim", dim)
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (horizon, dim))
    return QuadraticStream(sigma * signs)
