"""All models of a server, and the chores that nobody asks for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import bindparam, delete, insert

from swordplay.service import store as db
from swordplay.service.errors import Refused
from swordplay.service.host import Host
from swordplay.service.models import Spec
from swordplay.service.settings import Settings
from swordplay.service.state import State
from swordplay.service.store import Store
from swordplay.service.writer import Op, Writer

SWEEP = 10.0  # seconds between two rounds of expiry
DAY = 86_400.0
Result = TypeVar("Result")
log = logging.getLogger("swordplay.service")

ADD_MODEL = insert(db.models)
_OLD_PREDICTIONS = delete(db.predictions).where(db.predictions.c.at < bindparam("before"))
_CROWDED = delete(db.predictions).where(
    db.predictions.c.model == bindparam("of_model"), db.predictions.c.at <= bindparam("upto")
)
_OLD_KEYS = delete(db.keys).where(db.keys.c.at < bindparam("before"))
_GONE = [
    delete(table).where(column == bindparam("gone"))
    for table, column in (
        (db.models, db.models.c.id),
        (db.log, db.log.c.model),
        (db.keys, db.keys.c.model),
        (db.predictions, db.predictions.c.model),
    )
]


async def _wholly(work: Coroutine[Any, Any, Result]) -> Result:
    """Finish what was begun even if who asked for it gives up: memory and disk must agree."""
    return await asyncio.shield(asyncio.create_task(work))


class Catalog:
    """The models by name."""

    def __init__(
        self, settings: Settings, committed: Callable[[int, float], None] = lambda n, s: None
    ) -> None:
        self.settings = settings
        self.store = Store(settings.database)
        self.writer = Writer(self.store.engine, committed)
        self.threads = ThreadPoolExecutor(4, thread_name_prefix="learn")
        self.hosts: dict[str, Host] = {}
        self.closing = False
        self._names: set[str] = set()  # being created or deleted
        self._last_id = 0
        self._chores: asyncio.Task[None] | None = None
        shared = (settings, self.store, self.writer, self.threads)
        for row in self.store.catalog():
            spec = Spec.from_json(json.loads(row.spec))
            counts = (int(row.seq), int(row.rows))
            self.hosts[row.name] = Host(row.id, row.name, spec, row.created, counts, shared)
            self._last_id = max(self._last_id, row.id)
        self._shared = shared

    def __getitem__(self, name: str) -> Host:
        try:
            return self.hosts[name]
        except KeyError:
            raise Refused(404, f"There is no model called {name!r}.") from None

    async def create(self, name: str, state: State) -> Host:
        """Add a model; on disk before it returns."""
        return await _wholly(self._create(name, state))

    async def _create(self, name: str, state: State) -> Host:
        if name in self.hosts or name in self._names:
            raise Refused(409, f"There is a model called {name!r} already.", "name")
        if len(self.hosts) + len(self._names) >= self.settings.max_models:
            raise Refused(409, f"The server may hold {self.settings.max_models} models.")
        self._names.add(name)
        try:
            # Never an id that was used: what is still being written for a deleted model must not
            # turn up under a new one.
            self._last_id = max(self._last_id + 1, time.time_ns() // 1_000_000)
            created, spec = time.time(), state.model.spec
            counts = (state.seq, state.monitor.rows)
            data, metrics = state.parts()
            row = {
                "id": self._last_id,
                "name": name,
                "spec": json.dumps(spec.as_json()),
                "created": created,
                "seq": state.seq,
                "rows": state.monitor.rows,
                "state": data,
                "metrics": metrics,
            }
            host = Host(self._last_id, name, spec, created, counts, self._shared)
            await self._write([(ADD_MODEL, row)])
            host.adopt(state)
            self.hosts[name] = host
        finally:
            self._names.discard(name)
        return host

    async def delete(self, name: str) -> None:
        """Remove a model and all that belongs to it."""
        await _wholly(self._delete(name))

    async def _delete(self, name: str) -> None:
        host = self[name]
        host.deleted = True
        del self.hosts[name]
        self._names.add(name)
        try:
            await host.idle()
            one = {"gone": host.id}
            await self._write([(statement, one) for statement in _GONE])
        except BaseException:
            host.deleted = False
            self.hosts[name] = host
            raise
        finally:
            self._names.discard(name)

    async def _write(self, ops: list[Op]) -> None:
        await asyncio.wrap_future(self.writer.submit(ops))

    # ---- chores

    def start(self) -> None:
        """Begin the chores."""
        self._chores = asyncio.create_task(self._sweep_now_and_then())

    async def _sweep_now_and_then(self) -> None:
        while True:
            try:
                await self.sweep()
            except Exception as error:
                log.warning("expiry failed", extra={"error": str(error)[:300]})
            await asyncio.sleep(SWEEP)

    async def sweep(self) -> None:
        """Let old predictions and keys expire."""
        settings, now = self.settings, time.time()
        ops: list[Op] = [
            (_OLD_PREDICTIONS, {"before": now - settings.pending_days * DAY}),
            (_OLD_KEYS, {"before": now - settings.key_days * DAY}),
        ]
        loop = asyncio.get_running_loop()
        crowded = await loop.run_in_executor(
            self.threads, self.store.crowded, settings.pending_rows
        )
        ops += [(_CROWDED, {"of_model": model, "upto": at}) for model, at in crowded]
        await self._write(ops)

    async def close(self) -> None:
        """Learn what waits, write a snapshot of every model, and close the database."""
        self.closing = True
        if self._chores is not None:
            self._chores.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._chores
        await asyncio.gather(*(host.idle() for host in self.hosts.values()))
        ops = [op for host in self.hosts.values() for op in host.final_snapshot()]
        if ops:
            await self._write(ops)
        self.writer.close()
        self.threads.shutdown()
        self.store.close()
