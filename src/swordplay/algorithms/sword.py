"""Sword (section 3.2 of the paper): gradient variation with N + 2 gradients a round."""

from __future__ import annotations

from swordplay import learning_rates, step_sizes
from swordplay._types import Array
from swordplay.ensemble import Ensemble
from swordplay.hints import AT_MIXTURE
from swordplay.learning_rates import MetaRate


class Sword(Ensemble):
    r"""Sword: base learners are OEGD on f_t itself; the meta hint looks at a mixture.

    .. math::
        \ell_{t,i} = \langle \nabla f_t(x_t), x_{t,i}\rangle, \quad
        m_{t,i} = \langle \nabla f_{t-1}(\bar x_t), x_{t,i}\rangle, \quad
        \bar x_t = \sum_i p_{t-1,i} x_{t,i}

    Dynamic regret :math:`O(\sqrt{(1 + P_T + V_T)(1 + P_T)})` (Theorem 3). ``learn`` takes the
    function x -> grad f_t(x) and calls it N + 2 times: at every x_{t,i}, at x_t, at x-bar_{t+1}.

    Args:
        domain: where decisions live.
        facts: G, L and T.
        start, step_sizes, meta_rate, dtype: see :class:`swordplay.ensemble.Ensemble`.

    Reference:
        P. Zhao, Y.-J. Zhang, L. Zhang and Z.-H. Zhou, JMLR 25, 2024, Algorithms 1 and 2.

    >>> import swordplay as sp
    >>> facts = sp.Assumptions(lipschitz=3.0, smoothness=1.0, horizon=10_000)
    >>> learner = sp.Sword(sp.Ball(dim=1), facts)
    >>> for _ in range(100):
    ...     learner.learn(lambda x: x - 0.5)
    >>> learner.gradient_queries // 100 - len(learner.step_sizes), learner.decide().round(3)
    (2, array([0.4]))
    """

    own = True
    hint = AT_MIXTURE  # Eq. (15)

    def pool(self, horizon: int) -> Array:
        """Return min(1/(4L), 2^{i-1} sqrt(D^2 / (8 G^2 T))), Eq. (19)."""
        cap = 1 / (4 * self.facts.smooth("Sword"))
        return step_sizes.optimistic(self.domain.diameter, self.facts.lipschitz, horizon, cap)

    def rate(self, horizon: int, experts: int) -> MetaRate:
        """Return min(1/(4 D^2 L), sqrt(ln N / (2 D^2 (G^2 + V-bar_t)))), Theorem 2."""
        diameter, lipschitz = self.domain.diameter, self.facts.lipschitz
        cap = 1 / (4 * diameter**2 * self.facts.smooth("Sword"))
        return learning_rates.self_confident_variation(cap, experts, diameter, lipschitz)
