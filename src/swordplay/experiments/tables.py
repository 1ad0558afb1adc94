"""Tables of results: columns in memory, Parquet on disk, the same bytes for the same numbers."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from swordplay._types import Array

Columns = Mapping[str, Any]


class Table:
    """Named columns of equal length.

    >>> table = Table({"learner": ["OGD", "Sword++", "OGD"], "loss": [3.0, 1.0, 5.0]})
    >>> len(table), table.where(learner="OGD")["loss"].mean()
    (3, np.float64(4.0))
    >>> table.distinct("learner")
    ['OGD', 'Sword++']
    """

    def __init__(self, columns: Columns) -> None:
        self.columns: dict[str, Array] = {name: np.asarray(of) for name, of in columns.items()}
        lengths = {len(column) for column in self.columns.values()}
        if len(lengths) > 1:
            raise ValueError(f"Columns have different lengths: {sorted(lengths)}.")
        self._length = lengths.pop() if lengths else 0

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, name: str) -> Array:
        return self.columns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.columns

    def where(self, **equal: Any) -> Table:
        """Return the rows whose columns have these values."""
        keep = np.ones(len(self), dtype=bool)
        for name, value in equal.items():
            keep &= self.columns[name] == value
        return Table({name: column[keep] for name, column in self.columns.items()})

    def distinct(self, name: str) -> list[Any]:
        """Return the values of a column, each once, in order of appearance."""
        return list(dict.fromkeys(self.columns[name].tolist()))

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield each row as a dictionary of plain Python values."""
        lists = {name: column.tolist() for name, column in self.columns.items()}
        for i in range(len(self)):
            yield {name: values[i] for name, values in lists.items()}

    def csv(self) -> str:
        """Return the table as text, numbers in full precision."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*(column.tolist() for column in self.columns.values()), strict=True))
        return out.getvalue()


def stack(parts: Iterable[Columns | Table]) -> Table:
    """Return the rows of all parts, in order; every part must have the same columns."""
    dicts = [part.columns if isinstance(part, Table) else part for part in parts]
    if not dicts:
        return Table({})
    for part in dicts[1:]:
        if list(part) != list(dicts[0]):
            raise ValueError(f"Columns differ: {list(part)} and {list(dicts[0])}.")
    return Table({name: np.concatenate([np.asarray(p[name]) for p in dicts]) for name in dicts[0]})


def constant(length: int, labels: Mapping[str, Any]) -> dict[str, Sequence[Any]]:
    """Return columns that say the same in every row."""
    return {name: [value] * length for name, value in labels.items()}


def write(path: Path, table: Table | Columns) -> None:
    """Write a table to ``path``; whoever reads it sees the old file or the whole new one."""
    columns = table.columns if isinstance(table, Table) else Table(table).columns
    arrays = {
        name: pa.array(column.tolist(), type=pa.string())
        if column.dtype.kind in "UO"
        else pa.array(column)
        for name, column in columns.items()
    }
    beside = path.with_name(path.name + ".part")
    pq.write_table(pa.table(arrays), beside, compression="zstd")
    os.replace(beside, path)


def read(path: Path) -> Table:
    """Read what :func:`write` wrote."""
    table = pq.read_table(path)
    return Table({name: table[name].to_numpy(zero_copy_only=False) for name in table.column_names})
