"""What the numbers say, compared with what the paper says."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from swordplay.experiments.contenders import COMMON, OWN
from swordplay.experiments.experiment import Finding, Tables
from swordplay.experiments.plots import plus_minus, slope, spread
from swordplay.experiments.tables import Table

PAPER = (("OGD",), ("Ader++",), ("Sword", "Sword++"))
"""The order of Figure 1, from the largest cumulative loss to the smallest."""


def losses(summary: Table) -> dict[str, tuple[float, float]]:
    """Return mean and standard deviation of the cumulative loss, by learner."""
    found = {}
    for learner in summary.distinct("learner"):
        middle, deviation = spread(summary.where(learner=learner)["cumulative_loss"])
        found[learner] = float(middle), float(deviation)
    return found


def as_in_the_paper(mean: dict[str, tuple[float, float]]) -> bool:
    """Return whether every learner of a group loses more than every one of the next."""
    groups = [[mean[name][0] for name in group if name in mean] for group in PAPER]
    return all(min(a) > max(b) for a, b in pairwise(groups) if a and b)


def order(tables: Tables) -> list[Finding]:
    """Say in which order the cumulative losses come, for each parameter set, and why."""
    found = []
    for parameters in tables["summary"].distinct("parameters"):
        summary = tables["summary"].where(parameters=parameters)
        mean = losses(summary)
        ranked = sorted(mean, key=lambda name: -mean[name][0])
        text = ", ".join(f"{name} {plus_minus(*mean[name])}" for name in ranked)
        agrees = as_in_the_paper(mean)
        verdict = "the paper's order" if agrees else "another order than the paper's"
        found.append(Finding(f"With the {parameters}: {text}. This is {verdict}.", agrees))
        if not agrees:
            found.append(Finding(_why(summary, parameters, mean)))
    return found


def _why(summary: Table, parameters: str, mean: dict[str, tuple[float, float]]) -> str:
    """Explain an order that is not the paper's by the step sizes that were allowed."""
    reach = {
        name: float(summary.where(learner=name)["largest_step"][0])
        for name in mean
        if name in ("Ader", "Ader++", "Sword", "Sword++")
    }
    told = ", ".join(f"{name} up to {step:.3g}" for name, step in reach.items())
    if parameters == OWN:
        return (
            f"Why: the pools differ. Step sizes reach {told}. Sword's and Sword++'s theorems need "
            "steps of at most 1/(4L) and 1/(8L), with L the worst case that the data allow; on "
            f"this stream larger steps pay, and only Ader's pool has them. With one pool for all "
            f"({COMMON}) that difference is gone."
        )
    return (
        f"Why: step sizes reach {told}; with this few rounds what the learners pay before their "
        "weights have moved decides the order."
    )


def times(tables: Tables) -> list[Finding]:
    """Say how long a round takes, and what Sword pays for its gradients."""
    chunks = tables["chunks"]
    median = {
        name: float(np.median(chunks.where(learner=name)["microseconds"]))
        for name in chunks.distinct("learner")
    }
    text = ", ".join(f"{name} {value:.2f}" for name, value in median.items())
    found = [Finding(f"Median microseconds a round: {text}.")]
    if {"Sword", "Sword++"} <= median.keys():
        ratio = median["Sword"] / median["Sword++"]
        asked = float(chunks.where(learner="Sword")["gradients_per_round"][0])
        found.append(
            Finding(
                f"Sword takes {ratio:.1f} times as long as Sword++ and asks for {asked:g} "
                "gradients a round instead of 1. Beside the gradients this counts that, on a ball, "
                "base learners who share a gradient are cheaper to move than those who do not.",
                ratio > 1.2,
            )
        )
    return found


def slopes(table: Table) -> list[Finding]:
    """Say how the regret grows with T in each of the two instances of section 6.3."""
    found = []
    for which in table.distinct("instance"):
        mine = table.where(instance=which)
        fitted = {
            name: slope(
                mine.where(learner=name)["horizon"].astype(float),
                mine.where(learner=name)["dynamic_regret"],
            )
            for name in mine.distinct("learner")
        }
        text = ", ".join(f"{name} T^{value:.2f}" for name, value in fitted.items())
        flat = all(fitted[name] < 0.15 for name in ("Sword", "Sword++") if name in fitted)
        steep = all(0.4 < fitted[name] < 0.6 for name in ("OGD", "Ader++") if name in fitted)
        found.append(
            Finding(
                f"Instance {which}: regret grows like {text}: "
                + (
                    "(nearly) constant for Sword and Sword++, like the square root for OGD and "
                    "Ader++."
                    if flat and steep
                    else "not as stated."
                ),
                flat and steep,
            )
        )
    return found


def lower_bound(tables: Tables) -> list[Finding]:
    """Say that the regret outgrows what a small-loss bound with P_T would allow."""
    table = tables["summary"]
    horizons = np.array(table.distinct("horizon"), dtype=float)

    def fitted(column: str, mine: Table) -> float:
        means = [float(mine.where(horizon=int(h))[column].mean()) for h in horizons]
        return slope(horizons, np.array(means))

    regrets = [fitted("dynamic_regret", table.where(learner=n)) for n in table.distinct("learner")]
    yardstick = fitted("yardstick", table)
    return [
        Finding(
            f"Every learner's regret grows like T^{min(regrets):.2f} to T^{max(regrets):.2f}, "
            f"√((1+F_T)(1+P_T)) like T^{yardstick:.2f}: no constant times the latter bounds it.",
            min(regrets) > yardstick + 0.3,
        )
    ]


def certificates(tables: Tables) -> list[Finding]:
    """Say whether every regret stayed below its bound."""
    table = tables["frontier"]
    held, count = int(np.sum(table["holds"])), len(table)
    pairs = dict.fromkeys(zip(table["learner"].tolist(), table["broken"].tolist(), strict=True))
    broken = "; ".join(f"{learner}: {what}" for learner, what in pairs if what)
    return [
        Finding(
            f"{held} of {count} certificates hold: so often was the regret at most the right-hand "
            "side of the learner's theorem, evaluated on the run.",
            held == count,
            "the theory",
        ),
        *([Finding(f"Assumptions that the runs broke: {broken}.")] if broken else []),
    ]


def weights(tables: Tables) -> list[Finding]:
    """Say where the weight is at the end, and how much it moved."""
    found = []
    for learner in tables["weights"].distinct("learner"):
        table = tables["weights"].where(learner=learner)
        steps = np.array(table.distinct("step_size"))
        grid = np.asarray(table["weight"]).reshape(-1, len(steps))
        mean = np.exp(grid @ np.log(steps))
        late = mean[len(mean) // 2 :]
        top = int(grid[-1].argmax())
        ends = {0: "the smallest of its pool", len(steps) - 1: "the largest of its pool"}
        place = ends.get(top, "inside its pool")
        found.append(
            Finding(
                f"{learner} ends with {grid[-1, top]:.0%} of its weight on the step "
                f"{steps[top]:.3g}, {place}. Its (geometric) mean step began at {mean[0]:.3g} and "
                f"stayed between {late.min():.3g} and {late.max():.3g} in the second half."
            )
        )
    return found


def ablation(tables: Tables) -> list[Finding]:
    """Say what the hint and the correction are worth on this stream."""
    table = tables["summary"]

    def mean(correction: str, hint: bool, column: str) -> float:
        return float(table.where(correction=correction, hint=hint)[column].mean())

    with_hint, without = (mean("2L", hint, "dynamic_regret") for hint in (True, False))
    moves = [mean(c, True, "s_mix") for c in ("0", "2L", "20L")]
    regrets = [mean(c, True, "dynamic_regret") for c in ("0", "2L", "20L")]
    return [
        Finding(f"At λ = 2L the regret is {with_hint:,.1f} with the hint, {without:,.1f} without."),
        Finding(
            f"Raising λ from 0 to 2L to 20L changes S_mix from {moves[0]:.3g} to {moves[1]:.3g} to "
            f"{moves[2]:.3g} and the regret from {regrets[0]:,.1f} to {regrets[1]:,.1f} to "
            f"{regrets[2]:,.1f}: the correction makes the mixture move less, which the worst case "
            "needs and this stream may not."
        ),
    ]
