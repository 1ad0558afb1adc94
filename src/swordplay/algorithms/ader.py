"""Ader and Ader++ (Zhang, Lu and Zhou, NeurIPS 2018)."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from swordplay import learning_rates, step_sizes
from swordplay._types import Array
from swordplay.assumptions import Assumptions
from swordplay.domains import Domain
from swordplay.ensemble import Ensemble
from swordplay.learning_rates import MetaRate


class Ader(Ensemble):
    r"""Adaptive learning for dynamic environments: a pool of OGD under Hedge.

    Step sizes :math:`2^{i-1} (D/G) \sqrt{7/(2T)}`, prior :math:`p_i \propto 1/(i(i+1))`, rate
    :math:`\sqrt{2/(T G^2 D^2)}`; regret O(sqrt(T (1 + P_T))), whatever the losses.

    With ``surrogate=True`` it is Ader++: every base learner follows the one gradient
    :math:`\nabla f_t(x_t)` through the surrogate :math:`\langle \nabla f_t(x_t), x - x_t \rangle`.
    Without, base learners query their own gradients :math:`\nabla f_t(x_{t,i})`. A departure: the
    published Ader hands the meta learner the values f_t(x_{t,i}); learners here see gradients
    only, so it gets :math:`\langle \nabla f_t(x_t), x_{t,i} \rangle`. By convexity the regret bound
    stays as it was; it costs one gradient more, N + 1 a round.

    Args:
        domain: where decisions live.
        facts: G and T (L is not used).
        surrogate: True for Ader++.
        start, step_sizes, meta_rate, dtype: see :class:`swordplay.ensemble.Ensemble`.

    Reference:
        L. Zhang, S. Lu and Z.-H. Zhou, Adaptive online learning in dynamic environments, 2018.

    >>> import swordplay as sp
    >>> facts = sp.Assumptions(lipschitz=1.0, horizon=100)
    >>> learner = sp.Ader(sp.Ball(dim=2), facts, surrogate=True)
    >>> learner.step_sizes.round(3), learner.weights.round(3)
    (array([0.374, 0.748, 1.497, 2.993]), array([0.625, 0.208, 0.104, 0.062]))
    """

    def __init__(
        self, domain: Domain, facts: Assumptions, *, surrogate: bool = False, **common: Any
    ) -> None:
        self.surrogate = bool(surrogate)
        self.own = not self.surrogate
        super().__init__(domain, facts, surrogate=self.surrogate, **common)

    def pool(self, horizon: int) -> Array:
        """Return 2^{i-1} (D/G) sqrt(7/(2T))."""
        return step_sizes.ader(self.domain.diameter, self.facts.lipschitz, horizon)

    def prior(self, experts: int) -> Array:
        """Return p_i ~ 1/(i(i+1))."""
        i = np.arange(1, experts + 1)
        return (1 + 1 / experts) / (i * (i + 1))

    def rate(self, horizon: int, experts: int) -> MetaRate:
        """Return the fixed rate sqrt(2 / (T G^2 D^2))."""
        scale = self.facts.lipschitz * self.domain.diameter
        return learning_rates.fixed(math.sqrt(2 / horizon) / scale)
