"""Predictions that wait for their labels, as a group of requests to learn sees them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from sqlalchemy import bindparam, delete, insert, update

from swordplay._types import Array
from swordplay.service import store as db
from swordplay.service.errors import Refused
from swordplay.service.store import Store
from swordplay.service.writer import Op

ADD_PREDICTIONS = insert(db.predictions)
SPEND = update(db.predictions).where(db.predictions.c.id == bindparam("batch"))
SPEND = SPEND.values(spent=bindparam("marks"))
DROP_PREDICTIONS = delete(db.predictions).where(db.predictions.c.id == bindparam("batch"))


class Batches:
    """The remembered rows that a group of requests learns, and which of them are spent."""

    def __init__(self, store: Store, model: int, ids: Iterable[str]) -> None:
        wanted = {one.partition("-")[0] for one in ids}
        found = store.waiting(model, sorted(wanted)) if wanted else {}
        self._features: dict[str, Array] = {}
        self._spent: dict[str, bytearray] = {}
        self._touched: set[str] = set()
        for batch, (rows, features, spent) in found.items():
            self._features[batch] = np.frombuffer(features, "<f8").reshape(rows, -1)
            self._spent[batch] = bytearray(spent)

    def rows(self, ids: list[str] | None) -> Array:
        """Return the rows of ids that wait for their labels."""
        assert ids is not None
        if len(set(ids)) < len(ids):
            raise Refused(422, "ids must differ from each other.", "ids")
        rows = []
        for k, one in enumerate(ids):
            batch, _, place = one.partition("-")
            spent, at = self._spent.get(batch), int(place)
            if spent is None or at >= len(spent) or spent[at]:
                raise Refused(
                    409,
                    f"{one} waits for no label: unknown, learned already, or too old.",
                    f"ids[{k}]",
                )
            rows.append(self._features[batch][at])
        if len({len(row) for row in rows}) > 1:
            raise Refused(422, "The rows of these ids differ in their number of features.", "ids")
        return np.array(rows)

    def spend(self, ids: list[str]) -> None:
        """Mark ids as learned."""
        for one in ids:
            batch, _, place = one.partition("-")
            self._spent[batch][int(place)] = 1
            self._touched.add(batch)

    def ops(self) -> list[Op]:
        """Return what keeps the marks: a batch that is wholly spent goes."""
        marked: list[Op] = []
        dropped: list[Op] = []
        for batch in sorted(self._touched):
            spent = bytes(self._spent[batch])
            if all(spent):
                dropped.append((DROP_PREDICTIONS, {"batch": batch}))
            else:
                marked.append((SPEND, {"batch": batch, "marks": spent}))
        return marked + dropped
