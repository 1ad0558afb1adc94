"""Model files with numbers that no honest run could have left behind."""

from __future__ import annotations

import hashlib
import json
import struct

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")

from swordplay.service.models import Spec
from swordplay.service.state import State
from swordplay.state import StateError

X = np.random.default_rng(0).normal(size=(60, 3))
Y = X @ [1.0, 2.0, 3.0]
LABELS = ["a" if one > 0 else "b" for one in Y]


def taught(task):
    state = State.fresh(Spec(task=task))
    state.learn(X, Y if task == "regression" else LABELS)
    return state


@pytest.fixture(scope="module")
def files():
    return {task: taught(task).to_file() for task in ("regression", "classification")}


def changed(file, **metrics):
    (length,) = struct.unpack("<I", file[8:12])
    header = json.loads(file[12 : 12 + length])
    header["metrics"].update(metrics)
    return sealed(json.dumps(header).encode(), file[12 + length : -32])


def sealed(header, state=b""):
    body = b"SWORDSRV" + struct.pack("<I", len(header)) + header + state
    return body + hashlib.sha256(body).digest()


@pytest.mark.parametrize("task", ["regression", "classification"])
def test_an_honest_file_is_taken_and_goes_on(files, task):
    for state in (taught(task), State.fresh(Spec(task=task))):
        twin = State.from_file(state.to_file())
        for one in (state, twin):
            one.learn(X[:20], Y[:20] if task == "regression" else LABELS[:20])
        assert twin.parts() == state.parts()
    extreme = State.fresh(Spec())
    extreme.learn(np.array([[1e100, -1e100]]), np.array([1e100]))
    State.from_file(extreme.to_file())


@pytest.mark.parametrize(
    "metrics",
    [
        {"last": "x"},
        {"last": {"a": 1}},
        {"last": [1, 2]},
        {"last": float("nan")},
        {"last": 1e300},
        {"last": True},
        {"rows": 10**30},
        {"rows": 2**53 + 1},
        {"rows": -1},
        {"rows": 0},
        {"rows": 1.5},
        {"recent": [0, 0, 0, 0]},
        {"recent": [1, 1, 1, -1]},
        {"recent": [1e308, 1e308, 1e308, 1e-300]},
        {"recent": [1, 1, 1]},
        {"stride": 10**399},
        {"stride": 0},
        {"totals": [1.7e308] * 4},
        {"totals": [float("inf")] * 4},
        {"sum": 1.7e308},
        {"counts": [["a", 1]]},
    ],
)
def test_impossible_metrics_of_a_regression_are_refused(files, metrics):
    with pytest.raises(StateError):
        State.from_file(changed(files["regression"], **metrics))


@pytest.mark.parametrize(
    "metrics",
    [
        {"counts": [["a", 1], [5, 2], [None, 3]]},
        {"counts": [["a", 10**400]]},
        {"counts": [["a", -1]]},
        {"counts": [["a", 1], ["a", 2]]},
        {"counts": [["c", 1]]},
        {"counts": [[str(k), 1] for k in range(200_000)]},
        {"last": "c"},
        {"last": 1.0},
        {"last": "z" * 1_000_000},
    ],
)
def test_impossible_metrics_of_classes_are_refused(files, metrics):
    with pytest.raises(StateError):
        State.from_file(changed(files["classification"], **metrics))


def test_a_large_header_is_not_read():
    header = b'{"format":1,"x":[' + b"[]," * 1_000_000 + b"[]]}"
    with pytest.raises(StateError, match="header has"):
        State.from_file(sealed(header))


def test_a_refusal_names_the_field(files):
    with pytest.raises(StateError, match="rows"):
        State.from_file(changed(files["regression"], rows=10**30))
