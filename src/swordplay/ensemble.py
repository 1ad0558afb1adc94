r"""The collaborative online ensemble, section 4 of the paper.

N base learners play optimistic OMD with step sizes eta_i; a meta learner weighs their decisions by
optimistic Hedge. In round t, with g_t = grad f_t(x_t):

    x_{t,i}       = argmin eta_i <base hint, x> + D(x, x^_{t,i})                         Eq. (27)
    p_{t,i}       ~ prior_i exp(-eps_{t-1} (sum_{s<t} l_{s,i} + m_{t,i}))                Eq. (54)
    x_t           = sum_i p_{t,i} x_{t,i}
    x^_{t+1,i}    = argmin eta_i <base gradient, x> + D(x, x^_{t,i})                     Eq. (27)
    l_{t,i}       = <g_t, x_{t,i}> + lambda c_{t,i}                                      Eq. (29)
    m_{t,i}       = <M_t, x_{t,i}> + lambda c_{t,i},   c_{t,i} = |x_{t,i} - x_{t-1,i}|^2

An algorithm is a choice of four slots and of the constants of its theorem:

    slot         what it fills                     choices
    own          base gradient: f_t at x_{t,i}     True: one gradient a base learner and round
                 or g_t for all                    False: one gradient a round
    hint         M_t                               swordplay.hints, or a rule of yours
    correction   lambda c_{t,i}                    DecisionDeviation(lambda), or a rule of yours
    regulariser  D                                 Euclidean(), NegativeEntropy(), or yours

The base hint is M_t; where ``own`` is True it is the base learner's own last gradient.

Slots and domains that swordplay brings run compiled (``swordplay.kernels.ensemble``); with a slot
or a domain of yours the same round runs here, in NumPy, on the same row.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from swordplay import learning_rates, state
from swordplay._types import Array, ArrayLike
from swordplay.hints import (
    AT_MIXTURE,
    AT_MIXTURE_IF_TRUSTED,
    GIVEN,
    NOTHING,
    BuiltInHint,
    DecisionDeviation,
)
from swordplay.horizon import Timed
from swordplay.kernels import ensemble as kernels

Gradient = Callable[[Array], ArrayLike]


class Ensemble(Timed):
    """N base learners under a meta learner; a subclass names the slots and the constants.

    Args:
        domain: where decisions live.
        facts: G, L and T.
        start: the first decision, (d,), or one for each base learner, (N, d); default the centre.
        step_sizes: the base learners' step sizes, in place of ``pool``.
        meta_rate: a fixed rate, in place of the self-confident ``rate``.
        dtype: float64 or float32, of the row.
    """

    # ------------------------------------------------------------------ the game

    def decide(self, hint: ArrayLike | None = None) -> Array:
        """Return x_t, the same until ``learn`` is called.

        Args:
            hint: M_t, a guess of grad f_t(x_t), for a learner whose hint is GIVEN; the last
                gradient where none is given.
        """
        if hint is not None:
            if self.hint != GIVEN:
                raise TypeError(
                    f"{type(self).__name__} makes its own hint; only a learner whose hint is GIVEN "
                    "(SwordOptimism, OptimisticOMD) takes decide(hint=...)."
                )
            given = self._vector(hint, "The hint")
            with np.errstate(over="ignore"):
                if not np.isfinite(np.sum(np.square(given, dtype=np.float64))):
                    raise ValueError(
                        f"The hint of round {self.round + 1} is {given}: it must be finite, and "
                        "its square too. The learner is as it was before."
                    )
            self._state["hint"][:] = given
            if self._compiled:
                kernels.lean_on(self._row, self._recipe)
            else:
                self._lean(self._state["hint"])
                self._weigh(self._state["hint"])
        return self._row[self._at].copy()

    def learn(self, gradient: ArrayLike | Gradient) -> None:
        """Take in what round t showed and prepare round t + 1.

        Args:
            gradient: grad f_t(x_t); where ``own`` is True, the function x -> grad f_t(x).
        """
        if self.own:
            if not callable(gradient):
                raise TypeError(
                    f"{type(self).__name__} asks for gradients at several points a round: pass the "
                    "function x -> grad f_t(x), not one gradient."
                )
            self._learn_many(gradient)
        else:
            seen = gradient(self.decide()) if callable(gradient) else gradient
            g = self._vector(seen, "The gradient")
            if self._compiled:
                verdict = self._learn(self._row, self._recipe, g)
                if verdict == kernels.FINE:
                    return
                if verdict == kernels.REFUSED:
                    self._refuse(g)
            else:
                self._learn_plain(g)
        self._keep_promises()

    def _vector(self, value: ArrayLike, what: str) -> Array:
        if (  # the common case, which a microsecond's work deserves
            type(value) is np.ndarray
            and value.dtype is self._dtype
            and value.shape == self._shape
            and value.flags.c_contiguous
        ):
            return value
        with np.errstate(over="ignore"):  # what float32 cannot hold is refused as infinite
            vector = np.ascontiguousarray(value, dtype=self._dtype)
        if vector.shape != (self._layout.dim,):
            raise ValueError(f"{what} must have shape ({self._layout.dim},), not {vector.shape}.")
        return vector

    def _refuse(self, gradient: Array, began: int = 1) -> None:
        where = np.flatnonzero(~np.isfinite(gradient))
        what = f"is {gradient.flat[where[0]]} at index {where[0]}" if where.size else "overflows"
        raise ValueError(
            f"The gradient of round {self.round + began} {what}; the learner is as it was before."
        )

    # ------------------------------------------------------------------ many gradients a round

    def _learn_many(self, gradient: Gradient) -> None:
        before = self._row.copy()
        try:
            self._learn_own(lambda x: self._vector(gradient(x), "The gradient"))
        except BaseException:
            self._row[:] = before
            raise

    def _learn_own(self, gradient: Callable[[Array], Array]) -> None:
        s = self._state
        g = gradient(self.decide())
        own = np.stack([gradient(x.copy()) for x in s["bases"]])
        s["head"][state.QUERIES] += 1 + len(own)
        asks_mixture = self.hint in (AT_MIXTURE, AT_MIXTURE_IF_TRUSTED)
        if self._compiled:
            if not kernels.settle_own(self._row, self._recipe, g, own.reshape(-1)):
                self._refuse(np.concatenate([g, own.reshape(-1)]))
        else:
            self._settle_plain(g, own)
        mixture = g
        if asks_mixture:
            mixture = gradient(self.decide())  # x-bar_{t+1} stands where x_{t+1} will be
            s["head"][state.QUERIES] += 1
            if not np.isfinite(mixture).all():
                self._refuse(mixture, began=0)  # this round has been counted
        if self._compiled:
            kernels.weigh_own(self._row, self._recipe, mixture)
        else:
            self._weigh_mixture(mixture)

    # ------------------------------------------------------------------ the same round, in NumPy

    def _learn_plain(self, g: Array) -> None:
        if not np.isfinite(g).all():
            self._refuse(g)
        s = self._state
        before = self._row.copy()
        try:
            self._pay(g)
            s["head"][state.QUERIES] += 1
            self._settle(g)
            s["last_weights"][:] = s["weights"]
            if isinstance(self.hint, BuiltInHint):
                s["hint"][:] = g
            else:
                s["hint"][:] = self._vector(self.hint(g.copy(), s["memory"]), "The hint")
            self._lean(s["hint"])
            self._weigh(s["hint"])
        except BaseException:
            self._row[:] = before
            raise

    def _settle_plain(self, g: Array, own: Array) -> None:
        s = self._state
        self._pay(g)
        gaps = own - self._hinted[:, None] * s["own_gradients"]
        s["own_surprise"] += np.sum(gaps**2, axis=1)
        s["own_gradients"][:] = own
        self._settle(own)
        s["last_weights"][:] = s["weights"]
        self._lean(own)
        s["decision"][:] = s["weights"] @ s["bases"]  # x-bar_{t+1}, Eq. (15)

    def _weigh_mixture(self, mixture: Array) -> None:
        s, head = self._state, self._state["head"]
        s["hint"][:] = mixture
        if self.hint == AT_MIXTURE_IF_TRUSTED:
            gap = 2 * (head[state.DISTRUST] - head[state.ENERGY])
            head[state.TRUST] = 1 / (1 + math.exp(gap)) if gap < 700 else 0.0
        self._weigh(s["hint"])

    def _pay(self, g: Array) -> None:
        """Account for g_t: the sums, the stabilities of round t, and the losses l_t."""
        s, head = self._state, self._state["head"]
        hint = 0.0 if self.hint == NOTHING else head[state.TRUST] * s["hint"]
        with np.errstate(over="ignore"):
            surprise = float(np.sum(np.square(g - hint, dtype=np.float64)))
            energy = float(np.sum(np.square(g, dtype=np.float64)))
        if not math.isfinite(energy):
            self._refuse(g)
        head[state.META_STABILITY] += head[state.SHIFT]
        head[state.MIX_STABILITY] += s["weights"] @ s["moved"]
        s["travel"] += s["moved"]
        if head[state.ROUND] > 0:
            head[state.VARIATION] += np.sum(np.square(g - s["gradient"], dtype=np.float64))
        head[state.ADAPTIVITY] += surprise
        head[state.ENERGY] += energy
        head[state.DISTRUST] += np.sum(np.square(g - s["hint"], dtype=np.float64))
        head[state.SPENT] += head[state.RATE] * surprise
        head[state.STEEPEST] = max(head[state.STEEPEST], energy)
        head[state.ROUND] += 1

        penalty = self._correction(s["bases"], s["last_bases"])
        if isinstance(self._correction, DecisionDeviation):
            penalty = self._correction.strength * s["moved"]
        s["totals"] += s["bases"] @ g + penalty  # Eq. (29)
        s["totals"] -= s["totals"].min()  # only differences matter
        s["gradient"][:] = g

    def _settle(self, gradients: Array) -> None:
        """x-hat_{t+1,i} = argmin eta_i <g_{t,i}, x> + D(x, x-hat_{t,i}), Eq. (27)."""
        s = self._state
        directions = self._steps[:, None] * gradients
        s["anchors"][:] = self.regulariser.step(self.domain, s["anchors"], directions)
        s["last_bases"][:] = s["bases"]

    def _lean(self, hints: Array) -> None:
        """x_{t+1,i} = argmin eta_i <M_i, x> + D(x, x-hat_{t+1,i}), Eq. (27)."""
        s = self._state
        directions = (self._hinted * self._steps)[:, None] * hints
        bases = self.regulariser.step(self.domain, s["anchors"], directions)
        s["moved"][:] = np.sum((bases - s["last_bases"]) ** 2, axis=1)
        s["bases"][:] = bases

    def _weigh(self, hint: Array) -> None:
        """p_{t+1,i} ~ prior_i exp(-eps_t (sum l_{s,i} + m_{t+1,i})), Eq. (54)."""
        s, head = self._state, self._state["head"]
        eps = self._rate_now()
        optimism = self._correction(s["bases"], s["last_bases"])
        if isinstance(self._correction, DecisionDeviation):
            optimism = self._correction.strength * s["moved"]
        if self.hint != NOTHING:
            optimism = optimism + head[state.TRUST] * (s["bases"] @ hint)
        s["weights"][:] = learning_rates.hedge(s["log_prior"], eps, s["totals"] + optimism)
        head[state.RATE] = eps
        head[state.SHIFT] = np.sum(np.abs(s["weights"] - s["last_weights"])) ** 2
        s["decision"][:] = s["weights"] @ s["bases"]
