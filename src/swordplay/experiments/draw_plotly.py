"""Charts for the screen: interactive, drawn by Plotly."""

from __future__ import annotations

from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np
import plotly.graph_objects as go
import plotly.io as pio

from swordplay.experiments.charts import Bars, Boxes, Chart, HeatMap, Lines, Series, cut, look

CONFIG = {
    "displaylogo": False,
    "responsive": True,
    "modeBarButtons": [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
}
GREY = "rgba(128,128,128,0.8)"
TICKS = 12
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


def html(chart: Chart) -> str:
    """Return the chart as a piece of HTML, for a page that has plotly.js."""
    piece: str = pio.to_html(
        figure(chart),
        config=CONFIG,
        include_plotlyjs=False,
        full_html=False,
        div_id=f"chart-{chart.name}",
        default_width="100%",
        default_height="100%",
    )
    return piece


def figure(chart: Chart) -> Any:
    """Return the chart as a Plotly figure."""
    out = go.Figure(layout=_layout(chart))
    _DRAW[type(chart)](out, chart)
    return out


def _layout(chart: Chart) -> Any:
    axis = {
        "automargin": True,
        "tickfont": {"size": TICKS},
        "zeroline": False,
        "gridcolor": "rgba(128,128,128,0.25)",
        "linecolor": "rgba(128,128,128,0.6)",
        "showline": True,
        "ticks": "outside",
        "tickcolor": "rgba(128,128,128,0.6)",
    }
    return go.Layout(
        template="none",
        autosize=True,
        margin={"l": 8, "r": 12, "t": 28, "b": 8},
        font={"family": FONT, "size": 13},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(0,0,0,0)",
        hovermode="closest",
        hoverlabel={"namelength": -1},
        modebar={"bgcolor": "rgba(0,0,0,0)", "color": GREY, "activecolor": "#0080C8"},
        legend={"orientation": "h", "x": 0, "y": 0, "yanchor": "bottom", "yref": "container"},
        xaxis={"title": {"text": chart.x_label}, **axis},
        yaxis={"title": {"text": chart.y_label}, **axis},
    )


def _log(out: Any, axis: str, *values: Any) -> None:
    """Make an axis logarithmic: labels at powers of ten, or at 1, 2, 5 where it spans few.

    Those are written out (0.2, 500), because Plotly's own are digits between the powers.
    """
    shown = np.concatenate([np.ravel(np.asarray(v, dtype=float)) for v in values if v is not None])
    shown = shown[np.isfinite(shown) & (shown > 0)]
    many = len(shown) > 0 and np.log10(shown.max() / shown.min()) > 2.5
    # Plotly draws powers a quarter larger than all other labels.
    labels: Any = {"dtick": 1, "exponentformat": "power", "tickfont": {"size": TICKS / 1.25}}
    if not many:
        labels = {"dtick": "D2", "tickformat": ",~r"}
    out.update_layout({axis: {"type": "log", **labels}})


def _lines(out: Any, chart: Lines) -> None:
    for index, s in enumerate(chart.series):
        color, shown = _color(s, index), "legendonly" if s.hidden else True
        if s.low is not None and s.high is not None:
            out.add_scatter(
                x=np.concatenate([s.x, s.x[::-1]]),
                y=np.concatenate([s.high, s.low[::-1]]),
                fill="toself",
                fillcolor=_faint(color),
                line={"width": 0},
                mode="lines",
                hoverinfo="skip",
                showlegend=False,
                legendgroup=s.label,
                visible=shown,
                name=_plain(s.text),
            )
        out.add_scatter(
            x=s.x,
            y=s.y,
            mode="lines+markers" if s.markers else "lines",
            name=_plain(s.text),
            legendgroup=s.label,
            visible=shown,
            line={
                "color": color,
                "width": 1.5 if s.reference else 2.5,
                "dash": "dot" if s.reference else look(s.label, index).dash,
            },
            marker={"symbol": look(s.label, index).marker, "size": 8},
            hovertemplate=f"{_plain(s.label)}<br>{chart.x_label} %{{x:,}}<br>"
            f"{chart.y_label} %{{y:,.4g}}<extra></extra>",
        )
    if chart.x_log:
        _log(out, "xaxis", *(s.x for s in chart.series))
    if chart.y_log:
        _log(out, "yaxis", *(part for s in chart.series for part in (s.y, s.low, s.high)))


def _color(s: Series, index: int) -> str:
    """Return the colour of a series: its learner's, or grey for a guide line."""
    return look(s.of, index).color if s.of else "#808080"


def _faint(color: str) -> str:
    red, green, blue = (int(color[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.16)"


def _boxes(out: Any, chart: Boxes) -> None:
    for index, (label, values) in enumerate(chart.groups):
        out.add_box(
            y=values,
            name=label,
            boxpoints="outliers",
            jitter=0.3,
            line={"color": look(label, index).color},
            marker={"color": look(label, index).color, "size": 4, "opacity": 0.5},
        )
    out.update_layout(showlegend=True)
    if chart.y_log:
        _log(out, "yaxis", *(values for _, values in chart.groups))


def _bars(out: Any, chart: Bars) -> None:
    # Named by place: Plotly would take names like 007 or 2026-01-31 for numbers and dates.
    places = np.arange(len(chart.categories))
    for index, (label, heights, errors) in enumerate(chart.groups):
        error = {"type": "data", "array": errors, "visible": bool(np.any(errors))}
        out.add_bar(
            **{"x": heights, "y": places, "orientation": "h", "error_x": error}
            if chart.sideways
            else {"x": places, "y": heights, "error_y": error},
            name=_plain(label),
            marker={"color": look(label, index).color},
            customdata=[_plain(name) for name in chart.categories],
            hovertemplate=f"%{{customdata}}<br>{_plain(label)} "
            f"%{{{'x' if chart.sideways else 'y'}:,.4g}}<extra></extra>",
        )
    names = {"tickvals": places, "ticktext": [_plain(cut(name)) for name in chart.categories]}
    by_name, by_height = ("yaxis", "xaxis") if chart.sideways else ("xaxis", "yaxis")
    out.update_layout(barmode="group", bargap=0.25)
    out.update_layout({by_name: names, by_height: {"rangemode": "tozero"}})
    if chart.sideways:
        out.update_layout(
            xaxis={"title": {"text": chart.y_label}},
            yaxis={"title": {"text": chart.x_label}, "autorange": "reversed"},
        )
    if chart.y_log:
        _log(out, by_height, *(heights for _, heights, _ in chart.groups))


def _plain(text: str) -> str:
    """Return a text that Plotly shows as it is: it reads tags."""
    return escape(text, quote=False)


def _heat_map(out: Any, chart: HeatMap) -> None:
    out.add_heatmap(
        x=chart.x,
        y=list(chart.rows),
        z=chart.shown().astype(np.float32),
        colorscale="Cividis",
        colorbar={
            "title": {"text": chart.z_label, "side": "top"},
            "orientation": "h",
            "x": 0.5,
            "y": -0.22,
            "yanchor": "top",
            "thickness": 12,
            "len": 0.8,
        },
        hovertemplate=f"{chart.x_label} %{{x:,}}<br>{chart.y_label} %{{y}}<br>"
        f"{chart.z_label} %{{z:.2f}}<extra></extra>",
    )
    out.update_layout(yaxis={"type": "category", "showgrid": False}, xaxis={"showgrid": False})


_DRAW: dict[type[Chart], Callable[[Any, Any], None]] = {
    Lines: _lines,
    Boxes: _boxes,
    Bars: _bars,
    HeatMap: _heat_map,
}
