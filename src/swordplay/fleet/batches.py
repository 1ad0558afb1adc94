"""A batch of rows: read, checked, and cut into pieces that threads can take."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime, timedelta
from itertools import pairwise
from typing import Any

import numpy as np

from swordplay._tables import names_of, numbers
from swordplay._types import Array, ArrayLike
from swordplay.fleet.keys import is_null
from swordplay.fleet.models import Model
from swordplay.kernels import fleet as kernels

TIMES = ("datetimes", "whole numbers", "floats")
_EPOCH = date(1970, 1, 1).toordinal()


def read_batch(
    model: Model, columns: list[str] | None, keys: Any, X: ArrayLike, y: ArrayLike | None
) -> tuple[Any, Array, Array, list[str] | None]:
    """Return keys, an (n, d) float64 matrix, (n,) targets and its columns' names, or refuse.

    Columns of a table are taken by their names once these are known, those of an array by place.
    """
    names = names_of(X)
    order = None if names is None else _places(columns, names)
    matrix = numbers(X, "X")
    if matrix.ndim != 2 or matrix.shape[1] != model.dim:
        raise ValueError(
            f"X must have shape (n, {model.dim}), the columns this fleet was made for; got "
            f"{matrix.shape}."
        )
    if order is not None:
        matrix = np.ascontiguousarray(matrix[:, order])
    columns = names if columns is None else columns
    n = len(keys) if hasattr(keys, "__len__") else -1
    if n != len(matrix):
        raise ValueError(f"There are {len(matrix)} rows in X, but {n} keys.")
    if y is None:
        return keys, matrix, np.empty(0), columns
    targets = numbers(y, "y")
    if targets.shape != (n,):
        raise ValueError(f"y must have shape ({n},), not {targets.shape}.")
    known = targets if np.isfinite(targets.sum()) else targets[np.isfinite(targets)]
    model.check_targets(known)
    return keys, matrix, targets, columns


def _places(known: list[str] | None, names: list[str]) -> list[int] | None:
    """Return where the known columns are among ``names``; None where each is in its place."""
    if len(set(names)) < len(names):
        raise ValueError(f"X has two columns of one name: {names}.")
    if known is None or names == known:
        return None
    if set(names) != set(known):
        raise ValueError(f"X has the columns {names}; this fleet learned from {known}.")
    return [names.index(name) for name in known]


def read_times(times: Any, n: int, kind: str | None) -> tuple[Array | None, str | None]:
    """Return times as int64 in their order, and their kind; it must stay what it was.

    Times with a time zone are turned to UTC; those without are taken as they are.
    """
    if times is None:
        return None, kind
    if getattr(getattr(times, "dtype", None), "tz", None) is not None and len(times):  # pandas
        times = times.to_numpy(dtype="datetime64[ns]")  # in UTC
    masked = np.ma.getmaskarray(times) if isinstance(times, np.ma.MaskedArray) else None
    given = np.asarray(times)
    if given.shape != (n,):
        raise ValueError(f"times must have shape ({n},), not {given.shape}.")
    if not n:  # of no kind
        return np.empty(0, dtype=np.int64), kind
    if masked is not None:
        _refuse_null(masked)
    if given.dtype.kind == "O":
        given = _moments(given)
    if given.dtype.kind == "M":
        _refuse_null(np.isnat(given))
        fine, found = given.astype("datetime64[ns]"), TIMES[0]
        _refuse_far(fine.astype(given.dtype) != given)
        given = fine.view(np.int64)
    elif given.dtype.kind in "iu":
        found = TIMES[1]
        if given.max() > np.iinfo(np.int64).max:
            raise ValueError("times must fit into 64 signed bits.")
        given = given.astype(np.int64)
    elif given.dtype.kind == "f":
        _refuse_null(np.isnan(given))
        found = TIMES[2]
        # The bits of a float, as an integer, are in the order of the floats; those of negative
        # ones once the size is turned round.
        bits = (given.astype(np.float64) + 0.0).view(np.int64)
        given = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    else:
        raise TypeError(
            f"times must be numbers or datetimes, not {given.dtype}; make datetimes of text, with "
            'np.asarray(times, dtype="datetime64[ns]") or pandas.to_datetime(times).'
        )
    if kind is not None and kind != found:
        raise TypeError(f"times were {kind} so far and are {found} now: they cannot be compared.")
    return given, found


def _refuse_null(null: Array) -> None:
    if null.any():
        raise ValueError(f"The time of row {int(np.flatnonzero(null)[0])} is null.")


def _refuse_far(far: Array) -> None:
    if far.any():
        raise ValueError(
            f"The time of row {int(np.flatnonzero(far)[0])} is beyond what 64 bits of nanoseconds "
            "can tell (the years 1678 to 2261)."
        )


def _moments(given: Array) -> Array:
    """Return an array of Python's dates and datetimes, or of pandas' Timestamps, as datetime64."""
    _refuse_null(np.array([is_null(value) for value in given]))
    if not all(isinstance(value, date) for value in given):
        return given
    zoned = {isinstance(value, datetime) and value.utcoffset() is not None for value in given}
    if len(zoned) > 1:
        raise TypeError("Some times have a time zone and some have none: they have no one order.")
    exact = [_nanoseconds(value) for value in given]
    _refuse_far(np.array([not -(2**63) < value < 2**63 for value in exact]))
    return np.array(exact, dtype=np.int64).view("datetime64[ns]")


def _nanoseconds(value: Any) -> int:
    """Return how long after 1970 a date or datetime is, in UTC if it has a zone."""
    days = value.toordinal() - _EPOCH
    if not isinstance(value, datetime):
        return int(days * 86_400 * 10**9)
    seconds = ((days * 24 + value.hour) * 60 + value.minute) * 60 + value.second
    away = value.utcoffset()
    micros = seconds * 10**6 + value.microsecond
    micros -= 0 if away is None else away // timedelta(microseconds=1)
    return int(micros * 1000 + getattr(value, "nanosecond", 0))  # pandas knows nanoseconds


def pieces(slots: Array, per_block: int, share: int) -> Iterator[tuple[int, int, Array]]:
    """Yield (block, its first slot, rows): a key's rows in one piece, in their order.

    Args:
        slots: where the learner of every row is.
        per_block: slots of a block.
        share: rows of a piece, about.
    """
    n = len(slots)
    if not n:
        return
    low, high = int(slots.min()), int(slots.max())
    size = high - low + 1
    if size > 4 * n + 1024:  # few rows of a large fleet: counting every slot would take longer
        order = np.argsort(slots, kind="stable")
    else:
        order = np.empty(n, dtype=np.int64)
        kernels.group(slots, low, size, order)
    ordered = slots[order]
    edges = (np.arange(low // per_block, high // per_block) + 1) * per_block
    cuts = {0, n, *np.searchsorted(ordered, edges).tolist()}
    for t in range(share, n, share):
        cuts.add(int(np.searchsorted(ordered, ordered[t])))  # not inside a key
    ends = sorted(cuts)
    for begin, end in pairwise(ends):
        block = int(ordered[begin]) // per_block
        yield block, block * per_block, order[begin:end]
