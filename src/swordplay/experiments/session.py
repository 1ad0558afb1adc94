"""From experiments to a finished folder: run, tables, report, manifest."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from swordplay.engines import THREADS, Engine
from swordplay.experiments import findings, manifest, report, runner
from swordplay.experiments.contenders import LEARNERS
from swordplay.experiments.experiment import Experiment, Finding, Tables
from swordplay.experiments.plots import plus_minus
from swordplay.experiments.report import Overview
from swordplay.experiments.runner import Results, Silent, Watcher


@dataclass(frozen=True)
class Outcome:
    """What a finished session has to show."""

    results: Results
    report: Path
    manifest: dict[str, Any]
    overview: Overview
    findings: dict[str, list[Finding]]
    """By the title of the experiment."""

    def as_json(self) -> dict[str, Any]:
        """Return the outcome for machines."""
        head, rows = self.overview
        return {
            "report": str(self.report),
            "overview": [dict(zip(head, row, strict=True)) for row in rows],
            "summaries": {
                name: [_finite(row) for row in tables["summary"].rows()]
                for name, tables in self.results.tables.items()
                if "summary" in tables
            },
            "findings": [
                {"experiment": title, "text": finding.text, "as_expected": finding.expected}
                for title, several in self.findings.items()
                for finding in several
            ],
            "manifest": self.manifest,
        }


def _finite(row: dict[str, Any]) -> dict[str, Any]:
    """Return a row as JSON can hold it: what is no number is null."""
    return {k: None if isinstance(v, float) and not isfinite(v) else v for k, v in row.items()}


@dataclass(frozen=True)
class Study:
    """Experiments that share a folder and a report."""

    experiments: Sequence[Experiment]
    settings: Mapping[str, Any]
    """What distinguishes this run from others; see ``runner.prepare``."""
    title: str
    subtitle: str
    overview: Callable[[Mapping[str, Tables]], Overview]
    notes: Sequence[str] = ()
    """What the reader should know before anything else."""

    def conduct(
        self,
        folder: Path,
        *,
        resume: bool = False,
        overwrite: bool = False,
        watcher: Watcher | None = None,
        engine: Engine = THREADS,
    ) -> Outcome:
        """Run the experiments into ``folder``, report and manifest beside the tables."""
        began = time.perf_counter()
        watcher = watcher or Silent()
        results = runner.run(
            self.experiments,
            folder,
            self.settings,
            resume=resume,
            overwrite=overwrite,
            watcher=watcher,
            engine=engine,
        )
        seconds = time.perf_counter() - began
        told = manifest.describe(folder, self.experiments, self.settings, seconds, self.notes)
        table = self.overview(results.tables)
        page = report.write(
            results, self.experiments, told, self.title, self.subtitle, table, watcher.draw
        )
        manifest.write(folder, told)
        said = {e.title: list(e.findings(results.tables[e.name])) for e in self.experiments}
        return Outcome(results, page, told, table, said)


def paper_overview(tables: Mapping[str, Tables]) -> Overview:
    """Return the cumulative losses of Figure 1 and the times of Figure 2, one row a learner."""
    head, columns = ["learner"], []
    for name, told in (
        ("figure-1a", "synthetic"),
        ("figure-1b", "sulfur"),
    ):
        if name not in tables:
            continue
        summary = tables[name]["summary"]
        for parameters in summary.distinct("parameters"):
            head.append(f"{told}, {parameters}")
            losses = findings.losses(summary.where(parameters=parameters))
            columns.append({learner: plus_minus(*loss) for learner, loss in losses.items()})
    for name, told in (("figure-2a", "synthetic"), ("figure-2b", "sulfur")):
        if name in tables:
            chunks = tables[name]["chunks"]
            head.append(f"µs a round, {told}")
            columns.append(
                {
                    learner: f"{np.median(chunks.where(learner=learner)['microseconds']):.2f}"
                    for learner in chunks.distinct("learner")
                }
            )
    learners = [name for name in LEARNERS if any(name in column for column in columns)]
    return head, [[name, *(column.get(name, "") for column in columns)] for name in learners]


def data_overview(tables: Mapping[str, Tables]) -> Overview:
    """Return one row for each learner and baseline, the least loss first."""
    summary = tables["losses"]["summary"]
    rows = sorted(summary.rows(), key=lambda row: row["cumulative_loss"])
    name, told = ("rmse", "RMSE") if "rmse" in summary else ("wrong_labels", "wrong labels")
    return ["learner", "cumulative loss", "mean loss", told, "gradients a round"], [
        [
            row["learner"],
            f"{row['cumulative_loss']:,.2f}",
            f"{row['mean_loss']:.4g}",
            f"{row[name]:.4g}",
            f"{row['gradients_per_round']:g}",
        ]
        for row in rows
    ]
