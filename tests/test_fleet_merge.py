"""Learners that come and go: merged under way, removed, refused, and what they take of memory."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from test_fleet import paper, same_states, stream

from swordplay.fleet import Fleet, PoolModel
from swordplay.fleet.blocks import Blocks
from swordplay.fleet.shelf import Shelf

MODEL = PoolModel(3)
SIZE = MODEL.fresh.nbytes + 8 * 6
KEYS, X, Y = stream(n=400, count=20)


def as_text(keys):
    return [f"key {k}" for k in keys]


@pytest.mark.parametrize("name", [list, as_text])
def test_what_is_merged_is_of_one_moment_while_another_thread_learns(name):
    grows, over, wrong = Fleet(MODEL, workers=1), threading.Event(), []
    wide = np.ones((50, 3))

    def learn():
        for start in range(0, 4000, 50):
            grows.learn(name(range(start, start + 50)), wide, np.ones(50))
        over.set()

    def look():
        while not over.is_set():
            try:
                seen = Fleet(MODEL, workers=1).merge(grows)
                rows = seen.summary()["rows"]
                assert len(rows) % 50 == 0
                assert (rows == 1).all()
                assert len(grows.keys) % 50 == 0
            except Exception as error:
                wrong.append(error)
                return

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(lambda work: work(), [learn, look]))
    assert wrong == []


def test_fleets_that_merge_with_each_other_do_not_wait_for_ever():
    one, two = Fleet(MODEL).learn([1], X[:1], Y[:1]), Fleet(MODEL).learn([2], X[:1], Y[:1])

    def take(a, b):
        for _ in range(200):
            try:
                a.merge(b)
            except ValueError:
                a.remove([key for key in b.keys if key in a][:1])

    threads = [
        threading.Thread(target=take, args=pair, daemon=True) for pair in ((one, two), (two, one))
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)


@pytest.mark.parametrize("name", [list, as_text])
@pytest.mark.parametrize("limit", [None, 5 * SIZE])
@pytest.mark.parametrize("kind", [Blocks, Shelf])
@pytest.mark.parametrize("calls", [0, 1])
def test_a_merge_that_fails_leaves_nothing(monkeypatch, name, limit, kind, calls):
    fleet, undisturbed = (Fleet(MODEL, workers=1, memory_limit=limit) for _ in range(2))
    for one in (fleet, undisturbed):
        one.learn(name(KEYS[:100] % 3), X[:100], Y[:100])
    other = Fleet(MODEL).learn(name(KEYS + 50), X, Y)
    write, left = kind.write, [calls]

    def full(*arguments):
        if not left[0]:
            raise OSError(28, "No space left on device")
        left[0] -= 1
        write(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(kind, "write", full)
        if kind is Blocks or limit:
            with pytest.raises(OSError, match="No space"):
                fleet.merge(other)
        else:
            undisturbed.merge(other)
            fleet.merge(other)
    assert fleet.resident == undisturbed.resident
    shelves = [one._store._shelf for one in (fleet, undisturbed)]
    assert len({0 if shelf is None else len(shelf) for shelf in shelves}) == 1
    same_states(fleet, undisturbed)
    if len(fleet) == 3:
        same_states(fleet.merge(other), undisturbed.merge(other))


@pytest.mark.parametrize("name", [list, as_text])
@pytest.mark.parametrize("limit", [None, 5 * SIZE])
def test_removed_keys_are_gone_and_begin_anew(name, limit, tmp_path):
    fleet, rest = Fleet(MODEL, memory_limit=limit, late="predict"), Fleet(MODEL)
    keys = np.array(name(KEYS))
    fleet.learn(keys, X, Y, np.arange(400))
    gone = name([0, 7, 19, 7])
    stay = ~np.isin(keys, gone)
    rest.learn(keys[stay], X[stay], Y[stay], np.arange(400)[stay])
    before = fleet.to_bytes()
    with pytest.raises(KeyError):
        fleet.remove([*gone, "nobody"])
    assert fleet.to_bytes() == before
    assert fleet.remove(gone) is fleet
    assert fleet.keys == rest.keys
    same_states(fleet, rest)
    fleet.save(tmp_path / "f.parquet")
    same_states(Fleet.load(tmp_path / "f.parquet"), rest)
    blocks, resident = len(fleet._store.blocks.rows), fleet.resident
    assert fleet.nbytes == resident * SIZE
    for one in (fleet, rest):  # and what is early for a newcomer is not late
        one.learn(gone, X[:4], Y[:4], [0, 0, 0, 0])
    assert len(fleet._store.blocks.rows) == blocks  # their places were used again
    same_states(fleet, rest)
    assert fleet.summary(gone[:1])["late"].tolist() == [0]
    fleet.remove(fleet.keys)
    assert (len(fleet), fleet.resident, fleet.nbytes) == (0, 0, 0)
    same_states(fleet.learn(keys, X, Y), Fleet(MODEL).learn(keys, X, Y))


def test_text_keys_that_leave_let_whole_numbers_be_whole_again():
    fleet = Fleet(paper()).learn(["x", 3, 2**62], X[:3], Y[:3])
    want = fleet.split([3, 2**62])
    same_states(fleet.remove(["x"]), want)
    assert fleet.keys == [3, 2**62]
    same_states(fleet.learn(KEYS, X, Y), want.learn(KEYS, X, Y))


@pytest.mark.parametrize("learners", [1, 7, 10**9])
def test_memory_is_what_learners_take_and_blocks_keep_the_limit(learners):
    fleet = Fleet(MODEL, memory_limit=learners * SIZE).learn(KEYS, X, Y)
    assert fleet.nbytes == fleet.resident * SIZE <= learners * SIZE
    assert fleet.resident <= min(learners, 20)
    if learners < 20:  # or else a block has its usual size
        blocks = fleet._store.blocks
        taken = sum(array.nbytes for array in (*blocks.rows, *blocks.stats))
        assert taken <= learners * SIZE
