"""What the charts are made of: means since the point before, whatever the batches were."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")

import serving
from sqlalchemy import update

from swordplay.service import monitor
from swordplay.service import store as db
from swordplay.service.client import Client, ServiceError
from swordplay.service.models import BUCKETS, Spec
from swordplay.service.monitor import COLUMNS, POINTS, Monitor, _merged
from swordplay.service.state import Record, State
from swordplay.state import StateError

RNG = np.random.default_rng(0)


class Known:
    """A model of which only the gauge is asked; it counts how often."""

    def __init__(self):
        self.asked = 0

    def gauge(self):
        self.asked += 1
        heat = np.zeros(BUCKETS)
        heat[self.asked % 3] = 1.0
        return 8.0, float(self.asked == 5), heat


def follow(batches):
    """Return a monitor that saw batches of these sizes, and the losses row by row."""
    one, model, losses = Monitor(Spec()), Known(), []
    for n in batches:
        y = RNG.normal(size=n)
        outcome = np.column_stack([RNG.normal(size=n), np.zeros(n)])
        losses.append(one.learn(y, outcome, model))
    return one, np.concatenate(losses)


@pytest.mark.parametrize(
    "batches",
    [[1] * 5000, [7] * 900, [100] * 300, [3000] * 120, [1, 40, 16, 2, 700] * 60],
    ids=["rows", "sevens", "hundreds", "thousands", "mixed"],
)
def test_a_point_is_the_mean_loss_of_the_rows_since_the_point_before(batches):
    one, losses = follow(batches)
    rows = one.history[:, 0].astype(int)
    starts = [0, *rows[:-1]]
    means = [losses[a:b].mean() for a, b in zip(starts, rows, strict=True)]
    np.testing.assert_allclose(one.history[:, 1], means, rtol=1e-5)
    assert POINTS // 8 < len(rows) <= POINTS
    assert one.since[3] == one.rows - rows[-1]
    np.testing.assert_allclose(one.since[0], losses[rows[-1] :].sum(), atol=1e-9)
    # no point is much wider than the others: the curve is as fine at its end as at its beginning
    widths = np.diff(rows, prepend=0)
    assert widths.max() <= 2 * max(one.stride, max(batches)) + max(batches)


def test_when_neighbours_merge_the_highest_drift_stays_and_weights_add_up_to_one():
    one, _ = follow([1] * 16 * 300)
    assert one.stride > monitor.FIRST_STRIDE
    assert one.history[:, COLUMNS.index("drift")].max() == 1.0
    np.testing.assert_allclose(one.history[:, len(COLUMNS) :].sum(axis=1), 1.0, rtol=1e-6)


def test_single_rows_merge_in_pairs():
    rows = 16.0 * np.arange(1, POINTS + 1)
    history = np.column_stack([rows, np.tile([1.0, 3.0], POINTS // 2), *[rows] * (4 + BUCKETS)])
    merged, stride = _merged(history.astype(np.float32), 16)
    assert stride == 32
    assert merged[:, 0].tolist() == rows[1::2].tolist()
    assert (merged[:, 1] == 2.0).all()


def test_a_replayed_log_and_a_stored_state_go_on_bit_for_bit():
    spec, X = Spec(), RNG.normal(size=(7000, 2))
    y = X @ [1.0, -1.0]
    state, log, start = State.fresh(spec), [], 0
    for n in [1, 5, 33, 100, 16, 250] * 14 + [16] * 60:
        log.append(state.learn(X[start : start + n], y[start : start + n]).to_bytes())
        start += n
        if len(log) == 40:
            stored = state.parts(), state.seq
    assert state.monitor.stride > monitor.FIRST_STRIDE
    resumed = State.from_parts(spec, *stored[0], stored[1])
    again = State.fresh(spec)
    for k, data in enumerate(log):
        record = Record.from_bytes(data)
        again.learn(record.X, record.y)
        if k >= 40:
            resumed.learn(record.X, record.y)
    assert again.parts() == resumed.parts() == state.parts()


def test_the_ratio_says_how_many_times_the_better_baseline_loses():
    one = Monitor(Spec())
    assert one.ratio() is None
    one.rows = 1
    for recent, ratio in (
        ((2.0, 8.0, 6.0), 3.0),
        ((4.0, 2.0, 9.0), 0.5),
        ((0.0, 1.0, 1.0), monitor.RATIO),
        ((0.0, 0.0, 1.0), 1.0),
        ((1e-300, 1e300, 1e300), monitor.RATIO),
    ):
        one.recent = np.array([*recent, 1.0])
        assert one.ratio() == ratio


def test_the_heat_map_has_a_band_for_each_memory_that_can_have_weight():
    state = State.fresh(Spec())
    X = RNG.normal(size=(200, 2))
    assert state.monitor.curves(state.model.bands())["heat"] == []
    state.learn(X, X.sum(axis=1))
    curves = state.monitor.curves(state.model.bands())
    assert curves["memories"] == [1, 2, 4, 8, 16, 64, 256, 1024, 2048, None]
    assert len(curves["heat"]) == 10
    assert sum(column[-1] for column in curves["heat"]) == pytest.approx(1.0, abs=1e-3)
    paper = State.fresh(Spec(pool="ogd"))
    paper.learn(X, X.sum(axis=1))
    curves = paper.monitor.curves(paper.model.bands())
    assert len(curves["heat"]) == len(curves["memories"]) >= 1
    assert None not in curves["memories"]


@pytest.mark.parametrize(
    "change",
    [
        {"since": [0, 0, 0]},
        {"since": [0, 0, 0, -1]},
        {"since": [0, 0, 0, 10**9]},
        {"since": [float("nan"), 0, 0, 1]},
        {"rows": 2**60},
        {"stride": 0},
        {"history": [[*[32.0] * 22], [*[16.0] * 22]]},
        {"history": [[-1.0] * 22]},
    ],
)
def test_impossible_metrics_are_refused(change):
    one, _ = follow([20] * 5)
    good = one.as_json()
    assert Monitor.from_json(Spec(), good).as_json() == good
    with pytest.raises(ValueError, match=r"history|finite|reshape"):
        Monitor.from_json(Spec(), {**good, **change})


def test_what_an_older_version_stored_is_refused_and_says_so(tmp_path):
    one, _ = follow([20] * 5)
    with pytest.raises(StateError, match="format 1"):
        Monitor.from_json(Spec(), {k: v for k, v in one.as_json().items() if k != "format"})
    url = f"sqlite:///{tmp_path}/s.db"
    with serving.Server(url) as server, Client(server.url) as client:
        client.create("old")
        client.create("new")
        client.learn("old", np.eye(3), np.ones(3))
        assert server.stop() == 0
    engine = db.open_engine(url)
    with engine.begin() as connection:
        metrics = {k: v for k, v in one.as_json().items() if k not in ("format", "since")}
        of_old = update(db.models).where(db.models.c.name == "old")
        connection.execute(of_old.values(metrics=json.dumps(metrics)))
    engine.dispose()
    with serving.Server(url) as server, Client(server.url) as client:
        for ask in (
            lambda: client.describe("old"),
            lambda: client.predict("old", np.eye(3)),
            lambda: client.learn("old", np.eye(3), np.ones(3)),
        ):
            with pytest.raises(ServiceError, match="format 1") as told:
                ask()
            assert told.value.status == 409
        client.learn("new", np.eye(3), np.ones(3))
        client.delete("old")
        assert [model["name"] for model in client.models()] == ["new"]
        assert server.stop() == 0
