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
from pyspark.sql import functions

import swordplay as sp
from swordplay.fleet import Fleet, PoolModel
from swordplay.fleet import spark as ours
from swordplay.fleet.bucket import Bucket
from swordplay.state import StateError

pytestmark = pytest.mark.slow


def test_kills_of_driver_and_worker_leave_no_trace(tmp_path):
    kills = spark_kills.survive(tmp_path, driver_kills=1, worker_kills=1)
    assert sorted(kill.whose for kill in kills) == ["driver", "worker"]
    # There was something to come back to, and a worker in the middle of a batch.
    assert all(kill.committed >= 2 for kill in kills if kill.whose == "driver")
    assert all(kill.begun > kill.committed for kill in kills if kill.whose == "worker")
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


def bucket(model=None, ordered=(), late="learn", warm_start=False, **changes):
    about = {
        "key": "key", "time": "t", "key_type": "string", "time_type": "bigint",
        "features": spark_query.FEATURES, "target": "y", "buckets": 8, "parts": 4, **changes,
    }  # fmt: skip
    model = Fleet(model or spark_query.model()).model
    return Bucket(model, about, ordered, late, warm_start)


def travelled(data):
    """Return rows as they come to a bucket; any function of the key is a hash."""
    hashes = [int(key.split()[1]) * 2654435761 >> 7 for key in data["key"]]
    named = data.rename(columns={"t": "time", "y": "target"}).assign(hash=hashes)
    return named[["key", "time", "target", "hash", *spark_query.FEATURES]]


def stored(bucket, data, states=None):
    """Return all states after rows, and the predictions."""
    changed, told = bucket.advance((states or {}).get, data)
    return {part: bucket.store(fleet) for part, fleet in changed.items()}, told


@pytest.mark.parametrize("warm_start", [False, True])
def test_the_shuffle_decides_nothing(warm_start):
    # All at once, and every third row zero: only their keys tell these apart.
    data = travelled(frame()).assign(time=1)
    data.loc[::3, ["target", *spark_query.FEATURES]] = 0.0
    how = bucket(warm_start=warm_start)
    one, first = stored(how, data)
    mixed = data.sample(frac=1.0, random_state=1)
    two, second = stored(how, mixed)
    assert one == two
    first, second = (
        rows.assign(told=told).sort_values(["hash", "target", "a", "told"])["told"].tolist()
        for rows, told in ((data, first), (mixed, second))
    )
    assert first == second


def test_a_batch_touches_the_parts_of_its_keys_and_no_others():
    data = travelled(frame())
    how = bucket(parts=16)
    states, _ = stored(how, data[:2000])
    parts = data["hash"] % 16
    assert sorted(states) == sorted(set(parts))
    few = data[2000:][data[2000:]["key"].isin(["sensor 3", "sensor 4"])]
    asked = []

    def read(part):
        asked.append(part)
        return states.get(part)

    changed, answer = how.advance(read, few)
    assert sorted(asked) == sorted(changed) == sorted(set(few["hash"] % 16))
    assert len(changed) == 2
    fleet = Fleet(spark_query.model())
    rows = pd.concat([data[:2000], few])
    X = rows[spark_query.FEATURES].to_numpy()
    told = fleet.predict_then_learn(rows["key"].to_numpy(), X, rows["target"], rows["time"])
    assert answer.tobytes() == told[2000:].tobytes()
    for part, of_part in changed.items():
        assert set(of_part) == set(data["key"][parts == part])
        for key in of_part:
            assert of_part.state(key).tobytes() == fleet.state(key).tobytes()


LEARNER = sp.OGD(sp.Ball(dim=3, radius=1.0), sp.Assumptions(1.0, 1.0, 10))
LEARNER_OF_TWO = sp.OGD(sp.Ball(dim=2, radius=1.0), sp.Assumptions(9.0, 2.0, 99))


def test_a_part_of_something_else_is_refused():
    data = travelled(frame())
    states, _ = stored(bucket(), data)
    with pytest.raises(StateError, match=r"(?s)another model.*OGD.*SwordPP"):
        bucket(model=LEARNER).advance(states.get, data)
    for change in (
        {"features": ["a", "c", "b"]}, {"buckets": 16}, {"key_type": "bigint"}, {"time": "u"},
        {"time_type": "timestamp"}, {"sequence": "offset"}, {"target": "z"},
    ):  # fmt: skip
        with pytest.raises(StateError, match=r"(?s)other settings.*given.*there"):
            bucket(**change).advance(states.get, data)
    with pytest.raises(StateError, match="checksum"):
        bucket().advance(lambda part: states[part][:-1] + b"!", data)
    with pytest.raises(StateError, match="do not begin"):
        bucket().advance(lambda part: b"nonsense" * 4, data)


def test_bad_rows():
    data = travelled(frame())
    with pytest.raises(ValueError, match=r"3000 of 3000 rows have a null key \('key'\): filter"):
        bucket().advance({}.get, data.assign(key=None))
    with pytest.raises(ValueError, match=r"null time \('t'\)"):
        bucket().advance({}.get, data.assign(time=np.nan))
    gap = data.assign(sequence=np.where(np.arange(3000) == 7, np.nan, 1.0))
    with pytest.raises(ValueError, match=r"1 of 3000 rows have a null sequence \('offset'\)"):
        bucket(sequence="offset", ordered=("sequence",)).advance({}.get, gap)
    changed, answer = bucket().advance({}.get, data.assign(a=np.nan))
    assert np.isnan(answer).all()
    assert sum(fleet.summary()["skipped"].sum() for fleet in changed.values()) == 3000


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
    # Names that Python would not take for an attribute, and that mean something in SQL.
    names = {"key": "sensor id", "t": "class", "a": "1.st", "y": "_`y"}
    data = frame()[:1500].rename(columns=names)
    columns = {"key": "sensor id", "time": "class", "features": ["1.st", "b", "c"], "target": "_`y"}
    schema = "`sensor id` string, class long, `1.st` double, b double, c double, `_``y` double"
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
        "features": ('["b", "1.st", "c"]', '["1.st", "b", "c"]'),
        "key": ('"key": "b"', '"key": "sensor id"'),
        "schema": ('"key_type": "bigint"', '"key_type": "string"'),
        "time": ('"time": "c"', '"time": "class"'),
        "buckets": ('"buckets": 4', '"buckets": 2'),
        "parts": ('"parts": 8', '"parts": 4'),
    }.items():
        value = {
            "features": ["b", "1.st", "c"], "key": "b", "schema": number, "time": "c",
        }.get(change)  # fmt: skip
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
    expected = Fleet(spark_query.model()).predict_then_learn(keys, X, data["_`y"], data["class"])
    assert answers["prediction"].to_numpy().tobytes() == expected.tobytes()


@pytest.mark.parametrize(
    ("changes", "error", "says"),
    [
        ({"target": "z"}, ValueError, "no column 'z'"),
        ({"features": ["a", "b"]}, ValueError, "2 features; the model has 3"),
        ({"sequence": "offset"}, ValueError, "no column 'offset'"),
        ({"buckets": 8, "parts": 0}, ValueError, "at least 1, not 8 and 0"),
        ({"late": "never"}, ValueError, "late must be"),
        ({"features": ["a", "b", "y"]}, ValueError, "'y' is the target"),
        ({"target": "t"}, ValueError, "'t' cannot be the target: it is the time"),
        ({"sequence": "t"}, ValueError, "'t' cannot be the sequence"),
        ({"target": "prediction"}, ValueError, "'prediction' cannot be the target"),
        ({"time": "text"}, TypeError, "time 'text' is of type string: cast it"),
        ({"features": ["a", "b", "text"]}, TypeError, "feature 'text' is of type string"),
        ({"key": "pair"}, TypeError, "make one column"),
    ],
)
def test_wrong_columns_are_refused_before_anything_runs(spark, changes, error, says):
    rows = spark.createDataFrame(frame()[:9]).withColumn("prediction", functions.lit(0.0))
    rows = rows.withColumn("text", functions.lit("x"))
    rows = rows.withColumn("pair", functions.struct("key", "t"))
    with pytest.raises(error, match=says):
        ours.stream_learn(rows, model=spark_query.model(), **{**COLUMNS, **changes})


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
def test_moments_are_the_same_in_every_time_zone(spark, tmp_path, zone):
    """Thirteen times and keys around the end of summer time, when clocks show 1:10 twice."""
    rng = np.random.default_rng(0)
    n, X = 26, rng.uniform(-1, 1, (26, 3))
    moments = pd.Timestamp("2026-11-01T05:00Z") + pd.to_timedelta(
        10 * np.arange(n) % 130, unit="min"
    )
    days = pd.to_datetime(np.where(np.arange(n) < 13, "2026-10-31", "2026-11-01")).date
    data = pd.DataFrame(X, columns=spark_query.FEATURES)
    data = data.assign(key=moments, t=moments, day=days, y=X.sum(axis=1), n=np.arange(n))
    schema = "key timestamp, t timestamp, day date, y double, a double, b double, c double, n long"
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        for name, key, time in (("moments", "key", "day"), ("days", "day", "t")):
            write(tmp_path / name, [data[:13], data[13:]])
            rows = read(spark, tmp_path / name, schema)
            where, out = str(tmp_path / f"{name}-checkpoint"), tmp_path / f"{name}-out"
            told = ours.stream_learn(
                rows, key=key, time=time, sequence="n", features=spark_query.FEATURES, target="y",
                model=spark_query.model(), buckets=2, parts=2, late="predict", checkpoint=where,
            )  # fmt: skip
            run(told, where, out).awaitTermination()
            answers = spark.read.parquet(str(out)).orderBy("n")
            keys = [k.to_pydatetime() for k in moments] if key == "key" else list(days)
            times = data[time].to_numpy(dtype="datetime64[us]" if time == "t" else "datetime64[D]")
            fleet, expected = Fleet(spark_query.model(), late="predict"), []
            for part in (slice(0, 13), slice(13, 26)):
                given = (keys[part], X[part], data["y"][part], times[part])
                expected += fleet.predict_then_learn(*given).tolist()
            assert [row.prediction for row in answers.collect()] == expected
            # The moments themselves come back: their numbers, not what a clock shows.
            shown = functions.unix_micros if key == "key" else functions.unix_date
            back = [row[0] for row in answers.select(shown(key)).collect()]
            there = [row[0] for row in rows_of(spark, data, schema).select(shown(key)).collect()]
            assert back == there
            final = ours.read_state(spark, where, spark_query.model())
            assert sorted(final.keys) == sorted(set(keys))
            for one in fleet:
                assert final.state(one).tobytes() == fleet.state(one).tobytes()
            assert final.summary(fleet.keys)["late"].tolist() == fleet.summary()["late"].tolist()
            path = str(tmp_path / f"{name}.parquet")
            final.save(path)
            how = {"key": key, "features": spark_query.FEATURES}
            asked = ours.predict_with(rows_of(spark, data, schema), path, **how).orderBy("n")
            assert [row.prediction for row in asked.collect()] == fleet.predict(keys, X).tolist()
            back = [row[0] for row in asked.select(shown(key)).collect()]
            assert back == there
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def rows_of(spark, data, schema):
    return spark.createDataFrame(data[[part.split()[0] for part in schema.split(", ")]], schema)


def test_many_frames_late_rows_ties_and_warm_starts(spark, tmp_path):
    """What a bucket's rows go through, against a fleet for each part of one bucket."""
    data = frame()[:900].assign(n=np.arange(900), t=np.arange(900) // 40)
    data.loc[600:, "t"] -= 5  # some of the second batch are late
    mixed = data.sample(frac=1.0, random_state=2)
    batches = [mixed[mixed["n"] < 600], mixed[mixed["n"] >= 600]]
    write(tmp_path / "in", batches)
    schema = "key string, t long, y double, a double, b double, c double, n long"
    spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "7")
    try:
        checkpoint = str(tmp_path / "checkpoint")
        told = ours.stream_learn(
            read(spark, tmp_path / "in", schema), model=spark_query.model(), sequence="n",
            buckets=1, parts=1, late="predict", warm_start=True, checkpoint=checkpoint, **COLUMNS,
        )  # fmt: skip
        run(told, checkpoint, tmp_path / "out").awaitTermination()
    finally:
        spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "10000")
    fleet, expected = Fleet(spark_query.model(), late="predict", warm_start=True), {}
    for batch in batches:
        batch = batch.sort_values(["t", "n"])
        X = batch[spark_query.FEATURES].to_numpy()
        answers = fleet.predict_then_learn(batch["key"].to_numpy(), X, batch["y"], batch["t"])
        expected |= dict(zip(batch["n"], answers, strict=True))
    assert fleet.summary()["late"].sum() > 10
    rows = spark.read.parquet(str(tmp_path / "out")).collect()
    assert {row.n: row.prediction for row in rows} == expected
    final = ours.read_state(spark, checkpoint, spark_query.model())
    for key in fleet:
        assert final.state(key).tobytes() == fleet.state(key).tobytes()


def test_a_checkpoint_of_several_operators(spark, tmp_path):
    data = frame()[:300]
    write(tmp_path / "in", [data])
    schema = "key string, t long, y double, a double, b double, c double"
    checkpoint = str(tmp_path / "checkpoint")

    def learn(target, **how):
        rows = read(spark, tmp_path / "in", schema)
        columns = {**COLUMNS, "features": ["b", "c"], "target": target}
        model = {"model": LEARNER_OF_TWO, "loss": sp.Huber(1.0)}
        how = {**model, "buckets": 2, "parts": 2, **how}
        return ours.stream_learn(rows, **columns, **how).select("key", "t", "prediction")

    both = learn("y").union(learn("a"))
    run(both, checkpoint).awaitTermination()
    with pytest.raises(ValueError, match=r"has fleets \[0, 1\]: choose with operator="):
        ours.read_state(spark, checkpoint)
    with pytest.raises(ValueError, match="and no 7"):
        ours.read_state(spark, checkpoint, operator=7)
    found, X = set(), data[["b", "c"]].to_numpy()
    for number in (0, 1):
        state = ours.read_state(spark, checkpoint, LEARNER_OF_TWO, sp.Huber(1.0), number)
        for target in ("y", "a"):
            fleet = Fleet(LEARNER_OF_TWO, sp.Huber(1.0))
            fleet.learn(data["key"].to_numpy(), X, data[target], data["t"])
            if all(state.state(k).tobytes() == fleet.state(k).tobytes() for k in fleet):
                found.add(target)
                learn(target, checkpoint=checkpoint, operator=number)
                with pytest.raises(StateError, match="other settings"):
                    learn({"y": "a", "a": "y"}[target], checkpoint=checkpoint, operator=number)
    assert found == {"y", "a"}


def test_a_checkpoint_that_cannot_be_read_is_refused(spark, tmp_path):
    for name in ("with blank", "per%20cent"):
        with pytest.raises(ValueError, match="choose a path of letters"):
            ours.read_state(spark, str(tmp_path / name))
    with pytest.raises(ValueError, match="holds no learners yet"):
        ours.read_state(spark, str(tmp_path / "nothing"))
    (tmp_path / "in").mkdir()
    write(tmp_path / "in", [frame()[:9]])
    schema = "key string, t long, y double, a double, b double, c double"
    counts = read(spark, tmp_path / "in", schema).dropDuplicates(["key"])
    run(counts, str(tmp_path / "another")).awaitTermination()
    with pytest.raises(ValueError, match="a query without a fleet"):
        ours.read_state(spark, str(tmp_path / "another"))


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
