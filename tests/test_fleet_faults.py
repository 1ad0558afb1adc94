"""Fleets when something goes wrong: full disks, interrupts, forks, threads, files somebody made."""

from __future__ import annotations

import json
import os
import pickle
import signal
import threading
import zlib
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_fleet import paper, same_states, stream

import swordplay as sp
from swordplay.fleet import Fleet, PoolModel
from swordplay.fleet.blocks import Blocks
from swordplay.fleet.shelf import Shelf
from swordplay.kernels import pool_layout as at
from swordplay.state import StateError

MODEL = PoolModel(3)
ROOM = 5 * (MODEL.fresh.nbytes + 64)


def same(a, b):
    same_states(a, b)
    one, two = a.summary(), b.summary(a.keys)
    assert all(np.array_equal(one[name], two[name]) for name in one if name != "key")


def text(keys):
    return [f"key {k}" for k in keys]


@pytest.mark.parametrize("name", [list, text])
@pytest.mark.parametrize(("kind", "what"), [(Shelf, "put"), (Shelf, "_stretch"), (Blocks, "take")])
def test_new_keys_for_which_there_is_no_room_are_not_there(monkeypatch, name, kind, what):
    keys, X, y = stream(n=400, count=9)
    limit = {"memory_limit": ROOM} if kind is Shelf else {}
    fleet, undisturbed = (Fleet(MODEL, workers=1, **limit) for _ in range(2))
    for one in (fleet, undisturbed):
        one.learn(name(keys.tolist()), X, y)
    more = name(range(100, 2100))
    wide = np.tile(X, (5, 1))

    def full(*_):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(kind, what, full)
        with pytest.raises(OSError, match="No space"):
            fleet.predict_then_learn(more, wide, np.tile(y, 5))
    same(fleet, undisturbed)
    for one in (fleet, undisturbed):
        one.learn(more, wide, np.tile(y, 5))
    same(fleet, undisturbed)


def test_a_failure_while_keys_change_places_harms_nobody(monkeypatch):
    keys, X, y = stream(n=400, count=20)
    fleet, undisturbed = (Fleet(MODEL, workers=1, memory_limit=ROOM) for _ in range(2))
    for one in (fleet, undisturbed):
        one.learn(keys, X, y)

    def no_memory(*_):
        raise MemoryError

    with monkeypatch.context() as patch:
        patch.setattr(Blocks, "take", no_memory)
        with pytest.raises(MemoryError):
            fleet.learn([0, 1, 2], X[:3], y[:3])
    same(fleet, undisturbed)
    for one in (fleet, undisturbed):
        one.learn(keys, X, y)
    same(fleet, undisturbed)


def test_an_interrupt_leaves_no_thread_at_work(monkeypatch):
    keys, X, y = stream(n=6000, count=40)
    fleet = Fleet(MODEL, workers=2)
    fleet.learn(keys, X, y)
    learn, running, most = PoolModel.learn, [0], [0]

    def interrupted(*arguments):
        running[0] += 1
        most[0] += 1
        try:
            if most[0] == 2:
                raise KeyboardInterrupt
            threading.Event().wait(0.05)
            return learn(*arguments)
        finally:
            running[0] -= 1

    with monkeypatch.context() as patch:
        patch.setattr(PoolModel, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fleet.learn(keys, X, y)
    assert running == [0]
    before = fleet.summary()["rows"].tolist()
    threading.Event().wait(0.3)
    assert fleet.summary()["rows"].tolist() == before


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("limit", [None, ROOM])
def test_a_forked_child_learns_alone_or_is_refused(limit):
    keys, X, y = stream(n=2000, count=20)
    fleet = Fleet(MODEL, workers=2, memory_limit=limit).learn(keys, X, y)
    before = {key: fleet.state(key).tobytes() for key in fleet}
    child = os.fork()
    if not child:  # what fails here must not come back as a second run of the tests
        signal.alarm(60)
        try:
            fleet.learn(keys, X, y)
            os._exit(0)
        except RuntimeError:
            os._exit(3)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == (3 if limit else 0)
    assert {key: fleet.state(key).tobytes() for key in fleet} == before


@pytest.mark.parametrize("name", [list, text])
def test_threads_of_the_user_take_turns(name):
    _, X, y = stream(n=400, count=9)
    fleet = Fleet(MODEL, workers=2, memory_limit=20 * ROOM)

    def learn(who):
        mine = name([who * 1000 + k for k in range(300)])
        for start in range(0, 300, 20):
            part = slice(start, start + 20)
            fleet.learn(mine[part], X[part], y[part])
            fleet.predict([*mine[:5], "nobody"], X[:6])

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(learn, range(4)))
    alone = Fleet(MODEL, workers=1)
    for who in range(4):
        alone.learn(name([who * 1000 + k for k in range(300)]), X[:300], y[:300])
    same(alone, fleet)


def test_looking_for_keys_does_not_change_how_they_are_kept():
    keys, X, y = stream(n=60, count=5)
    fleet = Fleet(MODEL).learn(keys, X, y)
    assert "x" not in fleet
    assert 2.0 in fleet
    assert True in fleet
    assert 2.5 not in fleet
    assert float("inf") not in fleet
    assert 3 + 1j not in fleet
    assert (1, 2) not in fleet
    told = fleet.predict(["x", 2, 2.0, b"y", np.int32(2)], X[:5])
    assert told[[1]].tobytes() == fleet.predict([2], X[1:2]).tobytes()
    fleet.predict([], X[:0])
    fleet.summary(np.array([1, 2]))
    with pytest.raises(TypeError, match="hashable"):
        [] in fleet  # noqa: B015
    for bad in ([None, "x"], np.ma.masked_array([1, 2], [False, True])):
        with pytest.raises(ValueError, match="null"):
            fleet.learn(bad, X[:2], y[:2])
    assert isinstance(fleet._keys.all(), np.ndarray)
    same(fleet, Fleet(MODEL).learn(keys, X, y))


def test_times_that_do_not_fit_are_refused():
    keys, X, y = [1, 1], np.ones((2, 3)), [1.0, 2.0]
    fleet = Fleet(MODEL)
    for far in ("2500-01-01", "3000-01-01"):
        with pytest.raises(ValueError, match=r"row 1.*beyond"):
            fleet.learn(keys, X, y, np.array(["2026-01-01", far], dtype="datetime64[s]"))
    with pytest.raises(ValueError, match="64 signed bits"):
        fleet.learn(keys, X, y, np.array([5, 2**63 + 5], dtype=np.uint64))
    assert len(fleet) == 0
    fleet.learn([], X[:0], [], [])
    fleet.learn(keys, X, y, [1, 2])
    fleet.learn([], X[:0], [], [])
    dated = Fleet(MODEL).learn([2], X[:1], y[:1], np.array(["2026-01-01"], dtype="datetime64[D]"))
    with pytest.raises(TypeError, match="datetimes and whole numbers"):
        fleet.merge(dated)
    assert 2 not in fleet


@pytest.mark.parametrize("model", [paper(), MODEL], ids=["paper", "pool"])
def test_a_loss_that_overflows_does_not_stay_in_the_figures(model):
    fleet = Fleet(model).learn([1, 1, 1], np.zeros((3, 3)), [1.0, 1e200, 1.0])
    figures = fleet.summary()
    assert np.isfinite(figures["loss"]).all()
    assert np.isfinite(figures["recent"]).all()


def test_a_warm_start_does_not_depend_on_what_is_in_memory():
    keys, X, y = stream(n=6000, count=12)
    told = []
    for limit in (None, ROOM):
        fleet = Fleet(MODEL, warm_start=True, workers=1, memory_limit=limit)
        fleet.learn(keys, X, y)
        told.append(fleet.predict_then_learn(["new"] * 9, X[:9], y[:9]).tobytes())
    assert told[0] == told[1]


def test_a_warm_start_survives_keys_of_any_scale():
    rng = np.random.default_rng(0)
    X, truth = rng.normal(size=(300, 3)), np.array([1.0, 2.0, 3.0])
    fleet = Fleet(MODEL, warm_start=True, workers=1)
    for k, scale in enumerate([1.0, 1.0, 1.0, 1.0, 1e6, 1e10]):
        fleet.learn([k] * 300, X * scale, X @ truth * scale)
    fleet.learn([0], X[:1], [1e90])
    y = X @ truth
    error = (fleet.predict_then_learn(["new"] * 300, X, y) - y)[:5]
    assert np.sqrt(np.mean(error**2)) < 10 * np.std(y)


def test_what_is_no_model_or_no_loss_is_refused():
    class Mine(sp.Squared):
        pass

    for loss in (sp.Huber, Mine(), "squared"):
        with pytest.raises(TypeError, match="loss must be"):
            Fleet(paper(), loss)
    for wrong in ({"loss": "pinball", "param": 1.0}, {"loss": "huber", "param": 0.0}, {"dim": 0}):
        with pytest.raises(ValueError, match=r"parameter|dim"):
            PoolModel(**{"dim": 3, **wrong})
    with pytest.raises(TypeError):
        PoolModel(2.7)
    with pytest.raises(TypeError, match="A fleet is of"):
        Fleet("SwordPP")


def test_like_takes_a_learner_or_a_fleet_and_heeds_how_it_begins(tmp_path):
    keys, X, y = stream(n=60)
    trained = paper()
    trained.learn(np.array([0.1, 0.2, 0.3]))
    fleet = Fleet(trained).learn(keys, X, y)
    fleet.save(tmp_path / "f.parquet")
    for like in (trained, fleet, fleet.model):
        same(fleet, Fleet.load(tmp_path / "f.parquet", like=like))
    with pytest.raises(StateError, match="another model"):
        Fleet.load(tmp_path / "f.parquet", like=paper())


def test_a_fleet_can_be_pickled_with_idle_learners():
    keys, X, y = stream(n=400, count=20)
    fleet = Fleet(MODEL, memory_limit=ROOM, late="predict").learn(keys, X, y)
    other = pickle.loads(pickle.dumps(fleet))
    same(fleet, other)
    assert other.late == "predict"
    assert other.resident <= 5


def crafted(path, told=None, **columns):
    """Write the file anew with other columns and description, and checksums that fit."""
    table = pq.read_table(path)
    for name, values in columns.items():
        place = table.schema.get_field_index(name)
        table = table.set_column(place, name, values)
    about = {**json.loads(table.schema.metadata[b"swordplay.fleet"]), **(told or {})}
    content = json.dumps(about).encode()
    metadata = {
        b"swordplay.fleet": content,
        b"swordplay.fleet.crc32": str(zlib.crc32(content)).encode(),
    }
    pq.write_table(table.replace_schema_metadata(metadata), path)


@pytest.fixture
def file(tmp_path):
    keys, X, y = stream(n=64, count=3)
    path = tmp_path / "fleet.parquet"
    Fleet(MODEL).learn(keys, X, y).save(path)
    return path


def test_the_crafted_file_itself_is_good(file):
    whole = Fleet.load(file)
    crafted(file)
    same(whole, Fleet.load(file, like=MODEL))


@pytest.mark.parametrize(
    "columns",
    [
        {"key": pa.array([0, None, 2])},
        {"key": pa.array([0, 0, 2])},
        {"key": pa.array([0.5, 1.0, 2.0])},
        {"key": pa.array(["a", "b", "c"])},
        {"row": pa.array([b"ab"] * 3, pa.binary(2))},
        {"row": pa.nulls(3, pa.binary(MODEL.fresh.nbytes))},
        {"stats": pa.nulls(3, pa.binary(32))},
        {"newest": pa.array([None, 1, 2], pa.int64())},
        {"late": pa.array([0.5, 1.0, 2.0])},
    ],
    ids=lambda columns: next(iter(columns)),
)
def test_columns_that_somebody_made_are_refused(file, columns):
    crafted(file, **columns)
    with pytest.raises(StateError):
        Fleet.load(file)


@pytest.mark.parametrize(
    "told",
    [
        {"count": 2},
        {"count": "3"},
        {"floats": 10**12},
        {"floats": -1},
        {"dtype": "junk"},
        {"keys": "junk"},
        {"model": "x"},
        {"model": {"kind": "x"}},
        {"model": {"kind": "paper", "template": "!!", "loss": {"name": "Loss", "number": 0}}},
        *(
            {"model": {"kind": "pool", "pool": {**MODEL.definition()["pool"], "dim": dim}}}
            for dim in (-3, 0, 10**9, 10**18, "3", None)
        ),
    ],
    ids=str,
)
def test_descriptions_that_somebody_made_are_refused(file, told):
    crafted(file, told)
    with pytest.raises(StateError):
        Fleet.load(file)


def test_every_damaged_byte_of_the_description_is_noticed(file, tmp_path):
    whole, data = Fleet.load(file), file.read_bytes()
    begin = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    damaged = tmp_path / "damaged.parquet"
    noticed = 0
    for place in range(begin, len(data), 3):
        damaged.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
        try:
            other = Fleet.load(damaged)
        except StateError:
            noticed += 1
            continue
        same(whole, other)  # a byte that nobody reads
        assert other.model.definition() == whole.model.definition()
    assert noticed > 100


@pytest.mark.parametrize("value", [1e9, -2000.0, 80.0, np.nan])
def test_a_row_that_somebody_made_is_learned_within_its_bounds(tmp_path, value):
    keys, X, y = stream(n=64, count=3)
    fleet = Fleet(MODEL).learn(keys, X, y)
    at_kept = MODEL._layout.frames + at.H_KEPT
    fleet._store.blocks.rows[0][0, at_kept] = value
    fleet.save(tmp_path / "made.parquet")
    made = Fleet.load(tmp_path / "made.parquet")
    untouched = {key: made.state(key).tobytes() for key in made.keys[1:]}
    first = made.keys[0]
    made.learn([first] * 64, X, y)
    assert {key: made.state(key).tobytes() for key in untouched} == untouched


def test_bytes_that_somebody_made_are_refused():
    keys, X, y = stream(n=64, count=3)
    data = Fleet(MODEL).learn(keys, X, y).to_bytes()
    length = int.from_bytes(data[12:16], "little")
    told, rest = json.loads(data[16 : 16 + length]), data[16 + length :]

    def made(told, rest=rest):
        content = told if isinstance(told, bytes) else json.dumps(told).encode()
        body = len(content).to_bytes(4, "little") + content + rest
        return data[:8] + zlib.crc32(body).to_bytes(4, "little") + body

    same(Fleet.from_bytes(data), Fleet.from_bytes(made(told)))
    for change in (
        {"count": -1}, {"count": 0}, {"count": 2}, {"count": 10**12}, {"count": "3"},
        {"key_bytes": -8}, {"key_bytes": 16}, {"keys": "text"}, {"model": []},
    ):  # fmt: skip
        with pytest.raises(StateError):
            Fleet.from_bytes(made({**told, **change}))
    for wrong in (made({}), made(b"junk"), made([]), made(b"[" * 100_000), made(told, rest[:-8])):
        with pytest.raises(StateError):
            Fleet.from_bytes(wrong)
