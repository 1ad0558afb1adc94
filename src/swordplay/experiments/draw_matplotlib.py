"""Charts for paper: PDF and PNG, drawn by Matplotlib."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from swordplay._types import Array
from swordplay.experiments.charts import Bars, Boxes, Chart, HeatMap, Lines, Series, cut, look

DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-."}
MARKERS = {
    "circle": "o",
    "square": "s",
    "diamond": "D",
    "triangle-up": "^",
    "triangle-down": "v",
    "x": "x",
    "cross": "P",
    "star": "*",
}
STYLE: Any = {
    "font.size": 10.0,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "legend.frameon": False,
    "pdf.fonttype": 42,  # fonts that stay text
}


def save(chart: Chart, folder: Path) -> list[Path]:
    """Write the chart as PDF and PNG and return the paths."""
    paths = [folder / f"{chart.name}.pdf", folder / f"{chart.name}.png"]
    with matplotlib.rc_context(STYLE):
        out = figure(chart)
        out.savefig(paths[0], metadata={"CreationDate": None})
        out.set_layout_engine("none")  # what the first drawing found stands
        out.savefig(paths[1], dpi=150)
    return paths


def figure(chart: Chart) -> Figure:
    """Return the chart as a Matplotlib figure."""
    out = Figure(figsize=(6.0, 4.2), layout="constrained")
    FigureCanvasAgg(out)
    axes = out.add_subplot()
    axes.set_xlabel(chart.x_label)
    axes.set_ylabel(chart.y_label)
    _DRAW[type(chart)](out, axes, chart)
    return out


def _legend(out: Figure, axes: Any, columns: int = 2) -> None:
    """Put the legend under the axes, where it covers nothing."""
    handles, labels = axes.get_legend_handles_labels()
    out.legend(handles, labels, loc="outside lower center", ncols=columns, fontsize=9)


def _lines(out: Figure, axes: Any, chart: Lines) -> None:
    for index, s in enumerate(chart.series):
        if s.hidden:
            continue
        style = look(s.label, index)
        color = _color(s, index)
        if s.low is not None and s.high is not None:
            axes.fill_between(s.x, s.low, s.high, color=color, alpha=0.16, linewidth=0)
        axes.plot(
            s.x,
            s.y,
            label=s.text,
            color=color,
            linestyle=":" if s.reference else DASHES[style.dash],
            linewidth=1.0 if s.reference else 1.7,
            marker=MARKERS[style.marker] if s.markers else None,
            markersize=4,
        )
    _scales(axes, chart.x_log, chart.y_log)
    if not chart.x_log:
        axes.xaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:,.6g}"))
    if not chart.y_log:
        axes.yaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:,.6g}"))
    _legend(out, axes)


def _color(s: Series, index: int) -> str:
    return look(s.of, index).color if s.of else "#808080"


def _scales(axes: Any, x_log: bool, y_log: bool) -> None:
    if x_log:
        axes.set_xscale("log", base=10)
    if y_log:
        axes.set_yscale("log", base=10)


def _boxes(out: Figure, axes: Any, chart: Boxes) -> None:
    labels = [label for label, _ in chart.groups]
    drawn = axes.boxplot(
        [values for _, values in chart.groups],
        tick_labels=labels,
        widths=0.5,
        patch_artist=True,
        flierprops={"marker": ".", "markersize": 3, "alpha": 0.5},
        medianprops={"color": "black"},
    )
    for index, (label, box) in enumerate(zip(labels, drawn["boxes"], strict=True)):
        box.set_facecolor(look(label, index).color)
        box.set_alpha(0.6)
    _scales(axes, False, chart.y_log)


def _bars(out: Figure, axes: Any, chart: Bars) -> None:
    count = len(chart.groups)
    places = np.arange(len(chart.categories))
    width = 0.8 / count
    draw, spread = (axes.barh, "xerr") if chart.sideways else (axes.bar, "yerr")
    for index, (label, heights, errors) in enumerate(chart.groups):
        bars: Array = places + (index - (count - 1) / 2) * width
        draw(
            bars,
            heights,
            width,
            capsize=2,
            label=label,
            color=look(label, index).color,
            **{spread: errors if np.any(errors) else None},
        )
    names = [cut(name) for name in chart.categories]
    if chart.sideways:
        axes.set_yticks(places, names)
        axes.invert_yaxis()
        axes.set_xlabel(chart.y_label)
        axes.set_ylabel(chart.x_label)
    else:
        axes.set_xticks(places, names)
    _scales(axes, chart.y_log and chart.sideways, chart.y_log and not chart.sideways)
    _legend(out, axes, 3 if count > 2 else 2)


def _heat_map(out: Figure, axes: Any, chart: HeatMap) -> None:
    assert chart.x is not None
    shown = axes.imshow(
        chart.shown(),
        aspect="auto",
        origin="lower",
        interpolation="nearest",
        cmap="cividis",
        extent=(chart.x[0], chart.x[-1], -0.5, len(chart.rows) - 0.5),
    )
    axes.grid(False)
    axes.set_yticks(range(len(chart.rows)), chart.rows)
    axes.xaxis.set_major_formatter(matplotlib.ticker.StrMethodFormatter("{x:,.6g}"))
    out.colorbar(shown, ax=axes, label=chart.z_label)


_DRAW: dict[type[Chart], Callable[[Figure, Any, Any], None]] = {
    Lines: _lines,
    Boxes: _boxes,
    Bars: _bars,
    HeatMap: _heat_map,
}
