"""The meta learner's rate and the weights it makes.

Every rate of the paper is min(cap, sqrt(numerator / (offset + sum))), where the sum is A_t (what
the hints missed) or V-bar_t (how much consecutive gradients differed). A fixed rate has an infinite
numerator. Where offset + sum is 0 the cap stands.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from swordplay._types import Array
from swordplay.kernels import codes


@dataclass(frozen=True)
class MetaRate:
    """min(cap, sqrt(numerator / (offset + A_t))), or V-bar_t in place of A_t."""

    cap: float
    numerator: float = math.inf
    offset: float = 0.0
    watches: int = codes.WATCH_ADAPTIVITY

    @property
    def fixed(self) -> bool:
        """Whether the rate never changes."""
        return math.isinf(self.numerator)

    def after(self, adaptivity: float, variation: float) -> float:
        """Return the rate after rounds with these sums."""
        watched = variation if self.watches == codes.WATCH_GRADIENT_VARIATION else adaptivity
        watched += self.offset
        return self.cap if watched <= 0 else min(self.cap, math.sqrt(self.numerator / watched))


def fixed(rate: float) -> MetaRate:
    """Return the same rate in every round (Theorems 3-5, where the player knows the sum)."""
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"meta_rate must be a positive finite number, not {rate!r}.")
    return MetaRate(cap=float(rate))


def self_confident(cap: float, experts: int, diameter: float) -> MetaRate:
    r"""Return :math:`\min(\bar\varepsilon, \sqrt{\ln N / (D^2 A_t)})`, appendix B."""
    return MetaRate(cap=cap, numerator=math.log(experts) / diameter**2)


def self_confident_variation(
    cap: float, experts: int, diameter: float, lipschitz: float
) -> MetaRate:
    r"""Return :math:`\min(\bar\varepsilon, \sqrt{\ln N / (2 D^2 (G^2 + \bar V_t))})`, for Sword."""
    return MetaRate(
        cap=cap,
        numerator=math.log(experts) / (2 * diameter**2),
        offset=lipschitz**2,
        watches=codes.WATCH_GRADIENT_VARIATION,
    )


def hedge(log_prior: Array, rate: float, totals: Array) -> Array:
    """Return p_i ~ prior_i exp(-rate * totals_i), computed in the log domain.

    >>> hedge(np.log([0.5, 0.5]), 1.0, np.array([0.0, 1000.0]))
    array([1., 0.])
    """
    score = log_prior - rate * totals
    weights = np.exp(score - score.max())
    normalised: Array = weights / weights.sum()
    return normalised
