"""What both scikit-learn estimators do alike: check input, align columns, be saved."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_array, check_is_fitted

from swordplay import state
from swordplay._tables import arrow_matrix, names_of, plain
from swordplay._types import Array
from swordplay.estimators import _engines
from swordplay.estimators._columns import Columns
from swordplay.estimators.delayed import Delayed
from swordplay.estimators.look_inside import LookInside
from swordplay.state import StateError

# Everything that learning adds to an estimator.
_LEARNED = (
    "_engine",
    "_labels",
    "_conformal",
    "_columns",
    "_flat",
    "_pending",
    "_asked",
    "classes_",
    "n_features_in_",
    "feature_names_in_",
)
_CELLS = 1 << 22  # of a sparse matrix, made dense at a time


class Rows(NamedTuple):
    """Checked features, not yet in the model's order."""

    names: list[str] | None
    matrix: Any  # (n, d) float64, or CSR

    def __len__(self) -> int:
        return int(self.matrix.shape[0])


class StreamEstimator(Delayed, LookInside, BaseEstimator):
    """A model whose state is one row of floats, behind scikit-learn's interface."""

    pool: str
    missing: str

    # ---- parameters

    def _check_params(self) -> None:
        _engines.check(self.pool, self.missing)

    def _build(self, dim: int, outputs: int) -> Any:
        """Return a fresh engine."""
        raise NotImplementedError

    def _learn(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """Check and learn rows; return what was predicted before."""
        raise NotImplementedError

    def fit(self, X: Any, y: Any, **weights: Any) -> Self:
        """Forget everything and learn the rows in their order, once.

        ``sample_weight`` may be given by name. It is not named in the signature, because
        scikit-learn reads that as a promise no learner keeps that heeds the order of rows: that a
        weight of 2 is the same as repeating the row somewhere else.
        """
        sample_weight = self._only_weights(weights)
        self._check_params()
        self._forget_everything()
        self._learn(X, y, sample_weight)
        return self

    def _forget_everything(self) -> None:
        for name in _LEARNED:
            self.__dict__.pop(name, None)

    def __sklearn_is_fitted__(self) -> bool:
        return "_engine" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self.missing == "zero"
        return tags

    # ---- features

    def _read(self, X: Any) -> Rows:
        """Check features; nothing changes."""
        if type(X) is np.ndarray and X.ndim == 2 and X.dtype == np.float64 and X.size:
            finite = np.isfinite(X) if self.missing == "error" else ~np.isinf(X)
            if finite.all():
                return Rows(None, plain(X))
        names = names_of(X)
        matrix = check_array(
            arrow_matrix(X),
            accept_sparse="csr",
            dtype=np.float64,
            order="C",
            ensure_all_finite="allow-nan" if self.missing == "zero" else True,
            estimator=self,
            input_name="X",
        )
        if not sparse.issparse(matrix):
            matrix = plain(matrix)
        return Rows(names, matrix)

    def _check_width(self, rows: Rows) -> None:
        """Refuse rows that do not fit the columns known."""
        columns: Columns | None = self._columns
        if columns is not None and rows.names is not None:
            absent = [name for name in columns.names if name not in set(rows.names)]
            if absent and self.missing == "error":
                raise ValueError(
                    f"X lacks the columns {', '.join(map(repr, absent))}. "
                    'With missing="zero" they would be taken as missing values.'
                )
            return
        if rows.matrix.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has {rows.matrix.shape[1]} features, but {type(self).__name__} is expecting "
                f"{self.n_features_in_} features as input."
            )
        if (columns is None) != (rows.names is None):
            without, fitted = ("does not have", "with") if columns else ("has", "without")
            warnings.warn(
                f"X {without} valid feature names, but {type(self).__name__} was fitted {fitted} "
                "feature names",
                stacklevel=4,
            )

    def _aligned(self, rows: Rows) -> Any:
        """Return the matrix with its columns in the model's order."""
        columns: Columns | None = self._columns
        if columns is None or rows.names is None:
            return rows.matrix
        return columns.order(rows.names, rows.matrix)

    def _known_rows(self, X: Any) -> Array:
        """Return checked rows in the model's order, dense; nothing changes."""
        check_is_fitted(self)
        rows = self._read(X)
        self._check_width(rows)
        matrix = self._aligned(rows)
        return np.array(matrix.toarray() if sparse.issparse(matrix) else matrix)

    def _begin(self, rows: Rows, outputs: int) -> None:
        """Build the engine for the first rows."""
        dim = int(rows.matrix.shape[1])
        self._engine = self._build(dim, outputs)
        self._columns = None if rows.names is None else Columns(rows.names)
        self._note_columns()

    def _take_in(self, rows: Rows) -> Any:
        """Learn of new columns; return the matrix in the model's order."""
        columns: Columns | None = self._columns
        if columns is None or rows.names is None:
            return rows.matrix
        if columns.add(rows.names):
            self._engine.widen(len(columns.names))
            self._note_columns()
        matrix = columns.order(rows.names, rows.matrix)
        columns.saw(dict.fromkeys(rows.names), len(rows))
        return matrix

    def _note_columns(self) -> None:
        self.n_features_in_ = self._engine.dim
        if self._columns is not None:
            self.feature_names_in_ = np.array(self._columns.names, dtype=object)

    # ---- targets and weights

    def _require(self, y: Any) -> None:
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y "
                "is None."
            )

    @staticmethod
    def _read_weights(sample_weight: Any, n: int) -> Array | None:
        if sample_weight is None:
            return None
        if np.isscalar(sample_weight):
            sample_weight = np.full(n, sample_weight)
        weights = plain(np.asarray(sample_weight, dtype=np.float64))
        if weights.shape != (n,):
            raise ValueError(f"sample_weight has shape {weights.shape}, expected ({n},).")
        if not np.isfinite(weights).all() or (weights < 0).any():
            raise ValueError("sample_weight must be finite and not negative.")
        return weights

    @staticmethod
    def _only_weights(fit_params: dict[str, Any]) -> Any:
        unknown = [name for name in fit_params if name != "sample_weight"]
        if unknown:
            raise TypeError(f"fit() got an unexpected keyword argument {unknown[0]!r}.")
        weights = fit_params.get("sample_weight")
        if weights is not None and not np.any(weights):
            raise ValueError("sample_weight is zero everywhere: there is nothing to fit.")
        return weights

    # ---- state

    def _extra_header(self) -> dict[str, Any]:
        return {}

    def _extra_rows(self) -> list[Array]:
        return []

    def _restore_extra(self, header: dict[str, Any], rows: list[Array]) -> None:
        pass

    def to_bytes(self) -> bytes:
        """Return the whole model: a JSON header, one row of floats, a checksum. No pickle."""
        check_is_fitted(self)
        pending = self.__dict__.get("_pending", {})
        if not all(isinstance(one, str | int) for one in pending):
            raise StateError("Only ids of type str or int can be saved.")
        rows = [self._engine.row, *self._extra_rows(), *pending.values()]
        header = {
            "estimator": type(self).__name__,
            "version": state.release(),
            "params": self.get_params(deep=False),
            "engine": self._engine.header(),
            "columns": None if self._columns is None else self._columns.header(),
            "pending": list(pending),
            "asked": self.__dict__.get("_asked", 0),
            "sizes": [int(row.size) for row in rows],
            **self._extra_header(),
        }
        return state.pack(header, np.concatenate([row.astype(np.float64) for row in rows]))

    @classmethod
    def from_bytes(cls, data: bytes) -> Self:
        """Return the model that ``to_bytes`` described; it goes on exactly."""
        header, row = state.unpack(data)
        if header.get("estimator") != cls.__name__:
            raise StateError(
                f"The state belongs to {header.get('estimator') or header.get('learner')!r}, "
                f"not to {cls.__name__}."
            )
        try:
            model = cls(**header["params"])
            model._check_params()
            sizes = [int(size) for size in header["sizes"]]
            if sum(sizes) != row.size:
                raise StateError("The sizes in the state's header do not add up.")
            rows = list(np.split(row, np.cumsum(sizes)[:-1]))
            engine = header["engine"]
            if not 0 < int(engine["dim"]) <= row.size:
                raise StateError(f"The state cannot have {engine['dim']} columns.")
            model._engine = model._build(int(engine["dim"]), 1)
            model._engine.restore(engine, rows.pop(0).copy())
            columns = header["columns"]
            model._columns = None if columns is None else Columns.from_header(columns)
            model._note_columns()
            pending = list(header["pending"])
            waiting = rows[len(rows) - len(pending) :]
            model._pending = dict(zip(pending, waiting, strict=True))
            model._asked = int(header["asked"])
            model._restore_extra(header, rows[: len(rows) - len(pending)])
        except StateError:
            raise
        except (KeyError, TypeError, ValueError, IndexError) as error:
            raise StateError(f"The state's {cls.__name__} cannot be built: {error!r}.") from error
        return model

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to ``path``; an older file there stays whole until the new one is."""
        state.write(path, self.to_bytes())

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the model saved at ``path``."""
        return cls.from_bytes(Path(path).read_bytes())


def pieces(matrix: Any) -> Iterator[tuple[slice, Array]]:
    """Cut a matrix into dense pieces: a dense one into itself."""
    if not sparse.issparse(matrix):
        yield slice(0, len(matrix)), matrix
        return
    n, d = matrix.shape
    step = max(1, _CELLS // max(1, d))
    for start in range(0, n, step):
        yield slice(start, min(n, start + step)), matrix[start : start + step].toarray()
