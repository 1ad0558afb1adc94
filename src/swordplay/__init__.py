"""Online convex optimization that keeps up with a changing world."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from swordplay import bounds, regret, streams
from swordplay.algorithms import (
    OEGD,
    OGD,
    Ader,
    OptimisticHedge,
    OptimisticOMD,
    Sword,
    SwordBest,
    SwordOptimism,
    SwordPP,
    SwordSmall,
)
from swordplay.assumptions import Assumptions, AssumptionWarning
from swordplay.bounds import Certificate, certify
from swordplay.domains import Ball, Box, Domain, Everywhere, L1Ball, Simplex
from swordplay.ensemble import Ensemble
from swordplay.hints import Correction, DecisionDeviation, Hint
from swordplay.learner import Learner, from_bytes, load
from swordplay.losses import Absolute, Huber, Logistic, Loss, Pinball, Squared
from swordplay.many import play_many
from swordplay.play import Run, play
from swordplay.regularisers import Euclidean, NegativeEntropy, Regulariser
from swordplay.state import StateError
from swordplay.streams import FileStream, FunctionStream, LinearStream
from swordplay.sweeps import sweep

if TYPE_CHECKING:
    from swordplay.estimators import SwordClassifier as SwordClassifier
    from swordplay.estimators import SwordRegressor as SwordRegressor
    from swordplay.fleet import Fleet, PoolModel

__version__ = "0.1.0"

__all__ = [
    "OEGD",
    "OGD",
    "Absolute",
    "Ader",
    "AssumptionWarning",
    "Assumptions",
    "Ball",
    "Box",
    "Certificate",
    "Correction",
    "DecisionDeviation",
    "Domain",
    "Ensemble",
    "Euclidean",
    "Everywhere",
    "FileStream",
    "Fleet",
    "FunctionStream",
    "Hint",
    "Huber",
    "L1Ball",
    "Learner",
    "LinearStream",
    "Logistic",
    "Loss",
    "NegativeEntropy",
    "OptimisticHedge",
    "OptimisticOMD",
    "Pinball",
    "PoolModel",
    "Regulariser",
    "Run",
    "Simplex",
    "Squared",
    "StateError",
    "Sword",
    "SwordBest",
    "SwordOptimism",
    "SwordPP",
    "SwordSmall",
    "bounds",
    "certify",
    "from_bytes",
    "load",
    "play",
    "play_many",
    "regret",
    "streams",
    "sweep",
]

_HOMES = {
    "Fleet": "swordplay.fleet",
    "PoolModel": "swordplay.fleet",
    # Not in __all__: they need scikit-learn, which ``from swordplay import *`` must not.
    "SwordClassifier": "swordplay.estimators",
    "SwordRegressor": "swordplay.estimators",
}


if not TYPE_CHECKING:  # which would take any name for one of ours

    def __getattr__(name: str) -> Any:
        """Import what stands above the core when it is asked for."""
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
