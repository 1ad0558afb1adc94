"""OEGD: online extra-gradient descent (Chiang et al., COLT 2012), Eq. (8)."""

from __future__ import annotations

import numpy as np

from swordplay import step_sizes
from swordplay._types import Array
from swordplay.ensemble import Ensemble
from swordplay.hints import LAST_GRADIENT


class OEGD(Ensemble):
    r"""Optimistic online gradient descent with the last gradient as its hint, Eq. (8).

    .. math:: x_t = \Pi_X[\hat x_t - \eta \nabla f_{t-1}(x_{t-1})], \quad
              \hat x_{t+1} = \Pi_X[\hat x_t - \eta \nabla f_t(x_t)]

    Default step :math:`\eta = \min(1/(4L), D / (G \sqrt T))`; Lemma 1 asks for at most 1/(4L).

    Args:
        domain: where decisions live.
        facts: G, L and T.
        start, step_sizes, meta_rate, dtype: see :class:`swordplay.ensemble.Ensemble`.

    Reference:
        C.-K. Chiang et al., Online optimization with gradual variations, COLT 2012.

    >>> import swordplay as sp
    >>> facts = sp.Assumptions(lipschitz=1.0, smoothness=1.0, horizon=100)
    >>> learner = sp.OEGD(sp.Ball(dim=2), facts)
    >>> learner.learn([1.0, 0.0])
    >>> learner.decide()
    array([-0.4,  0. ])
    """

    hint = LAST_GRADIENT

    def pool(self, horizon: int) -> Array:
        """Return the single step min(1/(4L), D / (G sqrt T))."""
        step = step_sizes.single(self.domain.diameter, self.facts.lipschitz, horizon)
        return np.array([min(1 / (4 * self.facts.smooth("OEGD")), step)])
