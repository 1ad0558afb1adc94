"""Fleets in Spark: exactly what one process says, through kills; and what is refused."""

from __future__ import annotations

import os
import re
import shutil
import sys
import time
from contextlib import suppress
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
from pyspark.errors import StreamingQueryException

import swordplay as sp
from swordplay.fleet import Fleet, PoolModel
from swordplay.fleet import spark as ours
from swordplay.fleet.bucket import PART, Bucket
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
        "model": Fleet(spark_query.model()).model, "key_type": "string", "sequence": None,
        "buckets": 8, "parts": 4, "late": "learn", "warm_start": False, **COLUMNS, **changes,
    }  # fmt: skip
    return Bucket(**how)


def in_parts(data, parts=4):
    """Return rows with the part of their key: any function of the key will do."""
    return data.assign(**{PART: [hash_of(key) % parts for key in data["key"]]})


def hash_of(key):
    return int(key.split()[1]) * 2654435761 >> 7


def test_the_shuffle_decides_nothing():
    data = in_parts(frame()).assign(t=1)  # all at once: rows are told apart by their values
    one, first = bucket().advance({}.get, data)
    two, second = bucket().advance({}.get, data.sample(frac=1.0, random_state=1))
    assert one == two
    columns = ["key", "y"]
    assert (
        first.sort_values(columns)["prediction"].tolist()
        == second.sort_values(columns)["prediction"].tolist()
    )


def test_a_batch_touches_the_parts_of_its_keys_and_no_others():
    data = in_parts(frame(), parts=16)
    stored, _ = bucket(parts=16).advance({}.get, data[:2000])
    assert sorted(stored) == sorted(set(data[PART]))
    few = data[2000:][data[2000:]["key"].isin(["sensor 3", "sensor 4"])]
    asked = []

    def read(part):
        asked.append(part)
        return stored.get(part)

    changed, answer = bucket(parts=16).advance(read, few)
    assert sorted(asked) == sorted(changed) == sorted(set(few[PART]))
    assert len(changed) == 2
    fleet = Fleet(spark_query.model())
    rows = pd.concat([data[:2000], few])
    X = rows[spark_query.FEATURES].to_numpy()
    told = fleet.predict_then_learn(rows["key"].to_numpy(), X, rows["y"], rows["t"])
    assert answer["prediction"].to_numpy().tobytes() == told[2000:].tobytes()
    for part, state in changed.items():
        of_part = Fleet.from_bytes(state)
        assert set(of_part) == {key for key in data["key"] if hash_of(key) % 16 == part}
        for key in of_part:
            assert of_part.state(key).tobytes() == fleet.state(key).tobytes()


LEARNER = sp.OGD(sp.Ball(dim=3, radius=1.0), sp.Assumptions(1.0, 1.0, 10))


def test_a_part_of_something_else_is_refused():
    data = in_parts(frame())
    stored, _ = bucket().advance({}.get, data)
    with pytest.raises(StateError, match=r"(?s)another model.*OGD.*SwordPP"):
        bucket(model=Fleet(LEARNER).model).advance(stored.get, data)
    for change in (
        {"features": ["a", "c", "b"]}, {"buckets": 16}, {"parts": 2}, {"key_type": "bigint"},
    ):  # fmt: skip
        with pytest.raises(StateError, match=r"(?s)other settings.*given.*there"):
            bucket(**change).advance(stored.get, data)
    with pytest.raises(StateError, match="checksum"):
        bucket().advance(lambda part: stored[part][:-1] + b"!", data)
    with pytest.raises(StateError, match="do not begin"):
        bucket().advance(lambda part: b"nonsense" * 4, data)


def test_bad_rows():
    data = in_parts(frame())
    with pytest.raises(ValueError, match="null"):
        bucket().advance({}.get, data.assign(key=None))
    with pytest.raises(ValueError, match="null"):
        bucket().advance({}.get, data.assign(t=np.nan))
    stored, answer = bucket().advance({}.get, data.assign(a=np.nan))
    assert answer["prediction"].isna().all()
    fleets = map(Fleet.from_bytes, stored.values())
    assert sum(fleet.summary()["skipped"].sum() for fleet in fleets) == 3000


def write(folder, files):
    """Write each frame to a file of its own; the file source goes by age."""
    folder.mkdir(exist_ok=True)
    start = len(list(folder.iterdir()))
    for i, data in enumerate(files, start):
        data.to_parquet(folder / f"{i:03d}.parquet", index=False, coerce_timestamps="us")
        os.utime(folder / f"{i:03d}.parquet", (1e9 + i, 1e9 + i))


def read(spark, folder, schema):
    one_by_one = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1)
    return one_by_one.parquet(str(folder))


def run(told, checkpoint, out=None):
    sink = told.writeStream.format("noop" if out is None else "parquet")
    if out is not None:
        sink = sink.option("path", str(out))
    return sink.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()


def test_a_restart_with_something_else_is_refused_before_it_starts(spark, tmp_path):
    # Names that Python would not take for an attribute: Spark hands such columns over renamed.
    names = {"key": "sensor id", "t": "class", "a": "1st", "y": "_y"}
    data = frame()[:1500].rename(columns=names)
    columns = {"key": "sensor id", "time": "class", "features": ["1st", "b", "c"], "target": "_y"}
    schema = "`sensor id` string, class long, `1st` double, b double, c double, _y double"
    checkpoint = str(tmp_path / "checkpoint")

    def learn(schema=schema, **changes):
        how = {"model": spark_query.model(), "buckets": 2, "parts": 4, "checkpoint": checkpoint}
        rows = read(spark, tmp_path / "in", schema)
        return ours.stream_learn(rows, **{**columns, **how, **changes})

    write(tmp_path / "in", [data[:1000]])
    run(learn(), checkpoint, tmp_path / "out").awaitTermination()
    with pytest.raises(StateError, match=r"(?s)another model.*given.*OGD.*there.*SwordPP"):
        learn(model=LEARNER)
    number = schema.replace("`sensor id` string", "`sensor id` long")
    for change, (given, there) in {
        "features": ('["b", "1st", "c"]', '["1st", "b", "c"]'),
        "key": ('"key": "b"', '"key": "sensor id"'),
        "schema": ('"key_type": "bigint"', '"key_type": "string"'),
        "buckets": ('"buckets": 4', '"buckets": 2'),
        "parts": ('"parts": 8', '"parts": 4'),
    }.items():
        value = {"features": ["b", "1st", "c"], "key": "b", "schema": number}.get(change)
        with pytest.raises(StateError) as refusal:
            learn(**{change: value or {"buckets": 4, "parts": 8}[change]})
        shown = str(refusal.value).split("there:")
        assert given in shown[0], change
        assert there in shown[1], change
    # Whoever does not ask is told by the query itself.
    write(tmp_path / "in", [data[1000:]])
    with pytest.raises(StreamingQueryException, match="another model"):
        run(learn(model=LEARNER, checkpoint=None), checkpoint).awaitTermination()
    # And nothing of all this has touched the state.
    run(learn(), checkpoint, tmp_path / "out").awaitTermination()
    answers = spark.read.parquet(str(tmp_path / "out")).toPandas().sort_values("class")
    keys, X = data["sensor id"].to_numpy(), data[columns["features"]].to_numpy()
    expected = Fleet(spark_query.model()).predict_then_learn(keys, X, data["_y"], data["class"])
    assert answers["prediction"].to_numpy().tobytes() == expected.tobytes()


def test_wrong_columns_are_refused_before_anything_runs(spark):
    rows = spark.createDataFrame(frame())
    with pytest.raises(ValueError, match="no column 'z'"):
        ours.stream_learn(rows, model=spark_query.model(), **{**COLUMNS, "target": "z"})
    with pytest.raises(ValueError, match="2 features; the model has 3"):
        ours.stream_learn(rows, model=spark_query.model(), **{**COLUMNS, "features": ["a", "b"]})
    with pytest.raises(ValueError, match="no column 'offset'"):
        ours.stream_learn(rows, model=spark_query.model(), sequence="offset", **COLUMNS)
    with pytest.raises(ValueError, match="at least 1, not 8 and 0"):
        ours.stream_learn(rows, model=spark_query.model(), buckets=8, parts=0, **COLUMNS)


def folder_size(folder):
    size = 0
    for path in folder.rglob("*"):
        with suppress(FileNotFoundError):  # what is old is deleted while we look
            size += path.stat().st_size
    return size


def test_a_hundred_batches_leave_no_more_than_fifty(spark, tmp_path):
    checkpoint = tmp_path / "checkpoint"
    rng = np.random.default_rng(0)
    keys = np.array([f"sensor {k}" for k in range(60)])
    schema = "key string, t long, y double, a double, b double, c double"
    counts, largest, parts = [], [], []
    for half in range(2):
        batches = [
            pd.DataFrame(rng.uniform(-1, 1, (60, 3)), columns=spark_query.FEATURES).assign(
                key=keys, t=50 * half + i, y=0.5
            )
            for i in range(50)
        ]
        write(tmp_path / "in", batches)
        rows = read(spark, tmp_path / "in", schema)
        told = ours.stream_learn(rows, model=spark_query.model(), buckets=2, parts=4, **COLUMNS)
        query, sizes = run(told, str(checkpoint)), [0]
        while query.isActive:
            sizes.append(folder_size(checkpoint / "state"))
            time.sleep(0.1)
        query.awaitTermination()
        progress = [told for told in query.recentProgress if told["numInputRows"]]
        assert len(progress) == 50
        counts += [told["stateOperators"][0]["numRowsTotal"] for told in progress]
        largest.append(max(sizes))
        stored = ours._stored(spark, str(checkpoint)).toPandas()["state"]
        parts.append(sorted(map(len, stored)))
    assert set(counts) == {8}
    assert parts[0] == parts[1]
    # Old versions go in the background, so that the size swings; kept, they would double it.
    assert largest[1] < 1.5 * largest[0]
    fleet = ours.read_state(spark, str(checkpoint), spark_query.model())
    assert sorted(fleet.keys) == sorted(keys)
    assert set(fleet.summary()["rows"]) == {100}


def test_the_blocks_of_the_documentation_run(spark, tmp_path):
    text = (Path(__file__).parent.parent / "docs" / "fleet.md").read_text(encoding="utf-8")
    section = text.split("## In Spark")[1].split("## Sweeps")[0]
    blocks = re.findall(r"```python\n(.*?)```", section, re.DOTALL)
    start, after, kafka = (
        re.sub(r'"(in|out|checkpoint|fleet\.parquet)"', lambda m: repr(str(tmp_path / m[1])), block)
        for block in blocks
    )
    data = frame()[:500].rename(columns={"key": "sensor"}).drop(columns="c")
    data = data.assign(
        at=pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(data.pop("t"), unit="min")
    )
    write(tmp_path / "in", [data])
    names = {}
    for half in (0, 1):  # the second time there is a checkpoint to look at
        write(tmp_path / "in", [data.assign(at=data["at"] + pd.Timedelta(days=7))] * half)
        exec(compile(start, "fleet.md", "exec"), names)
        names["query"].processAllAvailable()
        names["query"].stop()
    exec(compile(after, "fleet.md", "exec"), names)
    assert names["fleet"].summary()["rows"].sum() == 1000
    assert names["told"].toPandas()["prediction"].notna().all()
    assert spark.read.parquet(str(tmp_path / "out")).count() == 1000
    compile(kafka, "fleet.md", "exec")  # there is no broker here
