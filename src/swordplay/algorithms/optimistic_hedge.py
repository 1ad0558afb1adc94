"""Optimistic Hedge, Eqs. (12) and (54): prediction with expert advice, on its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from swordplay import learning_rates
from swordplay.domains import Simplex
from swordplay.ensemble import Ensemble
from swordplay.hints import GIVEN
from swordplay.learning_rates import MetaRate


class OptimisticHedge(Ensemble):
    r"""Weights over experts, p_{t+1,i} ~ exp(-eps_t (sum_s l_{s,i} + m_{t+1,i})).

    It is the ensemble whose base learners stand still, each on a corner of the simplex, so
    ``decide()`` returns p_t, ``decide(hint=m_t)`` takes the optimism and ``learn(losses)`` the loss
    vector. Where no hint is given, m_t is the last loss vector. Its row holds N^2 floats: meant for
    up to some thousands of experts. Lemma 2 bounds its regret.

    Args:
        experts: N.
        meta_rate: a fixed rate; by default min(1, sqrt(ln N / sum |l_s - m_s|_inf^2)) with the
            Euclidean norm in place of the largest entry, which is never smaller.
        dtype: float64 or float32, of the row.

    >>> import swordplay as sp
    >>> learner = sp.OptimisticHedge(experts=3, meta_rate=1.0)
    >>> learner.learn([0.0, 1.0, 1.0])
    >>> learner.decide(hint=[0.0, 0.0, 0.0]).round(3)
    array([0.576, 0.212, 0.212])
    """

    hint = GIVEN

    def __init__(self, experts: int, *, meta_rate: float | None = None, **common: Any) -> None:
        domain = Simplex(experts)
        for name in ("start", "step_sizes"):
            if name in common:
                raise TypeError(f"OptimisticHedge takes no {name}=: experts stand still.")
        super().__init__(
            domain,
            None,
            start=np.eye(domain.dim),
            step_sizes=np.zeros(domain.dim),
            meta_rate=meta_rate,
            **common,
        )
        self._arguments = {
            "experts": domain.dim,
            "meta_rate": self._arguments["meta_rate"],
            "dtype": self._arguments["dtype"],
        }

    def rate(self, horizon: int, experts: int) -> MetaRate:
        """Return min(1, sqrt(ln N / A_t))."""
        return learning_rates.self_confident(1.0, experts, 1.0)
