"""What is looked at after a game: each measure returns columns for its table."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from swordplay import regret
from swordplay.bounds import certify
from swordplay.experiments.experiment import Measure, Played
from swordplay.experiments.games import checkpoints
from swordplay.experiments.tables import Columns


def summary(played: Played) -> Columns:
    """Return one row: what was lost, what was asked for, and the pool that was used.

    The dynamic regret is against the models behind the stream, where they are known.
    """
    run, game, steps = played.run, played.game, played.learner.step_sizes
    models = game.stream.comparators
    against = math.nan if models is None else regret.dynamic_regret(run, game.stream, models)
    return {
        "rounds": [len(run)],
        "cumulative_loss": [run.cumulative_loss],
        "dynamic_regret": [against],
        "gradients_per_round": [run.gradient_queries / len(run)],
        "step_sizes": [len(steps)],
        "smallest_step": [float(steps.min())],
        "largest_step": [float(steps.max())],
        "adaptivity": [run.adaptivity],
        "gradient_variation": [run.gradient_variation],
    }


def curve(played: Played) -> Columns:
    """Return the cumulative loss at evenly spread rounds."""
    at = checkpoints(len(played.run))
    return {"round": at, "cumulative_loss": np.cumsum(played.run.losses)[at - 1]}


def regret_to_models(played: Played) -> Columns:
    """Return one row: the regret to the stream's own comparators, and the bound's measures."""
    stream, models = played.game.stream, played.game.stream.comparators
    assert models is not None, "the paper's own streams come with comparators"
    length, small = regret.path_length(models), regret.small_loss(stream, models)
    return {
        "dynamic_regret": [regret.dynamic_regret(played.run, stream, models)],
        "path_length": [length],
        "small_loss": [small],
        "yardstick": [math.sqrt((1 + small) * (1 + length))],
    }


def frontier(switches: Sequence[int]) -> Measure:
    """Return the measure of the regret to the best comparators with so many switches.

    ``bound`` is the right-hand side of the theorem that fits the learner, evaluated on this run;
    ``broken`` names the assumptions that the run broke.
    """

    def measure(played: Played) -> Columns:
        stream, rows = played.game.stream, []
        for count in switches:
            u = played.game.best(count)
            sheet = certify(played.learner, played.run, stream, u)
            rows.append(
                (
                    count,
                    regret.path_length(u),
                    regret.small_loss(stream, u),
                    sheet.regret,
                    sheet.bound,
                    sheet.holds,
                    sheet.theorem,
                    "; ".join(sheet.broken),
                )
            )
        names = (
            "switches",
            "path_length",
            "comparator_loss",
            "regret",
            "bound",
            "holds",
            "theorem",
            "broken",
        )
        return dict(zip(names, (list(column) for column in zip(*rows, strict=True)), strict=True))

    return measure


def weights(played: Played) -> Columns:
    """Return p_{t,i} of the recorded rounds, one row for each round and step size."""
    recorded = played.run.weights
    assert recorded is not None, 'the task must record "weights"'
    rounds, experts = recorded.shape
    return {
        "round": np.repeat(np.arange(rounds) * played.run.every + 1, experts),
        "step_size": np.tile(played.learner.step_sizes, rounds),
        "weight": recorded.ravel().astype(np.float64),
    }


def stability(played: Played) -> Columns:
    """Return one row: the loss, and the sums that the proof of Theorem 4 cancels.

    ``s_x`` is that of the base learner that the certificate picks; ``base``, ``meta`` and ``mixed``
    are its three stability terms, (lambda - 1/(4 eta)) S_x, -S_p / (4 eps-bar), -lambda S_mix.
    """
    run, stream = played.run, played.game.stream
    models = stream.comparators
    assert models is not None, "the synthetic stream comes with its models"
    sheet = certify(played.learner, run, stream, models)
    travel, meta, mixed = run.stability
    return {
        "cumulative_loss": [run.cumulative_loss],
        "dynamic_regret": [sheet.regret],
        "adaptivity": [run.adaptivity],
        "s_x": [float(travel[sheet.base_learner])],
        "s_p": [meta],
        "s_mix": [mixed],
        "base": [sheet.terms["base stability"]],
        "meta": [sheet.terms["meta stability"]],
        "mixed": [sheet.terms["mixed stability"]],
        "bound": [sheet.bound],
        "holds": [sheet.holds],
    }
