"""Fleets: bit for bit so many separate learners, whatever the batches, threads, disks and files."""

from __future__ import annotations

import json
import warnings
from datetime import date, datetime
from uuid import UUID

import numpy as np
import pytest

import swordplay as sp
from swordplay.estimators import SwordClassifier, SwordRegressor
from swordplay.fleet import Fleet, PoolModel
from swordplay.fleet.keys import Keys, from_text, to_text
from swordplay.state import StateError

FACTS = sp.Assumptions(lipschitz=20.0, smoothness=4.0, horizon=3000)


def paper(domain=None, kind=sp.SwordPP, dtype=np.float64, **more):
    domain = sp.Ball(dim=3, radius=1.0) if domain is None else domain
    return kind(domain, FACTS, dtype=dtype, **more)


def stream(n=600, count=17, dim=3, seed=0):
    rng = np.random.default_rng(seed)
    keys = rng.integers(0, count, n)
    X = rng.uniform(-1, 1, (n, dim))
    truth = rng.uniform(-0.5, 0.5, (count, dim))
    y = np.einsum("ij,ij->i", X, truth[keys]) + 0.05 * rng.normal(size=n)
    return keys, X, y


def in_batches(fleet, keys, X, y, sizes, **more):
    out, begin = [], 0
    for size in sizes:
        part = slice(begin, begin + size)
        out.append(fleet.predict_then_learn(keys[part], X[part], y[part]))
        begin += size
    assert begin == len(keys)
    return np.concatenate(out)


def same_states(a, b):
    assert sorted(a.keys) == sorted(b.keys)
    for key in a:
        assert a.state(key).tobytes() == b.state(key).tobytes(), key


DOMAINS = [
    sp.Ball(dim=3, radius=0.4, center=[0.1, 0.0, -0.2]),
    sp.Box([-0.3] * 3, [0.5] * 3),
    sp.Simplex(3),
    sp.L1Ball(dim=3, radius=0.7),
    sp.Everywhere(3, diameter=2.0),
]


@pytest.mark.parametrize("domain", DOMAINS, ids=lambda domain: type(domain).__name__)
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_fleet_is_so_many_learners_bit_for_bit(domain, dtype):
    for kind, more in [(sp.SwordPP, {}), (sp.OGD, {}), (sp.Ader, {"surrogate": True})]:
        loss = sp.Logistic() if kind is sp.OGD else sp.Huber(0.3)
        learner = paper(domain, kind, dtype, **more)
        keys, X, y = stream()
        y = np.sign(y) if kind is sp.OGD else y
        fleet = Fleet(learner, loss, workers=2)
        predictions = in_batches(fleet, keys, X, y, [1, 250, 349])
        alone = {key: learner.copy() for key in set(keys.tolist())}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", sp.AssumptionWarning)
            for key, x, target, told in zip(keys.tolist(), X, y, predictions, strict=True):
                # every product, then every sum, in float64 and in order
                prediction = 0.0
                for a, b in zip(alone[key].decide().tolist(), x.tolist(), strict=True):
                    prediction += a * b
                assert prediction == told
                alone[key].learn(float(loss.slope(target, prediction)) * x)
        for key, one in alone.items():
            assert one._row.tobytes() == fleet.state(key).tobytes(), (kind, key)


@pytest.mark.parametrize("labels", [False, True])
def test_a_fleet_of_pools_is_so_many_estimators_bit_for_bit(labels):
    keys, X, y = stream(n=400, count=5)
    y = (y > 0).astype(float) if labels else y
    X[3::17, 1] = np.nan
    fleet = Fleet(PoolModel(3, loss="logistic" if labels else "squared"), workers=2)
    told = in_batches(fleet, keys, X, y, [37, 363])
    for key in range(5):
        mine = keys == key
        if labels:
            one = SwordClassifier(missing="zero")
            classes = np.array([0, 1])
            one.partial_fit(X[mine][:1], y[mine][:1], classes=classes)
            rest = one.predict_then_learn(X[mine][1:], y[mine][1:])
            expected = np.concatenate([told[mine][:1], rest])
        else:
            one = SwordRegressor(missing="zero")
            expected = one.predict_then_learn(X[mine], y[mine])
        assert expected.tobytes() == told[mine].tobytes()
        assert one._engine.row.tobytes() == fleet.state(key).tobytes()


@pytest.mark.parametrize("model", [paper(), PoolModel(3)], ids=["paper", "pool"])
def test_batches_threads_and_neighbours_change_nothing(model):
    keys, X, y = stream()
    one = Fleet(model, workers=1)
    told = in_batches(one, keys, X, y, [600])
    many = Fleet(model, workers=2)
    assert in_batches(many, keys, X, y, [1] * 20 + [280, 300]).tobytes() == told.tobytes()
    same_states(one, many)
    for key in (0, 5):
        alone = Fleet(model)
        mine = keys == key
        assert (
            alone.predict_then_learn(keys[mine], X[mine], y[mine]).tobytes() == told[mine].tobytes()
        )
        assert alone.state(key).tobytes() == one.state(key).tobytes()


def test_predicting_changes_nothing_and_agrees_with_learning():
    keys, X, y = stream()
    fleet = Fleet(paper(), workers=2).learn(keys, X, y)
    before = {key: fleet.state(key).tobytes() for key in fleet}
    first = fleet.predict(keys, X)
    assert {key: fleet.state(key).tobytes() for key in fleet} == before
    # The first row of every key is answered by the state as it is.
    _, where = np.unique(keys, return_index=True)
    assert fleet.predict_then_learn(keys, X, y)[where].tobytes() == first[where].tobytes()
    strangers = fleet.predict([999, 0, 998], X[:3])
    assert strangers[0] == strangers[2] == 0.0
    assert 999 not in fleet


def test_a_fleet_with_little_memory_is_the_same_fleet(tmp_path):
    keys, X, y = stream(n=2000, count=60)
    everything = Fleet(paper())
    told = in_batches(everything, keys, X, y, [500] * 4)
    row = everything.state(0).nbytes + 32
    little = Fleet(paper(), memory_limit=7 * row, folder=tmp_path)
    assert in_batches(little, keys, X, y, [500] * 4).tobytes() == told.tobytes()
    assert little.resident <= 7
    assert len(little) == 60
    same_states(everything, little)
    assert little.predict(keys, X).tobytes() == everything.predict(keys, X).tobytes()
    a, b = everything.summary(), little.summary()
    for name in a:
        assert np.array_equal(a[name], b[name]), name
    with pytest.raises(ValueError, match="less than one learner"):
        Fleet(paper(), memory_limit=10)


def test_growing_moves_no_row():
    fleet = Fleet(paper())
    fleet.learn([0], np.ones((1, 3)), [1.0])
    home = fleet._store.blocks.rows[0]
    count = 2 * fleet._store.blocks.per_block + 1
    fleet.learn(np.arange(count), np.ones((count, 3)), np.ones(count))
    assert fleet._store.blocks.rows[0] is home
    assert len(fleet._store.blocks.rows) == 3
    assert len(fleet) == count


KINDS = [
    [3, -7, 2**62],
    ["a", "ä", ""],
    [b"x", b"\x00", b"y"],
    [("n", 1), ("n", 2), ("n", (3.5, None is None))],
    [date(2026, 1, 1), datetime(2026, 1, 1, 12), UUID(int=7)],
    [1, "1", 2.5],
    np.array(["2026-01-01", "2026-01-02", "2026-01-03"], dtype="datetime64[D]"),
]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: type(kind[0]).__name__)
def test_any_key_and_back_from_a_file(kind, tmp_path):
    fleet = Fleet(paper())
    keys = [kind[0], kind[1], kind[0], kind[2]]
    keys = np.array(keys) if isinstance(kind, np.ndarray) else keys
    fleet.learn(keys, np.eye(4, 3), np.ones(4))
    assert fleet.summary()["rows"].tolist() == [2, 1, 1]
    fleet.save(tmp_path / "fleet.parquet")
    again = Fleet.load(tmp_path / "fleet.parquet")
    assert again.keys == fleet.keys
    assert all(from_text(to_text(key)) == key for key in fleet)


def test_keys_may_turn_from_whole_numbers_to_anything():
    keys = Keys()
    many = np.random.default_rng(0).integers(-(2**60), 2**60, 5000)
    first = keys.number(np.concatenate([many, many]))
    assert np.array_equal(first[:5000], first[5000:])
    assert len(keys) == len(set(many.tolist()))
    assert np.array_equal(keys.number(many, add=False), first[:5000])
    assert keys.number(["x", int(many[3])]).tolist() == [len(set(many.tolist())), first[3]]


@pytest.mark.parametrize("bad", [None, float("nan"), np.datetime64("NaT")], ids=str)
def test_a_null_key_is_refused_before_anything_is_learned(bad):
    fleet = Fleet(paper())
    with pytest.raises(ValueError, match="row 1 is null"):
        fleet.learn(["a", bad], np.ones((2, 3)), np.ones(2))
    assert len(fleet) == 0


def test_pandas_null_keys_and_arrow_keys():
    pd, pa = pytest.importorskip("pandas"), pytest.importorskip("pyarrow")
    fleet = Fleet(paper())
    with pytest.raises(ValueError, match="row 0 is null"):
        fleet.learn(pd.Series([pd.NA, "a"], dtype=object), np.ones((2, 3)), np.ones(2))
    fleet.learn(pd.Series(["b", "a"]), np.ones((2, 3)), np.ones(2))
    fleet.learn(pa.array(["b", "c"]), np.ones((2, 3)), np.ones(2))
    assert fleet.keys == ["b", "a", "c"]


def test_unhashable_keys_and_wrong_shapes():
    fleet = Fleet(paper())
    with pytest.raises(TypeError, match="hashable"):
        fleet.learn([[1], [2]], np.ones((2, 3)), np.ones(2))
    with pytest.raises(ValueError, match=r"shape \(n, 3\)"):
        fleet.learn([1], np.ones((1, 2)), [1.0])
    with pytest.raises(ValueError, match="2 rows in X, but 1 keys"):
        fleet.learn([1], np.ones((2, 3)), [1.0, 2.0])
    with pytest.raises(ValueError, match=r"y must have shape"):
        fleet.learn([1], np.ones((1, 3)), [1.0, 2.0])
    with pytest.raises(ValueError, match="-1 and \\+1"):
        Fleet(paper(), sp.Logistic()).learn([1], np.ones((1, 3)), [0.0])
    with pytest.raises(ValueError, match="0 and 1"):
        Fleet(PoolModel(3, loss="logistic")).learn([1], np.ones((1, 3)), [-1.0])
    assert len(fleet) == 0


def test_rows_that_cannot_be_learned_are_counted_and_harm_nobody():
    keys, X, y = stream()
    sick_X, sick_y = X.copy(), y.copy()
    sick_X[keys == 3] = np.nan  # a key whose rows are all NaN
    sick_X[(keys == 4) & (np.arange(600) % 2 == 0), 1] = np.inf
    sick_y[keys == 5] = np.nan
    for model in (paper(), PoolModel(3)):
        well, sick = Fleet(model).learn(keys, X, y), Fleet(model)
        told = sick.predict_then_learn(keys, sick_X, sick_y)
        for key in set(range(17)) - {3, 4, 5}:
            assert well.state(key).tobytes() == sick.state(key).tobytes()
        summary = sick.summary([3, 4, 5])
        pool = isinstance(model, PoolModel)
        assert summary["skipped"][0] == (0 if pool else (keys == 3).sum())
        assert summary["skipped"][1] == ((keys == 4) & (np.arange(600) % 2 == 0)).sum()
        assert summary["skipped"][2] == (keys == 5).sum()
        assert summary["rows"][2] == 0
        assert np.isfinite(told[keys == 5]).all()
        assert np.isfinite(told[keys == 3]).all() == pool


def test_a_gradient_that_overflows_leaves_its_key_as_it_was():
    fleet = Fleet(paper()).learn(*stream())
    before = fleet.predict([0], np.ones((1, 3)))
    fleet.learn([0], np.full((1, 3), 1e200), [1e200])
    assert fleet.predict([0], np.ones((1, 3))) == before
    assert fleet.summary([0])["skipped"].tolist() == [1]


def test_times_order_the_rows_of_a_batch_and_late_rows_are_counted():
    keys, X, y = stream()
    straight = Fleet(paper()).learn(keys, X, y)
    order = np.random.default_rng(1).permutation(600)
    for times in (
        np.arange(600) - 300,
        (np.arange(600) - 300) / 7,
        np.datetime64("2026-01-01") + np.arange(600),
    ):
        shuffled = Fleet(paper(), workers=2)
        told = shuffled.predict_then_learn(keys[order], X[order], y[order], times[order])
        same_states(straight, shuffled)
        tiny = Fleet(paper(), memory_limit=3 * (straight.state(0).nbytes + 32))
        tiny.learn(keys[order], X[order], y[order], times[order])
        same_states(straight, tiny)
        assert told.tobytes() == Fleet(paper()).predict_then_learn(keys, X, y)[order].tobytes()
    assert shuffled.summary()["late"].sum() == 0
    for late, more in (("learn", 1), ("predict", 0)):
        fleet = Fleet(paper(), late=late).learn([7, 7], X[:2], y[:2], [10, 20])
        fleet.learn([7, 7], X[:2], y[:2], [20, 19])  # an equal time is not late
        figures = fleet.summary()
        assert (figures["late"][0], figures["rows"][0]) == (1, 3 + more)
    with pytest.raises(TypeError, match="whole numbers so far"):
        fleet.learn([7], X[:1], y[:1], [0.5])
    with pytest.raises(ValueError, match="row 0 is null"):
        shuffled.learn([7], X[:1], y[:1], np.array(["NaT"], dtype="datetime64[ns]"))


@pytest.mark.parametrize("model", [paper(), paper(dtype=np.float32), PoolModel(3)])
def test_save_and_load_go_on_exactly(model, tmp_path):
    keys, X, y = stream()
    names = np.array([f"sensor {key}" for key in keys])
    fleet = Fleet(model).learn(names[:300], X[:300], y[:300], np.arange(300))
    path = tmp_path / "fleet.parquet"
    fleet.save(path)
    again = Fleet.load(path, like=fleet.model)
    assert again.summary()["rows"].sum() == 300
    rest = (names[300:], X[300:], y[300:], np.arange(300, 600))
    assert fleet.predict_then_learn(*rest).tobytes() == again.predict_then_learn(*rest).tobytes()
    same_states(fleet, again)
    small = Fleet.load(path, memory_limit=3 * (fleet.model.fresh.nbytes + 32))
    assert small.resident <= 3
    small.learn(*rest)
    same_states(fleet, small)


def test_files_that_do_not_fit_are_refused(tmp_path, monkeypatch):
    from swordplay.fleet import files

    path = tmp_path / "fleet.parquet"
    fleet = Fleet(paper()).learn(*stream())
    fleet.save(path)
    other = Fleet(paper(kind=sp.OGD)).model
    with pytest.raises(StateError, match=r"(?s)another model.*OGD.*SwordPP"):
        Fleet.load(path, like=other)
    with pytest.raises(FileNotFoundError):
        Fleet.load(tmp_path / "nothing.parquet")
    (tmp_path / "junk.parquet").write_bytes(b"junk")
    with pytest.raises(StateError, match="damaged"):
        Fleet.load(tmp_path / "junk.parquet")
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    (tmp_path / "flipped.parquet").write_bytes(content)
    with pytest.raises(StateError, match="damaged"):
        Fleet.load(tmp_path / "flipped.parquet")
    monkeypatch.setattr(files, "FORMAT", 3)
    fleet.save(tmp_path / "newer.parquet")
    monkeypatch.undo()
    with pytest.raises(StateError, match="has format 3"):
        Fleet.load(tmp_path / "newer.parquet")


def test_split_and_merge(tmp_path):
    keys, X, y = stream()
    fleet = Fleet(paper()).learn(keys[:300], X[:300], y[:300])
    left, right = fleet.split(range(0, 8)), fleet.split(range(8, 17))
    assert (len(left), len(right)) == (8, 9)
    with pytest.raises(ValueError, match="1 keys are in both fleets, 3 first"):
        right.split([]).merge(left).merge(fleet.split([3]))
    with pytest.raises(KeyError):
        fleet.split([99])
    with pytest.raises(StateError, match="another model"):
        left.merge(Fleet(paper(kind=sp.OGD)))
    both = left.merge(right)
    fleet.learn(keys[300:], X[300:], y[300:])
    both.learn(keys[300:], X[300:], y[300:])
    same_states(fleet, both)
    assert json.dumps(sorted(both.keys)) == json.dumps(sorted(fleet.keys))


@pytest.mark.parametrize("model", [paper(), PoolModel(3)], ids=["paper", "pool"])
def test_a_warm_start_begins_where_the_others_are(model):
    rng = np.random.default_rng(2)
    keys, X = rng.integers(0, 10, 4000), rng.uniform(-1, 1, (4000, 3))
    y = X @ [0.5, -0.3, 0.2]
    cold = Fleet(model).learn(keys, X, y)
    warm = Fleet(model, warm_start=True).learn(keys, X, y)
    same_states(cold, warm)  # nobody was experienced when they began
    new, target = rng.uniform(-1, 1, (50, 3)), 0.0
    target = new @ [0.5, -0.3, 0.2]
    one = cold.predict_then_learn(["x"] * 50, new, target)
    two = warm.predict_then_learn(["x"] * 50, new, target)
    assert np.mean((two - target)[:5] ** 2) < 0.1 * np.mean((one - target)[:5] ** 2)
    assert np.isfinite(two).all()


def test_what_is_not_for_a_fleet_is_refused():
    with pytest.raises(TypeError, match="one gradient a round"):
        Fleet(sp.Sword(sp.Ball(dim=3, radius=1.0), FACTS))
    with pytest.raises(ValueError, match="guesses its horizon"):
        Fleet(sp.SwordPP(sp.Ball(dim=3, radius=1.0), sp.Assumptions(1.0, 1.0)))
    with pytest.raises(TypeError, match="a pool names its own"):
        Fleet(PoolModel(3), sp.Huber())
    for wrong in ({"late": "drop"}, {"workers": 0}):
        with pytest.raises(ValueError):
            Fleet(paper(), **wrong)


def test_broken_promises_are_told_once():
    fleet = Fleet(paper())
    with pytest.warns(sp.AssumptionWarning, match="promised"):
        fleet.learn([1], np.full((1, 3), 50.0), [1.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fleet.learn([2], np.full((1, 3), 50.0), [1.0])


def test_a_summary_tells_who_drifts():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (2000, 3))
    y = X @ [0.5, -0.3, 0.2]
    moved = np.where(np.arange(2000) < 1900, y, -y)
    fleet = Fleet(paper()).learn(["calm"] * 2000, X, y).learn(["wild"] * 2000, X, moved)
    figures = fleet.summary()
    assert figures["key"] == ["calm", "wild"]
    assert figures["drift"][1] > figures["drift"][0] == 0.0
    assert figures["loss"][1] > figures["loss"][0]
    assert (figures["memory"] >= 1).all()


@pytest.mark.parametrize("model", [paper, lambda: PoolModel(3)], ids=["paper", "pool"])
def test_a_summary_remembers_a_drift_that_is_over(model):
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (3000, 3))
    y = X @ [0.5, -0.3, 0.2] + 0.05 * rng.normal(size=3000)
    moved = np.where(np.arange(3000) < 1500, y, -y)
    figures = Fleet(model()).learn(["calm"] * 3000, X, y).learn(["wild"] * 3000, X, moved).summary()
    assert figures["drift"][1] < 0.5 < 1.0 < figures["peak"][1]
    assert figures["peak"][0] < 0.6 * figures["peak"][1]
    assert 1500 < figures["peak_row"][1] < 1700
