"""Sword++ against loops of plain arithmetic, against OGD and against itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
import numpy as np
from numpy.typing import NDArray

import swordplay as sp
from benchmarks.data import FACTS_8, PER_DIM, play, pool_size, stream, sword
from benchmarks.measure import Row, Settings, race

Array = NDArray[np.float64]
Function = TypeVar("Function", bound=Callable[..., Any])


def plain(function: Function) -> Function:
    """Compile as anybody would: no fast mathematics, no threads."""
    wrapped: Function = numba.njit(function)
    return wrapped


@plain
def sgd(features: Array, targets: Array, step: float, losses: Array) -> Array:
    """Play all rows with one step size and no domain: the least that a learner can do."""
    rounds, dim = features.shape
    x = np.zeros(dim)
    for t in range(rounds):
        prediction = 0.0
        for j in range(dim):
            prediction += features[t, j] * x[j]
        slope = prediction - targets[t]
        losses[t] = 0.5 * slope * slope
        for j in range(dim):
            x[j] -= step * slope * features[t, j]
    return x


@plain
def add(block: Array, a: float, row: Array) -> None:
    """Add a * row to every row of the block, in place."""
    for i in range(block.shape[0]):
        for j in range(block.shape[1]):
            block[i, j] += a * row[j]


@plain
def nothing(row: Array) -> None:
    """Do nothing: what remains is the price of a call."""


def _against(
    name: str,
    what: str,
    settings: Settings,
    bars: dict[int, float],
    rival: Callable[[sp.LinearStream, sp.Assumptions], Callable[[], Callable[[], object]]],
) -> list[Row]:
    """Return one row a dimension: Sword++ in times of its rival, at most ``bars[dim] * N``."""
    rows = []
    for dim, bar in bars.items():
        rounds = settings.size(PER_DIM[dim])
        data = stream(rounds, dim)
        facts = data.assumptions(sp.Ball(dim, 1.0))
        count = pool_size(dim, facts)
        times = race(
            settings.repetitions,
            {"sword": play(sp.SwordPP, data, facts), "rival": rival(data, facts)},
        )
        rows.append(
            Row(
                name=f"{name}/d={dim}",
                what=f"{what}, d = {dim} (≤ {bar:g} N)",
                bar=bar * count,
                measured=times.ratio("sword", "rival"),
                details={
                    "N": count,
                    "d": dim,
                    "rounds": rounds,
                    "ratio_over_N": times.ratio("sword", "rival") / count,
                    "spread": times.spread("sword", "rival"),
                    "sword_ns": 1e9 * times.median("sword") / rounds,
                    "rival_ns": 1e9 * times.median("rival") / rounds,
                },
            )
        )
    return rows


def numba_sgd(settings: Settings) -> list[Row]:
    """Whole-stream Sword++ against a plain Numba loop of single SGD."""

    def rival(data: sp.LinearStream, facts: sp.Assumptions) -> Callable[[], Callable[[], object]]:
        return lambda: lambda: sgd(data.features, data.targets, 0.01, np.empty(len(data)))

    bars = {5: 1.5, 50: 1.5, 1000: 0.8}
    return _against("numba-sgd", "time over that of a Numba SGD loop", settings, bars, rival)


def ogd(settings: Settings) -> list[Row]:
    """Whole-stream Sword++ against this library's OGD."""

    def rival(data: sp.LinearStream, facts: sp.Assumptions) -> Callable[[], Callable[[], object]]:
        return play(sp.OGD, data, facts)

    bars = {5: 1.3, 50: 1.3, 1000: 1.3}
    return _against("ogd", "time over that of OGD here", settings, bars, rival)


def decide_learn(settings: Settings) -> list[Row]:
    """decide() and learn(), called from Python, against a compiled call that does nothing."""
    rounds = settings.size(50_000)
    gradients = list(np.random.default_rng(0).uniform(-0.5, 0.5, (rounds, 5)))

    def ask_and_tell() -> Callable[[], object]:
        learner = sword(5, FACTS_8)

        def work() -> None:
            for gradient in gradients:
                learner.decide()
                learner.learn(gradient)

        return work

    def call_nothing() -> Callable[[], object]:
        def work() -> None:
            for gradient in gradients:
                nothing(gradient)

        return work

    times = race(settings.repetitions, {"round": ask_and_tell, "nothing": call_nothing})
    details = {
        "N": pool_size(5, FACTS_8),
        "d": 5,
        "rounds": rounds,
        "spread": times.spread("round", "nothing"),
        "sword_ns": 1e9 * times.median("round") / rounds,
        "rival_ns": 1e9 * times.median("nothing") / rounds,
    }
    what = "decide + learn, d = 5, N = 8"
    return [
        Row(
            name="decide-learn",
            what=f"{what}, over an empty compiled call",
            bar=2.5 / 0.3,  # 2.5 µs where the call costs 0.3 µs
            measured=times.ratio("round", "nothing"),
            details=details,
        ),
        # The same bar for a machine on which the call does cost that.
        Row(
            name="decide-learn/time",
            what=what,
            bar=2.5,
            measured=1e6 * times.median("round") / rounds,
            unit="µs",
            details=details,
        ),
    ]


def huge(settings: Settings) -> list[Row]:
    """A million dimensions: a round against one pass over the base learners' decisions."""
    dim, rounds = settings.size(1_000_000), 16
    rng = np.random.default_rng(0)
    features = rng.standard_normal((rounds, dim))
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    data = sp.LinearStream(features, rng.uniform(-1, 1, rounds))
    count = pool_size(dim, FACTS_8)
    block, gradients = np.zeros((count, dim)), list(features)

    def tell() -> Callable[[], object]:
        learner = sword(dim, FACTS_8)
        learner.learn(gradients[0])  # touches the memory of the new learner

        def work() -> None:
            for gradient in gradients:
                learner.learn(gradient)

        return work

    def whole_stream() -> Callable[[], object]:
        learner = sword(dim, FACTS_8)
        learner.learn(gradients[0])
        return lambda: sp.play(learner, data)

    def passes() -> Callable[[], object]:
        def work() -> None:
            for gradient in gradients:
                add(block, 1e-3, gradient)

        return work

    contestants = {"play": whole_stream, "learn": tell, "pass": passes}
    times = race(settings.repetitions, contestants)
    return [
        Row(
            name=f"huge-d/{name}",
            what=f"{name}, d = {dim:,}, N = {count}, over X += a g",
            bar=2.0,
            measured=times.ratio(name, "pass"),
            details={
                "N": count,
                "d": dim,
                "rounds": rounds,
                "spread": times.spread(name, "pass"),
                "sword_ns": 1e9 * times.median(name) / rounds,
                "rival_ns": 1e9 * times.median("pass") / rounds,
            },
        )
        for name in ("play", "learn")
    ]


def linear(settings: Settings) -> list[Row]:
    """Ten times the rounds take ten times as long."""
    short, dim = settings.size(200_000), 5
    long = 10 * short
    data = stream(long, dim)
    facts = data.assumptions(sp.Ball(dim, 1.0))  # for both: the pool grows with the horizon
    start = sp.LinearStream(data.features[:short], data.targets[:short], data.loss)

    def ten(rows: sp.LinearStream) -> Callable[[], Callable[[], object]]:
        """Play the short stream ten times over, so that both sides take equally long."""

        def prepare() -> Callable[[], object]:
            learners: list[Any] = [sword(dim, facts) for _ in range(10)]
            return lambda: [sp.play(learner, rows) for learner in learners]

        return prepare

    times = race(settings.repetitions, {"long": play(sp.SwordPP, data, facts), "short": ten(start)})
    ratio = times.ratio("long", "short")
    return [
        Row(
            name="linear-in-T",
            what=f"10x the rounds, T = {long:,}: time off 10x by a factor",
            bar=1.15,
            measured=max(ratio, 1 / ratio),  # being faster than linear would be as odd
            details={
                "N": pool_size(dim, facts),
                "d": dim,
                "rounds": long,
                "time_ratio": 10 * ratio,
                "spread": times.spread("long", "short"),
                "sword_ns": 1e9 * times.median("long") / long,
                "rival_ns": 1e9 * times.median("short") / long,
            },
        )
    ]
