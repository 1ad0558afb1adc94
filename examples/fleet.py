"""One model for each of three hundred sensors: who is hard to predict, and who has changed?"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import swordplay as sp

rng = np.random.default_rng(0)
sensors, rows = 300, 300_000
truth = rng.normal(size=(sensors, 3))
keys = rng.integers(0, sensors, rows)
X = rng.normal(size=(rows, 3))
noise = np.where(keys == 7, 3.0, 0.1)  # sensor 7 is loose
weights = truth[keys]
late = np.flatnonzero((keys == 42) & (np.arange(rows) > 150_000))
weights[late] += 0.5 * rng.normal(size=(len(late), 3)).cumsum(axis=0)  # sensor 42 wears out
y = (X * weights).sum(axis=1) + noise * rng.normal(size=rows)

fleet = sp.Fleet(sp.PoolModel(dim=3))
for start in range(0, rows, 10_000):  # as the rows come in
    part = slice(start, start + 10_000)
    fleet.learn(keys[part], X[part], y[part])

told = fleet.summary()
worst = int(np.argmax(told["loss"]))
print(f"worst: sensor {told['key'][worst]}, mean loss {told['loss'][worst]:.2f}")
moved = int(np.argmax(told["peak"]))
print(
    f"drifted most: sensor {told['key'][moved]}, {told['peak'][moved]:.1f} octaves at its row "
    f"{told['peak_row'][moved]} of {told['rows'][moved]}"
)

with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "sensors.parquet")
    fleet.save(path)
    again = sp.Fleet.load(path)  # goes on, bit for bit
    asked = [7, 42], np.ones((2, 3))
    print(
        len(again),
        "learners;",
        "same:",
        np.array_equal(again.predict(*asked), fleet.predict(*asked)),
    )
