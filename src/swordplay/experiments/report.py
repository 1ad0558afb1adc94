"""The report: one HTML page that opens without a network, and every figure as PDF, PNG and CSV."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any

from swordplay.experiments.charts import Chart
from swordplay.experiments.experiment import Experiment, Finding
from swordplay.experiments.runner import Results

Overview = tuple[Sequence[str], Sequence[Sequence[str]]]
"""The head and the rows of the table at the top."""


def write(
    results: Results,
    experiments: Sequence[Experiment],
    manifest: Mapping[str, Any],
    title: str,
    subtitle: str,
    overview: Overview,
    drawn: Callable[[int, int], None] = lambda done, of: None,
) -> Path:
    """Write ``report.html`` and ``figures/`` and return the page's path.

    Args:
        results: the finished tables.
        experiments: in the order of the sections.
        manifest: shown at the end; its ``notes`` are shown at the top as well.
        title: of the page.
        subtitle: the line under it.
        overview: head and rows of a table at the top.
        drawn: is told how many figures are done, and of how many.
    """
    from plotly.offline import get_plotlyjs

    folder = results.folder
    charts = {e.name: list(e.charts(results.tables[e.name])) for e in experiments}
    save_figures(
        [chart for several in charts.values() for chart in several], folder / "figures", drawn
    )
    page = Template(files("swordplay.experiments").joinpath("report.html").read_text("utf-8"))
    text = page.substitute(
        title=escape(title),
        subtitle=escape(subtitle),
        plotly=get_plotlyjs().replace("</script", "<\\/script"),
        contents="\n".join(
            [f'<li><a href="#{e.name}">{escape(e.title)}</a></li>' for e in experiments]
            + ['<li><a href="#manifest">Manifest</a></li>']
        ),
        notes=_told(f"<li>{escape(note)}</li>" for note in manifest.get("notes", ())),
        overview=_overview(overview),
        sections="\n".join(
            _section(e, charts[e.name], e.findings(results.tables[e.name])) for e in experiments
        ),
        manifest=escape(json.dumps(manifest, indent=2, ensure_ascii=False)),
    )
    path = folder / "report.html"
    beside = path.with_name(path.name + ".part")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)
    return path


def save_figures(
    charts: Sequence[Chart],
    folder: Path,
    drawn: Callable[[int, int], None] = lambda done, of: None,
) -> None:
    """Write every chart as PDF, PNG and CSV."""
    from swordplay.experiments import draw_matplotlib

    folder.mkdir(parents=True, exist_ok=True)
    for done, chart in enumerate(charts):
        drawn(done, len(charts))
        draw_matplotlib.save(chart, folder)
        (folder / f"{chart.name}.csv").write_text(chart.numbers().csv(), encoding="utf-8")


def _overview(overview: Overview) -> str:
    head, rows = overview
    if not rows:
        return ""
    cells = "".join(f'<th scope="col">{escape(name)}</th>' for name in head)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return (
        '<div class="scroll" tabindex="0" role="region" aria-label="Results">'
        f'<table id="overview"><thead><tr>{cells}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _section(experiment: Experiment, charts: Sequence[Chart], findings: Sequence[Finding]) -> str:
    return (
        f'<section id="{experiment.name}"><h2>{escape(experiment.title)}</h2>'
        f"<p>{escape(experiment.about)}</p>"
        + _told(_finding(finding) for finding in findings)
        + "".join(_figure(chart) for chart in charts)
        + "</section>"
    )


def _told(items: Iterable[str]) -> str:
    listed = "".join(items)
    return f'<ul class="told">{listed}</ul>' if listed else ""


def _finding(finding: Finding) -> str:
    kind = {True: "good", False: "other", None: ""}[finding.expected]
    word = finding.verdict.capitalize()
    mark = f'<b class="{kind}">{word}. </b>' if word else ""
    return f'<li class="{kind}">{mark}{escape(finding.text)}</li>'


def _figure(chart: Chart) -> str:
    from swordplay.experiments import draw_plotly

    numbers = base64.b64encode(chart.numbers().csv().encode()).decode()
    return (
        f'<figure><h3>{escape(chart.title)}</h3><div class="chart">{draw_plotly.html(chart)}</div>'
        f"<figcaption>{escape(chart.caption)}</figcaption>"
        f'<p class="files"><a download="{chart.name}.csv" href="data:text/csv;base64,{numbers}">'
        f"The numbers (CSV)</a> · for print: figures/{chart.name}.pdf, .png</p></figure>"
    )
