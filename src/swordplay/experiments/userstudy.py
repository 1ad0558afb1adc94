"""What is played on the user's data: learners, two rules that learn nothing, and the charts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from swordplay._types import Array
from swordplay.engines import Advance
from swordplay.experiments import findings, measures, plots
from swordplay.experiments.charts import Chart
from swordplay.experiments.contenders import LEARNERS, OWN, Contender
from swordplay.experiments.experiment import Experiment, Finding, Tables, Task, contest
from swordplay.experiments.games import Game, checkpoints
from swordplay.experiments.tables import Columns, constant, stack
from swordplay.experiments.userdata import UserData
from swordplay.play import play
from swordplay.streams import LinearStream

SMOOTH = ("OEGD", "SwordSmall", "SwordBest", "Sword", "Sword++", "Sword.optimism")


def baselines(data: UserData) -> dict[str, Array]:
    """Return what two trivial rules would have predicted: the last value and the running mean.

    In a classification they predict as log-odds: how often the label stayed what it was, and how
    often it was positive, both so far (with half a count of either to begin with).
    """
    y = data.game.stream.targets
    before = np.arange(len(y))
    last = np.concatenate([[0.0], y[:-1]])
    if data.task == "regression":
        total = np.concatenate([[0.0], np.cumsum(y)[:-1]])
        return {"last value": last, "running mean": total / np.maximum(before, 1)}
    positive = np.concatenate([[0.0], np.cumsum(y > 0)[:-1]])
    stayed = np.concatenate([[0.0, 0.0], np.cumsum(y[1:] == y[:-1])[:-1]])
    moves = np.maximum(before - 1, 0)
    return {
        "last value": last * np.log((stayed + 0.5) / (moves - stayed + 0.5)),
        "running mean": np.log((positive + 0.5) / (before - positive + 0.5)),
    }


def score_name(data: UserData) -> str:
    """Return what the column of :func:`score` is called."""
    return "wrong_labels" if data.task == "classification" else "rmse"


def score(data: UserData, predictions: Array) -> float:
    """Return the share of wrong labels, or the root mean square error in the file's units."""
    y = data.game.stream.targets
    if data.task == "classification":
        return float(np.mean(np.where(predictions > 0, 1.0, -1.0) != y))
    return float(data.scale * math.sqrt(np.mean((predictions - y) ** 2)))


def _predictions(game: Game, contender: Contender) -> Array:
    """Play once more, piece by piece, and keep what was predicted before each round."""
    stream, learner = game.stream, contender.build(game)
    out, step = np.empty(len(stream)), 1 << 14
    for at in range(0, len(stream), step):
        piece = LinearStream(
            stream.features[at : at + step], stream.targets[at : at + step], stream.loss
        )
        run = play(learner, piece, record=("decisions",))
        assert run.decisions is not None
        out[at : at + step] = piece.predictions(run.decisions)
    return out


def _losses(data: UserData, names: Sequence[str], advance: Advance) -> dict[str, Columns]:
    """Return the tables of the comparison: summary and curve, baselines among the learners."""
    stream, at = data.game.stream, checkpoints(len(data.game.stream))
    summary: list[Columns] = []
    curve: list[Columns] = []

    def keep(name: str, losses: Array, predictions: Array, asked: float) -> None:
        summary.append(
            {
                "learner": [name],
                "cumulative_loss": [float(losses.sum())],
                "mean_loss": [float(losses.mean())],
                score_name(data): [score(data, predictions)],
                "gradients_per_round": [asked],
            }
        )
        told = constant(len(at), {"learner": name, "seed": 0})
        curve.append({**told, "round": at, "cumulative_loss": np.cumsum(losses)[at - 1]})

    for name, predictions in baselines(data).items():
        keep(name, np.asarray(stream.loss.value(stream.targets, predictions)), predictions, 0.0)
    for name in names:
        contender = Contender(name, OWN)
        learner = contender.build(data.game)
        run = play(learner, stream)
        predictions = _predictions(data.game, contender)
        keep(name, run.losses, predictions, run.gradient_queries / len(run))
        advance(len(run))
    return {"summary": stack(summary).columns, "curve": stack(curve).columns}


def ranking(data: UserData, tables: Tables) -> list[Finding]:
    """Say who lost least, and whether a trivial rule would have done."""
    table = tables["summary"]
    ranked = sorted(table.rows(), key=lambda row: row["cumulative_loss"])
    what = "wrong labels" if data.task == "classification" else f"RMSE of {data.target}"

    def told(row: dict[str, Any]) -> str:
        share = (
            f"{row[score_name(data)]:.1%}"
            if data.task == "classification"
            else f"{row[score_name(data)]:.4g}"
        )
        return f"{row['learner']} {row['cumulative_loss']:,.1f} ({what} {share})"

    found = [Finding("Cumulative loss, least first: " + ", ".join(map(told, ranked)) + ".")]
    if ranked[0]["learner"] in ("last value", "running mean"):
        found.append(
            Finding(
                f"A trivial rule wins: the {ranked[0]['learner']} beats every learner here. "
                "The columns as they are do not make up for what it knows; give the learners "
                "lagged targets as features, or let them predict the change."
            )
        )
    return found


def learners_for(data: UserData, names: Sequence[str]) -> list[str]:
    """Return the learners by name; by default those that fit the loss."""
    unknown = [name for name in names if name not in LEARNERS]
    if unknown:
        raise ValueError(f"No learner is called {unknown[0]!r}; there are {', '.join(LEARNERS)}.")
    smooth = data.game.facts.smoothness is not None
    if names and not smooth and any(name in SMOOTH for name in names):
        raise ValueError(
            f"{data.game.stream.loss!r} has a kink, and {', '.join(SMOOTH)} need smooth losses: "
            "choose OGD, Ader or Ader++, or another loss."
        )
    return list(names) or (["OGD", "Ader++", "Sword", "Sword++"] if smooth else ["OGD", "Ader++"])


def study(data: UserData, names: Sequence[str], switches: Sequence[int]) -> list[Experiment]:
    """Return the experiments of ``swordplay run``: losses, regret frontier, weights."""
    rounds = len(data.game.stream)
    players = [Contender(name, OWN) for name in names]
    pools = [player for player in players if len(player.build(data.game).step_sizes) > 1]

    def game() -> Game:
        return data.game

    def heat_maps(tables: Tables) -> list[Chart]:
        table = tables["weights"]
        return [
            plots.weights_map(f"weights-{index}", name, table.where(learner=name))
            for index, name in enumerate(table.distinct("learner"), 1)
        ]

    every = max(1, rounds // 1000)
    found = [
        Experiment(
            "losses",
            "Who predicts best?",
            "Every row is predicted first and learned from then, in the order of the file. Beside "
            "the learners stand two rules that learn nothing: the last value, and the mean so far. "
            "Constants were read off a first pass over all rows unless they were given; a learner "
            "in use has to be told them, or guess.",
            (Task("all", partial(_losses, data, names), rounds * len(names)),),
            lambda tables: [
                plots.cumulative_loss("losses", f"{data.path.name}, {data.target}", tables["curve"])
            ],
            partial(ranking, data),
            data.constants,
        ),
        Experiment(
            "frontier",
            "How nimble must a competitor be?",
            "The regret of each learner to the best sequence of linear models that switches so "
            "often, found in hindsight, over the length of the path it travels. Where a curve is "
            "below 0, no model that switches so seldom would have done better.",
            (
                Task(
                    "all",
                    contest(game, players, {"frontier": measures.frontier(switches)}, {"seed": 0}),
                    rounds * len(players),
                ),
            ),
            lambda tables: [plots.regret_frontier("frontier", data.path.name, tables["frontier"])],
            findings.certificates,
            constants={"switches": list(switches)},
        ),
    ]
    if pools:
        work = contest(game, pools, {"weights": measures.weights}, {"seed": 0}, ("weights",), every)
        found.append(
            Experiment(
                "weights",
                "Which step sizes does the stream want?",
                "The weights over the pool of step sizes, as the stream goes by. Weight on the "
                "largest step says that the stream moves faster than the theory's worst case lets "
                "the pool go.",
                (Task("all", work, rounds * len(pools)),),
                heat_maps,
            )
        )
    return found
