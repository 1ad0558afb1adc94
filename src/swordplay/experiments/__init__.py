"""Experiments: which learners play which streams, and what is measured."""

from __future__ import annotations

from swordplay.experiments.comparison import LEARNERS, Row, compare

__all__ = ["LEARNERS", "Row", "compare"]
