"""One figure of the paper in ten lines: Figure 1(a), smaller, as PDF, PNG and CSV."""

import tempfile
from pathlib import Path

from swordplay.experiments import Scale, catalogue, run, save_figures

experiment = catalogue.figure_1a(Scale(seeds=(0, 1), rounds=10_000), also=["SwordBest"])
folder = Path(tempfile.mkdtemp())
tables = run([experiment], folder).tables["figure-1a"]
save_figures(experiment.charts(tables), folder / "figures")

for finding in experiment.findings(tables):
    print(finding.text)
print("written:", *sorted(path.name for path in (folder / "figures").iterdir()))
