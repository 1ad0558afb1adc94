"""The bars on real drifting streams; skipped where the files are not beside the repository."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from swordplay.estimators import SwordClassifier, SwordRegressor

DATA = Path(__file__).parents[2] / "shared" / "data"
pytestmark = pytest.mark.skipif(
    not (DATA / "drift_streams.npz").exists(), reason="drift_streams.npz is not there"
)


@cache
def scores() -> dict:
    return json.loads((DATA / "drift_streams.json").read_text())


@cache
def loss(name: str) -> float:
    """Return NMSE or log loss, as the scores of the other libraries were taken."""
    with np.load(DATA / "drift_streams.npz") as data:
        X, y = data[f"{name}__X"].astype(float), data[f"{name}__y"].astype(float)
    if scores()[name]["task"] == "regression":
        p = SwordRegressor().predict_then_learn(X, y)
        return float(((y - p) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    p = np.clip(SwordClassifier().predict_then_learn(X, y.astype(int)), 1e-7, 1 - 1e-7)
    return float(-np.log(np.where(y == 1, p, 1 - p)).mean())


def ratios(task: str) -> dict[str, float]:
    names = [n for n in scores() if (scores()[n]["task"] == "regression") == (task == "regression")]
    return {name: loss(name) / scores()[name]["best_peer_score"] for name in names}


@pytest.mark.parametrize(("task", "bar"), [("regression", 0.72), ("classification", 0.70)])
def test_geometric_mean(task, bar):
    """Asked for: 1.05 and 0.94 of the best peer tuned in hindsight. Kept: what was reached."""
    assert np.exp(np.mean(np.log(list(ratios(task).values())))) < bar


def test_worst_stream():
    assert max({**ratios("regression"), **ratios("classification")}.values()) < 1.15


@pytest.mark.parametrize(
    ("name", "bar"),
    [
        ("PaperDrift0", 0.023),
        ("SRU1", 0.095),
        ("SRU2", 0.095),
        ("Elec2", 0.20),
        ("SineFlip", 0.045),
    ],
)
def test_single_streams(name, bar):
    assert loss(name) < bar


@pytest.mark.parametrize("name", ["SRU1", "WaterFlow", "Phishing", "ImgSegBrick", "LEDdrift"])
def test_scaled_and_shifted_columns(name):
    rng = np.random.default_rng(0)
    with np.load(DATA / "drift_streams.npz") as data:
        X, y = data[f"{name}__X"].astype(float), data[f"{name}__y"].astype(float)
    scale = 10.0 ** rng.uniform(-6, 6, X.shape[1])
    X = X * scale + scale * (X.std(axis=0) + 1e-9) * rng.normal(size=X.shape[1]) * 10
    if scores()[name]["task"] == "regression":
        p = SwordRegressor().predict_then_learn(X, y)
        moved = float(((y - p) ** 2).sum() / ((y - y.mean()) ** 2).sum())
    else:
        p = np.clip(SwordClassifier().predict_then_learn(X, y.astype(int)), 1e-7, 1 - 1e-7)
        moved = float(-np.log(np.where(y == 1, p, 1 - p)).mean())
    assert abs(moved / loss(name) - 1) < 0.01
