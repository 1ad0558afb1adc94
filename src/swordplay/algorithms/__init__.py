"""One algorithm of the literature per file: its constants and its assembly."""

from __future__ import annotations

from swordplay.algorithms.ader import Ader
from swordplay.algorithms.oegd import OEGD
from swordplay.algorithms.ogd import OGD
from swordplay.algorithms.optimistic_hedge import OptimisticHedge
from swordplay.algorithms.optimistic_omd import OptimisticOMD
from swordplay.algorithms.sword import Sword
from swordplay.algorithms.sword_best import SwordBest
from swordplay.algorithms.sword_optimism import SwordOptimism
from swordplay.algorithms.sword_pp import SwordPP
from swordplay.algorithms.sword_small import SwordSmall

__all__ = [
    "OEGD",
    "OGD",
    "Ader",
    "OptimisticHedge",
    "OptimisticOMD",
    "Sword",
    "SwordBest",
    "SwordOptimism",
    "SwordPP",
    "SwordSmall",
]
