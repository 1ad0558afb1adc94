"""From tables to charts: what each figure shows."""

from __future__ import annotations

import numpy as np

from swordplay._types import Array
from swordplay.experiments.charts import BOUND, Bars, Boxes, Chart, HeatMap, Lines, Series
from swordplay.experiments.experiment import Tables
from swordplay.experiments.tables import Table


def spread(values: Array) -> tuple[Array, Array]:
    """Return mean and sample standard deviation over the first axis; 0 for one repetition."""
    values = np.asarray(values, dtype=float)
    deviation = values.std(axis=0, ddof=1) if len(values) > 1 else np.zeros_like(values[0])
    return values.mean(axis=0), np.asarray(deviation)


def over_seeds(table: Table, column: str) -> Array:
    """Return the column as (seeds, rows of a seed)."""
    seeds = len(table.distinct("seed"))
    return np.asarray(table[column], dtype=float).reshape(seeds, -1)


def slope(x: Array, y: Array) -> float:
    """Return the slope of log y against log x over the larger half of x.

    >>> x = 2.0 ** np.arange(8)
    >>> round(slope(x, 3 * np.sqrt(x)), 6)
    0.5
    """
    half = len(x) // 2
    far = slice(half, None) if len(x) - half > 1 else slice(None)
    return float(np.polyfit(np.log(x[far]), np.log(np.maximum(y[far], 1e-12)), 1)[0])


def plus_minus(middle: float, deviation: float) -> str:
    """Return a number and its spread as a reader wants them."""
    digits = 0 if abs(middle) >= 1000 else 1 if abs(middle) >= 10 else 2
    if deviation == 0:
        return f"{middle:,.{digits}f}"
    return f"{middle:,.{digits}f} ± {deviation:,.{digits}f}"


# ---------------------------------------------------------------------- one chart each


def cumulative_loss(name: str, what: str, table: Table, order: list[str] | None = None) -> Chart:
    """Draw mean and standard deviation of the cumulative loss over the rounds."""
    series = []
    for learner in order or table.distinct("learner"):
        mine = table.where(learner=learner)
        middle, deviation = spread(over_seeds(mine, "cumulative_loss"))
        rounds = over_seeds(mine, "round")[0]
        band = len(mine.distinct("seed")) > 1
        series.append(
            Series(
                learner,
                rounds,
                middle,
                middle - deviation if band else None,
                middle + deviation if band else None,
                f"{learner}: {plus_minus(middle[-1], deviation[-1])}",
            )
        )
    repeats = len(table.distinct("seed"))
    told = f"Mean and standard deviation of {repeats} repetitions. " if repeats > 1 else ""
    return Lines(
        name,
        f"Cumulative loss, {what}",
        f"{told}The legend gives the loss after the last round.",
        "round",
        "cumulative loss",
        tuple(series),
    )


def running_time(name: str, what: str, chunks: Table) -> list[Chart]:
    """Draw the time of a round as a distribution, and the time since the beginning."""
    groups, series = [], []
    for learner in chunks.distinct("learner"):
        mine = chunks.where(learner=learner)
        groups.append((learner, np.asarray(mine["microseconds"], dtype=float)))
        repeats = len(mine.distinct("repeat"))
        rounds = np.asarray(mine["rounds"]).reshape(repeats, -1)
        seconds = np.asarray(mine["microseconds"]).reshape(repeats, -1) * rounds / 1e6
        low, middle, high = np.cumsum(np.quantile(seconds, (0.25, 0.5, 0.75), axis=0), axis=1)
        asked = float(mine["gradients_per_round"][0])
        told = f"{asked:g} gradient{'s' if asked > 1 else ''} a round"
        legend = f"{learner}: {middle[-1]:.2g} s, {told}"
        series.append(Series(learner, np.cumsum(rounds[0]), middle, low, high, legend))
    size = int(chunks["rounds"][0])
    return [
        Lines(
            f"{name}-cumulative",
            f"Running time, {what}",
            "Seconds since the first round on a logarithmic axis: for every chunk of rounds the "
            "median of the repetitions (the band: the middle half), summed up, so that a moment in "
            "which the machine was busy with something else does not count. The legend gives the "
            "total and the gradients asked for.",
            "round",
            "seconds",
            tuple(series),
            y_log=True,
        ),
        Boxes(
            f"{name}-per-round",
            f"Time of a round, {what}",
            f"Each value is the mean over {size:,} consecutive rounds; compiled code is warm, and "
            "the learners take turns. The box holds the middle half, the line is the median.",
            "learner",
            "microseconds a round",
            tuple(groups),
        ),
    ]


def growth(name: str, title: str, caption: str, table: Table, guide: Series | None = None) -> Chart:
    """Draw the regret against the horizon on logarithmic axes, slopes in the legend."""
    series = [] if guide is None else [guide]
    for learner in table.distinct("learner"):
        mine = table.where(learner=learner)
        horizons = np.array(mine.distinct("horizon"), dtype=float)
        values = np.stack([mine.where(horizon=int(h))["dynamic_regret"] for h in horizons], axis=1)
        middle, deviation = spread(values)
        band = len(values) > 1
        series.append(
            Series(
                learner,
                horizons,
                middle,
                np.maximum(middle - deviation, 1e-3) if band else None,
                middle + deviation if band else None,
                f"{learner}, slope {slope(horizons, middle):.2f}",
                markers=True,
            )
        )
    return Lines(name, title, caption, "T", "dynamic regret", tuple(series), x_log=True, y_log=True)


def regret_frontier(name: str, what: str, table: Table, on: str = "Sword++") -> Chart:
    """Draw the regret against the path length of ever more nimble comparators, bounds as bands."""
    series = []
    learners = table.distinct("learner")
    on = on if on in learners else learners[-1]
    looseness = np.max(np.abs(table.where(learner=on)["bound"])) / np.max(np.abs(table["regret"]))
    shown = on if looseness < 10 else ""  # else the regrets would be a flat line under it
    for learner in learners:
        mine = table.where(learner=learner)
        length, _ = spread(over_seeds(mine, "path_length"))
        middle, _ = spread(over_seeds(mine, "regret"))
        bound, _ = spread(over_seeds(mine, "bound"))
        series.append(Series(learner, length, middle, markers=True))
        series.append(
            Series(
                learner + BOUND,
                length,
                bound,
                middle,
                bound,
                hidden=learner != shown,
                reference=True,
            )
        )
    most = max(table.distinct("switches"))
    return Lines(
        name,
        f"Regret frontier, {what}",
        f"Regret to the best comparators with 0, 1, 2, 4, ... {most} switches (the points, left to "
        "right), over their path length. Below 0 the learner beats them. The band reaches up to "
        "what the learner's theorem allows on this very run; click a bound in the legend to show it"
        + ("." if shown else f" (all are off: they are {looseness:,.0f} times the regret here)."),
        "path length",
        "dynamic regret",
        tuple(series),
    )


def weights_map(name: str, what: str, table: Table) -> Chart:
    """Draw the weights of the pool, round by round."""
    steps = table.distinct("step_size")
    rounds = np.array(table.distinct("round"))
    grid = np.asarray(table["weight"], dtype=float).reshape(len(rounds), -1).T
    if len(steps) != len(grid):  # two base learners with the same step size
        steps = table["step_size"][: len(grid)].tolist()
    return HeatMap(
        name,
        f"Weights over step sizes, {what}",
        "One row for each step size of the pool, one column for each recorded round; bright is "
        "heavy.",
        "round",
        "step size",
        rounds,
        tuple(f"{step:.4g}" for step in steps),
        grid,
        "log₁₀ of the weight",
    )


def collaboration(table: Table) -> list[Chart]:
    """Draw the ablation: regret, and the sums that the proof cancels, with and without hint."""
    labels = {True: "with hint", False: "without hint"}
    corrections = table.distinct("correction")

    def bars(column: str) -> tuple[tuple[str, Array, Array], ...]:
        out = []
        for hint, text in labels.items():
            mine = [table.where(correction=c, hint=hint)[column] for c in corrections]
            middle, deviation = spread(np.stack(mine, axis=1))
            out.append((text, middle, deviation))
        return tuple(out)

    names = tuple(f"λ = {c}" for c in corrections)
    sums = tuple(
        (f"{symbol}, {hint}", middle, deviation)
        for symbol, column in (("Sₓ", "s_x"), ("Sₚ", "s_p"), ("S_mix", "s_mix"))
        for hint, middle, deviation in bars(column)
    )
    return [
        Bars(
            "collaboration-regret",
            "Dynamic regret with and without collaboration",
            "Sword++ with another correction λ, with its hint and without; mean and standard "
            "deviation over the repetitions. Theorem 4 sets λ = 2L.",
            "correction",
            "dynamic regret",
            names,
            bars("dynamic_regret"),
        ),
        Bars(
            "collaboration-stability",
            "What the proof cancels",
            "How much the base learner that the certificate picks moves "
            "(Sₓ = Σ‖x_t,i − x_t−1,i‖²), how much the weights move (Sₚ = Σ‖p_t − p_t−1‖₁²), and "
            "how much the base learners move on average (S_mix = ΣΣ p_t,i‖x_t,i − x_t−1,i‖²).",
            "correction",
            "sum over the rounds",
            names,
            sums,
            y_log=True,
        ),
    ]


# ---------------------------------------------------------------------- whole experiments


def figure_1(name: str, what: str, tables: Tables) -> list[Chart]:
    """Draw one chart for each parameter set."""
    curves = tables["curve"]
    return [
        cumulative_loss(
            f"{name}-{parameters.split()[0].strip(chr(39))}",
            f"{what}, {parameters}",
            curves.where(parameters=parameters),
        )
        for parameters in curves.distinct("parameters")
    ]
