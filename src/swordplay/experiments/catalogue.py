"""The paper's experiments, and three more: what is played, by whom, how often, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from swordplay.experiments import findings, games, measures, plots, timing
from swordplay.experiments.charts import Chart, Series
from swordplay.experiments.contenders import COMMON, OWN, Collaborator, Contender
from swordplay.experiments.experiment import (
    Experiment,
    Measure,
    Player,
    Tables,
    Task,
    contest,
)
from swordplay.experiments.games import Game

FOUR = ("OGD", "Ader++", "Sword", "Sword++")
PAPER = {"d": 5, "S": 1000, "delta": 2.0, "Gamma": 1.0, "D": 2.0}


@dataclass(frozen=True)
class Scale:
    """How much is played."""

    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    rounds: int = 50_000
    """Of the synthetic stream."""
    every: int = 1000
    """Rounds between two models."""
    sulfur_rows: int | None = None
    """Of the real data; None for all."""
    instances: tuple[int, int] = (8, 20)
    """log2 of the smallest and the largest horizon."""
    coins: tuple[int, int] = (6, 16)
    switches: tuple[int, ...] = (0, 1, 2, 4, 8, 16, 32, 64, 128)
    chunk: int = 2500
    """Rounds between two looks at the clock."""


def quick(seeds: Sequence[int] = (0, 1)) -> Scale:
    """Return a scale that shows every figure in seconds; the paper's numbers need the full one."""
    return Scale(
        seeds=tuple(seeds),
        rounds=10_000,
        every=1000,
        sulfur_rows=4000,
        instances=(8, 14),
        coins=(6, 12),
        switches=(0, 1, 2, 4, 8, 16),
        chunk=1000,
    )


def _by_seed(
    scale: Scale,
    game: Callable[[int], Game],
    players: Sequence[Player],
    seen: Mapping[str, Measure],
    rounds: int,
    **record: Any,
) -> tuple[Task, ...]:
    """Return one task for each repetition."""
    return tuple(
        Task(
            f"seed-{seed}",
            contest(partial(game, seed), players, seen, {"seed": seed}, **record),
            rounds * len(players),
        )
        for seed in scale.seeds
    )


def _contenders(names: Sequence[str], parameters: Sequence[str] = (COMMON, OWN)) -> list[Contender]:
    return [Contender(name, which) for which in parameters for name in names]


def _synthetic(scale: Scale, seed: int) -> Game:
    return games.synthetic(seed, scale.rounds, scale.every)


def figure_1a(scale: Scale, also: Sequence[str] = ()) -> Experiment:
    """Figure 1(a): cumulative loss on the synthetic stream."""
    names = [*FOUR, *(name for name in also if name not in FOUR)]
    return Experiment(
        "figure-1a",
        "Figure 1(a): cumulative loss on synthetic data",
        "A linear regression whose model jumps; a repetition draws a new stream. Each learner "
        "plays twice: with the pool and the rate of its own theorem, and with one pool of step "
        "sizes for all of them, as the authors' published experiments do.",
        _by_seed(
            scale,
            partial(_synthetic, scale),
            _contenders(names),
            {"summary": measures.summary, "curve": measures.curve},
            scale.rounds,
        ),
        partial(plots.figure_1, "figure-1a", "synthetic data"),
        findings.order,
        {**PAPER, "S": scale.every, "T": scale.rounds, "G": 2.0, "L": 1.0, "seeds": scale.seeds},
    )


def figure_1b(
    scale: Scale, path: Path, target: str = "SO2", also: Sequence[str] = ()
) -> Experiment:
    """Figure 1(b): cumulative loss on the Sulfur Recovery Unit data."""
    names = [*FOUR, *(name for name in also if name not in FOUR)]
    rounds = scale.sulfur_rows or 10_081
    suffix = "" if target == "SO2" else f"-{target.lower()}"
    return Experiment(
        f"figure-1b{suffix}",
        f"Figure 1(b): cumulative loss on the sulfur data, target {target}",
        "The data are one stream, so a repetition draws the first decision, uniform in the ball. "
        "G = δ√5 and L = 5 hold for any rows in [0, 1]⁵.",
        _by_seed(
            scale,
            lambda seed: games.sulfur(path, target, scale.sulfur_rows, seed),
            _contenders(names),
            {"summary": measures.summary, "curve": measures.curve},
            rounds,
        ),
        partial(plots.figure_1, f"figure-1b{suffix}", f"sulfur data ({target})"),
        findings.order,
        {"delta": 2.0, "D": 2.0, "G": 2 * 5**0.5, "L": 5.0, "seeds": scale.seeds},
    )


def figure_2(scale: Scale, part: str, path: Path | None = None) -> Experiment:
    """Figure 2(a) or, on the sulfur data at ``path``, 2(b): running time."""
    what = "synthetic data" if path is None else "sulfur data"
    rounds = scale.rounds if path is None else scale.sulfur_rows or 10_081
    chunk = scale.chunk if path is None else min(scale.chunk, 500)
    players = _contenders(["OGD", "Ader", "Ader++", "Sword", "Sword++"], [COMMON])
    game = (
        partial(_synthetic, scale, scale.seeds[0])
        if path is None
        else partial(games.sulfur, path, "SO2", scale.sulfur_rows)
    )
    repeats = len(scale.seeds)
    work = timing.chunk_times(game, players, chunk, repeats)
    return Experiment(
        f"figure-2{part}",
        f"Figure 2({part}): running time on {what}",
        "With the common pool, so that every ensemble has the same number of base learners. The "
        "clock covers the game loop alone, one thread, compiled code warm.",
        (Task("all", work, rounds * len(players) * repeats),),
        lambda tables: plots.running_time(f"figure-2{part}", what, tables["chunks"]),
        findings.times,
        {"chunk": chunk, "repetitions": repeats, "parameters": COMMON},
        timed=True,
    )


def instances(scale: Scale) -> Experiment:
    """Section 6.3: two instances on which problem-dependent regret is constant."""
    players = _contenders(FOUR, [OWN])
    tasks = tuple(
        Task(
            f"instance-{which}-{rounds}",
            contest(
                partial(games.instance, which, rounds),
                players,
                {"summary": measures.regret_to_models},
                {"instance": which, "horizon": rounds, "seed": 0},
            ),
            rounds * len(players),
        )
        for which in (1, 2)
        for rounds in games.doublings(*scale.instances)
    )

    def charts(tables: Tables) -> list[Chart]:
        return [
            plots.growth(
                f"instance-{which}",
                f"Instance {which}: {why}",
                "Dynamic regret to the minimisers against T, both axes logarithmic; slopes are "
                "fitted to the larger half of the horizons. 0.5 is a square root, 0 a constant.",
                tables["summary"].where(instance=which),
            )
            for which, why in ((1, "V_T ≪ F_T"), (2, "F_T ≪ V_T"))
        ]

    return Experiment(
        "instances",
        "Section 6.3: when regret can be constant",
        "Two streams of quadratics on [-1, 1]. In the first the gradients hardly vary from round "
        "to round; in the second they do, but the comparators lose nothing. Learners start at 0 "
        "with the theorems' constants, G and L the true ones.",
        tasks,
        charts,
        lambda tables: findings.slopes(tables["summary"]),
        {"D": 2.0, "T": f"2^{scale.instances[0]} to 2^{scale.instances[1]}"},
    )


def lower_bound(scale: Scale) -> Experiment:
    """Section 6.4: random signs, which nobody can follow."""
    players = _contenders(FOUR, [OWN])
    tasks = tuple(
        Task(
            f"seed-{seed}-{rounds}",
            contest(
                partial(games.coin_flips, seed, rounds),
                players,
                {"summary": measures.regret_to_models},
                {"horizon": rounds, "seed": seed},
            ),
            rounds * len(players),
        )
        for seed in scale.seeds
        for rounds in games.doublings(*scale.coins)
    )

    def charts(tables: Tables) -> list[Chart]:
        table = tables["summary"]
        horizons = np.array(table.distinct("horizon"), dtype=float)
        yardstick = np.array([table.where(horizon=int(h))["yardstick"].mean() for h in horizons])
        guide = Series(
            "√((1+F)(1+P))",
            horizons,
            yardstick,
            legend=f"√((1+F_T)(1+P_T)), slope {plots.slope(horizons, yardstick):.2f}",
            reference=True,
        )
        caption = (
            "Dynamic regret to the minimisers against T, both axes logarithmic, slopes fitted to "
            "the larger half of the horizons. The regret outgrows the guide line by a factor √T, "
            "for every learner: no algorithm can have a bound of that form."
        )
        return [plots.growth("lower-bound", "Random signs", caption, table, guide)]

    return Experiment(
        "lower-bound",
        "Section 6.4: what no algorithm can do",
        "f_t(x) = (x - ε_t)², ε_t = ±1 by the toss of a coin. The comparators ε_t lose nothing "
        "(F_T = 0), so a bound of order √((1+F_T)(1+P_T)) would be of order √T; the regret is of "
        "order T.",
        tasks,
        charts,
        findings.lower_bound,
        {"D": 2.0, "sigma": 1.0, "d": 1, "seeds": scale.seeds},
    )


def frontier(scale: Scale, path: Path | None = None) -> Experiment:
    """Regret against ever more nimble comparators, with what the theorem allows."""
    what = "synthetic data" if path is None else "sulfur data"
    name = "frontier" if path is None else "frontier-sulfur"
    players = _contenders(FOUR, [OWN])
    seen = {"frontier": measures.frontier(scale.switches)}
    if path is None:
        rounds = scale.rounds
        tasks = _by_seed(scale, partial(_synthetic, scale), players, seen, rounds)
    else:
        rounds = scale.sulfur_rows or 10_081
        game = partial(games.sulfur, path, "SO2", scale.sulfur_rows)
        tasks = (Task("centre", contest(game, players, seen, {"seed": 0}), rounds * len(players)),)
    return Experiment(
        name,
        f"Beyond the paper: the regret frontier on {what}",
        "Universal dynamic regret is a curve: for every amount of switching, how far is the "
        "learner from the best comparators that switch so often? Where they switch is found by "
        "dynamic programming and local search, the decisions between are exact.",
        tasks,
        lambda tables: [plots.regret_frontier(name, what, tables["frontier"])],
        findings.certificates,
        {"switches": scale.switches, "parameters": OWN},
    )


def weights(scale: Scale) -> Experiment:
    """The weights of Sword++ and Ader++ over their step sizes, round by round."""
    rounds, seed = scale.rounds, scale.seeds[0]
    work = contest(
        partial(_synthetic, scale, seed),
        [Contender("Sword++", OWN), Contender("Ader++", OWN)],
        {"weights": measures.weights},
        {"seed": seed},
        record=("weights",),
        every=max(1, rounds // 1000),
    )
    return Experiment(
        "weights",
        "Beyond the paper: how the pool reacts to drift",
        "Nobody picks a step size: the meta learner weighs all of them, and moves the weight as "
        "the world moves. Sword++'s pool ends at 1/(8L), Ader++'s does not.",
        (Task(f"seed-{seed}", work, 2 * rounds),),
        lambda tables: [
            plots.weights_map(
                f"weights-{slug}",
                f"{learner} on synthetic data",
                tables["weights"].where(learner=learner),
            )
            for learner, slug in (("Sword++", "sword-pp"), ("Ader++", "ader-pp"))
        ],
        findings.weights,
        {"seed": seed, "T": rounds, "S": scale.every, "parameters": OWN},
    )


def collaboration(scale: Scale) -> Experiment:
    """Sword++ with its correction weaker and stronger, with its hint and without."""
    players = [Collaborator(times, hint) for times in (0.0, 2.0, 20.0) for hint in (True, False)]
    return Experiment(
        "collaboration",
        "Beyond the paper: is the collaboration needed?",
        "Section 5's proof lets the two layers of Sword++ pay for each other: the correction λ "
        "penalises base learners that move, which cancels what the hint's error costs.",
        _by_seed(
            scale,
            partial(_synthetic, scale),
            players,
            {"summary": measures.stability},
            scale.rounds,
        ),
        lambda tables: plots.collaboration(tables["summary"]),
        findings.ablation,
        {"lambda": ["0", "2L", "20L"], "seeds": scale.seeds},
    )


NAMES = (
    "figure-1a",
    "figure-1b",
    "figure-2a",
    "figure-2b",
    "instances",
    "lower-bound",
    "frontier",
    "weights",
    "collaboration",
)


def paper(
    scale: Scale,
    sulfur: Path | None = None,
    only: Sequence[str] = (),
    also: Sequence[str] = (),
) -> list[Experiment]:
    """Return the experiments, in the report's order.

    Args:
        scale: how much is played.
        sulfur: the real data; without it figures 1(b) and 2(b) are left out.
        only: names out of ``NAMES``; default all.
        also: more learners for Figure 1.
    """
    unknown = [name for name in only if name not in NAMES]
    if unknown:
        raise ValueError(f"No experiment is called {unknown[0]!r}; there are {', '.join(NAMES)}.")
    every: list[tuple[str, list[Experiment]]] = [("figure-1a", [figure_1a(scale, also)])]
    if sulfur is not None:
        both = [figure_1b(scale, sulfur, target, also) for target in games.SRU_TARGETS]
        every.append(("figure-1b", both))
    every.append(("figure-2a", [figure_2(scale, "a")]))
    if sulfur is not None:
        every.append(("figure-2b", [figure_2(scale, "b", sulfur)]))
    every += [("instances", [instances(scale)]), ("lower-bound", [lower_bound(scale)])]
    every.append(("frontier", [frontier(scale)]))
    if sulfur is not None:
        every[-1][1].append(frontier(scale, sulfur))
    every += [("weights", [weights(scale)]), ("collaboration", [collaboration(scale)])]
    return [e for name, group in every if not only or name in only for e in group]
