"""Losses of a linear model on rows of data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from swordplay._types import Array, ArrayLike
from swordplay.assumptions import Assumptions
from swordplay.domains import Ball, Box, Domain, L1Ball, Simplex
from swordplay.losses import Loss, Squared
from swordplay.streams.stream import check_decisions

DENSE_FLOATS = 1 << 20  # of a slice of sparse rows


def _is_sparse(features: Any) -> bool:
    return hasattr(features, "tocsr") and hasattr(features, "nnz")


class LinearStream:
    r"""f_t(x) = loss(y_t, <features_t, x>), row t of a dense array or a SciPy sparse matrix.

    Args:
        features: (T, d): an array, a SciPy sparse matrix (kept as CSR), or a pandas, polars or
            Arrow table of numbers.
        targets: (T,): anything NumPy can view.
        loss: default Squared().
        comparators: (T, d), the models behind the data, where they are known.

    >>> stream = LinearStream([[1.0, 0.0], [0.0, 2.0]], [1.0, 1.0])
    >>> stream.value(1, np.array([0.0, 1.0])), stream.gradient(1, np.array([0.0, 1.0]))
    (0.5, array([0., 2.]))
    """

    def __init__(
        self,
        features: Any,
        targets: ArrayLike,
        loss: Loss | None = None,
        *,
        comparators: ArrayLike | None = None,
    ) -> None:
        self.loss = Squared() if loss is None else loss
        if not isinstance(self.loss, Loss):
            raise TypeError(
                f"loss must be one of swordplay's (Squared(), Huber(delta), ...), not {loss!r}; "
                "for a loss of your own use FunctionStream."
            )
        self.sparse = _is_sparse(features)
        self.features: Any
        if self.sparse:
            rows = features.tocsr()
            if not rows.has_canonical_format:
                rows = rows.copy()
                rows.sum_duplicates()
            self.features = rows.astype(np.float64)
            stored = self.features.data
        else:
            self.features = stored = _matrix(features)
        if len(self.features.shape) != 2 or 0 in self.features.shape:
            raise ValueError(
                f"features must be (T, d) with at least one row and one column; got "
                f"{self.features.shape}."
            )
        try:
            self.targets: Array = np.ascontiguousarray(targets, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise ValueError(f"targets must be numbers: {error}") from None
        if self.targets.shape != (self.features.shape[0],):
            raise ValueError(
                f"targets must have one entry a row, ({self.features.shape[0]},); got "
                f"{self.targets.shape}."
            )
        if not np.isfinite(stored).all():
            raise ValueError(f"features hold {_first_bad(self.features)}.")
        if not np.isfinite(self.targets).all():
            bad = int(np.flatnonzero(~np.isfinite(self.targets))[0])
            raise ValueError(f"targets hold {self.targets[bad]} in row {bad}.")
        self.loss.check_targets(self.targets)
        self.comparators: Array | None = None
        if comparators is not None:
            self.comparators = np.asarray(comparators, dtype=np.float64)
            check_decisions(self.comparators, len(self), self.dim, "comparators")

    @property
    def dim(self) -> int:
        """The number of features."""
        return int(self.features.shape[1])

    def __len__(self) -> int:
        return int(self.features.shape[0])

    def row(self, t: int) -> Array:
        """Return features_t, dense."""
        if self.sparse:
            return np.asarray(self.features[[t]].toarray()[0])
        return np.asarray(self.features[t])

    def value(self, t: int, x: Array) -> float:
        """Return f_t(x)."""
        return float(self.loss.value(self.targets[t], self.row(t) @ np.asarray(x)))

    def gradient(self, t: int, x: Array) -> Array:
        """Return grad f_t(x) = slope * features_t."""
        row = self.row(t)
        return np.asarray(self.loss.slope(self.targets[t], row @ np.asarray(x)) * row)

    def predictions(self, decisions: ArrayLike) -> Array:
        """Return <features_t, decisions_t> for every t."""
        chosen = np.asarray(decisions, dtype=np.float64)
        check_decisions(chosen, len(self), self.dim)
        if chosen.ndim == 1:
            return np.asarray(self.features @ chosen)
        if self.sparse:
            return np.asarray(self.features.multiply(chosen).sum(axis=1)).ravel()
        return np.asarray(np.einsum("td,td->t", self.features, chosen))

    def values(self, decisions: ArrayLike) -> Array:
        """Return f_t(decisions_t) for every t."""
        return np.asarray(self.loss.value(self.targets, self.predictions(decisions)))

    def norms(self) -> Array:
        """Return |features_t| for every t."""
        if self.sparse:
            squares = self.features.multiply(self.features).sum(axis=1)
            return np.asarray(np.sqrt(np.asarray(squares).ravel()))
        return np.asarray(np.linalg.norm(self.features, axis=1))

    def extent(self, domain: Domain) -> tuple[Array, Array]:
        """Return the least and the largest prediction that ``domain`` allows, for every row.

        A domain of your own without ``extent`` is taken for the ball of radius D about its centre:
        never too small.
        """
        if hasattr(domain, "extent") and not self.sparse:
            low, high = domain.extent(self.features)
            return np.asarray(low), np.asarray(high)
        if isinstance(domain, Box):
            up, down = self.features.maximum(0), self.features.minimum(0)
            low = up @ domain.low + down @ domain.high
            return np.asarray(low), np.asarray(up @ domain.high + down @ domain.low)
        if isinstance(domain, Simplex):
            return _dense_column(self.features.min(axis=1)), _dense_column(
                self.features.max(axis=1)
            )
        if isinstance(domain, L1Ball):
            reach = domain.radius * _dense_column(abs(self.features).max(axis=1))
        else:
            radius = domain.radius if isinstance(domain, Ball) else domain.diameter
            with np.errstate(invalid="ignore"):  # an empty row, and a domain without end
                reach = np.nan_to_num(radius * self.norms(), nan=0.0, posinf=np.inf)
        middle = self.features @ domain.center
        return np.asarray(middle - reach), np.asarray(middle + reach)

    def blocks(self, compact: bool) -> Iterator[tuple[int, tuple[Array, ...], Array]]:
        """Yield (first round, rows, targets) for the kernels, all of it in as few as will do.

        Rows are (features,), or the three arrays of a CSR matrix where ``compact`` learners can
        take it; others get dense slices, a few megabytes at a time.
        """
        if not self.sparse:
            yield 0, (self.features,), self.targets
        elif compact:
            rows = self.features
            yield 0, (rows.data, rows.indices, rows.indptr), self.targets
        else:
            step = max(1, DENSE_FLOATS // self.dim)
            for first in range(0, len(self), step):
                dense = np.ascontiguousarray(self.features[first : first + step].toarray())
                yield first, (dense,), self.targets[first : first + step]

    def assumptions(self, domain: Domain) -> Assumptions:
        """Return the worst-case G, L and T: exact for the domains that know their extent."""
        if domain.dim != self.dim:
            raise ValueError(f"{domain!r} has {domain.dim} coordinates; the rows have {self.dim}.")
        norms = self.norms()
        low, high = self.extent(domain)
        with np.errstate(invalid="ignore"):
            slopes = self.loss.steepest(self.targets, low, high)
        lipschitz = float(np.max(np.where(norms > 0, slopes, 0.0) * norms))
        if not np.isfinite(lipschitz):
            raise ValueError(
                f"{self.loss!r} has unbounded gradients on {domain!r}: bound the domain, use "
                "Huber, or give Assumptions(lipschitz=...) yourself."
            )
        curvature = self.loss.smoothness * float(norms.max()) ** 2
        tiny = float(np.finfo(np.float64).tiny)
        return Assumptions(
            lipschitz=max(lipschitz, tiny) if lipschitz > 0 else 1.0,
            smoothness=curvature if curvature > 0 else 1.0,
            horizon=len(self),
        )

    def __repr__(self) -> str:
        kind = "sparse" if self.sparse else "dense"
        return f"LinearStream({len(self)} {kind} rows, dim={self.dim}, loss={self.loss!r})"


def _dense_column(column: Any) -> Array:
    return np.asarray(column.toarray(), dtype=np.float64).ravel()


def _matrix(features: Any) -> Array:
    if hasattr(features, "to_pandas") and hasattr(features, "column_names"):  # an Arrow table
        features = np.column_stack([np.asarray(column) for column in features.columns])
    array = np.asarray(features)
    if np.iscomplexobj(array):
        raise ValueError("features must be real numbers; these are complex.")
    if array.dtype == np.float32:
        return np.ascontiguousarray(array)
    try:
        return np.ascontiguousarray(array, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"features must be numbers: {error}") from None


def _first_bad(features: Any) -> str:
    dense = features if isinstance(features, np.ndarray) else None
    if dense is None:
        at = int(np.flatnonzero(~np.isfinite(features.data))[0])
        row = int(np.searchsorted(features.indptr, at, side="right")) - 1
        return f"{features.data[at]} in row {row}, column {features.indices[at]}"
    row, column = np.argwhere(~np.isfinite(dense))[0]
    return f"{dense[row, column]} in row {row}, column {column}"
