"""What the tests share: every public learner and domain, a stream for every loss, comparison."""

from __future__ import annotations

import inspect
import os

import numpy as np
import oracle

import swordplay as sp

DIM = 3
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

# name: (the library's domain, the oracle's projection)
DOMAINS = {
    "ball": (sp.Ball(DIM, 1.5), oracle.projector("ball", center=np.zeros(DIM), radius=1.5)),
    "ball_elsewhere": (
        sp.Ball(DIM, 0.8, center=[0.3, -0.2, 0.5]),
        oracle.projector("ball", center=np.array([0.3, -0.2, 0.5]), radius=0.8),
    ),
    "box": (
        sp.Box([-1.0, 0.2, -0.4], [0.5, 1.0, 2.0]),
        oracle.projector("box", low=[-1.0, 0.2, -0.4], high=[0.5, 1.0, 2.0]),
    ),
    "simplex": (sp.Simplex(DIM), oracle.projector("simplex")),
    "l1_ball": (sp.L1Ball(DIM, 1.2), oracle.projector("l1_ball", radius=1.2)),
    "everywhere": (sp.Everywhere(DIM), oracle.projector("everywhere")),
}

LOSSES = {
    "squared": sp.Squared(),
    "huber": sp.Huber(delta=0.7),
    "logistic": sp.Logistic(),
    "absolute": sp.Absolute(),
    "pinball": sp.Pinball(q=0.8),
}
LOSS_NUMBERS = {"huber": {"delta": 0.7}, "pinball": {"q": 0.8}}


class Domain:
    """A user's own domain: the protocol and nothing more, so nothing runs compiled on it."""

    def __init__(self, inner):
        self.inner = inner
        self.dim, self.diameter, self.center = inner.dim, inner.diameter, inner.center

    def project(self, x):
        return self.inner.project(x)

    def contains(self, x, tolerance=1e-9):
        return self.inner.contains(x, tolerance)


class LastGradient:
    """A user's own hint that is the last gradient."""

    def memory(self, dim):
        return 0

    def __call__(self, gradient, memory):
        return gradient


def public_learners():
    """Every public learner, found and not listed; the one abstract class left out."""
    found = [getattr(sp, name) for name in sp.__all__]
    return [
        thing
        for thing in found
        if inspect.isclass(thing) and issubclass(thing, sp.Learner) and thing is not sp.Learner
        if thing is not sp.Ensemble
    ]


# Classes whose constructor asks for something else than (domain, facts).
MAKERS = {
    sp.OptimisticHedge: lambda domain, facts, **common: sp.OptimisticHedge(domain.dim, **common),
    sp.OptimisticOMD: lambda domain, facts, *, step_sizes=(0.1,), **common: sp.OptimisticOMD(
        domain, facts, step_sizes=step_sizes, **common
    ),
}

# Every public learner by name, and the second one that Ader's keyword makes.
LEARNERS = {cls.__name__: MAKERS.get(cls, cls) for cls in public_learners()} | {
    "AderPP": lambda domain, facts, **common: sp.Ader(domain, facts, surrogate=True, **common)
}

MANY = {"Ader": 1, "Sword": 2, "SwordSmall": 1, "SwordBest": 2}
"""Learners of many gradients, and how many they ask for beside one for each base learner."""


def make(name, domain, facts, **common):
    """Return the learner called ``name``; OptimisticHedge plays on the simplex in any case."""
    return LEARNERS[name](domain, facts, **common)


def stream_for(loss, horizon, dim=DIM, seed=0):
    """Return a random linear stream with targets that ``loss`` has a meaning for."""
    rng = np.random.default_rng([seed, horizon, dim])
    features = rng.normal(size=(horizon, dim)) / 3  # pools of several base learners
    models = np.repeat(rng.normal(size=(4, dim)), -(-horizon // 4), axis=0)[:horizon]
    targets = rng.normal(size=horizon) + 3 * np.einsum("td,td->t", features, models)
    if loss == "logistic":
        targets = np.where(targets > 0, 1.0, -1.0)
    return sp.LinearStream(features, targets, LOSSES[loss])


def gradients_of(stream):
    """Return the stream's gradients as the learners of many gradients want them."""
    return [lambda x, t=t: stream.gradient(t, x) for t in range(len(stream))]


def feed(learner, stream, t):
    """Play round ``t`` by hand and return the decision."""
    x = learner.decide()
    if learner.own:
        learner.learn(lambda point: stream.gradient(t, point))
    else:
        learner.learn(stream.gradient(t, x))
    return x


def snapshot(learner):
    """Return everything that may be seen of a learner, as bytes."""
    return learner._row.tobytes() + learner._steps.tobytes() + learner._recipe.tobytes()


def assert_close(actual, expected, tolerance=1e-10, what=""):
    """Assert that the largest error is at most ``tolerance`` times the largest entry."""
    actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    assert actual.shape == expected.shape, f"{what}: {actual.shape} and {expected.shape}"
    error = np.abs(actual - expected).max(initial=0.0)
    scale = np.abs(expected).max(initial=0.0)
    assert error <= tolerance * scale, (
        f"{what}: off by {error:.3g} where the largest is {scale:.3g}"
    )


def sparse(stream):
    """The same stream with its rows in CSR."""
    from scipy.sparse import csr_array

    return sp.LinearStream(csr_array(stream.features), stream.targets, stream.loss)
