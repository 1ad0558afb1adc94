"""Where the optimism M_t comes from, and the correction that keeps the two layers together.

A slot of the ensemble holds one of these objects. A hint of your own is an object with ``memory``
(how many floats of the learner's row it wants to keep) and ``__call__`` (the next M from the last
gradient); a correction of your own is a callable of the base learners' moves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from swordplay._types import Array
from swordplay.kernels import codes


@runtime_checkable
class Hint(Protocol):
    """A rule that guesses the next gradient from those that were seen."""

    def memory(self, dim: int) -> int:
        """Return how many floats of the state row the rule keeps between rounds."""

    def __call__(self, gradient: Array, memory: Array) -> Array:
        """Return M_{t+1} (d,) from grad f_t(x_t); ``memory`` may be read and written."""


@dataclass(frozen=True)
class BuiltInHint:
    """A hint that the kernels know."""

    code: int


NOTHING = BuiltInHint(codes.NO_HINT)
"""M_t = 0: the algorithms without optimism."""
LAST_GRADIENT = BuiltInHint(codes.LAST_GRADIENT)
"""M_t = grad f_{t-1}(x_{t-1}): OEGD, Sword++."""
GIVEN = BuiltInHint(codes.GIVEN_HINT)
"""M_t from the player, at ``decide(hint=M_t)``: Sword.optimism. The last gradient if not given."""
AT_MIXTURE = BuiltInHint(codes.MIXTURE_HINT)
"""M_t = grad f_{t-1}(x-bar_t), x-bar_t = sum_i p_{t-1,i} x_{t,i}: Sword, Eq. (15)."""
AT_MIXTURE_IF_TRUSTED = BuiltInHint(codes.TRUSTED_MIXTURE_HINT)
"""M_t = beta_t grad f_{t-1}(x-bar_t), beta_t learned: Sword_best."""


@runtime_checkable
class Correction(Protocol):
    """lambda c_{t,i}: what the meta learner adds to the loss and the hint of a base learner."""

    def __call__(self, bases: Array, last_bases: Array) -> Array:
        """Return the penalties (N,) of moving from ``last_bases`` to ``bases``, both (N, d)."""


@dataclass(frozen=True)
class DecisionDeviation:
    r""":math:`\lambda \|x_{t,i} - x_{t-1,i}\|_2^2`, Eqs. (22)-(23)."""

    strength: float

    def __call__(self, bases: Array, last_bases: Array) -> Array:
        """Return the squared moves, times lambda."""
        penalty: Array = self.strength * np.sum((bases - last_bases) ** 2, axis=1)
        return penalty
