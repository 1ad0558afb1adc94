"""Regression on a stream that drifts."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.utils import column_or_1d
from sklearn.utils.validation import check_array, check_is_fitted

from swordplay._tables import plain
from swordplay._types import Array
from swordplay.estimators import _engines
from swordplay.estimators._paper import KINDS
from swordplay.estimators._shared import Rows, StreamEstimator, pieces
from swordplay.estimators.conformal import Conformal


class SwordRegressor(RegressorMixin, StreamEstimator):
    r"""Predict values on a stream that drifts; nothing needs to be tuned.

    A pool of experts (the last value, implicit gradient steps :math:`2^{-8}/L \dots 2^4/L`,
    recursive least squares that forget at rates from 0.8 to 1) is mixed by Hedge at the rate
    :math:`\eta = 1/(2B^2)` at which squared loss in a range of width B is exp-concave:

    .. math::
        \sum_t (y_t - p_t)^2 \le \sum_t (y_t - p_{t,k})^2
            + 2B^2\Bigl(\ln 8 + T \ln\tfrac{1}{1 - 10^{-4}}\Bigr) \quad\text{for every candidate } k

    Scaling of columns and target, the intercept and protection against outliers are inside.

    Args:
        loss: "squared", "huber", "absolute" or "pinball".
        delta: where Huber's loss turns linear, in units of the target.
        quantile: the level of the pinball loss.
        pool: "auto"; "first-order" (no second-order experts: faster, weaker); or a learner of the
            paper with G, L and the horizon found by doubling: "sword++", "ader++", "oegd", "ogd".
        last_value: whether the last value is an expert. Leave it out where the last target is not
            known when a row is predicted.
        missing: "error" refuses NaN; "zero" lets a missing value contribute nothing: it reads as
            its column's running mean, 0 after scaling.
        coverage: of prediction intervals, say 0.9; None keeps none.

    Reference:
        P. Zhao, Y.-J. Zhang, L. Zhang and Z.-H. Zhou, JMLR 25, 2024 (the ensemble); J. Kivinen and
        M. Warmuth, Averaging expert predictions, 1999 (the rate).

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(2000, 3)) * [1, 100, 0.01]
    >>> y = X @ [1.0, 0.02, 300.0] + 50
    >>> y[1000:] -= 2 * (X @ [1.0, 0.02, 300.0])[1000:]  # everything turns round
    >>> model = SwordRegressor()
    >>> p = model.predict_then_learn(X, y)
    >>> round(float(np.mean((y - p)[900:1000] ** 2)), 2), round(float(np.var(y)), 1)
    (0.0, 13.8)
    >>> round(float(np.mean((y - p)[1100:] ** 2)), 2)
    0.0
    """

    def __init__(
        self,
        loss: str = "squared",
        *,
        delta: float = 1.0,
        quantile: float = 0.5,
        pool: str = "auto",
        last_value: bool = True,
        missing: str = "error",
        coverage: float | None = None,
    ) -> None:
        self.loss = loss
        self.delta = delta
        self.quantile = quantile
        self.pool = pool
        self.last_value = last_value
        self.missing = missing
        self.coverage = coverage

    # ---- scikit-learn

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Learn the rows in their order; any split into batches gives the same model."""
        self._learn(X, y, sample_weight)
        return self

    def predict(self, X: Any) -> Array:
        """Return predictions, (n,) or (n, targets); nothing changes."""
        return self._shaped(self._ask(X)[0])

    # ---- streams

    def predict_then_learn(
        self, X: Any, y: Any, sample_weight: Any = None, *, return_interval: bool = False
    ) -> Any:
        """Predict each row before learning it, in one compiled pass.

        Args:
            X: (n, d) rows.
            y: (n,) or (n, targets).
            sample_weight: (n,); a row of weight 0 is predicted and not learned.
            return_interval: return (predictions, intervals (n, 2)); needs ``coverage``.
        """
        if return_interval and self.coverage is None:
            raise ValueError("Intervals need a coverage: SwordRegressor(coverage=0.9).")
        predictions, widths = self._learn(X, y, sample_weight)
        if not return_interval:
            return self._shaped(predictions)
        middle = predictions[:, 0]
        return middle, np.column_stack([middle - widths, middle + widths])

    def predict_interval(self, X: Any) -> Array:
        """Return (n, 2) ends of intervals that cover ``coverage`` of targets in the long run."""
        if self.coverage is None:
            raise ValueError("Intervals need a coverage: SwordRegressor(coverage=0.9).")
        predictions, errors = self._ask(X)
        assert self._conformal is not None
        widths = self._conformal.width(errors[:, 0])
        return np.column_stack([predictions[:, 0] - widths, predictions[:, 0] + widths])

    # ---- inside

    def _check_params(self) -> None:
        super()._check_params()
        _engines.check_loss(self.loss, self.delta, self.quantile)
        if self.coverage is not None:
            Conformal(self.coverage)

    def _build(self, dim: int, outputs: int) -> Any:
        engine = _engines.regression(
            self.pool, dim, outputs, self.loss, self.delta, self.quantile, self.last_value
        )
        self._conformal: Conformal | None = None
        if self.coverage is not None:
            self._conformal = Conformal(self.coverage)
        return engine

    def _ask(self, X: Any) -> tuple[Array, Array]:
        """Return predictions and running errors, (n, targets) each."""
        check_is_fitted(self)
        rows = self._read(X)
        self._check_width(rows)
        parts = [self._engine.predict(part) for _, part in pieces(self._aligned(rows))]
        out = np.concatenate(parts)
        outputs = self._engine.outputs
        return out[:, :outputs], out[:, outputs:]

    def _read_targets(self, y: Any, n: int) -> Array:
        self._require(y)
        Y = check_array(
            y, ensure_2d=False, allow_nd=False, dtype=np.float64, input_name="y", estimator=self
        )
        if len(Y) != n:
            raise ValueError(
                f"Found input variables with inconsistent numbers of samples: {[n, len(Y)]}"
            )
        if self.coverage is not None:  # one target: its intervals are those of one error
            Y = column_or_1d(Y, warn=True)
        return np.asarray(Y)

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> tuple[Array, Array | None]:
        rows = self._read(X)
        Y = self._read_targets(y, len(rows))
        return self._learn_checked(rows, Y, sample_weight)

    def _learn_known_rows(self, matrix: Array, y: Any) -> None:
        Y = self._read_targets(y, len(matrix))
        self._check_targets(Y)
        self._learn_matrix(matrix, Y, None)

    def _check_targets(self, Y: Array) -> None:
        outputs = 1 if Y.ndim == 1 else Y.shape[1]
        if outputs != self._engine.outputs or (Y.ndim == 1) != self._flat:
            raise ValueError(
                f"y has {outputs} targets, but {type(self).__name__} is expecting "
                f"{self._engine.outputs}."
            )

    def _learn_checked(
        self, rows: Rows, Y: Array, sample_weight: Any
    ) -> tuple[Array, Array | None]:
        weights = self._read_weights(sample_weight, len(rows))
        outputs = 1 if Y.ndim == 1 else Y.shape[1]
        if "_engine" not in vars(self):
            self._check_params()
            self._begin(rows, outputs)
            self._flat = Y.ndim == 1
        else:
            self._check_width(rows)
            self._check_targets(Y)
        return self._learn_matrix(self._take_in(rows), Y, weights)

    def _learn_matrix(
        self, matrix: Any, Y: Array, weights: Array | None
    ) -> tuple[Array, Array | None]:
        Y = plain(Y.reshape(len(Y), -1))
        outputs = self._engine.outputs
        outs = []
        for where, part in pieces(matrix):
            w = None if weights is None else weights[where]
            outs.append(self._engine.learn(part, Y[where], w))
        out = np.concatenate(outs)
        predictions, errors = out[:, :outputs], out[:, outputs:]
        widths = None
        if self._conformal is not None:
            learned = np.ones(len(Y), dtype=bool) if weights is None else weights > 0
            widths = self._conformal.width(errors[:, 0])
            if learned.any():
                widths[learned] = self._conformal.learn(
                    Y[learned, 0], predictions[learned, 0], errors[learned, 0]
                )
        return predictions, widths

    def _shaped(self, predictions: Array) -> Array:
        return predictions[:, 0] if self._flat else predictions

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.coverage is None
        tags.regressor_tags.poor_score = self.pool in KINDS  # a few rows are not enough for them
        return tags

    def _extra_header(self) -> dict[str, Any]:
        return {"flat": self._flat}

    def _extra_rows(self) -> list[Array]:
        return [] if self._conformal is None else [self._conformal.row]

    def _restore_extra(self, header: dict[str, Any], rows: list[Array]) -> None:
        self._flat = bool(header["flat"])
        if self._conformal is not None:
            self._conformal.restore(rows[0])
