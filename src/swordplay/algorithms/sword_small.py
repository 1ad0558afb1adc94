"""Sword_small (Zhao et al., NeurIPS 2020): small loss with N + 1 gradients a round."""

from __future__ import annotations

from swordplay import learning_rates, step_sizes
from swordplay._types import Array
from swordplay.ensemble import Ensemble
from swordplay.learning_rates import MetaRate


class SwordSmall(Ensemble):
    r"""Sword_small: base learners are OGD on f_t itself, under Hedge; no hints.

    Dynamic regret :math:`O(\sqrt{(1 + P_T + F_T)(1 + P_T)})` for losses that are never negative.
    ``learn`` takes the function x -> grad f_t(x) and calls it N + 1 times: at the x_{t,i} and x_t.
    The meta rate is min(1/(8 D^2 L), sqrt(ln N / (D^2 sum |grad f_s(x_s)|^2))): Theorem 9 with
    M_t = 0, and :math:`\|\nabla f\|^2 \le 4Lf` turns the sum into a small loss.

    Args:
        domain: where decisions live.
        facts: G, L and T.
        start, step_sizes, meta_rate, dtype: see :class:`swordplay.ensemble.Ensemble`.

    Reference:
        P. Zhao, Y.-J. Zhang, L. Zhang and Z.-H. Zhou, Dynamic regret of convex and smooth
        functions, NeurIPS 2020.

    >>> import swordplay as sp
    >>> facts = sp.Assumptions(lipschitz=3.0, smoothness=1.0, horizon=10_000)
    >>> learner = sp.SwordSmall(sp.Ball(dim=1), facts)
    >>> learner.learn(lambda x: x - 0.5)
    >>> learner.gradient_queries - len(learner.step_sizes)
    1
    """

    own = True

    def pool(self, horizon: int) -> Array:
        """Return min(1/(4L), 2^{i-1} sqrt(D / (16 L G T)))."""
        return step_sizes.small_loss(
            self.domain.diameter, self.facts.lipschitz, self.facts.smooth("SwordSmall"), horizon
        )

    def rate(self, horizon: int, experts: int) -> MetaRate:
        """Return min(1/(8 D^2 L), sqrt(ln N / (D^2 A_t))), A_t = sum |grad f_s(x_s)|^2."""
        diameter = self.domain.diameter
        cap = 1 / (8 * diameter**2 * self.facts.smooth("SwordSmall"))
        return learning_rates.self_confident(cap, experts, diameter)
