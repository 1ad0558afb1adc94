"""The River front end: River's own checks, dicts of any shape, frames."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

river = pytest.importorskip("river")

from river import checks, datasets, metrics  # noqa: E402

from swordplay import estimators  # noqa: E402
from swordplay.estimators.river import SwordClassifier, SwordRegressor  # noqa: E402

MODELS = (
    SwordRegressor(),
    SwordClassifier(),
    SwordRegressor(pool="sword++"),
    SwordClassifier(pool="first-order"),
)
CHECKS = [
    pytest.param(model, check, id=f"{type(model).__name__}-{model.pool}-{check.__name__}-{k}")
    for model in MODELS
    for k, check in enumerate(checks.yield_checks(model))
    if check.__name__ not in model._unit_test_skips()
]


@pytest.mark.parametrize(("model", "check"), CHECKS)
def test_river(model, check):
    check(model.clone())


def rows(count=400, d=4, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(count, d))
    y = X @ np.arange(1.0, d + 1) + 0.1 * rng.normal(size=count)
    names = [f"x{j}" for j in range(d)]
    return X, y, [dict(zip(names, x, strict=True)) for x in X.tolist()]


def test_it_is_the_same_learner():
    X, y, dicts = rows()
    want = estimators.SwordRegressor(missing="zero").predict_then_learn(X, y)
    model = SwordRegressor()
    got = []
    for x, target in zip(dicts, y, strict=True):
        got.append(model.predict_one(x))
        model.learn_one(x, target)
    assert np.array_equal(got, want)
    proba = estimators.SwordClassifier(missing="zero").predict_then_learn(X, y > 0)
    labels = SwordClassifier()
    for t, x in enumerate(dicts):
        assert labels.predict_proba_one(x).get(True, 0.5) == pytest.approx(proba[t], abs=1e-12)
        labels.learn_one(x, bool(y[t] > 0))


def test_learning_without_or_between_predictions_is_the_same():
    """The fast path keeps what a prediction worked out; it must never be stale."""
    _, y, dicts = rows()
    rng = np.random.default_rng(1)
    plain, asked = SwordRegressor(), SwordRegressor()
    for t, x in enumerate(dicts):
        plain.learn_one(x, y[t])
        for _ in range(rng.integers(0, 3)):
            other = dict(dicts[rng.integers(len(dicts))])
            if rng.random() < 0.3:
                del other["x1"]
            if rng.random() < 0.3:
                other = dict(reversed(other.items()))
            asked.predict_one(other)
        if rng.random() < 0.7:
            mine = dict(x)
            asked.predict_one(mine)
            if rng.random() < 0.5:
                mine["x0"] += 1  # changed between the two calls, and back
                asked.predict_one(mine)
                mine["x0"] = x["x0"]
        asked.learn_one(x, y[t])
        if rng.random() < 0.2:  # the same row again, not asked about in between
            plain.learn_one(x, y[t] + 1)
            asked.learn_one(x, y[t] + 1)
    assert plain._engine.row.tobytes() == asked._engine.row.tobytes()


def test_features_come_and_go():
    _, y, dicts = rows(3000)
    rng = np.random.default_rng(0)
    model, errors = SwordRegressor(), []
    for t, x in enumerate(dicts):
        some = {name: v for name, v in x.items() if rng.random() < 0.95}
        if t < 500:
            some.pop("x3", None)
        errors.append(y[t] - model.predict_one(some))
        model.learn_one(some, y[t])
    assert np.mean(np.square(errors[1500:])) < 0.25 * np.var(y)
    model.learn_one({}, 1.0)
    assert np.isfinite(model.predict_one({}))
    assert np.isfinite(model.predict_one({"unheard of": 3.0}))
    assert np.isfinite(model.predict_one({"x0": None, "x1": float("nan"), "x2": 1, "x3": 0}))


def test_words():
    """Words that are mostly absent: absent is 0, present is 1."""
    rng = np.random.default_rng(0)
    effect = rng.normal(size=40)
    model, errors, targets = SwordRegressor(), [], []
    for _ in range(2000):
        words = np.flatnonzero(rng.random(40) < 0.1)
        y = effect[words].sum()
        x = {f"w{k}": 1.0 for k in words}
        errors.append(y - model.predict_one(x))
        targets.append(y)
        model.learn_one(x, y)
    assert np.mean(np.square(errors[1000:])) < 0.05 * np.var(targets)


def test_strict():
    _, y, dicts = rows(20)
    model = SwordRegressor(missing="error")
    model.learn_one(dicts[0], y[0])
    with pytest.raises(ValueError, match="x2"):
        model.predict_one({name: v for name, v in dicts[1].items() if name != "x2"})
    with pytest.raises(ValueError, match="x1"):
        model.learn_one({**dicts[1], "x1": float("nan")}, 1.0)
    with pytest.raises(ValueError, match="finite"):
        model.learn_one(dicts[1], float("nan"))
    for bad in ({"pool": "x"}, {"missing": "x"}, {"loss": "x"}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            SwordRegressor(**bad)


def test_before_anything_was_learned():
    assert SwordRegressor().predict_one({"a": 1.0}) == 0.0
    assert SwordClassifier().predict_proba_one({"a": 1.0}) == {}
    assert SwordClassifier().predict_one({"a": 1.0}) is None


def test_frames():
    import pandas as pd

    _, y, dicts = rows()
    frame, target = pd.DataFrame(dicts), pd.Series(y)
    one, many = SwordRegressor(), SwordRegressor()
    for x, value in zip(dicts, y, strict=True):
        one.learn_one(x, value)
    many.learn_many(frame[:100], target[:100])
    many.learn_many(frame[100:][["x2", "x0", "x1", "x3"]], target[100:])
    assert one._engine.row.tobytes() == many._engine.row.tobytes()
    assert many.predict_many(frame[:3]).tolist() == [one.predict_one(x) for x in dicts[:3]]
    labels = SwordClassifier()
    names = pd.Series(np.where(y > 2, "a", np.where(y < -2, "b", "c")))
    labels.learn_many(frame, names)
    proba = labels.predict_proba_many(frame[:5])
    assert np.allclose(proba.sum(axis=1), 1)
    for k in range(5):
        assert labels.predict_proba_one(dicts[k]) == pytest.approx(proba.iloc[k].to_dict())
        assert labels.predict_many(frame[:5])[k] == labels.predict_one(dicts[k])


def test_pickle_goes_on():
    _, y, dicts = rows()
    for make, target in ((SwordRegressor, y), (SwordClassifier, [v > 0 for v in y.tolist()])):
        model = make()
        for x, value in zip(dicts[:200], target, strict=False):
            model.predict_one(x)
            model.learn_one(x, value)
        other = pickle.loads(pickle.dumps(model))
        for x, value in zip(dicts[200:], target[200:], strict=True):
            assert model.predict_one(x) == other.predict_one(x)
            model.learn_one(x, value)
            other.learn_one(x, value)
        assert model._engine.row.tobytes() == other._engine.row.tobytes()
        assert model.weights_ == other.weights_
        assert model.effective_memory_ > 0
        assert model.drift_ >= 0


def test_many_classes_on_a_real_stream():
    model, metric = SwordClassifier(), metrics.Accuracy()
    for x, y in datasets.ImageSegments():
        metric.update(y, model.predict_one(x))
        model.learn_one(x, y)
    assert metric.get() > 0.89
