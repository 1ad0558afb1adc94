"""Losses of a linear model: the value and the slope of loss(y, prediction) in the prediction.

At a kink the slope is 0 where 0 is a subgradient: :class:`Absolute` and :class:`Pinball` at
y = prediction.
"""

from __future__ import annotations

import math

import numpy as np

from swordplay._types import Array, ArrayLike
from swordplay.kernels import codes
from swordplay.kernels import losses as kernels


class Loss:
    """A convex function of (y, prediction) that the kernels know by a code and one number."""

    code: int
    number: float = 0.0
    smoothness: float = math.inf
    """The largest second derivative in the prediction; infinite where the loss has a kink."""

    def value(self, y: ArrayLike, prediction: ArrayLike) -> Array:
        """Return the loss."""
        raise NotImplementedError

    def slope(self, y: ArrayLike, prediction: ArrayLike) -> Array:
        """Return the derivative of the loss in the prediction."""
        raise NotImplementedError

    def steepest(self, y: ArrayLike, low: ArrayLike, high: ArrayLike) -> Array:
        """Return the largest size of the slope for predictions between ``low`` and ``high``.

        Slopes of a convex loss rise, so it stands at one of the ends.
        """
        return np.maximum(np.abs(self.slope(y, low)), np.abs(self.slope(y, high)))

    def check_targets(self, y: Array) -> None:
        """Refuse targets that the loss has no meaning for."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Loss):
            return NotImplemented
        return (self.code, self.number) == (other.code, other.number)

    def __hash__(self) -> int:
        return hash((self.code, self.number))

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


def _residual(y: ArrayLike, prediction: ArrayLike) -> Array:
    residual: Array = np.asarray(prediction, dtype=np.float64) - np.asarray(y, dtype=np.float64)
    return residual


class Squared(Loss):
    r""":math:`\tfrac12 (\hat y - y)^2`.

    >>> float(Squared().value(1.0, 3.0)), float(Squared().slope(1.0, 3.0))
    (2.0, 2.0)
    """

    code = codes.SQUARED
    smoothness = 1.0

    def value(self, y: ArrayLike, prediction: ArrayLike) -> Array:
        """Return half the squared residual."""
        return np.asarray(0.5 * _residual(y, prediction) ** 2)

    def slope(self, y: ArrayLike, prediction: ArrayLike) -> Array:
        """Return the residual."""
        return np.asarray(_residual(y, prediction))


class Huber(Loss):
    r""":math:`\tfrac12 r^2` for :math:`|r| \le \delta`, else :math:`\delta(|r| - \delta/2)`.

    >>> float(Huber(delta=2.0).value(0.0, 3.0)), float(Huber(delta=2.0).slope(0.0, 3.0))
    (4.0, 2.0)
    """

    code = codes.HUBER
    smoothness = 1.0

    def __init__(self, delta: float = 1.0) -> None:
        if not (math.isfinite(delta) and delta > 0):
            raise ValueError(f"delta must be positive and finite, not {delta!r}.")
        self.delta = self.number = float(delta)

    def value(self, y: ArrayLike, prediction: ArrayLike) -> Array:
        """Return the squared loss near the target, the absolute loss far from it."""
        size = np.abs(_residual(y, prediction))
        near = np.minimum(size, self.delta)
        return np.asarray(0.5 * near**2 + self.delta * (size - near))

    def slope(self, y: ArrayLike, prediction: ArrayLike) -> Array:
        """Return the residual, clipped to [-delta, delta]."""
        return np.asarray(np.clip(_residual(y, prediction), -self.delta, self.delta))

    def __repr__(self) -> str:
        return f"Huber(delta={self.delta})"


class Logistic(Loss):
    r""":math:`\ln(1 + e^{-y \hat y})` with :math:`y \in \{-1, +1\}`.

    >>> float(Logistic().value(1.0, 0.0).round(6)), float(Logistic().slope(1.0, 0.0))
    (0.693147, -0.5)
    """

    code = codes.LOGISTIC
    smoothness = 0.25

    def value(self, y: ArrayLike, prediction: ArrayLike) -> Array:
        """Return the log loss, without overflow."""
        return self._paid(y, prediction)[0]

    def slope(self, y: ArrayLike, prediction: ArrayLike) -> Array:
        """Return -y / (1 + exp(y prediction)), without overflow."""
        return self._paid(y, prediction)[1]

    def _paid(self, y: ArrayLike, prediction: ArrayLike) -> tuple[Array, Array]:
        """Return both by the kernel: NumPy's own exp may differ from it in the last bit."""
        y, prediction = np.asarray(y, np.float64), np.asarray(prediction, np.float64)
        if y.shape != prediction.shape:
            y, prediction = np.broadcast_arrays(y, prediction)
        values, slopes = np.empty(y.shape), np.empty(y.shape)
        # Copies, so that the kernel meets one kind of array alone.
        kernels.pay(
            self.code, self.number, y.flatten(), prediction.flatten(),
            values.reshape(-1), slopes.reshape(-1),
        )  # fmt: skip
        return values, slopes

    def check_targets(self, y: Array) -> None:
        """Refuse targets other than -1 and +1."""
        if not np.isin(y, (-1.0, 1.0)).all():
            raise ValueError("Logistic() needs targets of -1 and +1; map 0/1 labels with 2*y - 1.")


class Absolute(Loss):
    r""":math:`|\hat y - y|`.

    >>> float(Absolute().value(1.0, 3.0)), float(Absolute().slope(1.0, 1.0))
    (2.0, 0.0)
    """

    code = codes.ABSOLUTE

    def value(self, y: ArrayLike, prediction: ArrayLike) -> Array:
        """Return the size of the residual."""
        return np.asarray(np.abs(_residual(y, prediction)))

    def slope(self, y: ArrayLike, prediction: ArrayLike) -> Array:
        """Return the sign of the residual, 0 at the kink."""
        return np.asarray(np.sign(_residual(y, prediction)))

    def steepest(self, y: ArrayLike, low: ArrayLike, high: ArrayLike) -> Array:
        """Return 1: rounding alone leaves the kink."""
        return np.ones(np.broadcast_shapes(np.shape(y), np.shape(low), np.shape(high)))


class Pinball(Loss):
    r""":math:`q (y - \hat y)_+ + (1 - q) (\hat y - y)_+`, least at the q-quantile.

    >>> float(Pinball(q=0.9).value(1.0, 0.0)), float(Pinball(q=0.9).slope(1.0, 0.0))
    (0.9, -0.9)
    """

    code = codes.PINBALL

    def __init__(self, q: float = 0.5) -> None:
        if not 0 < q < 1:
            raise ValueError(f"q must lie strictly between 0 and 1, not {q!r}.")
        self.q = self.number = float(q)

    def value(self, y: ArrayLike, prediction: ArrayLike) -> Array:
        """Return the tilted absolute loss."""
        residual = _residual(y, prediction)
        return np.asarray(np.maximum((1.0 - self.q) * residual, -self.q * residual))

    def slope(self, y: ArrayLike, prediction: ArrayLike) -> Array:
        """Return -q below the target, 1 - q above it, 0 at the kink."""
        residual = _residual(y, prediction)
        return np.asarray(
            np.where(residual > 0, 1.0 - self.q, np.where(residual < 0, -self.q, 0.0))
        )

    def steepest(self, y: ArrayLike, low: ArrayLike, high: ArrayLike) -> Array:
        """Return q or 1 - q where only one side of the target can be reached, else the larger."""
        above, below = np.asarray(low) > np.asarray(y), np.asarray(high) < np.asarray(y)
        both = max(self.q, 1.0 - self.q)
        return np.asarray(np.where(above, 1.0 - self.q, np.where(below, self.q, both)))

    def __repr__(self) -> str:
        return f"Pinball(q={self.q})"
