"""State rows in blocks: a fleet grows by a block, and no row ever moves."""

from __future__ import annotations

import numpy as np

from swordplay._types import Array
from swordplay.kernels.fleet import STATS

BLOCK_BYTES = 1 << 22


def bytes_of(width: int, dtype: np.dtype[np.generic]) -> int:
    """Return what a learner takes: its row and its figures."""
    return width * dtype.itemsize + 8 * STATS


class Blocks:
    """Slots 0, 1, 2, ... for state rows and their figures, ``per_block`` of them in an array.

    Args:
        width: floats in a row.
        dtype: of the rows.
        most: slots that will ever be asked for, if that is known.
    """

    def __init__(self, width: int, dtype: np.dtype[np.generic], most: int | None = None) -> None:
        self.width, self.dtype = width, dtype
        self.per_block = max(1, BLOCK_BYTES // (width * dtype.itemsize))
        if most is not None:
            self.per_block = min(self.per_block, most)
        self.rows: list[Array] = []
        self.stats: list[Array] = []
        self._used = 0
        self._free: list[int] = []

    @property
    def in_use(self) -> int:
        """How many slots hold a learner."""
        return self._used - len(self._free)

    @property
    def nbytes(self) -> int:
        """Bytes of all learners; blocks may have room for more."""
        return self.in_use * bytes_of(self.width, self.dtype)

    def take(self, count: int) -> Array:
        """Return ``count`` slots to write to: freed ones first, then new ones."""
        again = min(count, len(self._free))
        slots = np.empty(count, dtype=np.int64)
        while len(self.rows) * self.per_block < self._used + count - again:
            # Zeros that nobody has touched take no memory yet.
            rows = np.zeros((self.per_block, self.width), dtype=self.dtype)
            stats = np.zeros((self.per_block, STATS))
            self.rows.append(rows)
            self.stats.append(stats)
        if again:
            slots[:again] = self._free[-again:]
            del self._free[-again:]
        slots[again:] = np.arange(self._used, self._used + count - again)
        self._used += count - again
        return slots

    def release(self, slots: Array) -> None:
        """Give slots back."""
        self._free.extend(slots.tolist())

    def read(self, slots: Array) -> tuple[Array, Array]:
        """Return copies of rows and figures."""
        rows = np.empty((len(slots), self.width), dtype=self.dtype)
        stats = np.empty((len(slots), STATS))
        for b, mine in self._by_block(slots):
            inside = slots[mine] - b * self.per_block
            rows[mine], stats[mine] = self.rows[b][inside], self.stats[b][inside]
        return rows, stats

    def read_stats(self, slots: Array) -> Array:
        """Return copies of the figures alone."""
        stats = np.empty((len(slots), STATS))
        for b, mine in self._by_block(slots):
            stats[mine] = self.stats[b][slots[mine] - b * self.per_block]
        return stats

    def write(self, slots: Array, rows: Array, stats: Array | float = 0.0) -> None:
        """Fill slots: with a row each, or all with one row."""
        for b, mine in self._by_block(slots):
            inside = slots[mine] - b * self.per_block
            self.rows[b][inside] = rows if rows.ndim == 1 else rows[mine]
            self.stats[b][inside] = stats[mine] if isinstance(stats, np.ndarray) else stats

    def _by_block(self, slots: Array) -> list[tuple[int, Array]]:
        if not len(slots):
            return []
        blocks = slots // self.per_block
        if (blocks == blocks[0]).all():
            return [(int(blocks[0]), np.arange(len(slots)))]
        order = np.argsort(blocks, kind="stable")
        numbers, starts = np.unique(blocks[order], return_index=True)
        return list(zip(numbers.tolist(), np.split(order, starts[1:]), strict=True))
