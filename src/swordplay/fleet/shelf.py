"""Where the learners of idle keys wait: records of one size in a memory-mapped file."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import numpy as np

from swordplay._types import Array
from swordplay.kernels.fleet import STATS

_FIRST = 1024  # records
_ZEROS = 1 << 20  # bytes written at a time where space cannot be reserved


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
        self._owner = os.getpid()
        self._map = self._stretch(_FIRST)
        self._used = 0
        self._free: list[int] = []

    def __len__(self) -> int:
        return self._used - len(self._free)

    def put(self, rows: Array, stats: Array) -> Array:
        """Store rows; return the numbers of their records."""
        self._check_owner()
        count = len(rows)
        again = min(count, len(self._free))
        records = np.empty(count, dtype=np.int64)
        if self._used + count - again > len(self._map):
            self._map = self._stretch(max(self._used + count - again, 2 * len(self._map)))
        if again:
            records[:again] = self._free[-again:]
        records[again:] = np.arange(self._used, self._used + count - again)
        self.write(records, rows, stats)
        del self._free[len(self._free) - again :]
        self._used += count - again
        return records

    def write(self, records: Array, rows: Array, stats: Array) -> None:
        """Overwrite records."""
        self._map["row"][records], self._map["stats"][records] = rows, stats

    def look(self, records: Array) -> tuple[Array, Array]:
        """Return rows and figures; they stay."""
        self._check_owner()
        return np.array(self._map["row"][records]), np.array(self._map["stats"][records])

    def look_stats(self, records: Array) -> Array:
        """Return figures alone."""
        return np.array(self._map["stats"][records])

    def free(self, records: Array) -> None:
        """Give records back."""
        self._free.extend(records.tolist())

    def _check_owner(self) -> None:
        if os.getpid() != self._owner:
            raise RuntimeError(
                "This fleet's idle learners are in a file of the process that it was forked from. "
                "Send the fleet as bytes (to_bytes, or pickle) or through a file instead."
            )

    def _stretch(self, count: int) -> np.memmap[tuple[int], np.dtype[np.void]]:
        size = count * self._record.itemsize
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(self._file.fileno(), 0, size)
        else:  # A hole in the file would become a crash, not an error, once the disk is full.
            end = self._file.seek(0, os.SEEK_END)
            for start in range(end, size, _ZEROS):
                self._file.write(bytes(min(_ZEROS, size - start)))
            self._file.flush()
        return np.memmap(self._file, dtype=self._record, mode="r+", shape=(count,))
