r"""Labels that come late: predict now, learn by id when the label is known.

What a late label costs: the base learners play the rounds in the order in which labels arrive, so
all that was promised for that order stands; but a prediction was made by the state of up to k
labels ago. For a learner with step eta and gradients of length G each label not yet seen moves the
decision by at most eta G, so the linearised regret grows by

.. math::
    \sum_t \langle g_t, x_{t-k} - x_t \rangle \le \eta G^2 \sum_t k_t

with k_t the labels outstanding when row t was predicted (J. Langford, A. Smola and M. Zinkevich,
Slow learners are fast, 2009; P. Joulani et al., Online learning under delayed feedback, ICML 2013).
Tuned for it, :math:`\sqrt{T}` becomes :math:`\sqrt{T + \sum_t k_t}`; the pool need not be told,
since slower experts win where delays are long.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from swordplay._types import Array


class Delayed:
    """Mix-in: ``ask`` and ``learn`` for labels that come later, in any order.

    A model keeps at most ``pending_limit`` rows without a label; the oldest go first.
    """

    pending_limit = 1_000_000

    if TYPE_CHECKING:  # what the estimator brings
        n_features_in_: int

        def predict(self, X: Any) -> Array: ...
        def _known_rows(self, X: Any) -> Array: ...
        def _learn_known_rows(self, matrix: Array, y: Any) -> None: ...

    def ask(self, X: Any, ids: Iterable[Hashable] | None = None) -> tuple[list[Any], Array]:
        """Predict rows whose labels come later; return their ids and the predictions.

        Only the list of pending rows changes, the model does not.

        Args:
            X: (n, d) rows.
            ids: one a row (str or int), new ones; numbered from 0 by default.
        """
        predictions = self.predict(X)
        rows = self._known_rows(X)
        pending: dict[Any, Array] = self.__dict__.setdefault("_pending", {})
        if ids is None:
            first = self.__dict__.get("_asked", 0)
            ids = range(first, first + len(rows))
        chosen = list(ids)
        if len(chosen) != len(rows):
            raise ValueError(f"There are {len(rows)} rows but {len(chosen)} ids.")
        if len(set(chosen)) != len(chosen):
            raise ValueError("ids must differ from each other.")
        for one in chosen:
            if one in pending:
                raise ValueError(f"id {one!r} is still waiting for its label.")
        self.__dict__["_asked"] = self.__dict__.get("_asked", 0) + len(rows)
        for one, row in zip(chosen, rows, strict=True):
            pending[one] = row
        while len(pending) > self.pending_limit:
            del pending[next(iter(pending))]
        return chosen, predictions

    def learn(self, ids: Sequence[Hashable], y: Any) -> Any:
        """Learn the labels of rows that were asked about, in the order given; return ``self``."""
        pending: dict[Any, Array] = self.__dict__.get("_pending", {})
        chosen = list(ids)
        for one in chosen:
            if one not in pending:
                raise KeyError(f"id {one!r} waits for no label: unknown, learned or too old.")
        if len(set(chosen)) != len(chosen):
            raise ValueError("ids must differ from each other.")
        if not chosen:
            return self
        width = self.n_features_in_
        rows = np.full((len(chosen), width), np.nan)  # columns that came since were not there
        for k, one in enumerate(chosen):
            rows[k, : len(pending[one])] = pending[one]
        self._learn_known_rows(rows, y)
        for one in chosen:
            del pending[one]
        return self

    @property
    def pending_(self) -> list[Any]:
        """The ids of rows that wait for a label, oldest first."""
        return list(self.__dict__.get("_pending", {}))
