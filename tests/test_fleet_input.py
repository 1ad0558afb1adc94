"""What fleets are given: tables, masked arrays, times and keys of all kinds; wrong arguments."""

from __future__ import annotations

import json
import struct
import zlib
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from test_fleet import FACTS, paper, same_states, stream

import swordplay as sp
from swordplay.estimators import SwordRegressor
from swordplay.fleet import Fleet, PoolModel
from swordplay.fleet.keys import from_text, to_text
from swordplay.state import StateError

KEYS, X, Y = stream(n=60, count=4)
NAMES = ["a", "b", "c"]
TURNED = ["c", "a", "b"]


def frame(kind, names, values=X):
    columns = {name: values[:, NAMES.index(name)] for name in names}
    return {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.table}[kind](columns)


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow"])
@pytest.mark.parametrize("through", ["nothing", "file", "bytes", "split", "merge"])
def test_columns_of_a_table_are_known_by_their_names(kind, through, tmp_path):
    plain = Fleet(paper()).learn(KEYS, X, Y)
    fleet = Fleet(paper()).learn(KEYS, frame(kind, NAMES), Y)
    if through == "file":
        fleet.save(tmp_path / "f.parquet")
        fleet = Fleet.load(tmp_path / "f.parquet")
    elif through == "bytes":
        fleet = Fleet.from_bytes(fleet.to_bytes())
    elif through == "split":
        fleet = fleet.split(fleet.keys)
    elif through == "merge":
        fleet = Fleet(paper()).merge(fleet)
    assert fleet.columns == NAMES
    want = plain.predict(KEYS, X).tobytes()
    for table in (frame(kind, TURNED), frame(kind, NAMES), X):
        assert fleet.predict(KEYS, table).tobytes() == want
    other = frame(kind, TURNED)
    other = other.rename_columns(["c", "a", "z"]) if kind == "arrow" else other
    if kind != "arrow":
        other = other.rename(columns={"b": "z"}) if kind == "pandas" else other.rename({"b": "z"})
    before = fleet.to_bytes()
    for wrong in (other, frame(kind, ["a", "b"])):
        with pytest.raises(ValueError, match=r"X has the columns .*learned from \['a', 'b', 'c'\]"):
            fleet.learn(KEYS, wrong, Y)
    assert fleet.to_bytes() == before
    fleet.learn(KEYS, frame(kind, TURNED), Y)
    same_states(fleet, plain.learn(KEYS, X, Y))


def test_names_cost_nothing_where_there_are_none_and_never_mix():
    plain, named = Fleet(paper()).learn(KEYS, X, Y), Fleet(paper())
    named.learn(KEYS, frame("pandas", NAMES), Y)
    assert plain.columns is None
    assert b'"columns"' not in plain.to_bytes()
    strangers = Fleet(paper()).learn(KEYS + 100, frame("pandas", TURNED), Y)
    with pytest.raises(ValueError, match=r"'a', 'b', 'c'\] and from \['c', 'a', 'b'\]"):
        named.merge(strangers)
    assert 100 not in named
    with pytest.raises(ValueError, match="two columns of one name"):
        Fleet(paper()).learn(KEYS, pd.DataFrame(X, columns=["a", "a", "b"]), Y)
    assert Fleet(paper()).learn(KEYS, pd.DataFrame(X), Y).columns is None  # 0, 1, 2: no names


@pytest.mark.parametrize("through", ["file", "bytes"])
def test_late_and_warm_start_are_kept(through, tmp_path):
    fleet = Fleet(paper(), late="predict", warm_start=True).learn(KEYS, X, Y)
    path = tmp_path / "f.parquet"
    fleet.save(path)
    data = fleet.to_bytes()

    def again(**how):
        return Fleet.load(path, **how) if through == "file" else Fleet.from_bytes(data, **how)

    assert (again().late, again().warm_start) == ("predict", True)
    other = again(late="learn", warm_start=False)
    assert (other.late, other.warm_start) == ("learn", False)


def test_what_is_missing_is_not_a_number():
    holes = np.zeros_like(X, dtype=bool)
    holes[5, 1] = True
    bad_X, bad_y = np.where(holes, np.nan, X), np.where(np.arange(60) == 9, np.nan, Y)
    want = Fleet(PoolModel(3))
    told = want.predict_then_learn(KEYS, bad_X, bad_y)
    junk_X, junk_y = np.where(holes, 1e6, X), np.where(np.arange(60) == 9, 1e6, Y)
    given = [
        (np.ma.array(junk_X, mask=holes), np.ma.array(junk_y, mask=np.isnan(bad_y))),
        (pd.DataFrame(bad_X).astype("Float64"), pd.Series(bad_y).astype("Float64")),
        (pd.DataFrame(bad_X).convert_dtypes(), pd.Series(bad_y, dtype="float64[pyarrow]")),
        (
            pl.DataFrame(bad_X, schema=NAMES).fill_nan(None),
            pa.array([None if np.isnan(y) else y for y in bad_y]),
        ),
    ]
    for features, targets in given:
        fleet = Fleet(PoolModel(3))
        assert fleet.predict_then_learn(KEYS, features, targets).tobytes() == told.tobytes()
        same_states(fleet, want)
    masked = np.ma.array(np.arange(60), mask=np.arange(60) == 7)
    with pytest.raises(ValueError, match="time of row 7 is null"):
        Fleet(paper()).learn(KEYS, X, Y, masked)


def test_times_may_be_datetimes_of_any_kind():
    naive = [datetime(2026, 3, 1) + timedelta(minutes=37 * t, microseconds=t) for t in range(60)]
    order = np.random.default_rng(0).permutation(60)
    berlin = ZoneInfo("Europe/Berlin")
    zoned = [one.replace(tzinfo=UTC).astimezone(berlin) for one in naive]
    odd = timezone(timedelta(hours=-5, microseconds=3))
    zoned[3::2] = [one.astimezone(odd) for one in zoned[3::2]]
    series = pd.Series(pd.DatetimeIndex([pd.Timestamp(one) for one in naive]).tz_localize("UTC"))
    kinds = [
        naive,
        np.array(naive, dtype=object),
        zoned,
        [pd.Timestamp(one) for one in zoned],
        series.dt.tz_convert("Asia/Tokyo"),
        pd.DatetimeIndex(series),
        pl.Series(naive).dt.replace_time_zone("UTC").dt.convert_time_zone("Europe/Berlin"),
        pa.array(naive, pa.timestamp("us", tz="UTC")),
    ]
    want = Fleet(paper()).learn(KEYS[order], X[order], Y[order], np.array(naive, "M8[us]")[order])
    for kind in kinds:
        if isinstance(kind, list | np.ndarray):
            mixed = [kind[t] for t in order]
        elif isinstance(kind, pl.Series):
            mixed = kind[order.tolist()]
        else:
            mixed = kind.take(pa.array(order) if isinstance(kind, pa.Array) else order)
        fleet = Fleet(paper()).learn(KEYS[order], X[order], Y[order], mixed)
        same_states(fleet, want)
        assert fleet._store.newest.tolist() == want._store.newest.tolist()
    days = [date(2026, 1, 1) + timedelta(days=int(t)) for t in order]
    dated = Fleet(paper()).learn(KEYS[order], X[order], Y[order], days)
    same_states(dated, want)


def test_times_of_no_kind_are_refused_with_a_remedy():
    def learn(times):
        Fleet(paper()).learn([1, 1], X[:2], Y[:2], times)

    here, there = datetime(2026, 1, 1), datetime(2026, 1, 1, tzinfo=UTC)
    with pytest.raises(TypeError, match="Some times have a time zone"):
        learn([here, there])
    for text in (["2026-01-01", "2026-01-02"], np.array(["2026-01-01", "x"], dtype=object)):
        with pytest.raises(TypeError, match=r"datetime64\[ns\].*pandas\.to_datetime"):
            learn(text)
    for null in (None, pd.NaT, pd.NA):
        with pytest.raises(ValueError, match="row 1 is null"):
            learn([here, null])
    with pytest.raises(ValueError, match="row 1 is null"):
        learn(pd.Series([there, None]))
    with pytest.raises(ValueError, match=r"row 1.*beyond"):
        learn([here, datetime(3000, 1, 1)])


BERLIN = ZoneInfo("Europe/Berlin")
EXACT = [
    pd.Timestamp("2026-01-01"),
    pd.Timestamp("2026-01-01T00:00:00.123456789", tz="UTC"),
    pd.Timestamp("2026-07-01", tz="Europe/Berlin"),
    datetime(2026, 7, 1, tzinfo=BERLIN),
    datetime(2026, 7, 1, tzinfo=UTC),
    Decimal("1.10"),
    time(1, 2, 3, 4),
    timedelta(days=-3, microseconds=7),
    timedelta.max,
    ("a", (Decimal(2) / 3, time(5, tzinfo=UTC))),
]


@pytest.mark.parametrize("key", EXACT, ids=repr)
def test_keys_of_more_kinds_come_back_exactly(key, tmp_path):
    fleet = Fleet(paper()).learn(["x", key], X[:2], Y[:2])
    fleet.save(tmp_path / "f.parquet")
    for again in (Fleet.load(tmp_path / "f.parquet"), Fleet.from_bytes(fleet.to_bytes())):
        assert again.keys == ["x", key]
        assert type(again.keys[1]) is type(key)
        assert key in again
    assert hash(from_text(to_text(key))) == hash(key)


def test_a_key_that_would_come_back_as_another_is_not_saved():
    key = datetime(2026, 10, 25, 2, 30, tzinfo=BERLIN, fold=1)  # the clock was set back
    with pytest.raises(TypeError, match="turn it to UTC"):
        Fleet(paper()).learn([key], X[:1], Y[:1]).to_bytes()


def test_zoned_keys_are_the_same_from_a_series_and_a_list():
    stamps = [pd.Timestamp(f"2026-07-0{day}", tz="Europe/Berlin") for day in (1, 2, 1)]
    fleet = Fleet(paper()).learn(pd.Series(stamps), X[:3], Y[:3]).learn(stamps, X[:3], Y[:3])
    fleet.learn(pd.DatetimeIndex(stamps), X[:3], Y[:3])
    fleet.learn(pd.Series(stamps).dt.tz_convert("UTC"), X[:3], Y[:3])
    assert fleet.keys == stamps[:2]
    assert fleet.summary()["rows"].tolist() == [8, 4]


@pytest.mark.parametrize("null", [None, float("nan"), pd.NaT, ("b", None)], ids=str)
def test_a_null_inside_a_tuple_is_a_null_key(null):
    fleet = Fleet(paper())
    with pytest.raises(ValueError, match="row 1 is null"):
        fleet.learn(["a", ("a", null)], X[:2], Y[:2])
    assert len(fleet) == 0


def test_an_unknown_key_may_have_no_answer():
    for limit in (None, 2 * (paper()._row.nbytes + 64)):
        fleet = Fleet(paper(), memory_limit=limit).learn(KEYS, X, Y)
        told = fleet.predict([99, 0, 98, 1, 2, 3], X[:6], unknown="nan")
        assert np.isnan(told).tolist() == [True, False, True, False, False, False]
        known = [1, 3, 4, 5]
        assert told[known].tobytes() == fleet.predict([0, 1, 2, 3], X[known]).tobytes()
        assert fleet.predict([99], X[:1]) == 0.0
    with pytest.raises(ValueError, match='"newcomer" or "nan"'):
        fleet.predict([1], X[:1], unknown="zero")


def test_arguments_of_the_wrong_kind_are_named():
    with pytest.raises(TypeError, match=r"PoolModel\(dim\), which is the default pool"):
        Fleet(SwordRegressor())
    with pytest.raises(TypeError, match="number of bytes, say 1_000_000_000"):
        Fleet(paper(), memory_limit="1GB")
    with pytest.raises(TypeError, match="integer"):
        Fleet(paper(), workers=1.5)
    for values in (Y + 1j, np.array(["2026-01-01"] * 60, dtype="M8[D]"), pd.Series(Y + 1j)):
        with pytest.raises(TypeError, match="y must be real numbers"):
            Fleet(paper()).learn(KEYS, X, values)
    with pytest.raises(TypeError, match="X must be real numbers"):
        Fleet(paper()).learn(KEYS, X + 1j, Y)


def test_a_state_may_be_any_bytes():
    fleet = Fleet(paper()).learn(KEYS, X, Y)
    data = fleet.to_bytes()
    for kind in (bytes, bytearray, memoryview, lambda data: np.frombuffer(data, np.uint8)):
        same_states(Fleet.from_bytes(kind(data)), fleet)
    for wrong in (None, "text", 7):
        with pytest.raises(TypeError, match=f"not {type(wrong).__name__}"):
            Fleet.from_bytes(wrong)


def forged(data, **told):
    """Return a state with another header, and a checksum that fits."""
    (length,) = struct.unpack("<I", data[12:16])
    text = json.dumps({**json.loads(data[16 : 16 + length]), **told}).encode()
    body = struct.pack("<I", len(text)) + text + data[16 + length :]
    return data[:8] + struct.pack("<I", zlib.crc32(body)) + body


@pytest.mark.parametrize(
    "told",
    [
        {"times": "fortnights"},
        {"times": 5},
        {"late": "drop"},
        {"late": []},
        {"warm_start": "yes"},
        {"columns": ["a", "b"]},
        {"columns": ["a", "b", "b"]},
        {"columns": [1, 2, 3]},
        {"columns": 3},
    ],
    ids=str,
)
def test_a_state_with_settings_that_no_fleet_has_is_refused(told):
    data = Fleet(paper()).learn(KEYS, X, Y).to_bytes()
    assert forged(data) == data
    with pytest.raises(StateError, match="settings that no fleet has"):
        Fleet.from_bytes(forged(data, **told))


def test_another_model_is_told_by_what_differs():
    def refused(one, other):
        with pytest.raises(StateError) as told:
            Fleet.from_bytes((one if isinstance(one, Fleet) else Fleet(one)).to_bytes(), like=other)
        lines = str(told.value).splitlines()
        assert lines[-2].startswith("  given: ")
        assert lines[-1].startswith("  there: ")
        return [line.strip() for line in lines[1:-2]]

    steep = sp.Assumptions(lipschitz=5.0, smoothness=4.0, horizon=3000)
    ball = sp.Ball(dim=3, radius=1.0)
    assert refused(sp.SwordPP(ball, steep), paper()) == ["lipschitz: 20.0 here, 5.0 there"]
    box = paper(sp.Box([-1.0] * 3, [2.0] * 3))
    assert refused(box, paper(sp.Box([-1.0] * 3, [1.0] * 3))) == [
        "high: [1.0, 1.0, 1.0] here, [2.0, 2.0, 2.0] there"
    ]
    assert refused(box, paper())[0].startswith('domain: {"Ball": ')
    assert refused(sp.OGD(ball, FACTS), paper())[0] == 'learner: "SwordPP" here, "OGD" there'
    assert refused(PoolModel(3, loss="absolute"), PoolModel(3)) == [
        'loss: "squared" here, "absolute" there'
    ]
    assert refused(PoolModel(3), paper()) == []  # nothing in common: all of both is shown
    rough = Fleet(paper(), sp.Huber(2.0))
    assert refused(rough, Fleet(paper(), sp.Huber(3.0))) == ["Huber: 3.0 here, 2.0 there"]
    assert refused(rough, paper()) == ['loss: {"Squared": 0.0} here, {"Huber": 2.0} there']
    assert "[0.0, 0.0, 0.0]" in repr(rough)
    trained = paper()
    trained.learn(np.ones(3))
    assert refused(trained, paper())[0].startswith("begins: ")
