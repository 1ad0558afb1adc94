"""All models of a server, and the chores that nobody asks for."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import time
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from sqlalchemy import bindparam, delete, insert

from swordplay.service import store as db
from swordplay.service.errors import OUTAGES, Deposed, Refused
from swordplay.service.host import Host
from swordplay.service.models import Spec
from swordplay.service.settings import Settings
from swordplay.service.state import State
from swordplay.service.store import Store
from swordplay.service.writer import Op, Writer

SWEEP = 10.0  # seconds between two rounds of expiry
AGAIN = 0.5  # seconds until the database is asked again what it has
MOST_ROOM = 16 << 20  # bytes written to see whether the disk has room again
DAY = 86_400.0
Result = TypeVar("Result")
log = logging.getLogger("swordplay.service")

ADD_MODEL = insert(db.models)
_OLD_PREDICTIONS = delete(db.predictions).where(db.predictions.c.at < bindparam("before"))
_CROWDED = delete(db.predictions).where(
    db.predictions.c.model == bindparam("of_model"), db.predictions.c.at <= bindparam("upto")
)
_OLD_KEYS = delete(db.keys).where(db.keys.c.at < bindparam("before"))
_GONE = delete(db.models).where(db.models.c.id == bindparam("gone"))  # the rest goes along


class Catalog:
    """The models by name."""

    def __init__(
        self, settings: Settings, committed: Callable[[int, float], None] = lambda n, s: None
    ) -> None:
        self.settings = settings
        self.store = Store(settings.database)
        self.writer = Writer(self.store, committed)
        self.threads = ThreadPoolExecutor(4, thread_name_prefix="learn")
        self.hosts: dict[str, Host] = {}
        self.closing = False
        self._names: set[str] = set()  # being created or deleted
        self._begun: set[asyncio.Task[Any]] = set()  # what finishes whoever gives up
        self._trying = asyncio.Lock()  # whether the disk has room
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
        return await self._wholly(self._create(name, state))

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
            try:
                await self._write([(ADD_MODEL, row)])
            except Exception:
                if not await self._there(host.id):
                    raise
            host.adopt(state)
            self.hosts[name] = host
        finally:
            self._names.discard(name)
        return host

    async def delete(self, name: str) -> None:
        """Remove a model and all that belongs to it."""
        await self._wholly(self._delete(name))

    async def _delete(self, name: str) -> None:
        host = self[name]
        host.deleted = True
        del self.hosts[name]
        self._names.add(name)
        try:
            await host.idle()
            try:
                await self._write([(_GONE, {"gone": host.id})])
            except Exception:
                if await self._there(host.id):
                    raise
        except BaseException:
            host.deleted = False
            self.hosts[name] = host
            raise
        finally:
            self._names.discard(name)

    async def _there(self, ident: int) -> bool:
        """Ask the database, until it answers, whether a model is there: a failed write says not."""
        loop = asyncio.get_running_loop()
        while True:
            try:
                await self._write([])  # what failed is over then
                return await loop.run_in_executor(self.threads, self.store.exists, ident)
            except OUTAGES:
                if self.closing:
                    raise
                await asyncio.sleep(AGAIN)

    async def _wholly(self, work: Coroutine[Any, Any, Result]) -> Result:
        """Finish what was begun even if who asked for it gives up: memory and disk must agree."""
        if self.closing:
            work.close()
            raise Refused(503, "The server is stopping.", retry_after=5)
        task = asyncio.create_task(work)
        self._begun.add(task)
        task.add_done_callback(self._begun.discard)
        return await asyncio.shield(task)

    async def _write(self, ops: list[Op]) -> None:
        await asyncio.wrap_future(self.writer.submit(ops))

    async def check(self) -> None:
        """Raise unless the database answers, and takes what it last could not."""
        await asyncio.to_thread(self.store.ping)
        async with self._trying:
            if self.writer.owed:
                room = min(self.writer.owed, MOST_ROOM)
                await self._write([(db.FILL, {"noise": os.urandom(room)})])
                await self._write([(db.FILL, {"noise": None})])
                self.writer.owed = 0

    # ---- chores

    def start(self) -> None:
        """Begin the chores."""
        self._chores = asyncio.create_task(self._sweep_now_and_then())

    async def _sweep_now_and_then(self) -> None:
        while True:
            try:
                await asyncio.to_thread(self._keep_lock)
                await self.sweep()
            except Deposed:
                return
            except Exception as error:
                log.warning("expiry failed", extra={"error": str(error)[:300]})
            await asyncio.sleep(SWEEP)

    def _keep_lock(self) -> None:
        if not self.store.lock.keep():
            log.warning("another server holds the lock of the database")

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
        try:
            await asyncio.gather(*self._begun, return_exceptions=True)
            await asyncio.gather(*(host.idle() for host in self.hosts.values()))
            await asyncio.gather(*(self._last_snapshot(host) for host in self.hosts.values()))
        finally:
            self.writer.close()
            self.threads.shutdown()
            self.store.close()

    async def _last_snapshot(self, host: Host) -> None:
        """Write a snapshot: the next start has nothing to replay then, but it can do without."""
        try:
            ops = host.final_snapshot()
            if ops:
                await self._write(ops)
        except Exception as error:
            told = {"model": host.name, "error": str(error)[:300]}
            log.warning("no snapshot could be written", extra=told)
