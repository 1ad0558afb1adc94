"""Where decisions live: convex sets that can project.

Every domain offers ``dim``, ``diameter``, ``center``, ``project``, ``contains``, ``sample`` and
``extent`` (the range of a linear function over it). A domain of your own needs only the members of
:class:`Domain`; it runs through the same ensemble without being compiled.

Assumption 2 of the paper asks that the domain contain the origin. Nothing here needs it: shifting
the origin changes every meta loss <g, x_i> of a round by the same number, which no weight feels.
"""

from __future__ import annotations

import math
import sys
from typing import Protocol, runtime_checkable

import numpy as np

from swordplay._types import Array, ArrayLike
from swordplay.kernels import codes, projections


@runtime_checkable
class Domain(Protocol):
    """What a learner asks of a convex set."""

    @property
    def dim(self) -> int:
        """The number of coordinates of a decision."""

    @property
    def diameter(self) -> float:
        """D, the largest distance between two members."""

    @property
    def center(self) -> Array:
        """A member to start from."""

    def project(self, x: ArrayLike) -> Array:
        """Return the nearest member to ``x`` (d,) or to every row of ``x`` (N, d)."""

    def contains(self, x: ArrayLike, tolerance: float = 1e-9) -> bool:
        """Tell whether ``x``, or every row of it, is a member up to ``tolerance``."""


def _size(dim: int) -> int:
    if int(dim) != dim or dim < 1:
        raise ValueError(f"dim must be a whole number of at least 1, not {dim!r}.")
    return int(dim)


def _positive(name: str, value: float) -> float:
    value = float(value)
    if not (math.isfinite(value) and value > 0):
        raise ValueError(f"{name} must be a positive finite number, not {value!r}.")
    return value


class BuiltIn:
    """What the domains that the kernels know share: a code, numbers, and a compiled projection.

    ``numbers`` is ``low`` (or the centre) and ``high`` (or unused), d floats each, then one float,
    the radius.
    """

    code: int
    numbers: Array

    def __init__(self, dim: int) -> None:
        self._dim = _size(dim)

    @property
    def dim(self) -> int:
        """The number of coordinates of a decision."""
        return self._dim

    @property
    def diameter(self) -> float:
        """D, the largest distance between two members."""
        raise NotImplementedError

    @property
    def center(self) -> Array:
        """The member that learners start from."""
        raise NotImplementedError

    def extent(self, rows: ArrayLike) -> tuple[Array, Array]:
        """Return min and max over the domain of <row, x>, for every row of ``rows``."""
        raise NotImplementedError

    def _rows(self, x: ArrayLike) -> Array:
        array = np.asarray(x)
        if array.dtype not in (np.float64, np.float32):
            array = array.astype(np.float64)
        if array.ndim not in (1, 2) or array.shape[-1] != self._dim:
            raise ValueError(
                f"{self!r} holds decisions of shape ({self._dim},) or (N, {self._dim}); "
                f"got an array of shape {array.shape}."
            )
        return array

    def project(self, x: ArrayLike) -> Array:
        r"""Return the nearest member, :math:`\arg\min_{y \in X} \|y - x\|_2`, row by row."""
        array = self._rows(x)
        if not np.isfinite(array).all():
            raise ValueError("Cannot project NaN or infinite values.")
        out = np.array(array, order="C", ndmin=2)
        projections.project_rows(self.code, self.numbers, out)
        return out.reshape(array.shape)

    def contains(self, x: ArrayLike, tolerance: float = 1e-9) -> bool:
        """Tell whether ``x``, or every row of it, is a member.

        ``tolerance`` is relative to the size of the domain, and never below what the type of ``x``
        can tell apart.
        """
        array = self._rows(x)
        if not np.isfinite(array).all():
            return False
        size = float(np.linalg.norm(self.center)) + min(self.diameter, sys.float_info.max)
        slack = max(tolerance, 4 * float(np.finfo(array.dtype).eps) * math.sqrt(self._dim)) * size
        with np.errstate(over="ignore"):  # a distance that overflows is too long all the same
            away = np.linalg.norm(array - self.project(array), axis=-1)
        return bool(away.max(initial=0.0) <= slack)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, BuiltIn):
            return NotImplemented
        return (
            self.code == other.code
            and self.numbers.shape == other.numbers.shape
            and bool(np.array_equal(self.numbers, other.numbers))
            and self.diameter == other.diameter
        )

    def __hash__(self) -> int:
        return hash((self.code, self.numbers.tobytes()))


class Ball(BuiltIn):
    r"""The Euclidean ball :math:`\{x : \|x - c\|_2 \le R\}`; D = 2R.

    >>> Ball(dim=2, radius=1.0).project([3.0, 4.0])
    array([0.6, 0.8])
    """

    code = codes.BALL

    def __init__(self, dim: int, radius: float = 1.0, center: ArrayLike | None = None) -> None:
        super().__init__(dim)
        self.radius = _positive("radius", radius)
        middle = np.zeros(self.dim) if center is None else np.array(center, dtype=np.float64)
        if middle.shape != (self.dim,) or not np.isfinite(middle).all():
            raise ValueError(f"center must be {self.dim} finite numbers, not {center!r}.")
        self.numbers = np.concatenate([middle, np.zeros(self.dim), [self.radius]])

    @property
    def diameter(self) -> float:
        """D = 2R."""
        return 2.0 * self.radius

    @property
    def center(self) -> Array:
        """The ball's centre."""
        return self.numbers[: self.dim].copy()

    def extent(self, rows: ArrayLike) -> tuple[Array, Array]:
        """Return <row, c> -/+ R |row|."""
        array = np.asarray(rows, dtype=np.float64)
        middle, reach = array @ self.center, self.radius * np.linalg.norm(array, axis=-1)
        return middle - reach, middle + reach

    def sample(self, rng: np.random.Generator, size: int | None = None) -> Array:
        """Draw members uniformly from the ball."""
        count = 1 if size is None else size
        direction = rng.standard_normal((count, self.dim))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        length = self.radius * rng.random((count, 1)) ** (1.0 / self.dim)
        drawn = self.center + length * direction
        return drawn[0] if size is None else drawn

    def __repr__(self) -> str:
        middle = "" if not self.center.any() else f", center={self.center.tolist()}"
        return f"Ball(dim={self.dim}, radius={self.radius}{middle})"


class Box(BuiltIn):
    r"""The box :math:`\{x : l \le x \le h\}`; D = |h - l|.

    >>> Box(low=[-1.0, 0.0], high=[1.0, 2.0]).project([3.0, -4.0])
    array([1., 0.])
    """

    code = codes.BOX

    def __init__(self, low: ArrayLike, high: ArrayLike, dim: int | None = None) -> None:
        bottom, top = np.broadcast_arrays(
            np.atleast_1d(np.asarray(low, dtype=np.float64)),
            np.atleast_1d(np.asarray(high, dtype=np.float64)),
        )
        if bottom.ndim == 1 and bottom.size == 1 and dim is not None:
            bottom, top = np.repeat(bottom, dim), np.repeat(top, dim)
        if bottom.ndim != 1 or not (np.isfinite(bottom).all() and np.isfinite(top).all()):
            raise ValueError("low and high must be finite numbers or one-dimensional arrays.")
        if dim is not None and dim != bottom.size:
            raise ValueError(f"low and high have {bottom.size} entries, but dim is {dim}.")
        if not (bottom < top).all():
            raise ValueError("Every entry of low must be below the entry of high beside it.")
        super().__init__(bottom.size)
        self.numbers = np.concatenate([bottom, top, [0.0]])

    @property
    def low(self) -> Array:
        """The lower corner."""
        return self.numbers[: self.dim].copy()

    @property
    def high(self) -> Array:
        """The upper corner."""
        return self.numbers[self.dim : 2 * self.dim].copy()

    @property
    def diameter(self) -> float:
        """D = |h - l|."""
        return float(np.linalg.norm(self.high - self.low))

    @property
    def center(self) -> Array:
        """The middle of the box."""
        return (self.low + self.high) / 2

    def extent(self, rows: ArrayLike) -> tuple[Array, Array]:
        """Return the sums over coordinates of the smaller and of the larger product."""
        array = np.asarray(rows, dtype=np.float64)
        at_low, at_high = array * self.low, array * self.high
        return np.minimum(at_low, at_high).sum(axis=-1), np.maximum(at_low, at_high).sum(axis=-1)

    def sample(self, rng: np.random.Generator, size: int | None = None) -> Array:
        """Draw members uniformly from the box."""
        shape = (self.dim,) if size is None else (size, self.dim)
        return rng.uniform(self.low, self.high, shape)

    def __repr__(self) -> str:
        return f"Box(low={self.low.tolist()}, high={self.high.tolist()})"


class Simplex(BuiltIn):
    r"""The probability simplex :math:`\{x \ge 0 : \sum_j x_j = 1\}`; D = sqrt 2.

    >>> Simplex(dim=3).project([0.5, 0.5, 0.5]).round(4)
    array([0.3333, 0.3333, 0.3333])
    """

    code = codes.SIMPLEX

    def __init__(self, dim: int) -> None:
        super().__init__(dim)
        if self.dim < 2:
            raise ValueError("A simplex needs dim of at least 2: with 1 it is a single point.")
        self.numbers = np.zeros(2 * self.dim + 1)
        self.numbers[-1] = 1.0

    @property
    def diameter(self) -> float:
        """D = sqrt 2, the distance between two corners."""
        return math.sqrt(2.0)

    @property
    def center(self) -> Array:
        """The uniform distribution."""
        return np.full(self.dim, 1.0 / self.dim)

    def extent(self, rows: ArrayLike) -> tuple[Array, Array]:
        """Return the smallest and the largest coordinate."""
        array = np.asarray(rows, dtype=np.float64)
        return array.min(axis=-1), array.max(axis=-1)

    def sample(self, rng: np.random.Generator, size: int | None = None) -> Array:
        """Draw members uniformly from the simplex."""
        return rng.dirichlet(np.ones(self.dim), size)

    def __repr__(self) -> str:
        return f"Simplex(dim={self.dim})"


class L1Ball(BuiltIn):
    r"""The cross-polytope :math:`\{x : \|x\|_1 \le R\}`; D = 2R.

    >>> L1Ball(dim=2, radius=1.0).project([2.0, 0.5])
    array([1., 0.])
    """

    code = codes.L1_BALL

    def __init__(self, dim: int, radius: float = 1.0) -> None:
        super().__init__(dim)
        self.radius = _positive("radius", radius)
        self.numbers = np.zeros(2 * self.dim + 1)
        self.numbers[-1] = self.radius

    @property
    def diameter(self) -> float:
        """D = 2R, the distance between opposite corners."""
        return 2.0 * self.radius

    @property
    def center(self) -> Array:
        """The origin."""
        return np.zeros(self.dim)

    def extent(self, rows: ArrayLike) -> tuple[Array, Array]:
        """Return -/+ R times the largest absolute coordinate."""
        reach = self.radius * np.abs(np.asarray(rows, dtype=np.float64)).max(axis=-1)
        return -reach, reach

    def sample(self, rng: np.random.Generator, size: int | None = None) -> Array:
        """Draw members uniformly: a simplex point of one more coordinate, with random signs."""
        count = 1 if size is None else size
        drawn = self.radius * rng.dirichlet(np.ones(self.dim + 1), count)[:, :-1]
        drawn = np.asarray(drawn * rng.choice([-1.0, 1.0], drawn.shape))
        return drawn[0] if size is None else drawn

    def __repr__(self) -> str:
        return f"L1Ball(dim={self.dim}, radius={self.radius})"


class Everywhere(BuiltIn):
    r"""The whole space.

    It has no diameter, so a learner's automatic constants do not exist on it: give ``step_sizes``
    and a ``meta_rate``, or name with ``diameter`` how far apart the comparators are taken to be
    (the bounds then hold for comparators and decisions within that distance).

    >>> Everywhere(dim=2).project([3.0, -4.0])
    array([ 3., -4.])
    """

    code = codes.EVERYWHERE

    def __init__(self, dim: int, diameter: float = math.inf) -> None:
        super().__init__(dim)
        if not diameter > 0:
            raise ValueError(f"diameter must be positive, not {diameter!r}.")
        self._diameter = float(diameter)
        self.numbers = np.zeros(2 * self.dim + 1)
        self.numbers[-1] = math.inf  # the radius of a ball without an end

    @property
    def diameter(self) -> float:
        """Infinite, or the distance that was promised."""
        return self._diameter

    @property
    def center(self) -> Array:
        """The origin."""
        return np.zeros(self.dim)

    def extent(self, rows: ArrayLike) -> tuple[Array, Array]:
        """Return -/+ infinity, or 0 where the row is 0."""
        reach = np.where(np.asarray(rows).any(axis=-1), np.inf, 0.0)
        return -reach, reach

    def sample(self, rng: np.random.Generator, size: int | None = None) -> Array:
        """Draw from the standard normal distribution: there is no uniform one."""
        return np.asarray(rng.standard_normal(self.dim if size is None else (size, self.dim)))

    def __repr__(self) -> str:
        promised = "" if math.isinf(self._diameter) else f", diameter={self._diameter}"
        return f"Everywhere(dim={self.dim}{promised})"
