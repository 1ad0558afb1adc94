"""One model for each key of a file: read, run, and shown key by key."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from swordplay._types import Array
from swordplay.engines import Advance
from swordplay.experiments import datasets, userdata
from swordplay.experiments.charts import Bars, Chart, Lines, Series
from swordplay.experiments.experiment import Experiment, Finding, Tables, Task
from swordplay.experiments.session import Study
from swordplay.fleet import Fleet, PoolModel

SHOWN = 20  # keys in a chart or table
WINDOWS = 50  # points of a curve
CHUNK = 1 << 16  # rows between two looks at the clock


@dataclass(frozen=True)
class KeyedRows:
    """A file, read: rows in their order."""

    keys: Any
    X: Array
    y: Array
    times: Array | None
    names: tuple[str, ...]
    left_out: tuple[str, ...]
    labels: tuple[Any, Any] | None
    """The classes behind 0 and 1, or None for numbers."""


def read(path: Path, key: str, target: str, time: str | None, features: Sequence[str]) -> KeyedRows:
    """Read a CSV, TSV, Parquet or Arrow file; missing features and labels become NaN."""
    table = userdata._read(path)
    for name in (key, target, *([time] if time else []), *features):
        if name not in table.column_names:
            raise ValueError(
                f"{path} has no column {name!r}; it has {', '.join(table.column_names)}."
            )
    others = [name for name in table.column_names if name not in (key, target, time)]
    wanted = list(features) or others
    used = [name for name in wanted if userdata._is_number(table[name].type)]
    if features and len(used) < len(features):
        odd = next(name for name in features if name not in used)
        raise ValueError(f"Column {odd!r} holds {table[odd].type}, not numbers: encode it.")
    if not used:
        raise ValueError(f"{path} has no column of numbers beside key, time and target.")
    if table[key].null_count:
        raise ValueError(f"The key {key!r} is empty in {table[key].null_count} rows.")
    labels = None
    if userdata._is_number(table[target].type):
        y = _floats(table[target])
    else:
        classes = sorted(table[target].drop_null().unique().to_pylist(), key=str)
        if len(classes) != 2:
            raise ValueError(
                f"The target {target!r} holds {len(classes)} classes; a fleet takes numbers or two."
            )
        labels = (classes[0], classes[1])
        told = {classes[0]: 0.0, classes[1]: 1.0, None: np.nan}
        y = np.array([told[value] for value in table[target].to_pylist()])
    whole = table[key].type
    keys = table[key].to_numpy() if str(whole).startswith(("int", "uint")) else table[key]
    return KeyedRows(
        keys=keys if isinstance(keys, np.ndarray) else keys.to_pylist(),
        X=np.column_stack([_floats(table[name]) for name in used]),
        y=y,
        times=table[time].to_numpy() if time else None,
        names=tuple(used),
        left_out=tuple(name for name in others if name not in used),
        labels=labels,
    )


def _floats(column: Any) -> Array:
    return np.asarray(column.cast("double").to_numpy(), dtype=np.float64)


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
        figures["key"] = [str(name) for name in figures["key"]]
        worst = np.argsort(-np.nan_to_num(figures["loss"]), kind="stable")[:5]
        curves = [
            _curve(str(fleet.keys[k]), rows.y[mine] - told[mine])
            for k in worst
            for mine in [order[keys[order] == fleet.keys[k]]]
        ]
        return {
            "keys": figures,
            "predictions": {
                "key": [str(name) for name in keys], "target": rows.y, "prediction": told
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


def _curve(key: str, errors: Array) -> dict[str, Array]:
    """Return the mean squared error of a key over its rows, in windows."""
    errors = errors[np.isfinite(errors)]
    parts = np.array_split(errors**2, min(WINDOWS, max(1, len(errors))))
    ends = np.cumsum([len(part) for part in parts])
    means = np.array([part.mean() if len(part) else np.nan for part in parts])
    return {"key": np.array([key] * len(parts)), "row": ends, "squared_error": means}


def _top(table: Any, column: str) -> tuple[tuple[str, ...], Array]:
    values = np.nan_to_num(np.asarray(table[column], dtype=float))
    chosen = np.argsort(-values, kind="stable")[:SHOWN]
    return tuple(str(table["key"][k]) for k in chosen), values[chosen]


def charts(tables: Tables) -> Sequence[Chart]:
    """Draw the worst keys, those that drift most, and how the worst fared."""
    drawn: list[Chart] = []
    for column, title, caption in (
        ("loss", "Worst keys", "Mean loss over all rows of a key; the largest."),
        (
            "drift",
            "Drift by key",
            "By how many octaves the memory that suits a key is shorter than it usually is.",
        ),
    ):
        names, values = _top(tables["keys"], column)
        groups = ((column, values, np.zeros(len(values))),)
        drawn.append(Bars(f"fleet-{column}", title, caption, "key", column, names, groups))
    curves = tables["curves"]
    series = []
    for name in curves.distinct("key"):
        mine = curves.where(key=name)
        series.append(Series(str(name), np.asarray(mine["row"]), np.asarray(mine["squared_error"])))
    caption = "Mean squared error in windows of a key's rows, for the keys of the largest loss."
    drawn.append(
        Lines(
            "fleet-curves", "How the worst keys fared", caption, "row of the key", "squared error",
            tuple(series),
        )
    )  # fmt: skip
    return drawn


def findings(tables: Tables) -> Sequence[Finding]:
    """Say what stands out."""
    keys = tables["keys"]
    skipped, told = np.asarray(keys["skipped"]), []
    names, values = _top(keys, "drift")
    if values[0] > 1:
        told.append(Finding(f"{names[0]} drifts most: {values[0]:.1f} octaves."))
    if skipped.sum():
        count = int((skipped > 0).sum())
        told.append(Finding(f"{skipped.sum():,} rows of {count} keys could not be learned."))
    return told


def overview(tables: Any) -> tuple[list[str], list[list[str]]]:
    """Return one row for each of the worst keys."""
    keys = tables["fleet"]["keys"]
    losses = np.nan_to_num(np.asarray(keys["loss"], dtype=float))
    head = ["key", "rows", "mean loss", "recent loss", "memory, rows", "drift", "not learned"]
    return head, [
        [
            str(keys["key"][k]), f"{keys['rows'][k]:,}", f"{keys['loss'][k]:.4g}",
            f"{keys['recent'][k]:.4g}", f"{keys['memory'][k]:.3g}", f"{keys['drift'][k]:.2f}",
            f"{keys['skipped'][k]:,}",
        ]
        for k in np.argsort(-losses, kind="stable")[:SHOWN]
    ]  # fmt: skip


def study(path: Path, key: str, target: str, time: str | None, features: Sequence[str]) -> Study:
    """Return the study of a file, or raise ValueError with what is wrong with it."""
    rows = read(path, key, target, time, features)
    left_out = ", ".join(rows.left_out)
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
        f"{len(rows.y):,} rows, {len(rows.names)} features. Click a legend entry to hide a curve.",
        overview,
        [f"Left out, because not numbers: {left_out}."] if left_out else [],
    )
