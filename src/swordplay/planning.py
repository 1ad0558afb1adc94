"""From slots and constants to a row: what a learner is before its first round.

:class:`Planned` turns the choices of an algorithm (``swordplay.ensemble`` says which there are)
into step sizes, a meta rate and a prior, packs them into the recipe that the kernels read, and lays
out and fills the row.
"""

from __future__ import annotations

import inspect
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from swordplay import learning_rates, state
from swordplay._types import Array, ArrayLike
from swordplay.assumptions import Assumptions
from swordplay.domains import Ball, BuiltIn, Domain, Everywhere, Simplex
from swordplay.hints import (
    GIVEN,
    LAST_GRADIENT,
    NOTHING,
    BuiltInHint,
    Correction,
    DecisionDeviation,
    Hint,
)
from swordplay.kernels import ball
from swordplay.kernels import ensemble as kernels
from swordplay.learner import Learner
from swordplay.learning_rates import MetaRate
from swordplay.regularisers import Euclidean, NegativeEntropy, Regulariser

FIRST_GUESS = 16  # of an unknown horizon
NO_CORRECTION = DecisionDeviation(0.0)


class Planned(Learner):
    """The slots of an algorithm, its constants, and its row; see ``Ensemble`` for the arguments."""

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
        self._ancestry: tuple[Array, ...] = ()  # whom each base learner followed, guess by guess
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
        if self.own and not isinstance(hint, BuiltInHint):
            raise TypeError(
                "Base learners with their own gradients take NOTHING, AT_MIXTURE or "
                f"AT_MIXTURE_IF_TRUSTED as the meta hint, not {hint!r}; for a rule of your own set "
                "own = False."
            )
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


def _pool(step_sizes: ArrayLike) -> Array:
    steps = np.atleast_1d(np.array(step_sizes, dtype=np.float64))
    if steps.ndim != 1 or not steps.size or not np.isfinite(steps).all() or (steps < 0).any():
        raise ValueError(
            f"step_sizes must be one or more finite numbers, none negative; got {step_sizes!r}."
        )
    return steps
