"""Which learner is where: keys, their rows in memory, and those that wait on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from swordplay._types import Array
from swordplay.fleet.blocks import Blocks
from swordplay.fleet.keys import Keys
from swordplay.fleet.shelf import Shelf
from swordplay.kernels.fleet import STATS

NEVER = np.iinfo(np.int64).min  # the time of a key that has seen none


class Store:
    """The state rows of all keys, by the number of the key.

    Args:
        fresh: the row of a learner that has seen nothing.
        memory_limit: bytes that rows in memory may take.
        folder: where the others wait.
    """

    def __init__(self, fresh: Array, memory_limit: int | None, folder: Path | None) -> None:
        self.blocks = Blocks(len(fresh), fresh.dtype)
        self.keys = Keys()
        self.folder = folder
        row_bytes = fresh.nbytes + 8 * STATS
        self.capacity = None if memory_limit is None else int(memory_limit // row_bytes)
        if self.capacity is not None and self.capacity < 1:
            raise ValueError(f"memory_limit={memory_limit} is less than one learner: {row_bytes}.")
        self._shelf: Shelf | None = None
        # By number of key: the slot, or ~record on the shelf; the last batch; the newest time; how
        # many rows came late.
        self.places = np.empty(0, dtype=np.int64)
        self.touched = np.empty(0, dtype=np.int64)
        self.newest = np.empty(0, dtype=np.int64)
        self.late = np.empty(0, dtype=np.int64)
        self._clock = 0

    def enrol(self, newcomer: Callable[[], Array]) -> None:
        """Give new keys a row each: in memory, as far as it reaches, else on the shelf."""
        old, count = len(self.places), len(self.keys)
        new = count - old
        if not new:
            return
        row = newcomer()
        for name, fill in (("touched", 0), ("newest", NEVER), ("late", 0), ("places", 0)):
            more = np.full(new, fill, dtype=np.int64)
            setattr(self, name, np.concatenate([getattr(self, name), more]))
        room = new
        if self.capacity is not None:
            room = min(new, max(0, self.capacity - self.blocks.in_use))
        slots = self.blocks.take(room)
        self.blocks.write(slots, row)
        self.places[old : old + room] = slots
        if room < new:
            rows = np.broadcast_to(row, (new - room, len(row)))
            self.places[old + room :] = ~self.shelf.put(rows, np.zeros((new - room, STATS)))

    def portions(self, numbers: Array) -> Iterator[slice]:
        """Cut a batch so that the keys of a part fit into memory, and bring them there."""
        begin, size = 0, len(numbers)
        while begin < len(numbers):
            if self.capacity is not None:
                while len(np.unique(numbers[begin : begin + size])) > self.capacity:
                    size = max(1, size // 2)
                self._gather(np.unique(numbers[begin : begin + size]))
            yield slice(begin, begin + size)
            begin += size

    def _gather(self, wanted: Array) -> None:
        """Bring rows back from the shelf; those idle longest make room."""
        self._clock += 1
        self.touched[wanted] = self._clock
        away = wanted[self.places[wanted] < 0]
        if not len(away) or self.capacity is None:
            return
        over = self.blocks.in_use + len(away) - self.capacity
        if over > 0:
            idle = np.flatnonzero((self.places >= 0) & (self.touched < self._clock))
            # A tenth more than needed, so that this does not happen in every batch.
            leave = min(len(idle), over + self.capacity // 10)
            idle = idle[np.argsort(self.touched[idle], kind="stable")[:leave]]
            slots = self.places[idle]
            self.places[idle] = ~self.shelf.put(*self.blocks.read(slots))
            self.blocks.release(slots)
        rows, stats = self.shelf.take(~self.places[away])
        slots = self.blocks.take(len(away))
        self.blocks.write(slots, rows, stats)
        self.places[away] = slots

    @property
    def shelf(self) -> Shelf:
        """Where idle rows wait; there is none until one has to."""
        if self._shelf is None:
            self._shelf = Shelf(self.blocks.width, self.blocks.dtype, self.folder)
        return self._shelf

    def read(self, numbers: Array) -> tuple[Array, Array]:
        """Return copies of rows and figures, wherever they are."""
        places = self.places[numbers]
        here = places >= 0
        if here.all():
            return self.blocks.read(places)
        rows = np.empty((len(numbers), self.blocks.width), dtype=self.blocks.dtype)
        stats = np.empty((len(numbers), STATS))
        rows[here], stats[here] = self.blocks.read(places[here])
        rows[~here], stats[~here] = self.shelf.look(~places[~here])
        return rows, stats

    def admit(self, keys: Any, rows: Array, stats: Array, newest: Array, late: Array) -> None:
        """Take over the rows of keys that are not here yet."""
        numbers = self.keys.number(keys)
        self.enrol(lambda: rows[0])
        places = self.places[numbers]
        here = places >= 0
        self.blocks.write(places[here], rows[here], stats[here])
        if not here.all():
            self.shelf.take(~places[~here])
            self.places[numbers[~here]] = ~self.shelf.put(rows[~here], stats[~here])
        self.newest[numbers], self.late[numbers] = newest, late

    def seasoned(self, column: int, least: float) -> Array:
        """Return copies of the rows in memory whose figure is at least so large."""
        found = [
            rows[stats[:, column] >= least]
            for rows, stats in zip(self.blocks.rows, self.blocks.stats, strict=True)
        ]
        return np.concatenate(found) if found else np.empty((0, self.blocks.width))
