"""Where the learners of idle keys wait: records of one size in a memory-mapped file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

from swordplay._types import Array
from swordplay.kernels.fleet import STATS

_FIRST = 1024  # records


class Shelf:
    """State rows and their figures on disk, in a file without a name: nothing of it can stay.

    Args:
        width: floats in a row.
        dtype: of the rows.
        folder: where the file lives; default the system's folder for temporary files.
    """

    def __init__(
        self, width: int, dtype: np.dtype[np.generic], folder: str | Path | None = None
    ) -> None:
        self._record = np.dtype([("stats", "f8", (STATS,)), ("row", dtype, (width,))])
        if folder is not None:
            Path(folder).mkdir(parents=True, exist_ok=True)
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - lives as the shelf does
        self._map = self._stretch(_FIRST)
        self._used = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        return self._used - len(self._free)

    def put(self, rows: Array, stats: Array) -> Array:
        """Store rows; return the numbers of their records."""
        count = len(rows)
        again = min(count, len(self._free))
        records = np.empty(count, dtype=np.int64)
        if again:
            records[:again] = self._free[-again:]
            del self._free[-again:]
        records[again:] = np.arange(self._used, self._used + count - again)
        self._used += count - again
        if self._used > len(self._map):
            self._map = self._stretch(max(self._used, 2 * len(self._map)))
        self._map["row"][records], self._map["stats"][records] = rows, stats
        return records

    def look(self, records: Array) -> tuple[Array, Array]:
        """Return rows and figures; they stay."""
        return np.array(self._map["row"][records]), np.array(self._map["stats"][records])

    def take(self, records: Array) -> tuple[Array, Array]:
        """Return rows and figures, and free their records."""
        found = self.look(records)
        self._free.extend(records.tolist())
        return found

    def _stretch(self, count: int) -> np.memmap[tuple[int], np.dtype[np.void]]:
        self._file.truncate(count * self._record.itemsize)
        return np.memmap(self._file, dtype=self._record, mode="r+", shape=(count,))
