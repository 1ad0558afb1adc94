"""What was lost, against whom: regret, the measures in its bounds, and comparators."""

from __future__ import annotations

from swordplay.regret.comparators import best_fixed, minimizers
from swordplay.regret.measures import dynamic_regret, path_length, small_loss
from swordplay.regret.piecewise import best_piecewise
from swordplay.regret.variation import Measured, function_variation, gradient_variation

__all__ = [
    "Measured",
    "best_fixed",
    "best_piecewise",
    "dynamic_regret",
    "function_variation",
    "gradient_variation",
    "minimizers",
    "path_length",
    "small_loss",
]
