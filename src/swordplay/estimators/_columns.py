"""Named columns: kept, reordered, new ones, missing ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from swordplay._types import Array


class Columns:
    """What is known of named columns.

    An absent value of a column that is usually there reads as missing (NaN: the column's mean); of
    a column that is usually absent (words, one-hot names) it reads as 0.
    """

    def __init__(self, names: Iterable[Any] = ()) -> None:
        self.names: list[Any] = list(names)
        self.place = {name: j for j, name in enumerate(self.names)}
        self.rows = 0
        self.absent: dict[Any, int] = {}  # rows without the column, where there are any

    def add(self, names: Iterable[Any]) -> int:
        """Take in names; return how many were new."""
        new = [name for name in names if name not in self.place]
        for name in new:
            self.place[name] = len(self.names)
            self.names.append(name)
            if self.rows:
                self.absent[name] = self.rows
        return len(new)

    def fill(self, name: Any) -> float:
        """Return what an absent value of a column reads as."""
        return 0.0 if 2 * self.absent.get(name, 0) > self.rows else np.nan

    def saw(self, present: Mapping[Any, Any], rows: int = 1) -> None:
        """Count rows, and who was absent in them."""
        self.rows += rows
        if len(present) < len(self.names):
            for name in self.names:
                if name not in present:
                    self.absent[name] = self.absent.get(name, 0) + rows

    def take(self, x: Mapping[Any, Any]) -> Array:
        """Return a row of known columns from a dict; names that are not known are left out."""
        row = np.empty((1, len(self.names)))
        for j, name in enumerate(self.names):
            value = x.get(name)
            row[0, j] = self.fill(name) if value is None else value
        return row

    def order(self, names: list[str], matrix: Array) -> Array:
        """Return a matrix whose columns have ``names`` in the known order; unknown ones go."""
        if names == self.names:
            return matrix
        place = {name: j for j, name in enumerate(names)}
        out = np.empty((len(matrix), len(self.names)))
        for j, name in enumerate(self.names):
            out[:, j] = matrix[:, place[name]] if name in place else self.fill(name)
        return out

    def header(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        absent = [self.absent.get(name, 0) for name in self.names]
        return {"names": self.names, "rows": self.rows, "absent": absent}

    @classmethod
    def from_header(cls, header: dict[str, Any]) -> Columns:
        """Return what ``header`` described."""
        columns = cls(header["names"])
        columns.rows = int(header["rows"])
        counts = zip(columns.names, header["absent"], strict=True)
        columns.absent = {name: int(count) for name, count in counts if count}
        return columns
