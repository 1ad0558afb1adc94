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
from swordplay.hints import Correction, DecisionDeviation, Hint
from swordplay.learner import Learner, from_bytes, load
from swordplay.losses import Absolute, Huber, Logistic, Loss, Pinball, Squared
from swordplay.many import play_many
from swordplay.play import Run, play
from swordplay.regularisers import Euclidean, NegativeEntropy, Regulariser
from swordplay.state import StateError
from swordplay.streams import FileStream, FunctionStream, LinearStream
from swordplay.sweeps import sweep

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
