"""A model's log and its snapshots in the database: where they stand, and what is written."""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import bindparam, delete, insert, update

from swordplay.service import store as db
from swordplay.service.state import State

ADD_RECORD = insert(db.log)
ADD_KEY = insert(db.keys)
SNAPSHOT = update(db.models).where(  # never an older one
    db.models.c.id == bindparam("model"), db.models.c.seq < bindparam("at_seq")
)
SNAPSHOT = SNAPSHOT.values(
    seq=bindparam("at_seq"),
    rows=bindparam("at_rows"),
    state=bindparam("bytes"),
    metrics=bindparam("json"),
)
PRUNE = delete(db.log).where(
    db.log.c.model == bindparam("of_model"), db.log.c.seq <= bindparam("upto")
)


class Stand(NamedTuple):
    """Where a model's log stands."""

    snapshot: int = 0  # the last record in the snapshot
    records: int = 0  # after the snapshot
    rows: int = 0  # in them
    gone: int = 0  # the last record that was dropped
    going: int = 0  # records up to here may be dropped


def snapshot_of(model: int, state: State) -> dict[str, Any]:
    """Return the parameters of ``SNAPSHOT``."""
    data, metrics = state.parts()
    return {
        "model": model,
        "at_seq": state.seq,
        "at_rows": state.monitor.rows,
        "bytes": data,
        "json": metrics,
    }
