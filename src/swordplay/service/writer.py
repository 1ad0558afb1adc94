"""Group commit: one thread writes everything, and all that waits shares one disk flush.

Every transaction begins with the fence: a server that another one replaced writes nothing.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from sqlalchemy import Connection, Executable

from swordplay.service import store as db
from swordplay.service.errors import OUTAGES, Deposed
from swordplay.service.store import Store

Op = tuple[Executable, Mapping[str, Any]]
"""A statement and its parameters; runs of the same statement object go in one call."""

MOST = 512  # writes in a group
_EVERYBODYS = (Deposed, *OUTAGES)  # failures that the next write would meet, too
log = logging.getLogger("swordplay.service")


class _Write(NamedTuple):
    ops: Sequence[Op]
    done: Future[None]


class Writer:
    """The thread. ``submit`` returns a future that is done once the write is on disk.

    Attributes:
        owed: bytes that could not be written; 0 once as many were written since.
        deposed: whether another server owns the database now.
        when_deposed: called once, from the thread.
    """

    def __init__(
        self, store: Store, committed: Callable[[int, float], None] = lambda n, s: None
    ) -> None:
        self._engine, self._epoch = store.engine, store.epoch
        self._committed = committed
        self.owed, self.deposed = 0, False
        self.when_deposed: Callable[[], None] = lambda: None
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many writes have not begun."""
        return self._queue.qsize()

    def submit(self, ops: Sequence[Op]) -> Future[None]:
        """Write all of ``ops`` or none of them.

        A future that fails does not say which. No operations at all are a write, too: once it
        is done, whatever failed before is either on disk or never will be.
        """
        done: Future[None] = Future()
        self._queue.put(_Write(ops, done))
        return done

    def close(self) -> None:
        """Write what waits, and stop."""
        self._queue.put(None)
        self._thread.join()

    def _work(self) -> None:
        going = True
        while going:
            first = self._queue.get()
            if first is None:
                return
            group = [first]
            while len(group) < MOST:
                try:
                    more = self._queue.get_nowait()
                except queue.Empty:
                    break
                if more is None:
                    going = False
                    break
                group.append(more)
            # From here on nobody can take a write back; one that was given up before is not begun.
            group = [write for write in group if write.done.set_running_or_notify_cancel()]
            if group:
                self._write(group)

    def _write(self, group: list[_Write]) -> None:
        error = self._commit(group)
        if error is None or len(group) == 1 or isinstance(error, _EVERYBODYS):
            _answer(group, error)
            return
        for k, write in enumerate(group):  # find out whose fault it is
            error = self._commit([write])
            if isinstance(error, _EVERYBODYS):  # or each would wait for the outage on its own
                _answer(group[k:], error)
                return
            _answer([write], error)

    def _commit(self, group: list[_Write]) -> Exception | None:
        begun = time.perf_counter()
        ops = [op for write in group for op in write.ops]
        try:
            if self.deposed:
                raise Deposed
            with self._engine.begin() as connection:
                if connection.execute(db.FENCE, {"mine": self._epoch}).rowcount != 1:
                    raise Deposed
                _execute(connection, ops)
        except Deposed as error:
            if not self.deposed:
                self.deposed = True
                log.error("another server has taken the database over: this one stops")
                self.when_deposed()
            return error
        except Exception as error:
            if isinstance(error, OUTAGES):
                self.owed = max(self.owed, _size(ops), 1)
            log.warning("commit failed", extra={"writes": len(group), "error": str(error)[:300]})
            return error
        if self.owed and _size(ops) >= self.owed:
            self.owed = 0
        self._committed(len(group), time.perf_counter() - begun)
        return None


def _answer(group: Sequence[_Write], error: Exception | None) -> None:
    for write in group:
        if error is None:
            write.done.set_result(None)
        else:
            write.done.set_exception(error)


def _size(ops: Sequence[Op]) -> int:
    values = (value for _, row in ops for value in row.values())
    return sum(len(value) for value in values if isinstance(value, bytes | str))


def _execute(connection: Connection, ops: Sequence[Op]) -> None:
    start = 0
    for end in range(1, len(ops) + 1):
        if end == len(ops) or ops[end][0] is not ops[start][0]:
            connection.execute(ops[start][0], [dict(op[1]) for op in ops[start:end]])
            start = end
