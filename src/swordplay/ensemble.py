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

import inspect
import math
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from swordplay import learning_rates, state
from swordplay._types import Array, ArrayLike
from swordplay.assumptions import Assumptions, AssumptionWarning
from swordplay.domains import Ball, BuiltIn, Domain, Everywhere, Simplex
from swordplay.hints import (
    AT_MIXTURE,
    AT_MIXTURE_IF_TRUSTED,
    GIVEN,
    LAST_GRADIENT,
    NOTHING,
    BuiltInHint,
    Correction,
    DecisionDeviation,
    Hint,
)
from swordplay.kernels import ball, codes
from swordplay.kernels import ensemble as kernels
from swordplay.learner import Learner
from swordplay.learning_rates import MetaRate
from swordplay.regularisers import Euclidean, NegativeEntropy, Regulariser

Gradient = Callable[[Array], ArrayLike]

FIRST_GUESS = 16  # of an unknown horizon
NO_CORRECTION = DecisionDeviation(0.0)


class Ensemble(Learner):
    """N base learners under a meta learner; a subclass names the slots and the constants.

    Args:
        domain: where decisions live.
        facts: G, L and T.
        start: the first decision, (d,), or one for each base learner, (N, d); default the centre.
        step_sizes: the base learners' step sizes, in place of ``pool``.
        meta_rate: a fixed rate, in place of the self-confident ``rate``.
        dtype: float64 or float32, of the row.
    """

    own: bool = False
    hint: BuiltInHint | Hint = NOTHING
    regulariser: Regulariser = Euclidean()

    def pool(self, horizon: int) -> Array:
        """Return the step sizes for ``horizon`` rounds."""
        raise NotImplementedError

    def rate(self, horizon: int, experts: int) -> MetaRate:
        """Return the meta learner's rate; a single base learner needs none."""
        raise TypeError(
            f"{type(self).__name__} has {experts} base learners and no rule for its meta rate: "
            "give meta_rate=, or define rate() in your class."
        )

    def correction(self) -> Correction:
        """Return lambda c; nothing by default."""
        return NO_CORRECTION

    def prior(self, experts: int) -> Array:
        """Return p_1, uniform by default."""
        return np.full(experts, 1.0 / experts)

    def hinted(self, experts: int) -> Array:
        """Return 1 for a base learner that takes its hint, 0 for one that does not."""
        return np.full(experts, 0.0 if self.hint == NOTHING else 1.0)

    def __init__(
        self,
        domain: Domain,
        facts: Assumptions | None,
        *,
        start: ArrayLike | None = None,
        step_sizes: ArrayLike | None = None,
        meta_rate: float | None = None,
        dtype: DTypeLike = np.float64,
        **arguments: Any,
    ) -> None:
        given = facts is None and step_sizes is not None
        if not (given or isinstance(facts, Assumptions)):
            raise TypeError(f"facts must be Assumptions(lipschitz=..., ...), not {facts!r}.")
        parents = type(self).__mro__[:-1]
        for name in arguments:
            if not any(name in inspect.signature(parent).parameters for parent in parents):
                raise TypeError(f"{type(self).__name__} takes no argument called {name!r}.")
        self.domain = domain
        self.facts = Assumptions(lipschitz=sys.float_info.max) if facts is None else facts
        self._dtype = np.dtype(dtype)
        if self._dtype not in (np.float64, np.float32):
            raise ValueError(f"dtype must be float64 or float32, not {self._dtype}.")
        self._given_steps = None if step_sizes is None else _pool(step_sizes)
        self._given_rate = None if meta_rate is None else learning_rates.fixed(meta_rate)
        self._arguments = {
            "domain": domain,
            "facts": facts,
            "step_sizes": self._given_steps,
            "meta_rate": None if meta_rate is None else float(meta_rate),
            "dtype": self._dtype.name,
            **arguments,
        }
        self._correction = self.correction()
        self._warned = self._overtime = False
        # Only a pool, or a rate, that was computed from a guess has to be computed anew.
        self._guesses = self.facts.horizon is None and self._needs_horizon()
        self._plan(self.facts.horizon or FIRST_GUESS)
        self._adopt_row(self._layout.empty())
        self._begin(start)

    # ------------------------------------------------------------------ constants

    def _needs_horizon(self) -> bool:
        """Tell whether the pool or the rate is computed from the horizon."""
        if self._given_steps is None:
            return True
        count = len(self._given_steps)
        if self._given_rate is not None or count == 1 or math.isinf(self.domain.diameter):
            return False
        return self.rate(FIRST_GUESS, count) != self.rate(4 * FIRST_GUESS, count)

    def _plan(self, horizon: int) -> None:
        """Compute the constants for ``horizon`` rounds, and with them the recipe of the kernels."""
        unbounded = math.isinf(self.domain.diameter)
        if self._given_steps is None and unbounded:
            raise ValueError(
                f"{self.domain!r} has no diameter to compute step sizes from: give step_sizes=, "
                "or Everywhere(dim, diameter=...) with the distance you expect."
            )
        steps = self.pool(horizon) if self._given_steps is None else self._given_steps
        count = len(steps)
        if self._given_rate is not None:
            self._rate = self._given_rate
        elif count == 1:
            self._rate = learning_rates.fixed(1.0)  # one base learner has all the weight
        elif unbounded:
            raise ValueError(
                f"{self.domain!r} has no diameter to compute a meta rate from: give meta_rate=, "
                "or Everywhere(dim, diameter=...) with the distance you expect."
            )
        else:
            self._rate = self.rate(horizon, count)
        self._steps = np.asarray(steps, dtype=np.float64)
        self._prior = self.prior(count)
        self._hinted = self.hinted(count)

        hint, correction, regulariser = self.hint, self._correction, self.regulariser
        if isinstance(regulariser, NegativeEntropy) and not isinstance(self.domain, Simplex):
            raise TypeError(f"NegativeEntropy() lives on Simplex(dim), not on {self.domain!r}.")
        self._compiled = (
            isinstance(self.domain, BuiltIn)
            and isinstance(hint, BuiltInHint)
            and isinstance(correction, DecisionDeviation)
            and type(regulariser) in (Euclidean, NegativeEntropy)
        )
        dim = self.domain.dim
        self._shape = (dim,)
        compact = (
            self._compiled
            and type(self.domain) in (Ball, Everywhere)
            and type(regulariser) is Euclidean
            and hint in (NOTHING, LAST_GRADIENT)
            and not self.own
        )
        self._learn: Callable[..., int] = ball.learn if compact else kernels.learn
        self._layout = state.Layout(
            count=count,
            dim=dim,
            own=self.own,
            separate_hint=hint not in (NOTHING, LAST_GRADIENT),
            given=hint == GIVEN or not isinstance(correction, DecisionDeviation),
            guesses=self._guesses,
            compact=compact,
            memory=0 if isinstance(hint, BuiltInHint) else hint.memory(dim),
            itemsize=self._dtype.itemsize,
        )
        numbers = self.domain.numbers if isinstance(self.domain, BuiltIn) else np.zeros(0)
        recipe = np.zeros(state.RECIPE)
        recipe[state.COUNT], recipe[state.DIM] = count, dim
        recipe[state.DOMAIN] = self.domain.code if isinstance(self.domain, BuiltIn) else -1
        recipe[state.ENTROPIC] = isinstance(regulariser, NegativeEntropy)
        recipe[state.OWN] = self.own
        recipe[state.HINT_KIND] = hint.code if isinstance(hint, BuiltInHint) else GIVEN.code
        if isinstance(correction, DecisionDeviation):
            recipe[state.CORRECTION] = correction.strength
        recipe[state.CAP], recipe[state.NUMERATOR] = self._rate.cap, self._rate.numerator
        recipe[state.OFFSET], recipe[state.WATCH] = self._rate.offset, self._rate.watches
        for name, at in self._layout.offsets.items():
            slot = getattr(state, f"AT_{name.upper()}", None)
            if slot is not None:
                recipe[slot] = at
        recipe[state.IN_STEPS] = state.RECIPE
        recipe[state.IN_HINTED] = state.RECIPE + count
        recipe[state.IN_NUMBERS] = state.RECIPE + 2 * count
        steep = self.facts.lipschitz * (1 + 1e-6)
        recipe[state.STEEP] = steep * steep
        recipe[state.GRACE] = 0.0 if self._guesses else 1.0
        if self.facts.horizon is None and not self._guesses:
            recipe[state.GRACE] = math.inf
        self._recipe = np.concatenate([recipe, self._steps, self._hinted, numbers])

    def _begin(self, start: ArrayLike | None) -> None:
        """Fill the row of round 1: M_1 = 0, c_1 = 0, p_1 the prior."""
        s = self._state
        begin = np.asarray(self.domain.center if start is None else start, dtype=np.float64)
        if begin.shape not in ((self._layout.dim,), (self._layout.count, self._layout.dim)):
            raise ValueError(
                f"start must have shape ({self._layout.dim},), or ({self._layout.count}, "
                f"{self._layout.dim}) for one a base learner; got {begin.shape}."
            )
        if not np.isfinite(begin).all() or not self.domain.contains(begin):
            raise ValueError(
                f"start lies outside {self.domain!r}; use domain.project(start) to bring it in."
            )
        if self._layout.compact:
            s["anchors"][:] = begin - self.domain.center
            s["squares"][:] = np.sum(s["anchors"] ** 2, axis=1)
            s["shrinks"][:] = 1.0
        else:
            s["anchors"][:] = s["bases"][:] = s["last_bases"][:] = begin
            s["last_weights"][:] = self._prior
        s["log_prior"][:] = np.log(self._prior)
        s["weights"][:] = self._prior
        s["head"][state.TRUST] = 1.0
        s["head"][state.RATE] = self._rate.after(0.0, 0.0)
        s["head"][state.GUESS] = self.facts.horizon or FIRST_GUESS
        s["head"][state.EPOCHS] = 1.0
        s["decision"][:] = s["weights"] @ self.base_decisions

    def _adopt_row(self, row: Array) -> None:
        self._row, self._state = row, self._layout.view(row)
        self._at = slice(
            self._layout.offsets["decision"], self._layout.offsets["decision"] + self._layout.dim
        )

    def _adopt(self, row: Array) -> None:
        if self._guesses and row.dtype == self._row.dtype and row.size > state.HEAD:
            guess = row[: state.HEAD * 8 // row.itemsize].view(np.float64)[state.GUESS]
            if not (math.isfinite(guess) and 1 <= guess < 2**53):
                raise state.StateError(
                    "The state's guess of the horizon is not a number of rounds."
                )
            self._plan(int(guess))
        needed = self._layout.offsets["end"]  # not the present row's: a pool may have grown
        if row.shape != (needed,) or row.dtype != self._row.dtype:
            raise state.StateError(
                f"The state holds {row.size} floats of type {row.dtype}; this {type(self).__name__}"
                f" needs {needed} of type {self._row.dtype}."
            )
        self._adopt_row(row)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what a process makes anew: views of the row, compiled functions."""
        kept = self.__dict__.copy()
        del kept["_state"], kept["_learn"]
        return kept

    def __setstate__(self, kept: dict[str, Any]) -> None:
        self.__dict__.update(kept)
        self._learn = ball.learn if self._layout.compact else kernels.learn
        self._adopt_row(self._row)

    # ------------------------------------------------------------------ what can be seen

    @property
    def step_sizes(self) -> Array:
        """eta_1..eta_N."""
        return self._steps.copy()

    @property
    def weights(self) -> Array:
        """p_t of the round under way."""
        return self._state["weights"].copy()

    @property
    def base_decisions(self) -> Array:
        """x_{t,1}..x_{t,N} of the round under way, (N, d)."""
        s = self._state
        if not self._layout.compact:
            return s["bases"].copy()
        lean = (self._hinted * self._steps)[:, None] * s["gradient"]
        away = s["shrinks"][:, None] * (s["anchors"] - lean)
        return (self.domain.center + away).astype(self._dtype)

    @property
    def anchors(self) -> Array:
        """x-hat_{t,1}..x-hat_{t,N} of the round under way, (N, d)."""
        if self._layout.compact:
            return (self.domain.center + self._state["anchors"]).astype(self._dtype)
        return self._state["anchors"].copy()

    @property
    def round(self) -> int:
        """How many rounds have been learned."""
        return int(self._state["head"][state.ROUND])

    @property
    def gradient_queries(self) -> int:
        """How many gradients have been asked for."""
        return int(self._state["head"][state.QUERIES])

    @property
    def meta_rate(self) -> float:
        """The rate that made the weights of the round under way."""
        return float(self._state["head"][state.RATE])

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.domain!r}, {self.facts!r})"

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

    def _rate_now(self) -> float:
        """Return the rate that the sums so far call for."""
        head = self._state["head"]
        before = head[state.WATCHED]
        return self._rate.after(head[state.ADAPTIVITY] - before, head[state.VARIATION] - before)

    @property
    def toll(self) -> Array:
        """eta_i A_{t,i}: what the base learners' surprises cost in the bound, guess by guess."""
        s, head = self._state, self._state["head"]
        if self.own:
            surprise = s["own_surprise"].astype(np.float64)
        else:
            seen = head[state.ENERGY] - head[state.ENERGY_BEFORE]
            missed = head[state.ADAPTIVITY] - head[state.ADAPTIVITY_BEFORE]
            surprise = np.where(self._hinted > 0, missed, seen)
        before = s["toll"] if self._guesses else 0.0
        return np.asarray(self._steps * surprise + before)

    def _keep_promises(self) -> None:
        """Warn once of a gradient above G; begin a new guess when the game outlives the horizon."""
        head = self._state["head"]
        seen = math.sqrt(head[state.STEEPEST])
        if seen > self.facts.lipschitz * (1 + 1e-6) and not self._warned:
            self._warned = True
            warnings.warn(
                f"A gradient of norm {seen:.6g} was seen, above the promised "
                f"lipschitz={self.facts.lipschitz:.6g}: the theorems do not cover this run.",
                AssumptionWarning,
                stacklevel=3,
            )
        horizon = self.facts.horizon
        if horizon is not None and head[state.ROUND] > horizon and not self._overtime:
            self._overtime = True
            warnings.warn(
                f"Round {self.round} is past the promised horizon={horizon}: the step sizes suit a "
                "shorter game and the theorems do not cover this one. Give the true horizon, or "
                "horizon=None.",
                AssumptionWarning,
                stacklevel=3,
            )
        if self._rounds_left() <= 0:
            self._guess_again()

    def _rounds_left(self) -> float:
        """Return the rounds until the guess of the horizon runs out."""
        if not self._guesses:
            return math.inf
        head = self._state["head"]
        return float(head[state.EPOCH] + head[state.GUESS] - head[state.ROUND])

    def _guess_again(self) -> None:
        """Quadruple the guess of the horizon and carry on with what was learned.

        Four times the horizon halves the smallest step size, so the old pool is part of the new
        one. Each base learner takes over the state of the old one nearest in step size; the prior
        of the new weights is half the old weights, half the prior. Every guess is a game of its own
        for the theorems (they allow any start and any hint), at a cost of ln 2 for the prior, so
        with K = log4(T/16) + 1 guesses the regret is at most the sum of K bounds; by
        Cauchy-Schwarz that is the bound of the whole with D^2 and ln N multiplied by K.
        """
        old, head = self._state, self._state["head"].copy()
        old_steps, old_hinted, old_toll = self._steps, self._hinted, self.toll
        head[state.INVERSE_RATES] += 1 / self._rate_now() if len(old_steps) > 1 else 0.0
        head[state.ADAPTIVITY_BEFORE] = head[state.ADAPTIVITY]
        head[state.ENERGY_BEFORE] = head[state.ENERGY]
        head[state.GUESS] *= 4
        head[state.EPOCH] = head[state.ROUND]
        head[state.EPOCHS] += 1
        head[state.SHIFT] = 0.0
        head[state.PLANNED] = 0.0
        self._plan(int(head[state.GUESS]))
        watches_variation = self._rate.watches == codes.WATCH_GRADIENT_VARIATION
        head[state.WATCHED] = head[state.VARIATION if watches_variation else state.ADAPTIVITY]
        if self._given_steps is None:
            ratios = np.log(self._steps)[:, None] - np.log(old_steps)[None, :]
            apart = self._hinted[:, None] != old_hinted[None, :]  # the two pools of Sword_best
            nearest = np.where(apart, np.inf, np.abs(ratios)).argmin(axis=1)
        else:
            nearest = np.arange(len(old_steps))

        self._adopt_row(self._layout.empty())
        s = self._state
        s["head"][:] = head
        for name in ("gradient", "hint", "memory"):
            s[name][:] = old[name]
        for name in ("anchors", "travel"):
            s[name][:] = old[name][nearest]
        s["toll"][:] = old_toll[nearest]
        hints = s["hint"] * s["head"][state.TRUST]
        if self.own:
            s["own_gradients"][:] = hints = old["own_gradients"][nearest]
        if self._layout.compact:
            s["squares"][:] = old["squares"][nearest]
            s["leans"][:] = old["leans"][nearest]
            lengths = np.linalg.norm(
                s["anchors"] - (self._hinted * self._steps)[:, None] * hints, axis=1
            )
            radius = getattr(self.domain, "radius", math.inf)
            s["shrinks"][:] = np.where(lengths > radius, radius / np.maximum(lengths, 1e-300), 1.0)
        else:
            self._lean(hints)
            s["last_bases"][:] = s["bases"]
            s["moved"][:] = 0.0
        inherited = old["weights"][nearest].astype(np.float64)
        prior = 0.5 * inherited / inherited.sum() + 0.5 * self._prior
        s["log_prior"][:] = np.log(prior)
        s["weights"][:] = prior
        if not self._layout.compact:
            s["last_weights"][:] = prior
        s["head"][state.RATE] = self._rate.after(0.0, 0.0)
        s["decision"][:] = s["weights"] @ self.base_decisions

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
        head[state.PLANNED] = 0

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


def _pool(step_sizes: ArrayLike) -> Array:
    steps = np.atleast_1d(np.array(step_sizes, dtype=np.float64))
    if steps.ndim != 1 or not steps.size or not np.isfinite(steps).all() or (steps < 0).any():
        raise ValueError(
            f"step_sizes must be one or more finite numbers, none negative; got {step_sizes!r}."
        )
    return steps
