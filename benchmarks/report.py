"""What was measured: a table on the terminal, a JSON file and a chart."""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from benchmarks.measure import Row

PACKAGES = (
    "swordplay",
    "numpy",
    "numba",
    "scipy",
    "pyarrow",
    "river",
    "scikit-learn",
    "vowpalwabbit",
)
HEADER = ("what", "measured", "bar", "met", "N", "ns a round", "theirs")
MET, MISSED = "#0072B2", "#D55E00"  # blue and vermilion: apart for every kind of colour vision


def machine() -> dict[str, Any]:
    """Describe the machine and the versions."""
    versions: dict[str, str | None] = {}
    for package in PACKAGES:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            versions[package] = None
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gb": _memory(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def _memory() -> float | None:
    try:
        return round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    except (AttributeError, ValueError, OSError):
        return None


def load_average() -> float | None:
    """Return how many processes wanted to run, on average over the last minute."""
    return round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None


def cells(row: Row) -> tuple[str, ...]:
    """Return the row as text, in the order of the header."""
    verdict = {None: "", True: "yes", False: "NO"}[row.met]
    measured = row.note if row.measured is None else number(row.measured, row.unit)
    bar = f"{'≥' if row.at_least else '≤'} {number(row.bar, row.unit)}"
    times = [f"{row.details[k]:,.0f}" if k in row.details else "" for k in ("sword_ns", "rival_ns")]
    count = str(row.details.get("N", "")).strip("[]")
    return (row.what, measured, bar, verdict, count, *times)


def number(value: float, unit: str) -> str:
    """Return a number with its unit: three digits, no more."""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2 if value >= 0.1 else 3
    return f"{value:,.{digits}f}{'' if unit == 'x' else ' '}{unit}"


def print_table(rows: Sequence[Row], title: str, footer: str) -> None:
    """Print the table, with rich where it is installed."""
    table = [cells(row) for row in rows]
    try:
        from rich import box
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(len(line[k]) for line in [HEADER, *table]) for k in range(len(HEADER))]
        # A note may be long and stands alone in its row: it shall not widen the column.
        notes = {id(line) for line, row in zip(table, rows, strict=True) if row.measured is None}
        shown = [line for line in [HEADER, *table] if id(line) not in notes]
        widths[1] = max(len(line[1]) for line in shown)
        print(f"\n{title}\n")
        for line in [HEADER, *table]:
            text = [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
            if id(line) in notes:
                text = [line[1]]
            print("  ".join([line[0].ljust(widths[0]), *text]))
        print(f"\n{footer}")
        return
    console = Console(width=None if sys.stdout.isatty() else 140)  # a log file does not wrap
    rich = Table(title=title, box=box.SIMPLE_HEAD, title_justify="left")
    for k, name in enumerate(HEADER):
        rich.add_column(name, justify="right" if k else "left", overflow="fold")
    for line, row in zip(table, rows, strict=True):
        style = {None: "dim", True: None, False: "bold red"}[row.met]
        rich.add_row(*line, style=style)
    console.print(rich)
    console.print(footer, highlight=False)


def summary(rows: Sequence[Row]) -> str:
    """Return how many bars are met."""
    measured = [row for row in rows if row.met is not None]
    text = f"{sum(bool(row.met) for row in measured)} of {len(measured)} bars met"
    absent = len(rows) - len(measured)
    return text + (f", {absent} not measured." if absent else ".")


def write_json(path: Path, rows: Sequence[Row], about: dict[str, Any]) -> None:
    """Write everything that is known."""
    record = {
        "written": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        **about,
        "rows": [row.as_dict() for row in rows],
    }
    path.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def draw(path: Path, rows: Sequence[Row], title: str, footer: str) -> bool:
    """Draw how much of its bar every row uses up; return False if matplotlib is not installed."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    shown = [row for row in rows if row.to_bar is not None]
    if not shown:
        return False
    used = [float(row.to_bar or 0.0) for row in shown]
    low, high = min([0.5, *used]) / 1.25, max([2.0, *used]) * 1.25

    # Inches: labels, plot and two columns of numbers beside each other; title, rows and footer.
    left, plot, width, below, height = 5.1, 5.2, 12.7, 0.9, 0.31 * len(shown) + 0.3
    total = below + height + 0.9
    figure = Figure(figsize=(width, total))
    axes = figure.add_axes((left / width, below / total, plot / width, height / total))
    margin = axes.get_yaxis_transform()  # x in widths of the plot, y in rows

    def columns(at: int, measured: str, bar: str, weight: str) -> None:
        text: dict[str, Any] = {"transform": margin, "va": "center", "ha": "right"}
        axes.text(1.19, at, measured, weight=weight, **text)
        axes.text(1.42, at, bar, color="0.35", **text)

    for k, (row, share) in enumerate(zip(shown, used, strict=True)):
        # The bar starts at "just met", so that its length says by how much, on either side.
        style: dict[str, Any] = {"color": MET} if row.met else {"color": MISSED, "hatch": "////"}
        axes.barh(k, share - 1, left=1, height=0.62, edgecolor="white", linewidth=0.5, **style)
        _, measured, bar, *_ = cells(row)
        columns(k, measured, bar, "bold" if not row.met else "normal")
    columns(-1, "measured", "bar", "normal")
    for word, side, offset in (("met", "right", 0.93), ("missed", "left", 1.07)):
        axes.text(offset, -1, word, va="center", ha=side, color=MET if side == "right" else MISSED)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    ticks = [t for t in (0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50) if low <= t <= high]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.set_xticks([], minor=True)
    axes.set_yticks(range(len(shown)), [row.what for row in shown])
    axes.set_ylim(len(shown) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.grid(axis="x", color="0.88", linewidth=0.8)
    axes.set_axisbelow(True)
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.set_xlabel("share of the bar used up, log scale")
    figure.text(0.01, 1 - 0.3 / total, title, va="center", fontsize=13, weight="bold")
    figure.text(0.01, 0.2 / total, footer, va="center", fontsize=8, color="0.35")
    figure.savefig(path, dpi=150)
    return True
