"""A batch of rows: read, checked, and cut into pieces that threads can take."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from swordplay._types import Array, ArrayLike
from swordplay.fleet.models import Model
from swordplay.kernels import fleet as kernels


def read_batch(
    model: Model, keys: Any, X: ArrayLike, y: ArrayLike | None
) -> tuple[Any, Array, Array]:
    """Return keys, an (n, d) float64 matrix and (n,) targets, or say what does not fit."""
    matrix = np.ascontiguousarray(X, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[1] != model.dim:
        raise ValueError(
            f"X must have shape (n, {model.dim}), the columns this fleet was made for; got "
            f"{matrix.shape}."
        )
    n = len(keys) if hasattr(keys, "__len__") else -1
    if n != len(matrix):
        raise ValueError(f"There are {len(matrix)} rows in X, but {n} keys.")
    if y is None:
        return keys, matrix, np.empty(0)
    targets = np.ascontiguousarray(y, dtype=np.float64)
    if targets.shape != (n,):
        raise ValueError(f"y must have shape ({n},), not {targets.shape}.")
    known = targets if np.isfinite(targets.sum()) else targets[np.isfinite(targets)]
    model.check_targets(known)
    return keys, matrix, targets


def read_times(
    times: ArrayLike | None, n: int, kind: str | None
) -> tuple[Array | None, str | None]:
    """Return times as int64 in their order, and their kind; it must stay what it was."""
    if times is None:
        return None, kind
    given = np.asarray(times)
    if given.shape != (n,):
        raise ValueError(f"times must have shape ({n},), not {given.shape}.")
    if not n:  # of no kind
        return np.empty(0, dtype=np.int64), kind
    if given.dtype.kind == "M":
        null, found = np.isnat(given), "datetimes"
        fine = given.astype("datetime64[ns]")
        wrapped = (fine.astype(given.dtype) != given) & ~null
        if wrapped.any():
            raise ValueError(
                f"The time of row {int(np.flatnonzero(wrapped)[0])} is beyond what 64 bits of "
                "nanoseconds can tell (the years 1678 to 2261)."
            )
        given = fine.view(np.int64)
    elif given.dtype.kind in "iu":
        null, found = np.zeros(n, dtype=bool), "whole numbers"
        if given.max() > np.iinfo(np.int64).max:
            raise ValueError("times must fit into 64 signed bits.")
        given = given.astype(np.int64)
    elif given.dtype.kind == "f":
        null, found = np.isnan(given), "floats"
        # The bits of a float, as an integer, are in the order of the floats; those of negative
        # ones once the size is turned round.
        bits = (given.astype(np.float64) + 0.0).view(np.int64)
        given = np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)
    else:
        raise TypeError(f"times must be numbers or datetime64, not {given.dtype}.")
    if null.any():
        raise ValueError(f"The time of row {int(np.flatnonzero(null)[0])} is null.")
    if kind is not None and kind != found:
        raise TypeError(f"times were {kind} so far and are {found} now: they cannot be compared.")
    return given, found


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
