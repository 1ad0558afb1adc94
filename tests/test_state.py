"""Saved, loaded and copied learners go on bit for bit; damaged states are refused."""

from __future__ import annotations

import hashlib
import json
import struct

import numpy as np
import pytest
from cases import DIM, DOMAINS, LEARNERS, feed, make, snapshot, stream_for

import swordplay as sp
from swordplay import state

pytestmark = pytest.mark.filterwarnings("ignore::swordplay.AssumptionWarning")
learners = pytest.mark.parametrize("name", LEARNERS)
dtypes = pytest.mark.parametrize("dtype", ["float64", "float32"])
PLACES = {
    "ball_elsewhere": DOMAINS["ball_elsewhere"][0],
    "box": DOMAINS["box"][0],
    "simplex": DOMAINS["simplex"][0],
    "l1_ball": DOMAINS["l1_ball"][0],
    "everywhere": sp.Everywhere(DIM, diameter=2.0),
}
STREAM = stream_for("huber", 90)


def ready(name, place="box", horizon=90, **common):
    domain = sp.Simplex(DIM) if name == "OptimisticHedge" else PLACES[place]
    facts = STREAM.assumptions(domain)
    return make(name, domain, sp.Assumptions(facts.lipschitz, facts.smoothness, horizon), **common)


def by_file(learner, path):
    learner.save(path)
    return sp.load(path)


WAYS = {
    "save and load": by_file,
    "bytes": lambda learner, path: sp.from_bytes(learner.to_bytes()),
    "copy": lambda learner, path: learner.copy(),
    "like": lambda learner, path: sp.from_bytes(learner.to_bytes(), like=learner.copy()),
}


@learners
@dtypes
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("horizon", [90, None], ids=["known horizon", "unknown horizon"])
def test_a_learner_goes_on_bit_for_bit(name, dtype, way, horizon, tmp_path):
    # 16 and 80 rounds end the first two guesses of an unknown horizon.
    learner = ready(name, dtype=dtype, horizon=horizon)
    for t in range(len(STREAM)):
        if t in (0, 1, 16, 40, 80, 81):
            again = WAYS[way](learner, tmp_path / "state")
            assert type(again) is type(learner)
            assert again is not learner
            assert snapshot(again) == snapshot(learner)
            assert again.to_bytes() == learner.to_bytes()
            assert repr(again) == repr(learner)
            assert again.decide().tobytes() == learner.decide().tobytes()
            feed(learner.copy(), STREAM, t)
            mine, theirs = learner.copy(), again.copy()
            sp.play(mine, STREAM)
            sp.play(theirs, STREAM)
            assert snapshot(mine) == snapshot(theirs)
            learner = again
        feed(learner, STREAM, t)


@learners
@pytest.mark.parametrize("place", PLACES)
def test_every_domain_comes_back(name, place, tmp_path):
    learner = ready(name, place)
    sp.play(learner, STREAM)
    again = by_file(learner, tmp_path / "state")
    assert again.domain == learner.domain
    assert again.facts == learner.facts
    assert snapshot(again) == snapshot(learner)


@pytest.mark.parametrize("regulariser", [sp.Euclidean(), sp.NegativeEntropy()], ids=repr)
def test_arguments_come_back(regulariser, tmp_path):
    domain = sp.Simplex(DIM)
    omd = sp.OptimisticOMD(domain, step_size=0.3, regulariser=regulariser)
    again = by_file(omd, tmp_path / "state")
    assert type(again.regulariser) is type(regulariser)
    assert again.step_sizes.tolist() == [0.3]
    optimism = sp.SwordOptimism(
        domain,
        sp.Assumptions(1.0, horizon=50),
        correction=0.5,
        step_cap=0.2,
        rate_cap=0.1,
        meta_rate=0.05,
        start=[0.2, 0.3, 0.5],
    )
    again = by_file(optimism, tmp_path / "state")
    assert snapshot(again) == snapshot(optimism)
    for name in LEARNERS:
        if name == "OptimisticHedge":
            continue
        own = ready(name, step_sizes=[0.3, 0.01], meta_rate=0.7)
        assert snapshot(by_file(own, tmp_path / "state")) == snapshot(own)


def test_a_hint_that_was_given_is_kept(tmp_path):
    learner = ready("SwordOptimism")
    feed(learner, STREAM, 0)
    x = learner.decide(hint=[1.0, -2.0, 0.5])
    again = by_file(learner, tmp_path / "state")
    assert again.decide().tobytes() == x.tobytes()


def small():
    learner = sp.OGD(sp.Ball(1), sp.Assumptions(1.0, horizon=9))
    learner.learn([0.5])
    return learner.to_bytes()


def test_every_damaged_byte_is_refused():
    whole = small()
    sp.from_bytes(whole)
    for at in range(len(whole)):
        for bit in (0x01, 0x80):
            damaged = bytearray(whole)
            damaged[at] ^= bit
            with pytest.raises(sp.StateError):
                sp.from_bytes(bytes(damaged))


def test_every_truncated_state_is_refused():
    whole = small()
    for length in range(len(whole)):
        with pytest.raises(sp.StateError):
            sp.from_bytes(whole[:length])
    with pytest.raises(sp.StateError):
        sp.from_bytes(whole + b"\0")
    with pytest.raises(sp.StateError):
        sp.from_bytes(whole[1:])


@pytest.mark.parametrize("foreign", [b"", b"\x80\x04K\x01.", b"{}", bytes(5000), b"SWORDPLY" * 9])
def test_foreign_bytes_are_refused(foreign, tmp_path):
    with pytest.raises(sp.StateError, match=r"not a swordplay state|damaged"):
        sp.from_bytes(foreign)
    path = tmp_path / "foreign"
    path.write_bytes(foreign)
    with pytest.raises(sp.StateError):
        sp.load(path)


def rebuilt(**changes):
    """The small state with a header of one's own and the right checksum."""
    header, row = state.unpack(small())
    for key in ("format", "dtype", "floats"):
        header.pop(key)
    return state.pack(header | changes, row)


def test_another_format_is_refused_and_says_which():
    sp.from_bytes(rebuilt())
    for other in (state.FORMAT + 1, 0, "1", None):
        with pytest.raises(sp.StateError, match=f"format {other}"):
            sp.from_bytes(rebuilt(format=other))


@pytest.mark.parametrize(
    "changes",
    [
        {"learner": "Nobody"},
        {"learner": "Sword"},
        {"learner": "OptimisticHedge"},
        {"floats": 7},
        {"dtype": "<f4"},
        {"dtype": "<i8"},
        {"dtype": "nonsense"},
        {"arguments": {}},
        {"arguments": {"surprise": 1}},
        {"learner": None},
        {"learner": []},
    ],
    ids=str,
)
def test_a_header_that_does_not_fit_is_refused(changes):
    with pytest.raises(sp.StateError):
        sp.from_bytes(rebuilt(**changes))


def sealed(body):
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize(
    "header", [b"", b"[]", b"{}", b"nonsense", b"\xff\xfe", json.dumps({"format": 1}).encode()]
)
def test_a_header_that_is_none_is_refused(header):
    body = state.MAGIC + struct.pack("<I", len(header)) + header + np.zeros(30).tobytes()
    with pytest.raises(sp.StateError):
        sp.from_bytes(sealed(body))


def test_a_header_longer_than_the_file_is_refused():
    with pytest.raises(sp.StateError):
        sp.from_bytes(sealed(state.MAGIC + struct.pack("<I", 2**31) + bytes(100)))


def test_like_must_be_like_it(tmp_path):
    learner = ready("SwordPP")
    learner.save(tmp_path / "state")
    others = [
        ready("Sword"),
        ready("SwordPP", "simplex"),
        ready("SwordPP", horizon=91),
        ready("SwordPP", dtype="float32"),
        ready("SwordPP", meta_rate=0.1),
        ready("SwordPP", step_sizes=[0.1]),
    ]
    for other in others:
        before = snapshot(other)
        with pytest.raises(sp.StateError, match="like="):
            sp.load(tmp_path / "state", like=other)
        assert snapshot(other) == before
    like = ready("SwordPP")
    before = snapshot(like)
    again = sp.load(tmp_path / "state", like=like)
    feed(again, STREAM, 0)
    assert snapshot(like) == before  # a pattern, not the thing itself


def test_saving_is_atomic(tmp_path, monkeypatch):
    learner, path = ready("SwordPP"), tmp_path / "state"
    learner.save(path)
    assert [file.name for file in tmp_path.iterdir()] == ["state"]
    good = path.read_bytes()
    feed(learner, STREAM, 0)
    learner.save(str(path))  # a string does, and an older file is replaced
    assert path.read_bytes() == learner.to_bytes() != good
    kept = path.read_bytes()
    feed(learner, STREAM, 1)

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        learner.save(path)
    assert path.read_bytes() == kept  # the old file is whole
    assert [file.name for file in tmp_path.iterdir()] == ["state"]


def test_a_state_is_small_and_holds_no_pickle():
    data = ready("SwordPP").to_bytes()
    assert data.startswith(b"SWORDPLY")
    (length,) = struct.unpack("<I", data[8:12])
    header = json.loads(data[12 : 12 + length])
    assert header["learner"] == "SwordPP"
    assert header["format"] == state.FORMAT
    assert len(data) == 12 + length + 8 * header["floats"] + 32


def test_a_missing_file_is_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError):
        sp.load(tmp_path / "nothing")


@learners
@dtypes
def test_one_learner_is_one_row(name, dtype):
    row = ready(name, dtype=dtype)._row
    assert row.ndim == 1
    assert row.flags.c_contiguous
    assert row.dtype == np.dtype(dtype)
    assert row.nbytes % 8 == 0
