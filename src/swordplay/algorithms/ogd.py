"""OGD: online gradient descent (Zinkevich, ICML 2003)."""

from __future__ import annotations

import numpy as np

from swordplay import step_sizes
from swordplay._types import Array
from swordplay.ensemble import Ensemble


class OGD(Ensemble):
    r"""Online gradient descent, :math:`x_{t+1} = \Pi_X[x_t - \eta \nabla f_t(x_t)]`.

    One base learner without a hint; default step :math:`\eta = D / (G \sqrt T)`.

    Args:
        domain: where decisions live.
        facts: G and T (L is not used).
        start, step_sizes, meta_rate, dtype: see :class:`swordplay.ensemble.Ensemble`.

    Reference:
        M. Zinkevich, Online convex programming and generalized infinitesimal gradient ascent, 2003.

    >>> import swordplay as sp
    >>> learner = sp.OGD(sp.Ball(dim=2), sp.Assumptions(lipschitz=1.0, horizon=100))
    >>> learner.learn([1.0, 0.0])
    >>> learner.decide()
    array([-0.2,  0. ])
    """

    def pool(self, horizon: int) -> Array:
        """Return the single step D / (G sqrt T)."""
        step = step_sizes.single(self.domain.diameter, self.facts.lipschitz, horizon)
        return np.array([step])
