"""What a new process waits for, once the kernels lie compiled on the disk."""

from __future__ import annotations

import json
import subprocess
import sys
from statistics import median
from typing import Any

from benchmarks.measure import Row, Settings

# The first call is all that comes between the rows and the result: whatever loads the kernels, be
# it the stream, the learner or the game, is in it. NumPy is part of the import.
FIRST_CALL = """
import json, time
began = time.perf_counter()
import swordplay as sp
imported = time.perf_counter()
import numpy as np
rng = np.random.default_rng(0)
features, targets = rng.uniform(-0.4, 0.4, (1000, 5)), rng.uniform(-1, 1, 1000)
ready = time.perf_counter()
stream = sp.LinearStream(features, targets)
domain = sp.Ball(dim=5, radius=1.0)
learner = sp.SwordPP(domain, stream.assumptions(domain))
{first}
played = time.perf_counter()
print(json.dumps({{"import": imported - began, "call": played - ready}}))
"""
CALLS = {
    "play": "sp.play(learner, stream)",
    "learn": "learner.decide(); learner.learn(features[0])",
}


def new_process(first: str) -> dict[str, float]:
    """Return the seconds of the import and of the first call in a new process."""
    command = [sys.executable, "-c", FIRST_CALL.format(first=first)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout)
    return result


def startup(settings: Settings) -> list[Row]:
    """Seconds of `import swordplay` and of the first call, warm cache."""
    for first in CALLS.values():
        new_process(first)  # compiles, if nobody has
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in CALLS}
    for _ in range(settings.repetitions):
        for name, first in CALLS.items():
            runs[name].append(new_process(first))
    calls = {name: [run["call"] for run in runs[name]] for name in CALLS}
    imports = [run["import"] for name in CALLS for run in runs[name]]

    def row(name: str, what: str, bar: float, seconds: list[float]) -> Row:
        details: dict[str, Any] = {"spread": [min(seconds), max(seconds)], "runs": len(seconds)}
        return Row(name, what, bar, median(seconds), unit="s", details=details)

    return [
        row("startup/import", "new process: import swordplay", 0.7, imports),
        row("startup/play", "new process, warm cache: first play", 0.5, calls["play"]),
        row("startup/learn", "new process, warm cache: first decide + learn", 0.5, calls["learn"]),
    ]
