"""Tables and columns of any library (pandas, polars, Arrow, masked arrays) as plain arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from swordplay._types import Array


def names_of(table: Any) -> list[str] | None:
    """Return the names of a table's columns (pandas, polars, Arrow); None where it has none."""
    names = getattr(table, "column_names", None)  # Arrow
    if names is None:
        names = getattr(table, "columns", None)
    if names is None:
        return None
    found = list(names)
    return found if found and all(isinstance(name, str) for name in found) else None


def arrow_matrix(table: Any) -> Any:
    """Return an Arrow table or batch as a matrix; anything else as it is."""
    if hasattr(table, "column_names") and hasattr(table, "to_pydict"):
        columns = [column.to_numpy(zero_copy_only=False) for column in table.columns]
        return np.column_stack(columns) if columns else np.empty((len(table), 0))
    return table


def plain(array: Any) -> Array:
    """Return float64 that the kernels were compiled for: C order, aligned, writeable."""
    return np.require(array, np.float64, ["C", "W", "A", "E"])


def numbers(values: Any, what: str) -> Array:
    """Return a table or a column as float64, NaN where a value is missing."""
    pandas = hasattr(values, "iloc")
    if isinstance(values, np.ma.MaskedArray):
        values = np.where(np.ma.getmaskarray(values), np.nan, values.data)
    elif not pandas:
        values = np.asarray(arrow_matrix(values))
    for kind in np.ravel(values.dtypes) if pandas else (values.dtype,):
        if kind.kind in "cmM":  # NumPy would make numbers of them
            raise TypeError(f"{what} must be real numbers, not {kind}.")
    # pandas has a null of its own, which NumPy does not know.
    return plain(values.to_numpy(dtype=np.float64, na_value=np.nan) if pandas else values)
