"""Classification on a stream that drifts."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite, column_or_1d
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from swordplay._types import Array
from swordplay.estimators import _engines
from swordplay.estimators._labels import Labels
from swordplay.estimators._shared import Rows, StreamEstimator, pieces


class SwordClassifier(ClassifierMixin, StreamEstimator):
    r"""Predict classes on a stream that drifts; nothing needs to be tuned.

    A pool of experts (implicit gradient steps :math:`2^{-8}/L \dots 2^4/L`, logistic regressions of
    second order that forget at rates from 0.9 to 0.999) is mixed by Hedge at rate 1, at which log
    loss is exp-concave (Bayes' rule):

    .. math::
        \sum_t -\ln p_t(y_t) \le \sum_t -\ln p_{t,k}(y_t)
            + \ln 8 + T \ln\tfrac{1}{1 - 10^{-4}} \quad\text{for every candidate } k

    Two classes are one learner. More are one learner each (one-versus-rest, normalised) over
    scaling that they share; new classes may appear at any time.

    Args:
        pool: "auto"; "first-order" (no second-order experts: faster, weaker); or a learner of the
            paper with G, L and the horizon found by doubling: "sword++", "ader++", "oegd", "ogd".
        missing: "error" refuses NaN; "zero" lets a missing value contribute nothing: it reads as
            its column's running mean, 0 after scaling.

    Reference:
        P. Zhao, Y.-J. Zhang, L. Zhang and Z.-H. Zhou, JMLR 25, 2024 (the ensemble); V. Vovk,
        Aggregating strategies, 1990 (the rate).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(4000, 2))
    >>> y = np.where(X[:, 0] > 0, "up", "down")
    >>> y[2000:] = np.where(X[2000:, 0] > 0, "down", "up")  # everything turns round
    >>> model = SwordClassifier()
    >>> p = model.predict_then_learn(X, y)  # the probability of "up"
    >>> right = (p > 0.5) == (y == "up")
    >>> round(float(right[1000:2000].mean()), 2), round(float(right[2200:].mean()), 2)
    (0.99, 1.0)
    >>> model.predict([[1.0, 0.0], [-1.0, 0.0]])
    array(['down', 'up'], dtype='<U4')
    """

    def __init__(self, *, pool: str = "auto", missing: str = "error") -> None:
        self.pool = pool
        self.missing = missing

    classes_: Array

    # ---- scikit-learn

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn the rows in their order; any split into batches gives the same model.

        Args:
            X: (n, d) rows.
            y: (n,) labels; new ones may come at any time.
            classes: labels to know of from the start, where wanted.
            sample_weight: (n,) weights; a row of weight 0 is not learned.
        """
        self._learn(X, y, sample_weight, classes)
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return (n, classes) probabilities in the order of ``classes_``; nothing changes."""
        check_is_fitted(self)
        rows = self._read(X)
        self._check_width(rows)
        parts = [self._labels.predict(part) for _, part in pieces(self._aligned(rows))]
        return np.asarray(np.concatenate(parts)[:, self._order()])

    def predict(self, X: Any) -> Array:
        """Return the likeliest class of each row; nothing changes."""
        proba = self.predict_proba(X)
        return np.asarray(self.classes_[np.argmax(proba, axis=1)])

    # ---- streams

    def predict_then_learn(self, X: Any, y: Any, sample_weight: Any = None) -> Array:
        """Predict each row before learning it, in one compiled pass.

        Returns the probability of ``classes_[1]`` where two classes are known, (n,), else a matrix
        in the order of ``classes_`` as it is after the last row. Before the second class was seen,
        its column is the probability of "not the first class".
        """
        proba = self._learn(X, y, sample_weight)
        if len(self.classes_) > 2:
            return np.asarray(proba[:, self._order()])
        if len(self.classes_) == 2:
            return np.asarray(proba[:, self._labels.known[self.classes_.tolist()[1]]])
        # one class so far: a 1 or True is class 1 of two, anything else class 0
        return np.asarray(proba[:, 0 if self.classes_.tolist()[0] == 1 else 1])

    # ---- inside

    def _build(self, dim: int, outputs: int) -> Any:
        return _engines.classification(self.pool, dim)

    def _order(self) -> list[int]:
        return [self._labels.known[label] for label in self.classes_.tolist()]

    def _read_labels(self, y: Any, n: int) -> Array:
        self._require(y)
        labels = column_or_1d(np.asarray(y), warn=True)
        assert_all_finite(labels, input_name="y")
        check_classification_targets(labels)
        if len(labels) != n:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {[n, len(labels)]}"
            )
        return np.asarray(labels)

    def _learn(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Array:
        rows = self._read(X)
        labels = self._read_labels(y, len(rows))
        return self._learn_checked(rows, labels, sample_weight, classes)

    def _learn_checked(self, rows: Rows, labels: Array, sample_weight: Any, classes: Any) -> Array:
        weights = self._read_weights(sample_weight, len(rows))
        given = None if classes is None else np.unique(np.asarray(classes))
        if given is not None and len(set(labels.tolist()) - set(given.tolist())):
            new = sorted(set(labels.tolist()) - set(given.tolist()))
            if "_engine" not in vars(self):
                raise ValueError(f"y holds labels that are not in classes: {new}.")
        if "_engine" not in vars(self):
            self._check_params()
            self._begin(rows, 1)
        else:
            self._check_width(rows)
        matrix = self._take_in(rows)
        if given is not None:
            self._labels.announce(given.tolist())
            self._note_classes(given)
        return self._learn_matrix(matrix, labels, weights)

    def _learn_known_rows(self, matrix: Array, y: Any) -> None:
        self._learn_matrix(matrix, self._read_labels(y, len(matrix)), None)

    def _learn_matrix(self, matrix: Any, labels: Array, weights: Array | None) -> Array:
        learned = labels if weights is None else labels[weights > 0]
        before = len(self._labels.known)
        names = labels.tolist()
        parts = []
        for where, part in pieces(matrix):
            w = None if weights is None else weights[where]
            parts.append((where, self._labels.learn(part, names[where], w)))
        if len(self._labels.known) > before or not hasattr(self, "classes_"):
            self._note_classes(learned)
        proba = np.zeros((len(labels), max(len(self._labels.known), 2)))
        for where, part in parts:
            proba[where, : part.shape[1]] = part
        return proba

    def _note_classes(self, labels: Array) -> None:
        known = [labels] if not hasattr(self, "classes_") else [self.classes_, labels]
        self.classes_ = np.unique(np.concatenate(known))

    def _begin(self, rows: Rows, outputs: int) -> None:
        super()._begin(rows, outputs)
        self._labels = Labels(self._engine)

    def _extra_header(self) -> dict[str, Any]:
        classes = self.classes_
        return {
            "known": list(self._labels.known),
            "classes": classes.tolist(),
            "classes_dtype": "O" if classes.dtype == object else classes.dtype.str,
        }

    def _restore_extra(self, header: dict[str, Any], rows: list[Array]) -> None:
        self._labels = Labels(self._engine)
        self._labels.known = {label: k for k, label in enumerate(header["known"])}
        self.classes_ = np.array(header["classes"], dtype=header["classes_dtype"])
