"""The client and the load test: what is sent, and whose models are left alone."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")

import serving

from swordplay.service import commands
from swordplay.service.client import Client, ServiceError

NAMES = ["a", "b", "c"]
X = np.random.default_rng(0).normal(size=(50, 3))
Y = X @ [1.0, -2.0, 0.5]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving.Server(f"sqlite:///{tmp_path_factory.mktemp('client')}/s.db") as one:
        yield one


@pytest.fixture
def client(server):
    with Client(server.url, patience=0) as one:
        yield one
        for model in one.models():
            one.delete(model["name"])


# ---- the client


def test_labels_keep_their_types(client):
    client.create("c", task="classification")
    with pytest.raises(ServiceError, match="strings or"):
        client.learn("c", [[1.0], [2.0]], [1, "a"])
    client.learn("c", [[1.0], [2.0]], [np.int64(1), np.float64(2.0)])
    client.learn("c", [[1.0], [2.0]], np.array([1, 3]))
    assert client.describe("c", regret=False)["classes"] == [1, 2, 3]


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_a_missing_value_is_null_in_every_kind_of_rows(client, kind):
    client.create("m", missing="zero")
    rows = kind([[1.0, float("nan")], [np.float64("nan"), 2.0]])
    assert client.learn("m", rows, [1.0, 2.0])["learned"] == 2
    assert len(client.predict("m", rows).ids) == 2


def test_a_missing_value_by_name(client):
    client.create("m", missing="zero", features=NAMES)
    assert client.learn("m", [{"a": float("nan"), "b": np.int64(2)}], [1.0])["learned"] == 1


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_columns_of_a_table_go_by_name(client, library):
    frames = pytest.importorskip(library)
    client.create("named", features=NAMES)
    client.create("plain")
    for name in ("named", "plain"):
        client.learn(name, X, Y)
    right = client.predict("named", X, remember=False).predictions
    swapped = frames.DataFrame({"c": X[:, 2], "a": X[:, 0], "b": X[:, 1]})
    assert client.predict("named", swapped, remember=False).predictions == right
    assert client.predict("named", swapped[NAMES], remember=False).predictions == right
    assert client.predict("plain", swapped[NAMES], remember=False).predictions == right
    with pytest.raises(ServiceError, match=r"rows\[0\].z"):
        client.predict("named", frames.DataFrame({"a": [1.0], "b": [1.0], "z": [1.0]}))


# ---- the load test


def test_a_load_test_leaves_a_model_of_that_name_alone(client, server, capsys):
    client.create("load-test", features=["x"])
    client.learn("load-test", [[1.0], [2.0]], [1.0, 2.0])
    assert commands.main(["load-test", "--url", server.url, "--seconds", "0.2"]) == 0
    assert "rows/s" in capsys.readouterr().out
    assert [(one["name"], one["rows"]) for one in client.models()] == [("load-test", 2)]


def test_an_interrupted_load_test_cleans_up(client, server):
    command = [sys.executable, "-m", "swordplay.service", "load-test", "--url", server.url]
    process = subprocess.Popen(
        [*command, "--seconds", "20"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL
    )
    end = time.monotonic() + 30
    while not client.models():
        assert time.monotonic() < end
        time.sleep(0.05)
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, told = process.communicate(timeout=30)
    assert (process.returncode, told) == (130, b"")
    assert client.models() == []


def test_a_load_test_of_an_ipv6_address(tmp_path, capsys, monkeypatch):
    try:
        with socket.socket(socket.AF_INET6) as one:
            one.bind(("::1", 0))
    except OSError:
        pytest.skip("there is no IPv6 here")
    with serving.Server(f"sqlite:///{tmp_path}/s.db", until=None, host="::1") as server:
        server.listen()
        url = f"http://[::1]:{server.port}"
        end = time.monotonic() + 60
        command = ["load-test", "--url", url, "--seconds", "0.2"]
        while (code := commands.main(command)) and time.monotonic() < end:
            time.sleep(0.5)
        assert code == 0, capsys.readouterr().err
