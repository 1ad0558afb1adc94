"""Fleets in Spark: exactly what one process says, through kills; and what is refused."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark", reason="PySpark is not installed (extra spark)")
if not shutil.which("java"):
    pytest.skip("Spark needs Java, and there is none", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parent))
import pandas as pd
import spark_kills
import spark_query

import swordplay as sp
from swordplay.fleet import Fleet, PoolModel
from swordplay.fleet import spark as ours
from swordplay.state import StateError

pytestmark = pytest.mark.slow


def test_kills_of_driver_and_worker_leave_no_trace(tmp_path):
    assert spark_kills.survive(tmp_path, driver_kills=1, worker_kills=1) == {
        "driver": 1,
        "worker": 1,
    }
    spark_kills.check(tmp_path)


@pytest.fixture(scope="module")
def spark():
    session = spark_query.session()
    yield session
    session.stop()


def frame():
    keys, X, y, t = (column[:3000] for column in spark_query.rows())
    return pd.DataFrame(X, columns=spark_query.FEATURES).assign(key=keys, t=t, y=y)


COLUMNS = {"key": "key", "time": "t", "features": spark_query.FEATURES, "target": "y"}


@pytest.mark.parametrize("model", [spark_query.model(), PoolModel(3)], ids=["paper", "pool"])
def test_a_backtest_is_a_fleet(spark, model, monkeypatch):
    data = frame()
    shuffled = data.sample(frac=1.0, random_state=0)
    told = ours.stream_learn(spark.createDataFrame(shuffled), model=model, **COLUMNS)
    answers = told.toPandas().sort_values("t")["prediction"].to_numpy()
    fleet = Fleet(model)
    X = data[spark_query.FEATURES].to_numpy()
    expected = fleet.predict_then_learn(data["key"].to_numpy(), X, data["y"], data["t"])
    assert answers.tobytes() == expected.tobytes()


def test_predicting_with_a_saved_fleet(spark, tmp_path):
    data = frame()
    X = data[spark_query.FEATURES].to_numpy()
    fleet = Fleet(spark_query.model()).learn(data["key"].to_numpy(), X, data["y"])
    rows = spark.createDataFrame(data)
    how = {"key": "key", "features": spark_query.FEATURES}
    told = ours.predict_with(rows, fleet, path=str(tmp_path / "fleet.parquet"), **how)
    answers = told.toPandas().sort_values("t")["prediction"].to_numpy()
    assert answers.tobytes() == fleet.predict(data["key"].to_numpy(), X).tobytes()


def bucket(**changes):
    how = {
        "model": Fleet(spark_query.model()).model, "sequence": None, "buckets": 8,
        "late": "learn", "warm_start": False, **COLUMNS, **changes,
    }  # fmt: skip
    return ours.Bucket(**how)


def test_the_shuffle_decides_nothing():
    data = frame().assign(t=1)  # all at once: rows are told apart by their values
    one, first = bucket().advance(None, [data])
    two, second = bucket().advance(None, np.array_split(data.sample(frac=1.0, random_state=1), 3))
    assert one == two
    columns = ["key", "y"]
    assert (
        first.sort_values(columns)["prediction"].tolist()
        == second.sort_values(columns)["prediction"].tolist()
    )


def test_a_checkpoint_of_something_else_is_refused():
    state, _ = bucket().advance(None, [frame()])
    learner = sp.OGD(sp.Ball(dim=3, radius=1.0), sp.Assumptions(1.0, 1.0, 10))
    with pytest.raises(StateError, match=r"(?s)another model.*OGD.*SwordPP"):
        bucket(model=Fleet(learner).model).advance(state, [frame()])
    for change in ({"features": ["a", "c", "b"]}, {"buckets": 16}):
        with pytest.raises(StateError, match=r"(?s)other settings.*given.*there"):
            bucket(**change).advance(state, [frame()])
    with pytest.raises(StateError, match="checksum"):
        bucket().advance(state[:-1] + bytes([state[-1] ^ 1]), [frame()])
    with pytest.raises(StateError, match="do not begin"):
        bucket().advance(b"nonsense" * 4, [frame()])


def test_bad_rows():
    with pytest.raises(ValueError, match="null"):
        bucket().advance(None, [frame().assign(key=None)])
    with pytest.raises(ValueError, match="null"):
        bucket().advance(None, [frame().assign(t=np.nan)])
    state, answer = bucket().advance(None, [frame().assign(a=np.nan)])
    assert answer["prediction"].isna().all()
    assert Fleet.from_bytes(state).summary()["skipped"].sum() == 3000


def test_wrong_columns_are_refused_before_anything_runs(spark):
    rows = spark.createDataFrame(frame())
    with pytest.raises(ValueError, match="no column 'z'"):
        ours.stream_learn(rows, model=spark_query.model(), **{**COLUMNS, "target": "z"})
    with pytest.raises(ValueError, match="2 features; the model has 3"):
        ours.stream_learn(rows, model=spark_query.model(), **{**COLUMNS, "features": ["a", "b"]})
