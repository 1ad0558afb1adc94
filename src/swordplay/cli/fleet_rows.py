"""The rows of a file, with the key of each: read, and refused where something is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from swordplay._types import Array
from swordplay.experiments import userdata


@dataclass(frozen=True)
class KeyedRows:
    """A file, read: rows in their order."""

    keys: Any
    X: Array
    y: Array
    times: Array | None
    names: tuple[str, ...]
    notes: tuple[str, ...]
    """Which columns are features, and which are not, and why."""
    labels: tuple[Any, Any] | None
    """The classes behind 0 and 1, or None for numbers."""


def read(path: Path, key: str, target: str, time: str | None, features: Sequence[str]) -> KeyedRows:
    """Read a CSV, TSV, Parquet or Arrow file; missing features and labels become NaN."""
    table = userdata._read(path, text=key)
    for name in (key, target, *([time] if time else []), *features):
        if name not in table.column_names:
            raise ValueError(
                f"{path} has no column {name!r}; it has {', '.join(table.column_names)}."
            )
    if not table.num_rows:
        raise ValueError(f"{path} has no rows.")
    others = [name for name in table.column_names if name not in (key, target, time)]
    for name in features:
        if name not in others:
            raise ValueError(f"Column {name!r} is the key, the target or the time, no feature.")
    used, text = userdata.choose(path, table, features, others)
    if not used:
        raise ValueError(f"{path} has no column of numbers beside key, time and target.")
    for what, column in (("key", key), ("time", time)):
        if column and (empty := _empty(table[column])):
            raise ValueError(f"The {what} {column!r} is empty in {userdata.count(empty)}.")
    if time and not (userdata._is_number(table[time].type) or _is_moment(table[time].type)):
        raise ValueError(
            f"The time {time!r} holds {table[time].type}, which is no order of time: write "
            "numbers, or dates like 2026-01-31."
        )
    y, labels = _targets(path, table[target], target)
    whole = table[key].type
    keys = table[key].to_numpy() if str(whole).startswith(("int", "uint")) else table[key]
    return KeyedRows(
        keys=keys if isinstance(keys, np.ndarray) else keys.to_pylist(),
        X=np.column_stack([_floats(table[name]) for name in used]),
        y=y,
        times=table[time].to_numpy() if time else None,
        names=tuple(used),
        notes=(*userdata.notes(used, text), *_meaning(target, labels)),
        labels=labels,
    )


def _targets(path: Path, column: Any, name: str) -> tuple[Array, tuple[Any, Any] | None]:
    """Return the targets and, where there are two of them, which classes are 0 and 1."""
    classes = sorted(column.drop_null().unique().to_pylist(), key=_rank)
    if len(classes) == 2:
        told = {classes[0]: 0.0, classes[1]: 1.0, None: np.nan}
        return np.array([told[value] for value in column.to_pylist()]), (classes[0], classes[1])
    if userdata._is_number(column.type):
        return _floats(column), None
    if why := userdata.spoiled(path, column, name):
        raise ValueError(f"{why}.")
    shown = ", ".join(map(str, classes[:5])) + (", ..." if len(classes) > 5 else "")
    raise ValueError(
        f"The target {name!r} holds {len(classes)} classes ({shown}); a fleet takes numbers or two."
    )


def _rank(value: Any) -> tuple[float, str]:
    """Return what sorts numbers by size and everything else by its name."""
    number = isinstance(value, int | float)
    return (float(value), "") if number else (0.0, str(value))


def _meaning(target: str, labels: tuple[Any, Any] | None) -> list[str]:
    if labels is None:
        return []
    return [f"{target} has two classes: predictions are the probability of {labels[1]!s}."]


def _empty(column: Any) -> int:
    """Return how many values are null or NaN."""
    return int(pc.sum(pc.is_null(column, nan_is_null=True)).as_py() or 0)


def _is_moment(kind: Any) -> bool:
    return bool(pa.types.is_temporal(kind))


def _floats(column: Any) -> Array:
    return np.asarray(column.cast("double").to_numpy(), dtype=np.float64)
