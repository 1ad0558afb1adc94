"""Classes over an engine that knows numbers only: which label is which output, and since when.

Two labels need one output: the probability of the one that came second. With a third, the learner
is split into one a label (its exact mirror image takes the first label), and each later label gets
a learner of its own; columns and their scaling are shared by all. Probabilities of many labels are
one-versus-rest, normalised. Labels are kept in the order of their first appearance, so that any
split of a stream into batches gives the same state.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from swordplay._types import Array


class Engine(Protocol):
    """What learns the numbers."""

    dim: int

    @property
    def outputs(self) -> int: ...
    @property
    def rounds(self) -> int: ...
    def learn(self, X: Array, Y: Array, weights: Array | None = None) -> Array: ...
    def predict(self, X: Array) -> Array: ...
    def widen(self, dim: int) -> None: ...
    def add_label(self) -> None: ...
    def split_labels(self) -> None: ...
    def header(self) -> dict[str, Any]: ...
    def restore(self, header: dict[str, Any], row: Array) -> None: ...


class Labels:
    """A classifier of any labels over an engine."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.known: dict[Any, int] = {}  # label -> place, by first appearance

    def announce(self, labels: Sequence[Any]) -> None:
        """Make sure that the labels are known."""
        for label in labels:
            if label in self.known:
                continue
            if len(self.known) == 2:
                self.engine.split_labels()
            if len(self.known) >= 2:
                self.engine.add_label()
            self.known[label] = len(self.known)

    def learn(self, X: Array, labels: Sequence[Any], weights: Array | None = None) -> Array:
        """Predict, then learn; return probabilities (n, classes known in the end).

        A class has probability 0 until it appears, but for the second: before it does, its
        column is the probability of "not the first class".
        """
        labels = list(labels)
        kept = range(len(labels)) if weights is None else np.flatnonzero(weights > 0).tolist()
        firsts: dict[Any, int] = {}
        for t in kept:
            if labels[t] not in self.known:
                firsts.setdefault(labels[t], t)
        # the first two labels need no new learner: nothing is to be cut for them
        cuts = [t for k, t in enumerate(firsts.values()) if len(self.known) + k >= 2]
        count = len(self.known) + len(firsts)
        proba = np.zeros((len(labels), max(count, 2)))
        arrivals = list(firsts)
        start = 0
        for stop in [*cuts, len(labels)]:
            # a label's first row is predicted before anybody knows of the label
            unaware = self.predict_share(X[start : start + 1]) if start in cuts else None
            self.announce([a for a in arrivals if firsts[a] < stop])
            self._stretch(X, labels, weights, proba, start, stop)
            if unaware is not None:
                proba[start] = 0.0
                proba[start, : unaware.shape[1]] = unaware
            start = stop
        return proba

    def predict_share(self, X: Array) -> Array:
        """Return probabilities; with one label known, of it and of anything else."""
        return normalised(self.engine.predict(X)[:, : self.engine.outputs])

    def learn_row(self, row: Array, label: Any) -> None:
        """Learn one row, (1, d), without asking for its probabilities."""
        place = self.known.get(label)
        if place is None:
            self.announce([label])
            place = self.known[label]
        if len(self.known) <= 2:
            Y = np.array([[1.0 if place == 1 else 0.0]])
        else:
            Y = np.zeros((1, len(self.known)))
            Y[0, place] = 1.0
        self.engine.learn(row, Y)

    def _stretch(
        self,
        X: Array,
        labels: list[Any],
        weights: Array | None,
        proba: Array,
        start: int,
        stop: int,
    ) -> None:
        """Learn rows start to stop, in which no learner is added."""
        if start == stop:
            return
        places = np.array([self.known.get(label, -1) for label in labels[start:stop]])
        if len(self.known) <= 2:
            Y = (places == 1)[:, None].astype(float)
        else:
            Y = (places[:, None] == np.arange(len(self.known))).astype(float)
        w = None if weights is None else weights[start:stop]
        out = self.engine.learn(X[start:stop], Y, w)
        share = normalised(out[:, : Y.shape[1]])
        proba[start:stop, : share.shape[1]] = share

    def predict(self, X: Array) -> Array:
        """Return probabilities (n, classes), in the order of first appearance."""
        if len(self.known) == 1:
            return np.ones((len(X), 1))
        return self.predict_share(X)


def normalised(out: Array) -> Array:
    """Return probabilities that add up to 1 from those of one label, or of each."""
    if out.shape[1] == 1:
        return np.column_stack([1.0 - out[:, 0], out[:, 0]])
    return np.asarray(out / out.sum(axis=1, keepdims=True))
