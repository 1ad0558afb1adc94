"""Which learner is where: keys, their rows in memory, and those that wait on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from swordplay._types import Array
from swordplay.fleet.blocks import Blocks, bytes_of
from swordplay.fleet.keys import Keys
from swordplay.fleet.shelf import Shelf
from swordplay.kernels.fleet import STATS

_FIRST = 1024  # keys that there is room for in the beginning
NEVER = np.iinfo(np.int64).min  # the time of a key that has seen none

Learners: TypeAlias = tuple[Any, Array, Array, Array, Array]
"""Keys, their rows and figures, their newest times, and how many rows of each came late."""


class Store:
    """The state rows of all keys, by the number of the key.

    Args:
        fresh: the row of a learner that has seen nothing.
        memory_limit: bytes that rows in memory may take.
        folder: where the others wait.
    """

    def __init__(self, fresh: Array, memory_limit: int | None, folder: Path | None) -> None:
        size = bytes_of(len(fresh), fresh.dtype)
        self.capacity = None if memory_limit is None else int(memory_limit // size)
        if self.capacity is not None and self.capacity < 1:
            raise ValueError(f"memory_limit={memory_limit} is less than one learner: {size} bytes.")
        self.blocks = Blocks(len(fresh), fresh.dtype, self.capacity)
        self.keys = Keys()
        self.folder = folder
        self._shelf: Shelf | None = None
        self._tables = np.empty((4, _FIRST), dtype=np.int64)  # rows: the four properties below
        self._count = 0
        self._clock = 0

    @property
    def places(self) -> Array:
        """Where each key's learner is: the slot, or ~record on the shelf."""
        return self._tables[0, : self._count]

    @property
    def touched(self) -> Array:
        """The last batch of each key."""
        return self._tables[1, : self._count]

    @property
    def newest(self) -> Array:
        """The newest time of each key."""
        return self._tables[2, : self._count]

    @property
    def late(self) -> Array:
        """How many rows of each key came late."""
        return self._tables[3, : self._count]

    def enrol(self, keys: Any, newcomer: Callable[[], Array]) -> Array:
        """Return the numbers of ``keys``; new ones get a learner, or nothing changes at all."""
        try:
            numbers = self.keys.number(keys)
            self._settle(newcomer)
        except BaseException:
            self.keys.forget(self._count)
            raise
        return numbers

    def _settle(self, newcomer: Callable[[], Array]) -> None:
        """Give new keys a row each: in memory, as far as it reaches, else on the shelf."""
        old, count = self._count, len(self.keys)
        new = count - old
        if not new:
            return
        row = newcomer()
        if count > self._tables.shape[1]:
            tables = np.empty((4, max(count, 2 * self._tables.shape[1])), dtype=np.int64)
            tables[:, :old] = self._tables[:, :old]
            self._tables = tables
        self._tables[:, old:count] = [[0], [0], [NEVER], [0]]
        room = new
        if self.capacity is not None:
            room = min(new, max(0, self.capacity - self.blocks.in_use))
        slots = self.blocks.take(room)
        try:
            self.blocks.write(slots, row)
            self._tables[0, old : old + room] = slots
            if room < new:
                rows = np.broadcast_to(row, (new - room, len(row)))
                records = self.shelf.put(rows, np.zeros((new - room, STATS)))
                self._tables[0, old + room : count] = ~records
        except BaseException:
            self.blocks.release(slots)
            raise
        self._count = count  # from now on they are there

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
        records = ~self.places[away]
        rows, stats = self.shelf.look(records)
        slots = self.blocks.take(len(away))
        self.blocks.write(slots, rows, stats)
        self.places[away] = slots
        self.shelf.free(records)

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
        """Take over the rows of keys that are not here yet, all of them or none."""
        before = self._count
        numbers = self.enrol(keys, lambda: rows[0])
        try:
            places = self.places[numbers]
            here = places >= 0
            self.blocks.write(places[here], rows[here], stats[here])
            if not here.all():
                self.shelf.write(~places[~here], rows[~here], stats[~here])
            self.newest[numbers], self.late[numbers] = newest, late
        except BaseException:
            places, self._count = self.places[before:].copy(), before
            self.keys.forget(before)
            self._leave(places)
            raise

    def remove(self, numbers: Array) -> None:
        """Forget keys; the others close up, in their order."""
        stay = np.ones(self._count, dtype=bool)
        stay[numbers] = False
        kept, gone = np.flatnonzero(stay), self.places[~stay]
        every = self.keys.all()
        keys = Keys()
        keys.number(every[kept] if isinstance(every, np.ndarray) else [every[k] for k in kept])
        tables = self._tables.copy()
        tables[:, : len(kept)] = tables[:, kept]
        self.keys, self._tables, self._count = keys, tables, len(kept)  # from now on they are gone
        self._leave(gone)

    def _leave(self, places: Array) -> None:
        """Make places free for others."""
        self.blocks.release(places[places >= 0])
        if (places < 0).any():
            self.shelf.free(~places[places < 0])

    def seasoned(self, column: int, least: float, most: int) -> Array:
        """Return copies of the rows of the first keys whose figure is at least so large."""
        places = self.places
        here = places >= 0
        stats = np.empty((len(places), STATS))
        stats[here] = self.blocks.read_stats(places[here])
        if not here.all():
            stats[~here] = self.shelf.look_stats(~places[~here])
        return self.read(np.flatnonzero(stats[:, column] >= least)[:most])[0]
