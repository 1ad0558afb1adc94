"""The thin interface between the server and the estimators: this module alone knows them."""

from __future__ import annotations

import copy
import gc
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, Self

import numpy as np

from swordplay._types import Array
from swordplay.estimators._shared import StreamEstimator
from swordplay.estimators.classifier import SwordClassifier
from swordplay.estimators.regressor import SwordRegressor
from swordplay.kernels import pool_layout as at
from swordplay.state import StateError

BUCKETS = 16  # of the heat map: memories of 2^0, 2^1, ..., 2^14 rows, and more
UPLOADABLE = ("auto", "first-order")  # pools whose state is one row that can be checked
LARGEST = 1e100  # beyond, the estimators clip; the server refuses


@dataclass(frozen=True)
class Spec:
    """What a model is, fixed when it is created."""

    task: str = "regression"
    loss: str = "squared"
    delta: float = 1.0
    quantile: float = 0.5
    pool: str = "auto"
    last_value: bool = True
    missing: str = "error"
    coverage: float | None = 0.9
    features: tuple[str, ...] | None = None

    @classmethod
    def from_json(cls, given: dict[str, Any]) -> Self:
        """Return what ``as_json`` described."""
        names = given.get("features")
        return cls(**{**given, "features": None if names is None else tuple(names)})

    def as_json(self) -> dict[str, Any]:
        """Return the fields, for JSON."""
        return asdict(self)

    def build(self) -> StreamEstimator:
        """Return an estimator that has learned nothing."""
        if self.task == "classification":
            return SwordClassifier(pool=self.pool, missing=self.missing)
        return SwordRegressor(
            self.loss,
            delta=self.delta,
            quantile=self.quantile,
            pool=self.pool,
            last_value=self.last_value,
            missing=self.missing,
            coverage=self.coverage,
        )


class Answer(NamedTuple):
    """Predictions of n rows."""

    values: list[Any]  # None where nothing was learned yet
    intervals: Array | None = None  # (n, 2)
    probabilities: Array | None = None  # (n, classes)
    classes: list[Any] | None = None

    @property
    def size(self) -> int:
        """About how many bytes of JSON this is, ids included."""
        numbers = 3 if self.probabilities is None else 1 + self.probabilities.shape[1]
        return len(self.values) * (20 * numbers + 32)


class Model:
    """An estimator that may not have learned anything yet."""

    def __init__(self, spec: Spec, estimator: StreamEstimator | None = None) -> None:
        self.spec = spec
        self.estimator: Any = spec.build() if estimator is None else estimator

    @property
    def fitted(self) -> bool:
        """Whether it has learned a row."""
        return bool(self.estimator.__sklearn_is_fitted__())

    @property
    def columns(self) -> int | None:
        """How many features a row has; None as long as any number will do."""
        if self.fitted:
            return int(self.estimator.n_features_in_)
        return None if self.spec.features is None else len(self.spec.features)

    @property
    def classes(self) -> list[Any]:
        """The labels seen, sorted; none in a regression."""
        if self.spec.task == "regression" or not self.fitted:
            return []
        return list(self.estimator.classes_.tolist())

    def copy(self) -> Model:
        """Return a twin that goes on exactly."""
        return Model(self.spec, copy.deepcopy(self.estimator))

    # ---- predict and learn

    def predict(self, X: Array) -> Answer:
        """Predict; nothing changes."""
        if not self.fitted:
            return Answer([None] * len(X))
        if self.spec.task == "classification":
            proba = self.estimator.predict_proba(X)
            classes = self.classes
            return Answer([classes[k] for k in proba.argmax(axis=1)], None, proba, classes)
        if self.spec.coverage is None:
            return Answer(self.estimator.predict(X).tolist())
        intervals = self.estimator.predict_interval(X)
        return Answer(intervals.mean(axis=1).tolist(), intervals)

    def learn(self, X: Array, y: Any) -> Array:
        """Predict each row, then learn it.

        Returns (n, 2): predictions and 0 (regression), or the probability of the true label and
        whether another one was thought likelier (classification).
        """
        if self.spec.task == "regression":
            values = self.estimator.predict_then_learn(X, y)
            return np.column_stack([values, np.zeros(len(X))])
        out = self.estimator.predict_then_learn(X, np.asarray(y))
        classes = self.classes
        if out.ndim == 1 and len(classes) == 2:
            out = np.column_stack([1.0 - out, out])
        elif out.ndim == 1:  # one label so far: there was no other answer to give
            out = np.ones((len(out), 1))
        place = {label: k for k, label in enumerate(classes)}
        true = np.array([place[label] for label in y])
        sure = out[np.arange(len(out)), true]
        return np.column_stack([sure, out.argmax(axis=1) != true])

    # ---- state

    def to_bytes(self) -> bytes:
        """Return the whole estimator; empty where it has learned nothing."""
        return bytes(self.estimator.to_bytes()) if self.fitted else b""

    @classmethod
    def from_bytes(cls, spec: Spec, data: bytes) -> Model:
        """Return the model that ``to_bytes`` described."""
        if not data:
            return cls(spec)
        return cls(spec, type(spec.build()).from_bytes(data))

    def check_upload(self) -> None:
        """Refuse a state whose numbers no honest run could have left behind.

        Kernels index with some of them, so a crafted file could otherwise write out of bounds.
        """
        estimator, spec = self.estimator, self.spec
        if spec.pool not in UPLOADABLE:
            raise StateError(f'Models with pool="{spec.pool}" cannot be imported.')
        if estimator.get_params() != spec.build().get_params():
            raise StateError("The file's settings and its state do not belong together.")
        if not self.fitted:
            return
        if not np.isfinite(estimator._engine.row).all():
            raise StateError("The state holds numbers that are not finite.")
        for m in range(estimator._engine.outputs):
            learner = estimator._engine.learner(m)
            counts = learner[[at.H_ROUND, at.H_GAUGED, at.H_STRIDE, at.H_KEPT]]
            bounds = (2.0**53, 2.0**53, 2.0**53, float(at.HISTORY))
            if (counts < 0).any() or (counts != np.floor(counts)).any() or (counts > bounds).any():
                raise StateError("The state's counters are impossible.")
        if estimator._columns is not None or estimator.pending_:
            raise StateError("The state holds columns or rows that the server keeps elsewhere.")
        if spec.task == "classification":
            known = list(estimator._labels.known)
            outputs = 1 if len(known) <= 2 else len(known)
            if sorted(known) != self.classes or estimator._engine.outputs != outputs:
                raise StateError("The state's labels do not belong together.")
        rehearsal, row = self.copy(), np.zeros((1, estimator.n_features_in_))
        rehearsal.predict(row)
        rehearsal.learn(row, self.classes[:1] if spec.task == "classification" else np.zeros(1))

    # ---- looking inside

    @property
    def drift(self) -> float | None:
        """By how many octaves the memory is shorter than usual."""
        return float(self.estimator.drift_) if self.fitted else None

    def summary(self) -> dict[str, Any]:
        """Return weights, effective memory and drift."""
        if not self.fitted:
            return {"weights": {}, "effective_memory": None, "drift": None}
        return {
            "weights": dict(self.estimator.weights_),
            "effective_memory": float(self.estimator.effective_memory_),
            "drift": self.drift,
        }

    def gauge(self) -> tuple[float, float, Array]:
        """Return memory, drift, and the weight on memories of 2^0, 2^1, ... rows."""
        engine = self.estimator._engine
        heat = np.zeros(BUCKETS)
        layout = getattr(engine, "layout", None)
        memory = float(self.estimator.effective_memory_)
        if layout is None:  # a learner of the paper: its memory is one number
            heat[_bucket(np.log2(max(memory, 1.0)))] = 1.0
            return memory, float(self.estimator.drift_), heat
        shares = np.mean([engine.weights(m) for m in range(engine.outputs)], axis=0)
        np.add.at(heat, _bucket(_spans(engine)), shares)
        return memory, float(self.estimator.drift_), heat

    def bands(self) -> list[int] | None:
        """Return the buckets of the heat map that can have weight; None: any."""
        engine = self.estimator._engine if self.fitted else None
        if getattr(engine, "layout", None) is None:
            return None
        return sorted(set(_bucket(_spans(engine)).tolist()))


def _spans(engine: Any) -> Array:
    """Return the binary logarithms of the experts' memories."""
    config = engine.layout.config
    spans: Array = config[int(config[at.T_SPAN]) :][: len(engine.names)]
    return spans


def _bucket(log_memory: Any) -> Any:
    return np.minimum(np.round(log_memory), BUCKETS - 1).astype(int)


def warm() -> None:
    """Compile what serving needs, or fetch it from the cache, before the first request."""
    X = np.zeros((2, 2))
    for spec, y in (
        (Spec(), np.array([0.0, 1.0])),
        (Spec(task="classification"), np.array([0, 1])),
    ):
        model = Model(spec)
        model.learn(X, y)
        model.predict(X)
    # What was imported stays: the collector need not walk through it while somebody waits.
    gc.collect()
    gc.freeze()
