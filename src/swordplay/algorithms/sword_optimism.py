"""Sword.optimism (section 4.2 of the paper): the ensemble with hints from anywhere."""

from __future__ import annotations

from typing import Any

from swordplay import learning_rates, step_sizes
from swordplay._types import Array
from swordplay.assumptions import Assumptions
from swordplay.domains import Domain
from swordplay.ensemble import Ensemble
from swordplay.hints import GIVEN, DecisionDeviation
from swordplay.learning_rates import MetaRate


class SwordOptimism(Ensemble):
    r"""Sword.optimism: Sword++ with any hint M_t, given at ``decide(hint=M_t)``.

    .. math::
        \ell_{t,i} = \langle g_t, x_{t,i}\rangle + \lambda\|x_{t,i} - x_{t-1,i}\|^2, \quad
        m_{t,i} = \langle M_t, x_{t,i}\rangle + \lambda\|x_{t,i} - x_{t-1,i}\|^2

    Dynamic regret :math:`O(\sqrt{A_T (1 + P_T)})` with :math:`A_T = \sum_t \|g_t - M_t\|^2`
    (Theorems 5 and 9). Where no hint is given, M_t is the last gradient: with the default constants
    it then is Sword++.

    Args:
        domain: where decisions live.
        facts: G and T, and L where a constant below is left to its default.
        correction: lambda, default 2L.
        step_cap: eta-bar, the largest step size, default 1/(8L).
        rate_cap: epsilon-bar, the largest meta rate, default 1/(8 D^2 L).
        start, step_sizes, meta_rate, dtype: see :class:`swordplay.ensemble.Ensemble`.

    Reference:
        P. Zhao, Y.-J. Zhang, L. Zhang and Z.-H. Zhou, JMLR 25, 2024, Eqs. (30)-(34).

    >>> import swordplay as sp
    >>> facts = sp.Assumptions(lipschitz=1.0, smoothness=1.0, horizon=10_000)
    >>> learner = sp.SwordOptimism(sp.Ball(dim=2), facts)
    >>> learner.decide(hint=[0.0, 1.0]).round(4)
    array([ 0.    , -0.0574])
    """

    hint = GIVEN

    def __init__(
        self,
        domain: Domain,
        facts: Assumptions,
        *,
        correction: float | None = None,
        step_cap: float | None = None,
        rate_cap: float | None = None,
        **common: Any,
    ) -> None:
        for name, value in (("step_cap", step_cap), ("rate_cap", rate_cap)):
            if value is not None and not value > 0:
                raise ValueError(f"{name} must be positive, not {value!r}.")
        if correction is not None and not correction >= 0:
            raise ValueError(f"correction must be 0 or more, not {correction!r}.")
        self._strength, self._step_cap, self._rate_cap = correction, step_cap, rate_cap
        super().__init__(
            domain, facts, correction=correction, step_cap=step_cap, rate_cap=rate_cap, **common
        )

    def pool(self, horizon: int) -> Array:
        """Return min(eta-bar, 2^{i-1} sqrt(D^2 / (8 G^2 T))), Eq. (32)."""
        cap = self._step_cap or 1 / (8 * self.facts.smooth("SwordOptimism without step_cap="))
        return step_sizes.optimistic(self.domain.diameter, self.facts.lipschitz, horizon, cap)

    def correction(self) -> DecisionDeviation:
        """Return lambda c, Eq. (31)."""
        if self._strength is not None:
            return DecisionDeviation(self._strength)
        return DecisionDeviation(2 * self.facts.smooth("SwordOptimism without correction="))

    def rate(self, horizon: int, experts: int) -> MetaRate:
        """Return min(epsilon-bar, sqrt(ln N / (D^2 A_t))), Eq. (56)."""
        diameter, cap = self.domain.diameter, self._rate_cap
        if cap is None:
            smoothness = self.facts.smooth("SwordOptimism without rate_cap=")
            cap = 1 / (8 * diameter**2 * smoothness)
        return learning_rates.self_confident(cap, experts, diameter)
