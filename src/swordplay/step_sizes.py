"""The pools of step sizes, smallest first."""

from __future__ import annotations

import math

import numpy as np

from swordplay._types import Array


def _size(range_of_steps: float) -> int:
    """Return how many doublings span ``range_of_steps``, plus one; at least 1."""
    return max(1, math.ceil(math.log2(range_of_steps)) + 1) if range_of_steps > 0 else 1


def doubling(first: float, count: int, cap: float = math.inf) -> Array:
    """Return first, 2 first, 4 first, ..., ``count`` of them, none above ``cap``."""
    return np.asarray(np.minimum(cap, first * 2.0 ** np.arange(count)))


def single(diameter: float, lipschitz: float, horizon: int) -> float:
    r"""Return :math:`D / (G \sqrt T)`, the step of OGD."""
    return diameter / (lipschitz * math.sqrt(horizon))


def optimistic(diameter: float, lipschitz: float, horizon: int, cap: float) -> Array:
    r"""Return :math:`\min(\bar\eta, 2^{i-1} \sqrt{D^2 / (8 G^2 T)})`, the pool of Theorem 5.

    Its size :math:`\lceil \tfrac12 \log_2 (8 G^2 T \bar\eta^2 / D^2) \rceil + 1` becomes that of
    Sword with :math:`\bar\eta = 1/(4L)` and that of Sword++ with :math:`1/(8L)`.

    >>> optimistic(diameter=2.0, lipschitz=1.0, horizon=800, cap=0.1).round(4)
    array([0.025, 0.05 , 0.1  ])
    """
    first = diameter / (lipschitz * math.sqrt(8 * horizon))
    return doubling(first, _size(cap / first), cap)


def small_loss(diameter: float, lipschitz: float, smoothness: float, horizon: int) -> Array:
    r"""Return :math:`\min(1/(4L), 2^{i-1} \sqrt{D / (16 L G T)})`, the pool of Sword_small."""
    first, cap = math.sqrt(diameter / (16 * smoothness * lipschitz * horizon)), 1 / (4 * smoothness)
    return doubling(first, _size(cap / first), cap)


def ader(diameter: float, lipschitz: float, horizon: int) -> Array:
    r"""Return :math:`2^{i-1} (D/G) \sqrt{7/(2T)}` for i up to ceil(log2(1 + 4T/7) / 2) + 1."""
    first = diameter / lipschitz * math.sqrt(7 / (2 * horizon))
    return doubling(first, math.ceil(0.5 * math.log2(1 + 4 * horizon / 7)) + 1)
