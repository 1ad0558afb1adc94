"""G, L and T: what the theory must know before the game."""

from __future__ import annotations

import math
from dataclasses import dataclass


class AssumptionWarning(UserWarning):
    """The world broke a promise that the learner's constants were computed from."""


@dataclass(frozen=True)
class Assumptions:
    r"""The constants of Assumptions 1 and 3 and the horizon.

    Args:
        lipschitz: G, with :math:`\|\nabla f_t(x)\|_2 \le G` on the domain.
        smoothness: L, with :math:`\|\nabla f_t(x) - \nabla f_t(y)\|_2 \le L\|x - y\|_2`; OGD and
            Ader do without it.
        horizon: T, the number of rounds; ``None`` when unknown (the learner then guesses, and
            quadruples its guess each time the game outlives it).

    >>> Assumptions(lipschitz=3.0, smoothness=1.0, horizon=1000)
    Assumptions(lipschitz=3.0, smoothness=1.0, horizon=1000)
    """

    lipschitz: float
    smoothness: float | None = None
    horizon: int | None = None

    def __post_init__(self) -> None:
        lipschitz = float(self.lipschitz)
        if not (math.isfinite(lipschitz) and lipschitz > 0):
            raise ValueError(f"lipschitz (G) must be positive and finite, not {self.lipschitz!r}.")
        object.__setattr__(self, "lipschitz", lipschitz)
        if self.smoothness is not None:
            smoothness = float(self.smoothness)
            if not smoothness > 0:
                raise ValueError(f"smoothness (L) must be positive, not {self.smoothness!r}.")
            # An infinite L says what None says: the losses are not smooth.
            object.__setattr__(
                self, "smoothness", smoothness if math.isfinite(smoothness) else None
            )
        if self.horizon is not None:
            if not (math.isfinite(self.horizon) and self.horizon >= 1) or self.horizon % 1:
                raise ValueError(
                    f"horizon (T) must be a whole number of at least 1, or None when unknown; "
                    f"not {self.horizon!r}."
                )
            object.__setattr__(self, "horizon", int(self.horizon))

    def smooth(self, who: str) -> float:
        """Return L, or say that ``who`` cannot do without."""
        if self.smoothness is None:
            raise ValueError(
                f"{who} needs smooth losses: give a finite smoothness= (L) to Assumptions. "
                "For losses that are not smooth (Absolute, Pinball) use OGD or Ader."
            )
        return self.smoothness
