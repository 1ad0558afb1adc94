"""Optimistic online mirror descent, Eq. (6): the building block, on its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from swordplay._types import Array
from swordplay.assumptions import Assumptions
from swordplay.domains import Domain
from swordplay.ensemble import Ensemble
from swordplay.hints import GIVEN
from swordplay.regularisers import Euclidean, Regulariser


class OptimisticOMD(Ensemble):
    r"""Optimistic OMD with one step size and hints given at ``decide(hint=M_t)``, Eq. (6).

    .. math::
        x_t = \arg\min_{x \in X} \eta\langle M_t, x\rangle + D_\psi(x, \hat x_t), \quad
        \hat x_{t+1} = \arg\min_{x \in X} \eta\langle g_t, x\rangle + D_\psi(x, \hat x_t)

    Where no hint is given, M_t is the last gradient. Theorem 1 bounds it for every regulariser.

    Args:
        domain: where decisions live.
        step_size: eta.
        regulariser: Euclidean() or, on the simplex, NegativeEntropy(), or one of your own.
        facts: G, L and T, for the certificate; the algorithm itself needs none of them.
        start, dtype: see :class:`swordplay.ensemble.Ensemble`.

    >>> import swordplay as sp
    >>> learner = sp.OptimisticOMD(sp.Simplex(2), step_size=1.0, regulariser=sp.NegativeEntropy())
    >>> learner.decide(hint=[0.0, 1.0]).round(3)
    array([0.731, 0.269])
    """

    hint = GIVEN

    def __init__(
        self,
        domain: Domain,
        facts: Assumptions | None = None,
        *,
        step_size: float | None = None,
        regulariser: Regulariser | None = None,
        step_sizes: Array | None = None,
        **common: Any,
    ) -> None:
        if (step_size is None) == (step_sizes is None):
            raise TypeError("OptimisticOMD needs its step: OptimisticOMD(domain, step_size=0.1).")
        self.regulariser = Euclidean() if regulariser is None else regulariser
        steps = np.array([step_size], dtype=np.float64) if step_sizes is None else step_sizes
        super().__init__(domain, facts, step_sizes=steps, regulariser=self.regulariser, **common)
