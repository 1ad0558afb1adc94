"""Losses that are not a linear model's."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from swordplay._types import Array, ArrayLike
from swordplay.assumptions import Assumptions
from swordplay.domains import Domain
from swordplay.streams.stream import check_decisions


class FunctionStream:
    r"""f_t(x) = values[t](x), with gradients[t](x): anything convex, from any autodiff.

    Args:
        values: T callables, x -> f_t(x).
        gradients: T callables, x -> grad f_t(x).
        dim: the number of coordinates; checked against decisions where given.
        comparators: (T, d), where they are known.

    >>> stream = FunctionStream([lambda x: float(x @ x)] * 3, [lambda x: 2 * x] * 3, dim=2)
    >>> stream.value(0, np.array([1.0, 2.0])), stream.gradient(2, np.array([1.0, 2.0]))
    (5.0, array([2., 4.]))
    """

    def __init__(
        self,
        values: Sequence[Callable[[Array], float]],
        gradients: Sequence[Callable[[Array], ArrayLike]],
        dim: int | None = None,
        *,
        comparators: ArrayLike | None = None,
    ) -> None:
        if len(values) != len(gradients) or not len(values):
            raise ValueError(
                f"values and gradients must be as many, and at least one: got {len(values)} and "
                f"{len(gradients)}."
            )
        self._values, self._gradients, self._dim = values, gradients, dim
        self.comparators = None if comparators is None else np.asarray(comparators, np.float64)

    @property
    def dim(self) -> int:
        """The number of coordinates of a decision."""
        if self._dim is None:
            raise ValueError("Tell this stream its dimension: FunctionStream(..., dim=...).")
        return self._dim

    @property
    def knows_dim(self) -> bool:
        """Whether the number of coordinates was given."""
        return self._dim is not None

    def __len__(self) -> int:
        return len(self._values)

    def value(self, t: int, x: Array) -> float:
        """Return f_t(x)."""
        return float(self._values[t](x))

    def gradient(self, t: int, x: Array) -> Array:
        """Return grad f_t(x)."""
        return np.asarray(self._gradients[t](x), dtype=np.float64)

    def values(self, decisions: ArrayLike) -> Array:
        """Return f_t(decisions_t) for every t."""
        chosen = np.asarray(decisions, dtype=np.float64)
        check_decisions(chosen, len(self), chosen.shape[-1])
        rows = np.broadcast_to(chosen, (len(self), chosen.shape[-1]))
        return np.array([self.value(t, rows[t]) for t in range(len(self))])

    def assumptions(self, domain: Domain) -> Assumptions:
        """Refuse: constants cannot be read off callables."""
        raise ValueError(
            "G and L cannot be read off callables: give "
            f"Assumptions(lipschitz=G, smoothness=L, horizon={len(self)}) yourself."
        )


class QuadraticStream:
    r"""f_t(x) = scale * |x - center_t|^2, minimised at its centre.

    >>> stream = QuadraticStream([[1.0, 0.0], [0.0, 1.0]])
    >>> stream.value(0, np.zeros(2)), stream.gradient(0, np.zeros(2))
    (1.0, array([-2.,  0.]))
    """

    def __init__(self, centers: ArrayLike, scale: float = 1.0) -> None:
        self.centers = np.ascontiguousarray(centers, dtype=np.float64)
        if self.centers.ndim != 2 or 0 in self.centers.shape:
            raise ValueError(f"centers must be (T, d), not {self.centers.shape}.")
        if not np.isfinite(self.centers).all():
            raise ValueError("centers must be finite.")
        if not (np.isfinite(scale) and scale > 0):
            raise ValueError(f"scale must be positive and finite, not {scale!r}.")
        self.scale = float(scale)
        self.comparators = self.centers

    @property
    def dim(self) -> int:
        """The number of coordinates of a decision."""
        return int(self.centers.shape[1])

    def __len__(self) -> int:
        return int(self.centers.shape[0])

    def value(self, t: int, x: Array) -> float:
        """Return scale * |x - center_t|^2."""
        away = x - self.centers[t]
        return float(self.scale * (away @ away))

    def gradient(self, t: int, x: Array) -> Array:
        """Return 2 * scale * (x - center_t)."""
        return np.asarray(2 * self.scale * (x - self.centers[t]))

    def values(self, decisions: ArrayLike) -> Array:
        """Return f_t(decisions_t) for every t."""
        chosen = np.asarray(decisions, dtype=np.float64)
        check_decisions(chosen, len(self), self.dim)
        return np.asarray(self.scale * np.sum((chosen - self.centers) ** 2, axis=1))

    def assumptions(self, domain: Domain) -> Assumptions:
        """Return G (never too small), L = 2 * scale, T."""
        if domain.dim != self.dim:
            raise ValueError(f"{domain!r} has {domain.dim} coordinates, the stream {self.dim}.")
        # |x - c| <= |x - middle| + |middle - c|; half the diameter where the middle is a true one.
        reach = getattr(domain, "radius", domain.diameter)
        far = float(np.linalg.norm(self.centers - domain.center, axis=1).max()) + float(reach)
        return Assumptions(
            lipschitz=2 * self.scale * far, smoothness=2 * self.scale, horizon=len(self)
        )
