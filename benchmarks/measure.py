"""Measuring: contestants take turns, and a row compares what was measured with its bar."""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

MISSING = 'not installed: pip install "swordplay[bench]"'

Work = Callable[[], object]
Prepare = Callable[[], Work]
"""Called with the clock stopped (a fresh learner, say); what it returns is called while it runs."""


@dataclass(frozen=True)
class Settings:
    """How much to measure."""

    repetitions: int = 5
    quick: bool = False

    def size(self, full: int, quick: int | None = None) -> int:
        """Return ``full``, or where little time is wanted ``quick`` (default a twentieth)."""
        if not self.quick:
            return full
        return max(1, full // 20) if quick is None else quick


@dataclass(frozen=True)
class Row:
    """One measurement and its bar."""

    name: str
    what: str
    bar: float
    measured: float | None
    """None where a peer is not installed."""
    unit: str = "x"
    at_least: bool = False
    """True where more is better."""
    note: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def to_bar(self) -> float | None:
        """How much of the bar is used up: at most 1 where it is met, whichever way it points."""
        if self.measured is None:
            return None
        return self.bar / self.measured if self.at_least else self.measured / self.bar

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None where nothing was measured."""
        return None if self.to_bar is None else self.to_bar <= 1

    def as_dict(self) -> dict[str, Any]:
        """Return everything, for JSON."""
        return {**asdict(self), "to_bar": self.to_bar, "met": self.met}


def missing(*modules: str) -> bool:
    """Return whether any of the modules cannot be imported."""
    try:
        for module in modules:
            importlib.import_module(module)
    except ImportError:
        return True
    return False


def absent(name: str, what: str, bar: float, at_least: bool = False) -> Row:
    """Return the row of a peer that is not installed."""
    return Row(name, what, bar, None, at_least=at_least, note=MISSING)


class Times:
    """Seconds of every contestant, one a repetition."""

    def __init__(self, seconds: Mapping[str, list[float]]) -> None:
        self.seconds = dict(seconds)

    def median(self, name: str) -> float:
        """Return the median seconds of a contestant."""
        return median(self.seconds[name])

    def ratios(self, slow: str, fast: str) -> list[float]:
        """Return slow / fast, repetition by repetition."""
        return [a / b for a, b in zip(self.seconds[slow], self.seconds[fast], strict=True)]

    def ratio(self, slow: str, fast: str, scale: float = 1.0) -> float:
        """Return the median of the ratios times ``scale``.

        What disturbs the machine for a while disturbs both sides of a repetition, so these ratios
        are steadier than that of two medians.
        """
        return scale * median(self.ratios(slow, fast))

    def spread(self, slow: str, fast: str, scale: float = 1.0) -> list[float]:
        """Return the least and the largest of the ratios times ``scale``."""
        ratios = self.ratios(slow, fast)
        return [scale * min(ratios), scale * max(ratios)]


def race(repetitions: int, contestants: Mapping[str, Prepare], warm_up: bool = True) -> Times:
    """Time the contestants in turns, every second time in reverse order.

    The first turn is not counted: it compiles, allocates and fills caches.
    """
    seconds: dict[str, list[float]] = {name: [] for name in contestants}
    for turn in range(-1 if warm_up else 0, repetitions):
        for name in list(contestants)[:: 1 if turn % 2 else -1]:
            taken = clock(contestants[name]())
            if turn >= 0:
                seconds[name].append(taken)
    return Times(seconds)


def clock(work: Work) -> float:
    """Return how long ``work`` takes, without the garbage collector."""
    gc.collect()
    gc.disable()
    try:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began
    finally:
        gc.enable()
