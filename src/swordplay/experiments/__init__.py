"""Experiments: which learners play which streams, what is measured, and the report on it.

Needs the extra ``app``. ``contenders`` and ``catalogue`` say what is played, ``runner`` plays it,
``plots`` and ``findings`` say what came out, ``report`` shows it.
"""

from __future__ import annotations

from swordplay.experiments.catalogue import Scale, paper, quick
from swordplay.experiments.contenders import LEARNERS, Contender, common_pool
from swordplay.experiments.experiment import Experiment, Finding, Task
from swordplay.experiments.report import save_figures
from swordplay.experiments.runner import Results, run
from swordplay.experiments.tables import Table

__all__ = [
    "LEARNERS",
    "Contender",
    "Experiment",
    "Finding",
    "Results",
    "Scale",
    "Table",
    "Task",
    "common_pool",
    "paper",
    "quick",
    "run",
    "save_figures",
]
