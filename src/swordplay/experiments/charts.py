"""Charts as data: what is drawn, in numbers and words. ``plotly`` and ``matplotlib`` draw them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from swordplay._types import Array
from swordplay.experiments.tables import Columns, Table, stack

LONGEST = 28


def cut(text: str) -> str:
    """Return a text that fits beside an axis.

    >>> cut("a name"), cut("a name that nobody can read at a glance")
    ('a name', 'a name that nob… at a glance')
    """
    return text if len(text) <= LONGEST else f"{text[:15]}…{text[16 - LONGEST :]}"


@dataclass(frozen=True)
class Look:
    """A colour, a line and a marker that mean the same in every figure."""

    color: str
    dash: str = "solid"
    marker: str = "circle"


# Okabe and Ito's colours, which the colour-blind tell apart; dash and marker tell the same again.
LOOKS = {
    "OGD": Look("#7F7F7F", "dot", "square"),
    "OEGD": Look("#A67C52", "dot", "diamond"),
    "Ader": Look("#E69F00", "dashdot", "triangle-up"),
    "Ader++": Look("#D55E00", "dash", "triangle-down"),
    "SwordSmall": Look("#56B4E9", "dashdot", "x"),
    "SwordBest": Look("#CC79A7", "dash", "cross"),
    "Sword": Look("#009E73", "dash", "diamond"),
    "Sword++": Look("#0080C8", "solid", "circle"),
    "Sword.optimism": Look("#CC79A7", "dot", "circle"),
    "last value": Look("#8C6BB1", "dash", "star"),
    "running mean": Look("#B8860B", "dot", "star"),
}
BOUND = ", bound"
"""How the label of a learner's bound ends."""
OTHERS = ("#0080C8", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#7F7F7F")


def look(label: str, index: int = 0) -> Look:
    """Return the look of a label: a learner's own, else that of its place in the figure.

    >>> look("Sword++").color, look("something else", 1).color
    ('#0080C8', '#D55E00')
    """
    return LOOKS.get(label) or Look(OTHERS[index % len(OTHERS)])


@dataclass(frozen=True)
class Series:
    """One curve; ``low`` and ``high`` make a band around it, or between it and a bound."""

    label: str
    """What it is; learners have a look of their own."""
    x: Array
    y: Array
    low: Array | None = None
    high: Array | None = None
    legend: str = ""
    """What the legend says; default the label."""
    markers: bool = False
    hidden: bool = False
    """Whether it is off until its legend entry is clicked."""
    reference: bool = False
    """Whether it is a thin line that was computed, not played: a bound, a yardstick."""

    @property
    def of(self) -> str:
        """Whose colour it has; a guide line that belongs to nobody has none."""
        owner = self.label.removesuffix(BOUND)
        return "" if self.reference and owner == self.label else owner

    @property
    def text(self) -> str:
        """The legend entry."""
        return self.legend or self.label


@dataclass(frozen=True)
class Chart:
    """A figure: its words, its axes, and (in the classes below) its numbers."""

    name: str
    """Of the files it is saved in."""
    title: str
    caption: str
    x_label: str
    y_label: str

    def numbers(self) -> Table:
        """Return the numbers behind the figure."""
        raise NotImplementedError


@dataclass(frozen=True)
class Lines(Chart):
    """Curves, with bands where they have them."""

    series: tuple[Series, ...] = ()
    x_log: bool = False
    y_log: bool = False

    def numbers(self) -> Table:
        """Return x, y, low and high of every curve."""
        parts: list[Columns] = []
        for s in self.series:
            empty = np.full(len(s.x), np.nan)
            parts.append(
                {
                    "series": [s.label] * len(s.x),
                    self.x_label: np.asarray(s.x, dtype=float),
                    self.y_label: np.asarray(s.y, dtype=float),
                    "low": empty if s.low is None else s.low,
                    "high": empty if s.high is None else s.high,
                }
            )
        return stack(parts)


@dataclass(frozen=True)
class Boxes(Chart):
    """A distribution for each label."""

    groups: tuple[tuple[str, Array], ...] = ()
    y_log: bool = True

    def numbers(self) -> Table:
        """Return every single value."""
        return stack(
            {self.x_label: [label] * len(values), self.y_label: values}
            for label, values in self.groups
        )


@dataclass(frozen=True)
class Bars(Chart):
    """Grouped bars with error bars: one group for each category, one bar for each label."""

    categories: tuple[str, ...] = ()
    groups: tuple[tuple[str, Array, Array], ...] = ()
    """Label, heights, error bars."""
    y_log: bool = False
    sideways: bool = False
    """Whether categories stand one above the other, the first on top: room for long names."""

    def numbers(self) -> Table:
        """Return heights and error bars."""
        return stack(
            {
                "series": [label] * len(heights),
                self.x_label: list(self.categories),
                self.y_label: heights,
                "standard deviation": errors,
            }
            for label, heights, errors in self.groups
        )


@dataclass(frozen=True)
class HeatMap(Chart):
    """A number for every cell of a grid, shown as log10."""

    x: Array | None = None
    rows: tuple[str, ...] = ()
    z: Array | None = None
    """(len(rows), len(x)), positive."""
    z_label: str = ""
    floor: float = 1e-6
    """Smaller numbers are drawn like this one."""

    def shown(self) -> Array:
        """Return log10 of the numbers, not below that of the floor."""
        assert self.z is not None
        return np.asarray(np.log10(np.maximum(self.z, self.floor)))

    def numbers(self) -> Table:
        """Return one column for each row of the grid."""
        assert self.x is not None
        assert self.z is not None
        rows: Sequence[str] = self.rows
        return Table({self.x_label: self.x, **dict(zip(rows, self.z, strict=True))})
