"""The rows of a bucket of keys, without Spark: stored bytes and rows in, bytes and rows out.

A bucket's keys are split into parts by a second hash, and a part is a :class:`Fleet` of its own, so
that a batch reads and writes the parts that its keys are in and no others. Everything that must be
the same after a kill is a function of stored bytes and rows: rows are put in their order here,
whatever order a shuffle brought them in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from swordplay._types import Array
from swordplay.fleet.fleet import Fleet
from swordplay.fleet.models import Model

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DATES = {"timestamp": "datetime64[us]", "date": "datetime64[D]"}  # which travel as whole numbers


def times_of(values: Array, kind: str) -> Array:
    """Return the times of a column of Spark's type ``kind``, as it travelled."""
    return values.astype(_DATES[kind]) if kind in _DATES else values


def keys_of(values: Array, kind: str) -> Any:
    """Return the keys of a column of Spark's type ``kind``, as it travelled.

    Timestamps are datetimes in UTC, whatever the session's time zone, and dates are dates.
    """
    if kind == "timestamp":
        return [_EPOCH + timedelta(microseconds=micros) for micros in values.tolist()]
    return times_of(values, kind).tolist() if kind in _DATES else values


@dataclass(frozen=True)
class Bucket:
    """What happens to the rows of a bucket.

    Args:
        model: of every key.
        about: what a state must have been made with to be gone on with; names and types of
            columns, and counts.
        ordered: the columns, beside ``time``, that rows are ordered by: ``sequence``, or none.
        late, warm_start: see :class:`Fleet`.
    """

    model: Model
    about: dict[str, Any]
    ordered: tuple[str, ...]
    late: str
    warm_start: bool

    def restore(self, state: bytes) -> Fleet:
        """Return the fleet of a part; one that was made with something else is refused."""
        return Fleet.from_bytes(state, like=self.model, about=self.about, **self._how)

    def store(self, fleet: Fleet) -> bytes:
        """Return what ``restore`` makes the fleet of."""
        return fleet.to_bytes(self.about)

    @property
    def _how(self) -> dict[str, Any]:
        return {"late": self.late, "warm_start": self.warm_start, "workers": 1}

    def advance(
        self, read: Callable[[int], bytes | None], frame: Any
    ) -> tuple[dict[int, Fleet], Array]:
        """Return the parts that changed, and a prediction for each row.

        Args:
            read: returns what is stored for a part, None where there is nothing yet.
            frame: the new rows in any order, a pandas DataFrame with the columns ``key``, ``time``,
                maybe ``sequence``, ``target``, ``hash`` (of the key) and, after these, features.
        """
        for role in ("key", "time", *self.ordered):
            if empty := int(frame[role].isna().sum()):
                raise ValueError(
                    f"{empty} of {len(frame)} rows have a null {role} ({self.about[role]!r}): "
                    "filter such rows out before, say with df.dropna(subset=[...])."
                )
        targets, hashes = frame["target"].to_numpy(), frame["hash"].to_numpy()
        features = frame.columns.get_loc("hash") + 1
        matrix = frame.iloc[:, features:].to_numpy(dtype=np.float64)
        times = times_of(frame["time"].to_numpy(), self.about["time_type"])
        # By time; equal times by the sequence, else by the row itself: never by the shuffle. The
        # hash comes last, for rows of different keys that are alike: newcomers take their turn.
        parts, ordered = hashes % self.about["parts"], [frame[c].to_numpy() for c in self.ordered]
        order = np.lexsort([hashes, targets, *matrix.T[::-1], *ordered, times, parts])
        told = np.empty(len(frame))
        keys = frame["key"].to_numpy()
        changed: dict[int, Fleet] = {}
        for rows in np.split(order, np.flatnonzero(np.diff(parts[order])) + 1):
            part = int(parts[rows[0]])
            state = read(part)
            fleet = Fleet(self.model, **self._how) if state is None else self.restore(state)
            mine = keys_of(keys[rows], self.about["key_type"])
            told[rows] = fleet.predict_then_learn(mine, matrix[rows], targets[rows], times[rows])
            changed[part] = fleet
        return changed, told
