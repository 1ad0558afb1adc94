"""One model for each key of a file: run, and shown key by key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from swordplay._types import Array
from swordplay.cli.fleet_rows import KeyedRows, read
from swordplay.engines import Advance
from swordplay.experiments import datasets
from swordplay.experiments.charts import Bars, Chart, Lines, Series
from swordplay.experiments.experiment import Experiment, Finding, Tables, Task
from swordplay.experiments.session import Study
from swordplay.fleet import Fleet, PoolModel

SHOWN = 20  # keys in a chart or table
DRIFTED = 1.0  # octaves; of a thousand keys that do not drift a few reach that by chance
FOLLOWED = 3  # of the worst, and of those that drift most, shown over time
WINDOWS = 50  # points of a curve
CHUNK = 1 << 16  # rows between two looks at the clock


def experiment(rows: KeyedRows, key: str, target: str) -> Experiment:
    """Return the experiment: one pass, every row predicted before its key learns it."""

    def work(advance: Advance) -> dict[str, Any]:
        loss = "logistic" if rows.labels else "squared"
        fleet = Fleet(PoolModel(rows.X.shape[1], loss=loss))
        order = np.arange(len(rows.y))
        if rows.times is not None:
            order = np.argsort(rows.times, kind="stable")
        told = np.empty(len(rows.y))
        keys = rows.keys if isinstance(rows.keys, np.ndarray) else np.array(rows.keys, object)
        for start in range(0, len(order), CHUNK):
            part = order[start : start + CHUNK]
            told[part] = fleet.predict_then_learn(keys[part], rows.X[part], rows.y[part])
            advance(len(part))
        figures = fleet.summary()
        place = {name: k for k, name in enumerate(figures["key"])}
        whose = np.array([place[name] for name in keys.tolist()])
        figures["key"] = [str(name) for name in figures["key"]]
        losses = _losses(rows.y, told, rows.labels is not None)
        figures["unexplained"] = _unexplained(losses, rows.y, whose, rows.labels is not None)
        curves = [
            _curve(figures["key"][k], losses[order[whose[order] == k]]) for k in _followed(figures)
        ]
        return {
            "summary": figures,
            "predictions": {
                "key": [str(name) for name in keys],
                **({} if rows.times is None else {"time": rows.times}),
                "target": rows.y,
                "prediction": told,
            },
            "curves": {name: np.concatenate([c[name] for c in curves]) for name in curves[0]},
        }  # fmt: skip

    return Experiment(
        name="fleet",
        title="One model for each key",
        about=f"Every value of {key} has a learner of its own; {target} is predicted before it is "
        "learned.",
        tasks=(Task("all", work, len(rows.y)),),
        charts=charts,
        findings=findings,
    )


def _losses(y: Array, told: Array, labels: bool) -> Array:
    """Return every row's loss, in the unit of ``Fleet.summary``; NaN where it has none."""
    if not labels:
        return (y - told) ** 2 / 2
    with np.errstate(divide="ignore"):
        return -np.log(np.where(y == 1, told, np.where(y == 0, 1 - told, np.nan)))


def _unexplained(losses: Array, y: Array, whose: Array, labels: bool) -> Array:
    """Return each key's loss as a share of its best constant's, which knows the whole stream.

    That is the mean of the key's targets; a key whose targets are all the same has none (NaN).
    """
    some, keys = np.isfinite(losses), int(whose.max()) + 1
    count = np.bincount(whose[some], minlength=keys)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = np.bincount(whose[some], y[some], keys) / count
        best = np.bincount(whose[some], _losses(y, mean[whose], labels)[some], keys)
        share = np.bincount(whose[some], losses[some], keys) / best
    return np.where(best > 0, share, np.nan)


def _curve(key: str, losses: Array) -> dict[str, Array]:
    """Return the mean loss of a key over its rows, in windows."""
    losses = losses[np.isfinite(losses)]
    parts = np.array_split(losses, min(WINDOWS, max(1, len(losses))))
    ends = np.cumsum([len(part) for part in parts])
    means = np.array([part.mean() if len(part) else np.nan for part in parts])
    return {"key": np.array([key] * len(parts)), "row": ends, "loss": means}


def _largest(table: Any, column: str, most: int = SHOWN) -> Array:
    """Return the places of the largest values, largest first; NaN is last."""
    values = np.asarray(table[column], dtype=float)
    return np.argsort(-np.where(np.isnan(values), -np.inf, values), kind="stable")[:most]


def _followed(table: Any) -> list[int]:
    """Return the worst keys and those that drift most."""
    chosen = (_largest(table, column, FOLLOWED).tolist() for column in ("unexplained", "peak"))
    return list(dict.fromkeys(k for some in chosen for k in some))


def charts(tables: Tables) -> Sequence[Chart]:
    """Draw the worst keys, those that drift most, how they fared, and all keys in a row."""
    keys, curves = tables["summary"], tables["curves"]
    drawn: list[Chart] = []
    for column, title, label, caption in (
        (
            "unexplained", "Worst keys", "share unexplained",
            "A key's loss over that of its own mean. 0: every row is foreseen; 1: no better than "
            "always to say that mean, which is known only at the end.",
        ),
        (
            "peak", "Drift by key", "octaves",
            "By how many octaves the memory that suited a key was shorter than usual when it "
            "drifted most: 1 is half the memory. Keys that never drifted are left out.",
        ),
    ):  # fmt: skip
        chosen = _largest(keys, column)
        values = np.nan_to_num(np.asarray(keys[column], dtype=float)[chosen])
        chosen, values = chosen[values > 0], values[values > 0]
        if not len(chosen):
            continue
        names = tuple(str(keys["key"][k]) for k in chosen)
        groups = ((column, values, np.zeros(len(values))),)
        name = f"fleet-{column}"
        drawn.append(Bars(name, title, caption, "key", label, names, groups, sideways=True))
    series = []
    for name in curves.distinct("key"):
        mine = curves.where(key=name)
        series.append(Series(str(name), np.asarray(mine["row"]), np.asarray(mine["loss"])))
    caption = "Mean loss in windows of a key's rows, for the worst keys and those that drift most."
    drawn.append(
        Lines(
            "fleet-curves", "How they fared", caption, "row of the key", "mean loss",
            tuple(series), y_log=True,
        )
    )  # fmt: skip
    shares = np.sort(np.asarray(keys["unexplained"], dtype=float))
    shares = shares[np.isfinite(shares)]
    if len(shares) > SHOWN:
        of = np.arange(1, len(shares) + 1) / len(shares)
        caption = "The share of keys (upwards) that leave at most so much unexplained (sideways)."
        line = (Series("keys", shares, of),)
        drawn.append(
            Lines(
                "fleet-keys", "All keys", caption, "share unexplained",
                "share of keys", line, x_log=True,
            )
        )  # fmt: skip
    return drawn


def findings(tables: Tables) -> Sequence[Finding]:
    """Say what stands out."""
    keys = tables["summary"]
    told, shares = [], np.asarray(keys["unexplained"], dtype=float)
    shares = shares[np.isfinite(shares)]
    if len(shares) > 1:
        told.append(
            Finding(
                f"Half of the {len(keys['key']):,} keys leave at most "
                f"{100 * np.median(shares):.3g} % of what their own mean leaves unexplained; "
                f"{_keys(int((shares > 1).sum())) if (shares > 1).any() else 'none'} did worse "
                "than that mean."
            )
        )
    peak, most = np.asarray(keys["peak"], dtype=float), int(_largest(keys, "peak", 1)[0])
    if peak[most] > DRIFTED:
        told.append(
            Finding(
                f"{_keys(int((peak > DRIFTED).sum()))} drifted: the memory that suited them fell "
                f"below half of the usual. {keys['key'][most]} drifted most, by {peak[most]:.1f} "
                f"octaves at its row {keys['peak_row'][most]:,}."
            )
        )
    skipped = np.asarray(keys["skipped"])
    if skipped.sum():
        count = int((skipped > 0).sum())
        told.append(Finding(f"{skipped.sum():,} rows of {count} keys could not be learned."))
    return told


def _keys(count: int) -> str:
    return f"{count:,} key{'s' * (count != 1)}"


def _percent(share: float) -> str:
    return f"{100 * share:.3g} %" if np.isfinite(share) else "-"


def overview(tables: Any) -> tuple[list[str], list[list[str]]]:
    """Return one row for each of the worst keys."""
    keys = tables["fleet"]["summary"]
    head = [
        "worst keys", "rows", "unexplained", "loss", "recent", "memory", "largest drift", "at row",
        "skipped",
    ]  # fmt: skip
    return head, [
        [
            str(keys["key"][k]), f"{keys['rows'][k]:,}", _percent(keys["unexplained"][k]),
            f"{keys['loss'][k]:.4g}", f"{keys['recent'][k]:.4g}", f"{keys['memory'][k]:.3g}",
            f"{keys['peak'][k]:.2f}", f"{keys['peak_row'][k]:,}" if keys["peak_row"][k] else "-",
            f"{keys['skipped'][k]:,}",
        ]
        for k in _largest(keys, "unexplained")
    ]  # fmt: skip


def study(path: Path, key: str, target: str, time: str | None, features: Sequence[str]) -> Study:
    """Return the study of a file, or raise ValueError with what is wrong with it."""
    rows = read(path, key, target, time, features)
    return Study(
        [experiment(rows, key, target)],
        {
            "data": datasets.digest(path),
            "key": key,
            "target": target,
            "time": time,
            "features": list(rows.names),
        },
        f"{path.name}: {target} by {key}",
        f"{len(rows.y):,} rows, {len(rows.names)} features. Unexplained: a key's loss, divided by "
        "that of its own mean. Click a legend entry to hide a curve.",
        overview,
        rows.notes,
    )
