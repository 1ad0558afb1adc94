"""Group commit: one thread writes everything, and all that waits shares one disk flush."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, Executable

Op = tuple[Executable, Mapping[str, Any]]
"""A statement and its parameters; runs of the same statement object go in one call."""

MOST = 512  # writes in a group
log = logging.getLogger("swordplay.service")


class _Write(NamedTuple):
    ops: Sequence[Op]
    done: Future[None]


class Writer:
    """The thread. ``submit`` returns a future that is done once the write is on disk."""

    def __init__(
        self, engine: Engine, committed: Callable[[int, float], None] = lambda n, s: None
    ) -> None:
        self._engine = engine
        self._committed = committed
        self._queue: queue.SimpleQueue[_Write | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """How many writes have not begun."""
        return self._queue.qsize()

    def submit(self, ops: Sequence[Op]) -> Future[None]:
        """Write all of ``ops`` or none of them."""
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
        begun = time.perf_counter()
        try:
            with self._engine.begin() as connection:
                _execute(connection, [op for write in group for op in write.ops])
        except Exception as error:
            if len(group) > 1:  # find out whose fault it is
                for write in group:
                    self._write([write])
                return
            log.warning("commit failed", extra={"error": str(error)[:300]})
            group[0].done.set_exception(error)
            return
        self._committed(len(group), time.perf_counter() - begun)
        for write in group:
            write.done.set_result(None)


def _execute(connection: Connection, ops: Sequence[Op]) -> None:
    start = 0
    for end in range(1, len(ops) + 1):
        if end == len(ops) or ops[end][0] is not ops[start][0]:
            connection.execute(ops[start][0], [dict(op[1]) for op in ops[start:end]])
            start = end
