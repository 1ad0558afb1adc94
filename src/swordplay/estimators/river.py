"""River's interface: rows are dicts, models learn one row at a time.

>>> from river import datasets, evaluate, metrics
>>> evaluate.progressive_val_score(datasets.Phishing(), SwordClassifier(), metrics.LogLoss())
LogLoss: 0.22...
"""

from __future__ import annotations

import math
import struct
from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

try:
    from river import base
except ModuleNotFoundError as error:
    if error.name != "river":
        raise
    raise ImportError(
        'swordplay.estimators.river needs River: pip install "swordplay[river]"'
    ) from None

from swordplay._tables import plain
from swordplay._types import Array
from swordplay.estimators import _engines
from swordplay.estimators._columns import Columns
from swordplay.estimators._labels import Labels, normalised
from swordplay.estimators._pool import Pool
from swordplay.estimators.look_inside import LookInside
from swordplay.kernels import pool as kernel
from swordplay.kernels.pool_layout import WORK

Row = Mapping[Hashable, Any]
_NONE = np.empty(0)


class _Rows(LookInside):
    """Dicts to rows, and the engine that learns them."""

    pool: str
    missing: str

    def _start(self) -> None:
        _engines.check(self.pool, self.missing)
        self._columns = Columns()
        self._engine: Any = None
        self._note_columns()

    def _note_columns(self) -> None:
        self._keys = list(self._columns.names)
        self._format = f"{len(self._keys)}d"
        self._values: list[Any] | None = None  # what _x holds
        self._kept = False  # whether _work holds how that was predicted, by the state as it is
        size = 0 if type(self._engine) is not Pool else int(self._engine.layout.config[WORK])
        self._work = np.zeros(size)
        self._y = np.zeros((1, 1))
        self._out = np.empty((1, 3))  # prediction, error, answer in the target's frame
        self._x = np.zeros((1, 1 if self._engine is None else self._engine.dim))

    def _build(self, dim: int) -> Any:
        raise NotImplementedError

    def _take(self, x: Row) -> Array:
        """Return a dict as a row, for predictions: unknown features are left out."""
        if list(x) == self._keys:
            return self._take_in_order(x)
        if len(x) == len(self._keys):
            try:  # another order
                return self._take_in_order({name: x[name] for name in self._keys})
            except KeyError:
                pass
        return self._slowly(x)

    def _take_in_order(self, x: Row) -> Array:
        """Return a dict whose keys are ours, in our order, as a row.

        A dict of the very values of the last one needs no work: that is how a row is learned after
        it was predicted.
        """
        values = list(x.values())
        if values == self._values:
            return self._x
        try:
            struct.pack_into(self._format, self._x.data, 0, *values)
        except struct.error:  # None, say
            self._values, self._kept = None, False
            return self._slowly(x)
        self._kept = False
        if self.missing == "zero" or np.isfinite(self._x).all():
            self._values = values
            return self._x
        return self._slowly(x)

    def _slowly(self, x: Row) -> Array:
        row = self._columns.take(x)
        if self.missing == "error":
            for j, name in enumerate(self._columns.names):
                if not math.isfinite(row[0, j]) or name not in x:
                    raise ValueError(
                        f"Feature {name!r} is missing or not finite; missing='zero' allows that."
                    )
        return row

    def _take_in(self, x: Row) -> Array:
        """Return a dict as a row, for learning: new features get a column."""
        if list(x) == self._keys:
            row = self._take_in_order(x)
            self._columns.rows += 1
        elif len(x) == len(self._keys) and x.keys() == set(self._keys):
            row = self._take(x)
            self._columns.rows += 1
        else:
            row = self._meet(x)
            self._columns.saw(x)
        return row

    def _meet(self, x: Row) -> Array:
        if self.missing == "error" and self._engine is not None:
            self._slowly(x)
        if self._columns.add(x) or self._engine is None:
            width = len(self._columns.names)
            if self._engine is None:
                self._engine = self._build(max(width, 1))
            elif width > self._engine.dim:
                self._engine.widen(width)
            self._note_columns()
        row = self._slowly(x)
        if row.shape[1] < self._engine.dim:  # nothing has a name yet: one column of zeros
            row = np.zeros((1, self._engine.dim))
        return row

    def _many(self, X: Any, learn: bool) -> Array:
        """Return a frame as rows."""
        names = list(X.columns)
        matrix = X.to_numpy(dtype=np.float64)
        columns = self._columns
        if self.missing == "error":
            absent = [name for name in columns.names if name not in set(names)]
            if absent or not np.isfinite(matrix).all():
                raise ValueError(
                    f"Features are missing or not finite {absent or ''}; missing='zero' allows it."
                )
        if learn and (columns.add(names) or self._engine is None):
            if self._engine is None:
                self._engine = self._build(max(len(columns.names), 1))
            elif len(columns.names) > self._engine.dim:
                self._engine.widen(len(columns.names))
            self._note_columns()
        rows = columns.order(names, matrix)
        if learn:
            self._kept = False
            columns.saw(dict.fromkeys(names), len(rows))
        return plain(rows)

    # One number a row: the fast path.

    def _predict_row(self, row: Array) -> float:
        engine = self._engine
        if type(engine) is not Pool:
            return float(engine.predict(self._fitting(row))[0, 0])
        row = self._fitting(row)
        kernel.predict_kept(engine.row, engine.layout.config, row, self._work, self._out)
        self._kept = row is self._x
        return float(self._out[0, 0])

    def _learn_row(self, row: Array, y: float) -> None:
        engine, self._y[0, 0] = self._engine, y
        if type(engine) is not Pool:
            engine.learn(row, self._y)
        elif self._kept and row is self._x:
            config = engine.layout.config
            kernel.learn_kept(engine.row, config, row, self._y, self._work, self._out)
        else:
            out = self._out[:, :2].copy()
            kernel.learn(engine.row, engine.layout.config, row, self._y, _NONE, out)
        self._kept = False

    def _fitting(self, row: Array) -> Array:
        """Return a row as wide as the engine, which has a column even when nothing has a name."""
        return row if row.shape[1] == self._engine.dim else np.zeros((1, self._engine.dim))


class SwordRegressor(_Rows, base.MiniBatchRegressor):
    r"""Predict values on a stream that drifts; nothing needs to be tuned.

    The learner is that of :class:`swordplay.estimators.SwordRegressor`: a pool of experts mixed by
    Hedge at the rate 1/(2B^2) at which squared loss is exp-concave.

    Args:
        loss: "squared", "huber", "absolute" or "pinball".
        delta: where Huber's loss turns linear, in units of the target.
        quantile: the level of the pinball loss.
        pool: "auto", "first-order", or a learner of the paper ("sword++", "ader++", "oegd", "ogd").
        last_value: whether the last value is an expert.
        missing: "zero" takes rows with missing features: a feature that is usually there reads as
            its mean, one that is usually absent as 0. "error" refuses them.

    Reference:
        P. Zhao, Y.-J. Zhang, L. Zhang and Z.-H. Zhou, JMLR 25, 2024.

    >>> from river import datasets, evaluate, metrics
    >>> evaluate.progressive_val_score(datasets.TrumpApproval(), SwordRegressor(), metrics.MAE())
    MAE: 0.18...
    """

    def __init__(
        self,
        loss: str = "squared",
        delta: float = 1.0,
        quantile: float = 0.5,
        pool: str = "auto",
        last_value: bool = True,
        missing: str = "zero",
    ) -> None:
        _engines.check_loss(loss, delta, quantile)
        self.loss = loss
        self.delta = delta
        self.quantile = quantile
        self.pool = pool
        self.last_value = last_value
        self.missing = missing
        self._start()

    def _build(self, dim: int) -> Any:
        return _engines.regression(
            self.pool, dim, 1, self.loss, self.delta, self.quantile, self.last_value
        )

    def learn_one(self, x: Row, y: float) -> None:
        y = float(y)
        if not math.isfinite(y):
            raise ValueError(f"The target must be finite, not {y!r}.")
        self._learn_row(self._take_in(x), y)

    def predict_one(self, x: Row) -> float:
        if self._engine is None:
            return 0.0
        return self._predict_row(self._take(x))

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn a pandas frame and series, row by row."""
        targets = np.array(y, dtype=np.float64).reshape(-1, 1)
        if not np.isfinite(targets).all() or len(targets) != len(X):
            raise ValueError("Targets must be finite, one a row.")
        self._engine_learn(self._many(X, True), targets)

    def _engine_learn(self, rows: Array, targets: Array) -> None:
        if len(rows):
            self._engine.learn(rows, targets)

    def predict_many(self, X: Any) -> Any:
        """Return a pandas series of predictions."""
        import pandas as pd

        if self._engine is None:
            return pd.Series(np.zeros(len(X)), index=X.index)
        return pd.Series(self._engine.predict(self._many(X, False))[:, 0], index=X.index)


class SwordClassifier(_Rows, base.MiniBatchClassifier):
    r"""Predict classes on a stream that drifts; nothing needs to be tuned.

    The learner is that of :class:`swordplay.estimators.SwordClassifier`: a pool of experts mixed by
    Hedge at rate 1, at which log loss is exp-concave; many classes one-versus-rest, normalised,
    over shared scaling.

    Args:
        pool: "auto", "first-order", or a learner of the paper ("sword++", "ader++", "oegd", "ogd").
        missing: "zero" takes rows with missing features: a feature that is usually there reads as
            its mean, one that is usually absent as 0. "error" refuses them.

    Reference:
        P. Zhao, Y.-J. Zhang, L. Zhang and Z.-H. Zhou, JMLR 25, 2024.

    >>> from river import datasets, evaluate, metrics
    >>> stream = datasets.ImageSegments()
    >>> evaluate.progressive_val_score(stream, SwordClassifier(), metrics.Accuracy())
    Accuracy: 89...%
    """

    def __init__(self, pool: str = "auto", missing: str = "zero") -> None:
        self.pool = pool
        self.missing = missing
        self._start()
        self._labels: Any = None

    @property
    def _multiclass(self) -> bool:
        return True

    def _build(self, dim: int) -> Any:
        engine = _engines.classification(self.pool, dim)
        self._labels = Labels(engine)
        return engine

    def learn_one(self, x: Row, y: Any) -> None:
        row = self._take_in(x)
        label = y.item() if isinstance(y, np.generic) else y
        if label not in self._labels.known:
            self._labels.announce([label])
            self._kept = False
        if len(self._labels.known) <= 2:
            self._learn_row(row, float(self._labels.known[label] == 1))
        else:
            self._labels.learn_row(row, label)

    def predict_proba_one(self, x: Row) -> dict[Any, float]:  # type: ignore[override]
        if self._labels is None:
            return {}
        known = self._labels.known
        if len(known) <= 2:
            first, *others = known
            p = self._predict_row(self._take(x))
            if not others and isinstance(first, bool):
                others = [not first]  # a boolean has but one alternative
            return {first: 1.0 - p, others[0]: p} if others else {first: 1.0}
        out = self._engine.predict(self._fitting(self._take(x)))
        share = normalised(out[:, : len(known)])[0]
        return dict(zip(known, share.tolist(), strict=True))

    def predict_one(self, x: Row) -> Any:  # type: ignore[override]
        proba = self.predict_proba_one(x)
        return max(proba, key=proba.__getitem__) if proba else None

    def learn_many(self, X: Any, y: Any) -> None:
        """Learn a pandas frame and series, row by row."""
        if len(X) != len(y):
            raise ValueError(f"There are {len(X)} rows but {len(y)} labels.")
        rows = self._many(X, True)
        if len(rows):
            self._labels.learn(rows, y.tolist())

    def predict_proba_many(self, X: Any) -> Any:
        """Return a pandas frame of probabilities, a column a class."""
        import pandas as pd

        if self._labels is None:
            return pd.DataFrame(index=X.index)
        proba = self._labels.predict(self._many(X, False))
        labels = list(self._labels.known)
        if len(labels) == 1 and isinstance(labels[0], bool):
            proba = self._labels.predict_share(self._many(X, False))
            labels.append(not labels[0])
        return pd.DataFrame(proba, index=X.index, columns=labels)

    def predict_many(self, X: Any) -> Any:
        """Return a pandas series of the likeliest classes."""
        import pandas as pd

        proba = self.predict_proba_many(X)
        if proba.empty:
            return pd.Series([None] * len(X), index=X.index, dtype="object")
        return proba.idxmax(axis="columns")
