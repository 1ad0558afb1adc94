"""Sword_best (Zhao et al., NeurIPS 2020): the best of both, with N + 2 gradients a round."""

from __future__ import annotations

from typing import Any

import numpy as np

from swordplay import learning_rates, step_sizes
from swordplay._types import Array, ArrayLike
from swordplay.assumptions import Assumptions
from swordplay.domains import Domain
from swordplay.ensemble import Ensemble
from swordplay.hints import AT_MIXTURE_IF_TRUSTED
from swordplay.learning_rates import MetaRate


class SwordBest(Ensemble):
    r"""Sword_best: the base learners of Sword and of Sword_small together, one meta learner.

    The meta hint is :math:`\beta_t \nabla f_{t-1}(\bar x_t)`, trusted as far as it has earned:

    .. math:: \beta_t : 1 - \beta_t =
        e^{-2\sum_{s<t}\|\nabla f_s(x_s) - \nabla f_{s-1}(\bar x_s)\|^2} :
        e^{-2\sum_{s<t}\|\nabla f_s(x_s)\|^2}

    Dynamic regret :math:`O(\sqrt{(1 + P_T + \min(V_T, F_T))(1 + P_T)})`; Sword++ does the same with
    one gradient a round.

    Args:
        domain: where decisions live.
        facts: G, L and T.
        step_sizes: replaces both pools: each step size then serves once with and once without hint.
        start, meta_rate, dtype: see :class:`swordplay.ensemble.Ensemble`.

    Reference:
        P. Zhao, Y.-J. Zhang, L. Zhang and Z.-H. Zhou, Dynamic regret of convex and smooth
        functions, NeurIPS 2020.

    >>> import swordplay as sp
    >>> facts = sp.Assumptions(lipschitz=3.0, smoothness=1.0, horizon=10_000)
    >>> learner = sp.SwordBest(sp.Ball(dim=1), facts)
    >>> learner.learn(lambda x: x - 0.5)
    >>> learner.gradient_queries - len(learner.step_sizes)
    2
    """

    own = True
    hint = AT_MIXTURE_IF_TRUSTED

    def __init__(
        self,
        domain: Domain,
        facts: Assumptions,
        *,
        step_sizes: ArrayLike | None = None,
        **common: Any,
    ) -> None:
        both = None if step_sizes is None else np.tile(np.atleast_1d(np.asarray(step_sizes)), 2)
        self._with_hint = 0 if both is None else len(both) // 2
        super().__init__(domain, facts, step_sizes=both, **common)
        self._arguments["step_sizes"] = None if both is None else both[: len(both) // 2]

    def pool(self, horizon: int) -> Array:
        """Return the pool of Sword, Eq. (19), then that of Sword_small."""
        diameter, lipschitz = self.domain.diameter, self.facts.lipschitz
        smoothness = self.facts.smooth("SwordBest")
        cap = 1 / (4 * smoothness)
        varied = step_sizes.optimistic(diameter, lipschitz, horizon, cap)
        small = step_sizes.small_loss(diameter, lipschitz, smoothness, horizon)
        self._with_hint = len(varied)
        return np.concatenate([varied, small])

    def hinted(self, experts: int) -> Array:
        """Return 1 for the base learners of Sword, 0 for those of Sword_small."""
        return (np.arange(experts) < self._with_hint).astype(np.float64)

    def rate(self, horizon: int, experts: int) -> MetaRate:
        """Return min(1/(8 D^2 L), sqrt(ln N / (D^2 A_t)))."""
        diameter = self.domain.diameter
        cap = 1 / (8 * diameter**2 * self.facts.smooth("SwordBest"))
        return learning_rates.self_confident(cap, experts, diameter)
