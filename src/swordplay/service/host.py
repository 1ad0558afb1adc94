"""One model in memory.

Learning is copy, learn, commit, publish. What is published is never changed, so predicting needs no
lock and never waits for learning; and whatever fails, the state is as it was. Where a commit fails,
only the database knows whether it happened: it is asked before more is learned. Requests that
arrive while a commit is under way form the next group: one copy and one disk flush serve them all.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections import deque
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, NamedTuple

from sqlalchemy.exc import IntegrityError

from swordplay._types import Array
from swordplay.service.errors import OUTAGES, Refused
from swordplay.service.ledger import ADD_KEY, ADD_RECORD, PRUNE, SNAPSHOT, Stand, snapshot_of
from swordplay.service.models import Answer, Spec
from swordplay.service.pending import ADD_PREDICTIONS, Batches
from swordplay.service.settings import Settings
from swordplay.service.state import Record, State
from swordplay.service.store import Store
from swordplay.service.writer import Op, Writer
from swordplay.state import StateError

GROUP = 64  # requests learned between two copies
PRUNING = 4  # old records that go with each new one: all at once would hold up every other write
INLINE = 20_000  # numbers that are predicted at once, without asking a thread
log = logging.getLogger("swordplay.service")


class Lesson(NamedTuple):
    """What a request to learn asks for: rows or ids, and their labels."""

    y: Any  # float array, or list of labels
    X: Array | None = None
    ids: list[str] | None = None
    key: str | None = None
    digest: str = ""


@dataclass
class _Job:
    lesson: Lesson
    done: asyncio.Future[dict[str, Any]]
    result: dict[str, Any] | Exception | None = None


class _Group(NamedTuple):
    state: State
    ops: list[Op]
    stand: Stand


class Host:
    """A model, its queue and its place in the database."""

    def __init__(
        self,
        ident: int,
        name: str,
        spec: Spec,
        created: float,
        counts: tuple[int, int],
        shared: tuple[Settings, Store, Writer, Executor],
    ) -> None:
        self.id, self.name, self.spec, self.created = ident, name, spec, created
        self.settings, self.store, self.writer, self.threads = shared
        self.deleted = False
        self._counts = counts  # seq and rows, as long as the state is not loaded
        self._state: State | None = None  # on disk for sure
        self._doubt = False  # whether the disk may have more than that
        self._glance: tuple[State, dict[str, float | None]] | None = None
        self._loading: asyncio.Task[State] | None = None
        self._queue: deque[_Job] = deque()
        self._worker: asyncio.Task[None] | None = None
        self._stand = Stand()

    # ---- the state

    @property
    def waiting(self) -> int:
        """How many requests to learn have not begun."""
        return len(self._queue)

    @property
    def rows(self) -> int:
        """Rows learned."""
        return self._counts[1] if self._state is None else self._state.monitor.rows

    @property
    def seq(self) -> int:
        """Records in the log, ever."""
        return self._counts[0] if self._state is None else self._state.seq

    def glance(self) -> dict[str, float | None]:
        """Return what the list tells of how it does: null as long as the state is not loaded."""
        state = self._state
        if state is None or not state.monitor.rows:
            return {"ratio": None, "drift": None}
        if self._glance is None or self._glance[0] is not state:
            told = {"ratio": state.monitor.ratio(), "drift": state.model.drift}
            self._glance = (state, told)
        return self._glance[1]

    def adopt(self, state: State) -> None:
        """Begin with a state that the database has as the snapshot."""
        self._state, self._stand = state, Stand(state.seq, gone=state.seq, going=state.seq)

    async def state(self) -> State:
        """Return the published state, loaded at the first call."""
        if self._state is not None:
            return self._state
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
        return await asyncio.shield(self._loading)

    async def _load(self) -> State:
        loop = asyncio.get_running_loop()
        try:
            state, self._stand = await loop.run_in_executor(self.threads, self._replay)
        finally:
            self._loading = None
        self._state = state
        return state

    def _replay(self) -> tuple[State, Stand]:
        found = self.store.snapshot(self.id)
        if found is None:
            raise self._gone()
        try:
            state = State.from_parts(self.spec, bytes(found.state), found.metrics, found.seq)
        except StateError as error:
            log.error("a snapshot cannot be read", extra=self._told(error))
            raise Refused(  # not 503: clients would try again and again
                409,
                f"The model {self.name!r} cannot be loaded. {error} Go on with the version "
                "that wrote the database, or delete the model.",
            ) from None
        records = rows = 0
        for seq, data in self.store.records_after(self.id, state.seq):
            record = Record.from_bytes(data)
            state.learn(record.X, record.y)
            if state.seq != seq:
                raise RuntimeError(f"record {state.seq} of {self.name!r} is missing")
            records, rows = records + 1, rows + len(record.X)
        gone = self.store.first_record(self.id, state.seq + 1) - 1
        return state, Stand(int(found.seq), records, rows, gone, gone)

    async def _latest(self) -> State:
        """Return the state to learn on: where there is doubt, what the database has."""
        if self._doubt and self._state is not None:  # else nothing of ours can be on its way
            await asyncio.wrap_future(self.writer.submit([]))  # what failed is over then
            await self._load()
        state = await self.state()
        self._doubt = False
        return state

    def _told(self, error: Exception) -> dict[str, str]:
        return {"model": self.name, "error": str(error)[:300]}

    def _gone(self) -> Refused:
        return Refused(404, f"There is no model called {self.name!r}.")

    # ---- predict

    async def predict(self, X: Array, remember: bool) -> tuple[Answer, list[str] | None]:
        """Predict rows; where they are to be remembered, they are on disk before the answer."""
        state = await self.state()
        self.check_width(state, X)
        self.check_work(X, len(state.model.classes))
        if X.size <= INLINE:
            answer = state.model.predict(X)
        else:
            loop = asyncio.get_running_loop()
            answer = await loop.run_in_executor(self.threads, state.model.predict, X)
        if not remember:
            return answer, None
        if self.writer.waiting >= 16 * self.settings.queue:
            raise Refused(429, "The disk cannot keep up. Try again.", retry_after=1)
        batch = secrets.token_hex(12)
        row = {
            "id": batch,
            "model": self.id,
            "at": time.time(),
            "rows": len(X),
            "features": X.astype("<f8").tobytes(),
            "spent": bytes(len(X)),
        }
        try:
            await asyncio.wrap_future(self.writer.submit([(ADD_PREDICTIONS, row)]))
        except IntegrityError:  # deleted meanwhile
            raise self._gone() from None
        return answer, [f"{batch}-{k}" for k in range(len(X))]

    def check_width(self, state: State, X: Array) -> None:
        """Refuse rows of another width than the model's."""
        columns = state.model.columns
        if columns is not None and X.shape[1] != columns:
            raise Refused(422, f"Rows have {X.shape[1]} features; the model has {columns}.", "rows")

    def check_work(self, X: Array, classes: int) -> None:
        """Refuse what would keep a processor busy for long: nothing stops it once it has begun."""
        outputs, most = classes if classes > 2 else 1, self.settings.max_work
        if X.size * outputs > most:
            raise Refused(
                413,
                f"{len(X)} rows x {X.shape[1]} features x {outputs} classes = {X.size * outputs}; "
                f"a request may have {most}. Send fewer rows.",
                "rows",
            )

    # ---- learn

    async def learn(self, lesson: Lesson) -> dict[str, Any]:
        """Learn; on disk before the answer."""
        if len(self._queue) >= self.settings.queue:
            raise Refused(429, "Too many requests wait for this model. Try again.", retry_after=1)
        done: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._queue.append(_Job(lesson, done))
        if self._worker is None or self._worker.done():
            self._worker = asyncio.create_task(self._work())
        return await asyncio.shield(done)

    async def idle(self) -> None:
        """Wait until the queue is empty."""
        while self._worker is not None and not self._worker.done():
            await asyncio.wait([self._worker])

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        while self._queue:
            jobs = [self._queue.popleft() for _ in range(min(GROUP, len(self._queue)))]
            try:
                if self.deleted:
                    raise self._gone()
                base = await self._latest()
                group = await loop.run_in_executor(self.threads, self._apply, base, jobs)
                if group.ops:
                    await asyncio.wrap_future(self.writer.submit(group.ops))
                    self._state, self._stand = group.state, group.stand
            except Exception as error:
                self._doubt = True
                for job in jobs:
                    if not job.done.done():
                        job.done.set_exception(error)
                continue
            for job in jobs:
                if job.done.done():
                    continue
                if isinstance(job.result, dict):
                    job.done.set_result(job.result)
                else:
                    job.done.set_exception(job.result or RuntimeError("no result"))
            await self._snapshot()

    def _apply(self, base: State, jobs: list[_Job]) -> _Group:
        """Learn on a copy; say what is to be written. Runs in a thread."""
        try:
            return self._learn(base, jobs, careful=False)
        except OUTAGES:
            raise
        except Exception:  # somebody's fault, who alone shall fail
            return self._learn(base, jobs, careful=True)

    def _learn(self, base: State, jobs: list[_Job], careful: bool) -> _Group:
        wanted = [job.lesson.key for job in jobs if job.lesson.key is not None]
        known = self.store.answers(self.id, wanted) if wanted else {}
        ids = (one for job in jobs for one in job.lesson.ids or ())
        batches = Batches(self.store, self.id, ids)
        state = base.copy()
        ops: list[Op] = []
        records, rows = self._stand.records, self._stand.rows
        for job in jobs:
            lesson = job.lesson
            if lesson.key in known:
                digest, answer = known[lesson.key]
                job.result = (
                    json.loads(answer)
                    if digest == lesson.digest
                    else Refused(409, "This idempotency key came with another request before.")
                )
                continue
            before = state.copy() if careful else state
            try:
                X = batches.rows(lesson.ids) if lesson.X is None else lesson.X
                self._check(state, X, lesson.y)
                record = state.learn(X, lesson.y)
                data = record.to_bytes()
            except Refused as error:
                job.result = error
                continue
            except Exception as error:
                if not careful:
                    raise
                state, job.result = before, error
                continue
            records, rows = records + 1, rows + len(X)
            job.result = {"learned": len(X), "rows": state.monitor.rows, "seq": state.seq}
            row = {"model": self.id, "seq": state.seq, "rows": len(X), "data": data}
            ops.append((ADD_RECORD, row))
            if lesson.ids is not None:
                batches.spend(lesson.ids)
            if lesson.key is not None:
                answer = json.dumps(job.result)
                known[lesson.key] = (lesson.digest, answer)
                ops.append((ADD_KEY, self._key(lesson, answer)))
        ops += batches.ops()
        stand = self._stand._replace(records=records, rows=rows)
        upto = min(stand.going, stand.gone + PRUNING * (state.seq - base.seq))
        if upto > stand.gone:
            ops.append((PRUNE, {"of_model": self.id, "upto": upto}))
            stand = stand._replace(gone=upto)
        return _Group(state, ops, stand)

    async def _snapshot(self) -> None:
        """Write a snapshot where one is due; a write of its own, so that no request hangs on it."""
        stand, state = self._stand, self._state
        few = stand.records < self.settings.snapshot_records
        if state is None or (few and stand.rows < self.settings.snapshot_rows):
            return
        loop = asyncio.get_running_loop()
        try:
            row = await loop.run_in_executor(self.threads, snapshot_of, self.id, state)
            await asyncio.wrap_future(self.writer.submit([(SNAPSHOT, row)]))
        except Exception as error:  # the log is still there; the next request tries again
            log.warning("no snapshot could be written", extra=self._told(error))
            return
        # The log is kept back to the snapshot before: comparators look at recent rows.
        self._stand = Stand(state.seq, gone=stand.gone, going=stand.snapshot)

    def _key(self, lesson: Lesson, answer: str) -> dict[str, Any]:
        return {
            "model": self.id,
            "key": lesson.key,
            "digest": lesson.digest,
            "answer": answer,
            "at": time.time(),
        }

    def _check(self, state: State, X: Array, y: Any) -> None:
        """Refuse what the estimator would, before anything has changed."""
        self.check_width(state, X)
        if len(X) != len(y):
            raise Refused(422, f"There are {len(X)} rows but {len(y)} labels.", "labels")
        if self.spec.task == "regression":
            self.check_work(X, 1)
            return
        known = state.model.classes
        kinds = {type(label) for label in (*known[:1], *y)}
        if len(kinds) > 1:
            raise Refused(422, "Labels must be all strings or all integers.", "labels")
        if len({*known, *y}) > self.settings.max_classes:
            raise Refused(422, f"A model may have {self.settings.max_classes} classes.", "labels")
        self.check_work(X, len({*known, *y}))

    def final_snapshot(self) -> list[Op]:
        """Return what writes a snapshot now, so that the next start has nothing to replay."""
        if self._state is None or self._stand.records == 0:
            return []
        return [(SNAPSHOT, snapshot_of(self.id, self._state))]
