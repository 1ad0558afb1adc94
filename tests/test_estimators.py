"""The scikit-learn front end: the ecosystem's own checks, tables, labels, delays, intervals."""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
import warnings

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from swordplay import StateError
from swordplay.estimators import SwordClassifier, SwordRegressor, plot_drift

MODELS = (
    SwordRegressor(),
    SwordClassifier(),
    SwordRegressor(loss="huber", missing="zero", pool="first-order"),
    SwordRegressor(coverage=0.9),
    SwordRegressor(pool="sword++"),
    SwordClassifier(pool="ader++"),
)


@parametrize_with_checks(list(MODELS))
def test_scikit_learn(estimator, check):
    check(estimator)


def values(rows=600, d=3, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, d)) * 10.0 ** np.arange(-1, d - 1) + 5
    y = (X - 5) @ (1 / 10.0 ** np.arange(-1, d - 1)) + 0.1 * rng.normal(size=rows)
    y[rows // 2 :] *= -1
    return X, y


def classes(rows=900, seed=0, count=3):
    rng = np.random.default_rng(seed)
    k = rng.integers(0, count, rows)
    centres = 2.5 * rng.normal(size=(count, 3))
    return centres[k] + rng.normal(size=(rows, 3)), np.array(["ash", "birch", "cedar", "dogwood"])[
        k
    ]


# ---- streams


@pytest.mark.parametrize("loss", ["squared", "huber", "absolute", "pinball"])
@pytest.mark.parametrize("pool", ["auto", "first-order", "ader++"])
def test_a_batch_is_row_by_row(loss, pool):
    X, y = values(120)
    one = SwordRegressor(loss=loss, pool=pool, coverage=0.9)
    whole = one.predict_then_learn(X, y)
    two = SwordRegressor(loss=loss, pool=pool, coverage=0.9)
    rows = [two.predict_then_learn(X[t : t + 1], y[t : t + 1])[0] for t in range(len(X))]
    assert np.array_equal(whole, rows)
    assert one.to_bytes() == two.to_bytes()
    three = SwordRegressor(loss=loss, pool=pool, coverage=0.9)
    for start in range(0, len(X), 17):
        three.partial_fit(X[start : start + 17], y[start : start + 17])
    assert three.to_bytes() == one.to_bytes()
    assert SwordRegressor(loss=loss, pool=pool, coverage=0.9).fit(X, y).to_bytes() == (
        one.to_bytes()
    )


@pytest.mark.parametrize("pool", ["auto", "ogd"])
def test_a_batch_of_labels_is_row_by_row(pool):
    X, y = classes(150, count=4)
    y[:20] = "ash"
    y[20:60] = np.where(y[20:60] == "ash", "ash", "cedar")
    one, two = SwordClassifier(pool=pool), SwordClassifier(pool=pool)
    whole = one.predict_then_learn(X, y)
    for t in range(len(X)):
        if t >= 60:
            want = whole[t] if "_engine" not in vars(two) else two.predict_proba(X[t : t + 1])[0]
            have = {name: k for k, name in enumerate(one.classes_)}
            got = [whole[t, have[name]] for name in two.classes_]
            assert np.allclose(got, want, atol=1e-15)
        two.partial_fit(X[t : t + 1], y[t : t + 1])
    assert one.classes_.tolist() == two.classes_.tolist()
    assert one.to_bytes() == two.to_bytes()
    assert np.array_equal(one.predict_proba(X), two.predict_proba(X))


def test_predict_has_no_side_effects():
    X, y = values()
    model = SwordRegressor(coverage=0.9).fit(X, y)
    before = model.to_bytes()
    model.predict(X), model.predict_interval(X), model.weights_, model.drift_
    assert model.to_bytes() == before
    labels = SwordClassifier().fit(X, y > 0)
    before = labels.to_bytes()
    labels.predict(X), labels.predict_proba(X)
    assert labels.to_bytes() == before


def test_it_adapts():
    X, y = values(2000)
    p = SwordRegressor().predict_then_learn(X, y)
    assert np.mean((y - p)[1200:] ** 2) < 0.05 * np.var(y)
    right = (SwordClassifier().predict_then_learn(X, y > 0) > 0.5) == (y > 0)
    assert right[1300:].mean() > 0.93


@pytest.mark.parametrize(("loss", "level"), [("pinball", 0.9), ("pinball", 0.1), ("absolute", 0.5)])
def test_quantiles(loss, level):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 2))
    y = X[:, 0] + (1 + 0.5 * (X[:, 1] > 0)) * rng.standard_exponential(6000)
    p = SwordRegressor(loss=loss, quantile=level).predict_then_learn(X, y)
    late = slice(1000, None)
    best = np.quantile((y - X[:, 0])[late], level)

    def pinball(residual):
        return np.mean(np.maximum(level * residual, (level - 1) * residual))

    assert pinball((y - p)[late]) < 1.1 * pinball((y - X[:, 0])[late] - best)


def test_robust_losses_ignore_wild_targets():
    X, y = values(3000)
    rng = np.random.default_rng(1)
    clean = y.copy()
    y[rng.random(len(y)) < 0.05] += 100
    late = slice(2000, None)
    error = {
        loss: np.median(np.abs(SwordRegressor(loss=loss).predict_then_learn(X, y) - clean)[late])
        for loss in ("squared", "huber", "absolute")
    }
    assert error["huber"] < 0.5 * error["squared"]
    assert error["absolute"] < 0.5 * error["squared"]


def test_the_first_rows_are_wild_and_nothing_warns():
    X, y = values(300)
    X[0], X[:, 1] = 1e300, 3.0
    X[5, 2] *= 1000
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for model in (SwordRegressor(), SwordRegressor(coverage=0.9), SwordRegressor(pool="ogd")):
            assert np.isfinite(model.predict_then_learn(X, y)).all()
        assert np.isfinite(SwordClassifier().predict_then_learn(X, y > 0)).all()
        assert np.isfinite(
            SwordClassifier().predict_then_learn(np.zeros((50, 2)), y[:50] > 0)
        ).all()


@pytest.mark.parametrize("pool", ["sword++", "ader++", "oegd", "ogd"])
def test_the_papers_learners(pool):
    X, y = values(1500)
    y[750:] *= -1  # no drift: they are slow
    p = SwordRegressor(pool=pool).predict_then_learn(X, y)
    assert np.mean((y - p)[1000:] ** 2) < 0.5 * np.var(y)
    q = SwordClassifier(pool=pool).predict_then_learn(X, y > 0)
    assert ((q > 0.5) == (y > 0))[1000:].mean() > 0.85
    assert abs(sum(SwordRegressor(pool=pool).fit(X, y).weights_.values()) - 1) < 1e-9


# ---- classes


def test_many_classes():
    X, y = classes(1500, count=4)
    model = SwordClassifier()
    p = model.predict_then_learn(X, y)
    assert p.shape == (1500, 4)
    assert np.allclose(p.sum(axis=1), 1)
    assert model.classes_.tolist() == ["ash", "birch", "cedar", "dogwood"]
    assert (model.classes_[p.argmax(axis=1)] == y)[200:].mean() > 0.9
    assert (model.predict(X) == y).mean() > 0.9


def test_a_new_class_late():
    X, y = classes(1500, count=4)
    late = np.arange(1500) < 700
    X, y = X[~(late & (y == "birch"))], y[~(late & (y == "birch"))]
    model = SwordClassifier().partial_fit(X[:400], y[:400])
    assert model.classes_.tolist() == ["ash", "cedar", "dogwood"]
    before = model.predict_proba(X[:50])
    first = int(np.argmax(y == "birch"))
    model.partial_fit(X[400:first], y[400:first])
    p = model.predict_then_learn(X[first:], y[first:])
    assert model.classes_.tolist() == ["ash", "birch", "cedar", "dogwood"]
    assert p[0, 1] == 0.0  # nobody had heard of it
    assert before.shape == (50, 3)
    assert (model.classes_[p.argmax(axis=1)] == y[first:])[100:].mean() > 0.9


def test_one_class_then_two():
    X, y = values()
    y = np.where(y > 5, 1, 0)
    model = SwordClassifier().partial_fit(X[:5], np.zeros(5, int))
    assert model.classes_.tolist() == [0]
    assert model.predict_proba(X[:3]).tolist() == [[1.0]] * 3
    assert model.predict(X[:3]).tolist() == [0, 0, 0]
    model.partial_fit(X[5:], np.r_[1, y[6:]])
    assert model.predict_proba(X[:3]).shape == (3, 2)
    # which label comes first does not matter
    a = SwordClassifier().predict_then_learn(X, y)
    b = SwordClassifier().predict_then_learn(X, 1 - y)
    assert np.allclose(a, 1 - b, atol=1e-8)
    c = SwordClassifier().partial_fit(X, y, classes=[0, 1, 2])
    assert c.predict_proba(X).shape == (len(X), 3)
    with pytest.raises(ValueError, match="not in classes"):
        SwordClassifier().partial_fit(X, y, classes=[1, 2])


# ---- several targets, weights


def test_many_targets():
    X, y = values()
    both = np.column_stack([y, 100 - 3 * X[:, 0]])
    model = SwordRegressor()
    p = model.predict_then_learn(X, both)
    assert p.shape == both.shape
    assert np.array_equal(p[:, 0], SwordRegressor().predict_then_learn(X, y))
    assert model.predict(X).shape == both.shape
    with pytest.raises(ValueError, match="targets"):
        model.partial_fit(X, y)


def test_weights():
    X, y = values()
    w = np.arange(len(y)) % 3 != 0
    weighted = SwordRegressor().fit(X, y, sample_weight=w * 1.0)
    assert np.array_equal(weighted.predict(X), SwordRegressor().fit(X[w], y[w]).predict(X))
    assert np.array_equal(
        SwordRegressor().partial_fit(X, y, np.ones(len(y))).predict(X),
        SwordRegressor().fit(X, y).predict(X),
    )
    labels = SwordClassifier().partial_fit(X, y > 0, sample_weight=w * 1.0)
    assert np.array_equal(
        labels.predict_proba(X), SwordClassifier().fit(X[w], (y > 0)[w]).predict_proba(X)
    )
    for bad in (np.ones(3), -np.ones(len(y)), np.full(len(y), np.nan)):
        with pytest.raises(ValueError, match="sample_weight"):
            SwordRegressor().fit(X, y, sample_weight=bad)
    with pytest.raises(ValueError, match="zero"):
        SwordRegressor().fit(X, y, sample_weight=np.zeros(len(y)))
    with pytest.raises(TypeError, match="wieght"):
        SwordRegressor().fit(X, y, wieght=1)


# ---- the ecosystem


def test_pipeline_clone_grid_search():
    X, y = values(300)
    pipe = make_pipeline(StandardScaler(), SwordRegressor()).fit(X, y)
    assert pipe.predict(X).shape == (300,)
    pipe.set_output(transform="pandas").fit(X, y)
    assert pipe[-1].feature_names_in_.tolist() == ["x0", "x1", "x2"]
    search = GridSearchCV(SwordRegressor(), {"loss": ["squared", "huber"]}, cv=2).fit(X, y)
    assert search.best_params_["loss"] in ("squared", "huber")
    model = SwordRegressor(loss="huber", delta=2.0, coverage=0.8).fit(X, y)
    again = clone(model)
    assert again.get_params() == model.get_params()
    with pytest.raises(NotFittedError):
        again.predict(X)


@pytest.mark.parametrize("bad", [{"loss": "log"}, {"pool": "x"}, {"missing": "drop"}, {"delta": 0}])
def test_bad_parameters(bad):
    X, y = values(20)
    with pytest.raises(ValueError, match=next(iter(bad))):
        SwordRegressor(**bad).fit(X, y)


def test_a_rough_loss_needs_the_right_learner():
    X, y = values(20)
    with pytest.raises(ValueError, match="smooth"):
        SwordRegressor(loss="absolute", pool="sword++").fit(X, y)


def tables(X, names):
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    return {
        "pandas": pd.DataFrame(X, columns=names),
        "polars": pl.DataFrame(X, schema=names, orient="row"),
        "arrow": pa.table({name: X[:, j] for j, name in enumerate(names)}),
    }


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
def test_tables_and_columns_in_any_order(kind):
    X, y = values()
    want = SwordRegressor().fit(X, y).predict(X)
    model = SwordRegressor().fit(tables(X, ["a", "b", "c"])[kind], y)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(model.predict(tables(X, ["a", "b", "c"])[kind]), want)
    turned = tables(X[:, [2, 0, 1]], ["c", "a", "b"])[kind]
    assert np.array_equal(model.predict(turned), want)
    half = SwordRegressor().partial_fit(tables(X[:300], ["a", "b", "c"])[kind], y[:300])
    half.partial_fit(tables(X[300:][:, [2, 0, 1]], ["c", "a", "b"])[kind], y[300:])
    assert np.array_equal(half.predict(turned), want)


def test_columns_come_and_go():
    import pandas as pd

    X, y = values(2000, d=4)
    frame = pd.DataFrame(X, columns=list("abcd"))
    for model in (SwordRegressor(missing="zero"), SwordRegressor(missing="zero", pool="ogd")):
        model.partial_fit(frame[["a", "b"]][:500], y[:500])
        model.partial_fit(frame[["d", "a", "b"]][500:1000], y[500:1000])
        assert model.feature_names_in_.tolist() == ["a", "b", "d"]
        p = model.predict_then_learn(frame[1000:], y[1000:])
        assert model.n_features_in_ == 4
        if model.pool == "auto":
            assert np.mean((y[1000:] - p)[500:] ** 2) < 0.1 * np.var(y)
        assert np.isfinite(model.predict(frame[["c"]])).all()
        assert np.isfinite(model.predict(frame.assign(new=1.0))).all()
    strict = SwordRegressor().fit(frame, y)
    with pytest.raises(ValueError, match="lacks the columns 'b'"):
        strict.predict(frame[["a", "c", "d"]])
    with pytest.raises(ValueError, match="3 features"):
        strict.predict(X[:, :3])
    before = strict.to_bytes()
    with pytest.raises(ValueError, match="lacks"):
        strict.partial_fit(frame[["a"]].assign(z=0.0), y)
    assert strict.to_bytes() == before


def test_missing_values():
    X, y = values(2000)
    holes = X.copy()
    holes[np.random.default_rng(0).random(X.shape) < 0.1] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        SwordRegressor().fit(holes, y)
    p = SwordRegressor(missing="zero").predict_then_learn(holes, y)
    assert np.mean((y - p)[1200:] ** 2) < 0.4 * np.var(y)
    # without a hole both policies are one
    assert np.array_equal(
        SwordRegressor(missing="zero").fit(X, y).predict(X), SwordRegressor().fit(X, y).predict(X)
    )


def test_a_refused_batch_changes_nothing():
    X, y = values()
    model = SwordRegressor(coverage=0.9).fit(X, y)
    before = model.to_bytes()
    wrong = X.copy()
    wrong[3, 1] = np.inf
    for args in ((wrong, y), (X, np.where(y > y[5], np.nan, y)), (X, y[:-1]), (X[:, :2], y)):
        with pytest.raises(ValueError):
            model.partial_fit(*args)
    with pytest.raises(ValueError):
        model.partial_fit(X, y, sample_weight=[1.0])
    assert model.to_bytes() == before


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, sparse.csc_matrix])
def test_sparse_rows(form):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((500, 100)) < 0.1, rng.normal(size=(500, 100)), 0.0)
    y = X @ rng.normal(size=100)
    a, b = SwordRegressor(), SwordRegressor()
    assert np.array_equal(a.predict_then_learn(form(X), y), b.predict_then_learn(X, y))
    assert np.array_equal(a.predict(form(X)), b.predict(X))
    c, d = SwordClassifier(), SwordClassifier()
    assert np.array_equal(c.predict_then_learn(form(X), y > 0), d.predict_then_learn(X, y > 0))


def test_big_sparse_rows_go_in_pieces(monkeypatch):
    from swordplay.estimators import _shared

    X, y = classes(200)
    whole = SwordClassifier().predict_then_learn(X, y)
    monkeypatch.setattr(_shared, "_CELLS", 21)
    assert np.array_equal(SwordClassifier().predict_then_learn(sparse.csr_matrix(X), y), whole)


# ---- late labels


def test_labels_that_come_late():
    X, y = values(1000)
    prompt, late = SwordRegressor(), SwordRegressor()
    prompt.partial_fit(X[:10], y[:10])
    late.partial_fit(X[:10], y[:10])
    said = []
    for t in range(10, 1000):
        (one,), p = late.ask(X[t : t + 1])
        said.append(p[0])
        if len(late.pending_) > 20:
            late.learn([late.pending_[0]], [y[t - 20]])
        prompt.partial_fit(X[t : t + 1], y[t : t + 1])
    assert len(late.pending_) == 20
    assert np.mean((y[600:] - said[590:]) ** 2) < 0.1 * np.var(y)
    late.learn(late.pending_, y[-20:])
    # the rows were learned in their order: only the predictions were made earlier
    assert np.array_equal(late.predict(X), prompt.predict(X))
    with pytest.raises(KeyError, match="waits for no label"):
        late.learn([one], [0.0])


def test_ids():
    X, y = classes(100)
    model = SwordClassifier().fit(X, y)
    before = model.predict_proba(X)
    ids, said = model.ask(X[:3], ids=["a", "b", "c"])
    assert (ids, said.tolist()) == (["a", "b", "c"], model.predict(X[:3]).tolist())
    assert np.array_equal(model.predict_proba(X), before)
    with pytest.raises(ValueError, match="still waiting"):
        model.ask(X[:1], ids=["b"])
    with pytest.raises(ValueError, match="differ"):
        model.ask(X[:2], ids=["d", "d"])
    model = SwordClassifier.from_bytes(model.to_bytes())
    model.learn(["c", "a"], y[[2, 0]])
    assert model.pending_ == ["b"]
    with pytest.raises(ValueError):
        model.learn(["b"], [np.nan])
    assert model.pending_ == ["b"]


# ---- state


@pytest.mark.parametrize("pool", ["auto", "first-order", "sword++"])
@pytest.mark.parametrize("how", ["bytes", "file", "pickle", "copy", "joblib"])
def test_it_goes_on_exactly(how, pool, tmp_path):
    import joblib

    X, y = values()
    labels = np.where(y > 3, "high", np.where(y < -3, "low", "mid"))
    for model, target in (
        (SwordRegressor(coverage=0.9, pool=pool), y),
        (SwordRegressor(pool=pool), np.column_stack([y, -y])),
        (SwordClassifier(pool=pool), y > 0),
        (SwordClassifier(pool=pool), labels),
    ):
        model.partial_fit(X[:300], target[:300])
        if how == "bytes":
            other = type(model).from_bytes(model.to_bytes())
        elif how == "file":
            model.save(tmp_path / "model")
            other = type(model).load(tmp_path / "model")
        elif how == "pickle":
            other = pickle.loads(pickle.dumps(model))
        elif how == "copy":
            other = copy.deepcopy(model)
        else:
            joblib.dump(model, tmp_path / "model.joblib")
            other = joblib.load(tmp_path / "model.joblib", mmap_mode="r")
        a = model.predict_then_learn(X[300:], target[300:])
        assert np.array_equal(a, other.predict_then_learn(X[300:], target[300:]))
        assert model.to_bytes() == other.to_bytes()


def test_names_and_gaps_survive_a_file():
    import pandas as pd

    X, y = values()
    frame = pd.DataFrame(X, columns=list("abc"))
    model = SwordRegressor(missing="zero").partial_fit(frame[["a", "b"]][:300], y[:300])
    model.partial_fit(frame[300:], y[300:])
    other = SwordRegressor.from_bytes(model.to_bytes())
    assert other.feature_names_in_.tolist() == ["a", "b", "c"]
    assert np.array_equal(other.predict(frame[["c", "a"]]), model.predict(frame[["c", "a"]]))


def test_damaged_and_foreign_states_are_refused():
    X, y = values()
    data = SwordRegressor().fit(X, y).to_bytes()
    for place in (3, 20, 400, len(data) // 2, len(data) - 1):
        bad = bytearray(data)
        bad[place] ^= 1
        with pytest.raises(StateError):
            SwordRegressor.from_bytes(bytes(bad))
    with pytest.raises(StateError, match="SwordRegressor"):
        SwordClassifier.from_bytes(data)
    import swordplay as sp
    from swordplay import state

    learner = sp.OGD(sp.Ball(2), sp.Assumptions(lipschitz=1.0, horizon=10))
    with pytest.raises(StateError):
        SwordRegressor.from_bytes(learner.to_bytes())
    header, row = state.unpack(data)
    for change in ({"engine": {"dim": 10**12, "outputs": 1}}, {"sizes": [1]}, {"params": {"x": 1}}):
        with pytest.raises(StateError):
            SwordRegressor.from_bytes(state.pack({**header, **change}, row))


# ---- intervals


def drifting_noise(kind, rows=12000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    w = rng.normal(size=3)
    scale = np.ones(rows)
    if kind == "jumps":
        signal = X @ w * np.where(np.arange(rows) // 1500 % 2, 1, -1)
    else:
        signal = X @ w
    if kind == "growing":
        scale = np.linspace(0.1, 5, rows)
    if kind == "bursts":
        scale = np.where(np.arange(rows) // 500 % 3 == 0, 5.0, 0.5)
    noise = rng.standard_t(2.5, size=rows) if kind == "tails" else rng.normal(size=rows)
    return X, signal + scale * noise


@pytest.mark.parametrize("coverage", [0.5, 0.8, 0.95])
@pytest.mark.parametrize("kind", ["jumps", "growing", "bursts", "tails"])
def test_intervals_cover_under_drift(kind, coverage):
    X, y = drifting_noise(kind)
    model = SwordRegressor(coverage=coverage)
    middle, ends = model.predict_then_learn(X, y, return_interval=True)
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    assert abs(inside[500:].mean() - coverage) < 0.02
    for part in np.array_split(inside[500:], 4):  # not only on the whole
        assert abs(part.mean() - coverage) < 0.03
    assert np.allclose(ends.mean(axis=1), middle)
    ahead = model.predict_interval(X[:5])
    assert (ahead[:, 0] < ahead[:, 1]).all()


def test_intervals_are_as_narrow_as_the_noise_allows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8000, 2))
    y = X @ [1.0, -2.0] + rng.normal(size=8000)
    _, ends = SwordRegressor(coverage=0.9).predict_then_learn(X, y, return_interval=True)
    assert 3.29 < np.median((ends[:, 1] - ends[:, 0])[2000:]) < 3.29 * 1.2


def test_intervals_must_be_wanted():
    X, y = values(50)
    with pytest.raises(ValueError, match="coverage"):
        SwordRegressor().fit(X, y).predict_interval(X)
    with pytest.raises(ValueError, match="coverage"):
        SwordRegressor(coverage=1.5).fit(X, y)


# ---- looking inside


def test_weights_memory_and_drift():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(6000, 4))
    w = rng.normal(size=4)
    y = X @ w + 0.5 * rng.normal(size=6000)
    model = SwordRegressor().partial_fit(X[:4000], y[:4000])
    assert abs(sum(model.weights_.values()) - 1) < 1e-9
    assert list(model.weights_.values()) == sorted(model.weights_.values(), reverse=True)
    calm, usual = model.drift_, model.effective_memory_
    assert 1 <= usual <= 4000
    highest = 0.0
    for start in range(4000, 4400, 20):  # the model turns round and goes on turning
        sign = -1 if (start // 60) % 2 else 1
        model.partial_fit(X[start : start + 20], sign * y[start : start + 20])
        highest = max(highest, model.drift_)
    assert highest > calm + 0.5
    assert model.effective_memory_ < usual
    rows, memory, drift = model.drift_history_()
    assert len(rows) == len(memory) == len(drift) <= 64
    assert rows[-1] <= 4400
    file = io.BytesIO()
    plot_drift(model).savefig(file)
    assert file.getvalue().startswith(b"\x89PNG")
    with pytest.raises(AttributeError, match="not learned"):
        SwordRegressor().weights_  # noqa: B018


def test_many_outputs_can_be_looked_into():
    X, y = classes(300)
    model = SwordClassifier().fit(X, y)
    assert abs(sum(model.weights_.values()) - 1) < 1e-9
    assert model.effective_memory_ > 1
    assert model.drift_ >= 0


def test_scikit_learn_is_not_needed_by_swordplay():
    code = """
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("sklearn", "river"):
            raise ModuleNotFoundError("No module named " + name, name=name.split(".")[0])
sys.meta_path.insert(0, Absent())
import swordplay, swordplay.estimators
for rest in ("import SwordRegressor", "import river"):
    try:
        exec("from swordplay.estimators " + rest)
    except ImportError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        'SwordRegressor needs scikit-learn: pip install "swordplay[estimators]"',
        'swordplay.estimators.river needs River: pip install "swordplay[river]"',
    ]
