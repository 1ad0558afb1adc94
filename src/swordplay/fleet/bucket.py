"""The rows of a bucket of keys, without Spark: stored bytes and rows in, bytes and rows out.

A bucket's keys are split into parts by a second hash, and a part is a :class:`Fleet` of its own, so
that a batch reads and writes the parts that its keys are in and no others. Everything that must be
the same after a kill is a function of stored bytes and rows: rows are put in their order here,
whatever order a shuffle brought them in.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from swordplay.fleet.fleet import Fleet
from swordplay.fleet.models import Model

PART = "__part"


@dataclass(frozen=True)
class Bucket:
    """What happens to the rows of a bucket.

    Args:
        model: of every key.
        key, time, features, target, sequence: columns; ``sequence`` may be None.
        key_type: of the key's column: equal numbers of another type hash to another bucket.
        buckets, parts: how many buckets there are, and parts of a bucket.
        late, warm_start: see :class:`Fleet`.
    """

    model: Model
    key: str
    key_type: str
    time: str
    features: list[str]
    target: str
    sequence: str | None
    buckets: int
    parts: int
    late: str
    warm_start: bool

    @property
    def kept(self) -> list[str]:
        """The columns of a row that its answer has."""
        return [self.key, self.time, *([self.sequence] if self.sequence else []), self.target]

    @property
    def about(self) -> dict[str, Any]:
        """What a state must have been made with to be gone on with."""
        return {
            "key": self.key,
            "key_type": self.key_type,
            "features": self.features,
            "target": self.target,
            "buckets": self.buckets,
            "parts": self.parts,
        }

    def restore(self, state: bytes) -> Fleet:
        """Return the fleet of a part; one that was made with something else is refused."""
        return Fleet.from_bytes(state, like=self.model, about=self.about, **self._how)

    @property
    def _how(self) -> dict[str, Any]:
        return {"late": self.late, "warm_start": self.warm_start, "workers": 1}

    def advance(
        self, read: Callable[[int], bytes | None], frame: Any
    ) -> tuple[dict[int, bytes], Any]:
        """Return the parts that changed, and the rows with their predictions.

        Args:
            read: returns what is stored for a part, None where there is nothing yet.
            frame: the new rows in any order, a pandas DataFrame; their part in a column ``PART``.
        """
        matrix = frame[self.features].to_numpy(dtype=np.float64, na_value=np.nan)
        targets = frame[self.target].to_numpy(dtype=np.float64, na_value=np.nan)
        times, keys, parts = (frame[c].to_numpy() for c in (self.time, self.key, PART))
        # Equal times are told apart by the sequence, else by the row itself: never by the shuffle.
        first = [frame[self.sequence].to_numpy()] if self.sequence else []
        order = np.lexsort([targets, *matrix.T[::-1], *first, times, parts])
        told = np.empty(len(frame))
        changed: dict[int, bytes] = {}
        for rows in np.split(order, np.flatnonzero(np.diff(parts[order])) + 1):
            part = int(parts[rows[0]])
            state = read(part)
            fleet = Fleet(self.model, **self._how) if state is None else self.restore(state)
            told[rows] = fleet.predict_then_learn(
                keys[rows], matrix[rows], targets[rows], times[rows]
            )
            changed[part] = fleet.to_bytes(self.about)
        return changed, frame[self.kept].assign(prediction=told)
