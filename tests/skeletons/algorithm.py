"""An algorithm to copy: Ader++ that expects the last gradient to come again.

An algorithm is a subclass of ``Ensemble`` that fills slots: what is left out keeps its default.
"""

import numpy as np

from swordplay import learning_rates, step_sizes
from swordplay._types import Array
from swordplay.ensemble import Ensemble
from swordplay.hints import LAST_GRADIENT, Correction, DecisionDeviation
from swordplay.learning_rates import MetaRate
from swordplay.regularisers import Euclidean


class OptimisticAder(Ensemble):
    """Name the paper, the guarantee and the gradients a round here."""

    own = False  # True: every base learner asks for its own gradient
    hint = LAST_GRADIENT  # swordplay.hints, or a rule of yours; default NOTHING
    regulariser = Euclidean()  # the default

    def pool(self, horizon: int) -> Array:
        """Return the step sizes for ``horizon`` rounds, smallest first. The one method required."""
        return step_sizes.ader(self.domain.diameter, self.facts.lipschitz, horizon)

    def rate(self, horizon: int, experts: int) -> MetaRate:
        """Return the meta learner's rate; default 1, so a pool of several needs this."""
        diameter, lipschitz = self.domain.diameter, self.facts.lipschitz
        return learning_rates.self_confident(1 / (diameter * lipschitz), experts, diameter)

    def correction(self) -> Correction:
        """Return lambda c, what moving costs a base learner; default nothing."""
        return DecisionDeviation(strength=self.facts.lipschitz / self.domain.diameter)

    def prior(self, experts: int) -> Array:
        """Return p_1; default uniform."""
        i = np.arange(1, experts + 1)
        return (1 + 1 / experts) / (i * (i + 1))
