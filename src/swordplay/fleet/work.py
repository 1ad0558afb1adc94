"""Rows to learners: a batch is cut into pieces, which all threads take."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import lru_cache
from typing import Any

import numpy as np

from swordplay._types import Array
from swordplay.fleet.batches import pieces
from swordplay.fleet.models import Model, Part
from swordplay.fleet.store import Store

PORTION = 4096  # learners that answer from copies at a time


@lru_cache(maxsize=8)
def _threads(workers: int, process: int) -> ThreadPoolExecutor:
    """Return the threads of a process: those of its parent are not there after a fork."""
    return ThreadPoolExecutor(workers, thread_name_prefix="fleet")


class Work:
    """What is done with rows whose keys have numbers.

    Args:
        model: of every key.
        store: where the learners are.
        workers: threads.
    """

    def __init__(self, model: Model, store: Store, workers: int) -> None:
        self.model, self.store, self.workers = model, store, workers

    def learn(self, numbers: Array, matrix: Array, targets: Array, out: Array) -> int:
        """Learn rows in their order; write predictions; return how many broke a promise."""
        blocks = self.store.blocks
        looks = 0
        for part in self.store.portions(numbers):
            X, y, answers = matrix[part], targets[part], out[part]
            places = self.store.places[numbers[part]]

            def work(
                b: int, first: int, order: Array,
                X: Array = X, y: Array = y, answers: Array = answers, places: Array = places,
            ) -> int:  # fmt: skip
                rows, stats = blocks.rows[b], blocks.stats[b]
                return self.model.learn(rows, stats, Part(order, places, first, X, answers), y)

            looks += sum(self._each_block(places, work))
        return looks

    def ask(self, numbers: Array, matrix: Array, newcomer: Callable[[], Array]) -> Array:
        """Return predictions; a newcomer answers for the number -1."""
        out = np.empty(len(matrix))
        known = numbers >= 0
        places = np.full(len(numbers), -1, dtype=np.int64)
        places[known] = self.store.places[numbers[known]]
        here = places >= 0
        out[here] = self._ask(places[here], matrix[here])
        others = np.flatnonzero(~here)
        for start in range(0, len(others), PORTION):
            part = others[start : start + PORTION]
            out[part] = self._ask_copies(numbers[part], matrix[part], newcomer)
        return out

    def _ask_copies(self, numbers: Array, matrix: Array, newcomer: Callable[[], Array]) -> Array:
        """Predict with learners on the shelf and newcomers (number -1), from copies."""
        ids, back = np.unique(numbers, return_inverse=True)
        rows = np.empty((len(ids), self.store.blocks.width), dtype=self.store.blocks.dtype)
        old = ids >= 0
        rows[old] = self.store.read(ids[old])[0]
        if not old.all():
            rows[~old] = newcomer()
        out, order = np.empty(len(back)), np.arange(len(back))
        self.model.predict(rows, Part(order, back.astype(np.int64), 0, matrix, out))
        return out

    def _ask(self, places: Array, matrix: Array) -> Array:
        out = np.empty(len(places))
        rows = self.store.blocks.rows
        self._each_block(
            places,
            lambda b, first, order: self.model.predict(
                rows[b], Part(order, places, first, matrix, out)
            ),
        )
        return out

    def _each_block(self, places: Array, work: Callable[[int, int, Array], Any]) -> list[Any]:
        """Call work(block, first slot, rows) for pieces of a batch, on all threads."""
        share = max(512, len(places) // (4 * self.workers))
        jobs = list(pieces(places, self.store.blocks.per_block, share))
        if self.workers == 1 or len(jobs) == 1:
            return [work(*job) for job in jobs]
        pool, futures = _threads(self.workers, os.getpid()), list[Future[Any]]()
        try:
            futures.extend(pool.submit(work, *job) for job in jobs)
            return [future.result() for future in futures]
        except BaseException:  # nobody goes on learning behind the caller's back
            for future in futures:
                future.cancel()
            wait(futures)
            raise
