"""Sword++ (section 3.3 of the paper): gradient variation with one gradient a round."""

from __future__ import annotations

from swordplay import learning_rates, step_sizes
from swordplay._types import Array
from swordplay.ensemble import Ensemble
from swordplay.hints import LAST_GRADIENT, DecisionDeviation
from swordplay.learning_rates import MetaRate


class SwordPP(Ensemble):
    r"""Sword++: every base learner follows g_t = grad f_t(x_t), hinted by g_{t-1}.

    .. math::
        \ell_{t,i} = \langle g_t, x_{t,i}\rangle + \lambda\|x_{t,i} - x_{t-1,i}\|^2, \quad
        m_{t,i} = \langle g_{t-1}, x_{t,i}\rangle + \lambda\|x_{t,i} - x_{t-1,i}\|^2

    The correction makes the two layers collaborate: it penalises base learners that move much, so
    that x_t moves little and g_{t-1} predicts g_t. Dynamic regret
    :math:`O(\sqrt{(1 + P_T + \min(V_T, F_T))(1 + P_T)})` (Theorems 4, 6 and 10).

    Args:
        domain: where decisions live.
        facts: G, L and T.
        start, step_sizes, meta_rate, dtype: see :class:`swordplay.ensemble.Ensemble`.

    Reference:
        P. Zhao, Y.-J. Zhang, L. Zhang and Z.-H. Zhou, JMLR 25, 2024, Algorithms 3 and 4.

    >>> import swordplay as sp
    >>> facts = sp.Assumptions(lipschitz=1.0, smoothness=1.0, horizon=10_000)
    >>> learner = sp.SwordPP(sp.Ball(dim=2), facts)
    >>> learner.step_sizes.round(4)
    array([0.0071, 0.0141, 0.0283, 0.0566, 0.1131, 0.125 ])
    >>> learner.learn([1.0, 0.0])
    >>> learner.decide().round(4)
    array([-0.1149,  0.    ])
    """

    hint = LAST_GRADIENT  # M_t = grad f_{t-1}(x_{t-1}), for both layers, Eqs. (20) and (23)

    def pool(self, horizon: int) -> Array:
        """Return min(1/(8L), 2^{i-1} sqrt(D^2 / (8 G^2 T))), Eq. (26)."""
        cap = 1 / (8 * self.facts.smooth("SwordPP"))
        return step_sizes.optimistic(self.domain.diameter, self.facts.lipschitz, horizon, cap)

    def correction(self) -> DecisionDeviation:
        """Return lambda c with lambda = 2L, Eqs. (22)-(23) and Theorem 4."""
        return DecisionDeviation(2 * self.facts.smooth("SwordPP"))

    def rate(self, horizon: int, experts: int) -> MetaRate:
        """Return min(1/(8 D^2 L), sqrt(ln N / (D^2 A_t))), Eq. (56)."""
        diameter = self.domain.diameter
        cap = 1 / (8 * diameter**2 * self.facts.smooth("SwordPP"))
        return learning_rates.self_confident(cap, experts, diameter)
