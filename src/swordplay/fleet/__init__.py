"""One learner for each key, many of them: in memory on one machine, or in Spark."""

from __future__ import annotations

from swordplay.fleet.fleet import Fleet
from swordplay.fleet.models import PaperModel, PoolModel

__all__ = ["Fleet", "PaperModel", "PoolModel"]
