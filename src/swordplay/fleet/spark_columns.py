"""Columns on their way from Spark to Python and back: which can go, and as what."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions, types

# What Python would change on the way: a timestamp arrives in the session's time zone, where two
# moments may look alike. It travels as a whole number: type -> (there, type there, and back).
_TRAVELS: dict[str, tuple[Any, str, Any]] = {
    "timestamp": (functions.unix_micros, "bigint", functions.timestamp_micros),
    "date": (functions.unix_date, "int", functions.date_from_unix_date),
}
_NUMBERS = (types.IntegralType, types.FractionalType)  # decimals are fractional
_ORDERED = (types.IntegralType, types.FloatType, types.DoubleType)
_MOMENTS = (types.TimestampType, types.TimestampNTZType, types.DateType)
_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "key": (
        (*_NUMBERS, *_MOMENTS, types.StringType, types.BinaryType, types.BooleanType),
        "make one column of strings or numbers of it, say concat_ws('/', ...)",
    ),
    "time": ((*_ORDERED, *_MOMENTS), "cast it to a timestamp or a number"),
    "sequence": ((*_ORDERED, *_MOMENTS), "cast it to a number"),
    "feature": ((*_NUMBERS, types.BooleanType), "cast or encode it as a number"),
    "target": ((*_NUMBERS, types.BooleanType), "cast or encode it as a number"),
}


def checked(df: Any, roles: dict[str, str], features: Sequence[str], dim: int) -> dict[str, str]:
    """Return the type of each column, or say what cannot be learned from."""
    if len(features) != dim:
        raise ValueError(f"There are {len(features)} features; the model has {dim}.")
    fields = {field.name: field.dataType for field in df.schema}
    taken: dict[str, str] = {"prediction": "answer"}
    named = [*roles.items(), *(("feature", name) for name in features)]
    for role, name in named:
        if name not in fields:
            raise ValueError(f"The DataFrame has no column {name!r}; it has {df.columns}.")
        allowed, remedy = _KINDS[role]
        if not isinstance(fields[name], allowed):
            raise TypeError(
                f"The {role} {name!r} is of type {fields[name].simpleString()}: {remedy}."
            )
        if role != "feature":
            if name in taken:
                raise ValueError(
                    f"The column {name!r} cannot be the {role}: it is the {taken[name]} already."
                )
            taken[name] = role
        elif name == roles.get("target"):
            raise ValueError(f"The column {name!r} is the target, no feature.")
    return {name: kind.simpleString() for name, kind in fields.items()}


def column(name: str) -> Any:
    """Return the column of this very name, whatever is in it."""
    return functions.col("`" + name.replace("`", "``") + "`")  # a dot would name a field of it


def there(name: str, kind: str) -> Any:
    """Return a column as it travels to Python."""
    return _TRAVELS[kind][0](column(name)) if kind in _TRAVELS else column(name)


def type_there(kind: str) -> str:
    """Return the type in which a column travels."""
    return _TRAVELS[kind][1] if kind in _TRAVELS else kind


def back(name: str, kind: str) -> Any:
    """Return a column that has come back as what it was."""
    return _TRAVELS[kind][2](column(name)) if kind in _TRAVELS else column(name)
