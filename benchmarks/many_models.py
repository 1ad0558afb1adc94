"""A thousand models in one server: time to start, and memory for each.

python -m benchmarks.many_models
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import serving

from swordplay.service.client import Client

MODELS, ROWS, COLUMNS = 1000, 2000, 10


def main():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(ROWS, COLUMNS))
    y = X @ rng.normal(size=COLUMNS)
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/s.db"
        with serving.Server(database) as server, Client(server.url) as one:
            for k in range(20):  # what is allocated once
                one.create(f"first-{k}")
                one.learn(f"first-{k}", X, y)
            before = server.memory
            for k in range(MODELS):
                one.create(f"model-{k}")
                one.learn(f"model-{k}", X, y)
            print(f"memory for each model: {(server.memory - before) / MODELS / 1e3:.0f} kB")
            server.stop()
        begun = time.perf_counter()
        with serving.Server(database) as server, Client(server.url) as one:
            print(f"start with {MODELS} models: {time.perf_counter() - begun:.2f} s")
            before = server.memory
            begun = time.perf_counter()
            for k in range(MODELS):
                one.predict(f"model-{k}", X[:1], remember=False)
            print(
                f"all of them asked once: {time.perf_counter() - begun:.2f} s, "
                f"{(server.memory - before) / MODELS / 1e3:.0f} kB each"
            )


if __name__ == "__main__":
    main()
