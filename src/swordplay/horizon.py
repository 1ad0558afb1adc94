"""The horizon, promised or guessed, and the other promises that a game may break."""

from __future__ import annotations

import math
import sys
import warnings

import numpy as np

from swordplay import state
from swordplay._types import Array
from swordplay.assumptions import AssumptionWarning
from swordplay.kernels import codes
from swordplay.planning import Planned


def _outside() -> int:
    """Return the stack level of the first caller who is not part of this package."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_globals["__name__"].startswith("swordplay."):
        frame, level = frame.f_back, level + 1
    return level


class Timed(Planned):
    """A learner that keeps an eye on G and T, and guesses T where it is unknown."""

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

    def _calm(self) -> float:
        """Return S_p / (4 rate cap), guess by guess."""
        head = self._state["head"]
        since = head[state.META_STABILITY] - head[state.META_BEFORE]
        return float(head[state.CALM] + since / (4 * self._rate.cap))

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
                stacklevel=_outside(),
            )
        horizon = self.facts.horizon
        if horizon is not None and head[state.ROUND] > horizon and not self._overtime:
            self._overtime = True
            warnings.warn(
                f"Round {self.round} is past the promised horizon={horizon}: the step sizes suit a "
                "shorter game and the theorems do not cover this one. Give the true horizon, or "
                "horizon=None.",
                AssumptionWarning,
                stacklevel=_outside(),
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
        head[state.CALM] = self._calm()
        head[state.META_BEFORE] = head[state.META_STABILITY]
        self._plan(int(head[state.GUESS]))
        watches_variation = self._rate.watches == codes.WATCH_GRADIENT_VARIATION
        head[state.WATCHED] = head[state.VARIATION if watches_variation else state.ADAPTIVITY]
        if self._given_steps is None:
            ratios = np.log(self._steps)[:, None] - np.log(old_steps)[None, :]
            apart = self._hinted[:, None] != old_hinted[None, :]  # the two pools of Sword_best
            nearest = np.where(apart, np.inf, np.abs(ratios)).argmin(axis=1)
        else:
            nearest = np.arange(len(old_steps))

        self._ancestry = (*self._ancestry, nearest)

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
            directions = (self._hinted * self._steps)[:, None] * hints
            s["bases"][:] = self.regulariser.step(self.domain, s["anchors"], directions)
            s["last_bases"][:] = s["bases"]
        inherited = old["weights"][nearest].astype(np.float64)
        prior = 0.5 * inherited / inherited.sum() + 0.5 * self._prior
        s["log_prior"][:] = np.log(prior)
        s["weights"][:] = prior
        if not self._layout.compact:
            s["last_weights"][:] = prior
        s["head"][state.RATE] = self._rate.after(0.0, 0.0)
        s["decision"][:] = s["weights"] @ self.base_decisions
