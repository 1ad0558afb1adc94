"""Online convex optimization that keeps up with a changing world."""

from __future__ import annotations

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
from swordplay.hints import DecisionDeviation
from swordplay.learner import Learner, from_bytes, load
from swordplay.losses import Absolute, Huber, Logistic, Loss, Pinball, Squared
from swordplay.play import Run, play
from swordplay.regularisers import Euclidean, NegativeEntropy
from swordplay.state import StateError
from swordplay.streams import FunctionStream, LinearStream

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
    "DecisionDeviation",
    "Domain",
    "Ensemble",
    "Euclidean",
    "Everywhere",
    "FunctionStream",
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
    "regret",
    "streams",
]
