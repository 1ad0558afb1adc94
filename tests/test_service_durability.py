"""Real servers, killed for real, on SQLite and on PostgreSQL."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")
pytest.importorskip("psycopg")

sys.path.insert(0, str(Path(__file__).parent.parent))

import serving

from benchmarks import kill_service
from swordplay.service.client import Client, ServiceError
from swordplay.service.settings import SettingsError
from swordplay.service.store import Store

RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = X @ np.arange(5.0) + 0.1 * RNG.normal(size=400)


def test_killed_under_load_nothing_is_lost_and_nothing_learned_twice(databases):
    kills, rows, final, done = kill_service.trial(databases(), kills=4, clients=2)
    assert kills == 4
    assert rows > len(done) > 10
    assert kill_service.undisturbed(databases(), done) == final


def test_a_client_that_fails_is_not_overlooked(tmp_path, monkeypatch):
    usual, asked = Client.predict, []

    def sick(self, *arguments, **options):
        asked.append(1)
        if len(asked) > 12:
            raise ServiceError(500, "The server failed.", None)
        return usual(self, *arguments, **options)

    monkeypatch.setattr(Client, "predict", sick)
    with pytest.raises(RuntimeError, match="a client failed"):
        kill_service.trial(f"sqlite:///{tmp_path}/s.db", kills=3)


def test_a_killed_server_goes_on_as_if_nothing_had_happened(databases):
    database, files = databases(), []
    with serving.Server(database, snapshot_records=7) as server, Client(server.url) as one:
        one.create("r")
        one.create("c", task="classification")
        for start in range(0, 200, 10):
            part = slice(start, start + 10)
            one.learn("r", X[part], Y[part])
            one.learn("c", X[part], np.where(Y[part] > 0, "up", "down"))
        waiting = one.predict("r", X[200:203])
        one.learn_ids("r", waiting.ids[1:2], Y[201:202])
        before = [one.export(name) for name in ("r", "c")]
        told = one.describe("r")
        server.kill()
    with serving.Server(database) as server, Client(server.url) as one:
        assert [one.export(name) for name in ("r", "c")] == before
        assert one.describe("r") == told
        assert [m["rows"] for m in one.models()] == [200, 201]
        with pytest.raises(ServiceError, match="waits for no label"):
            one.learn_ids("r", waiting.ids[1:2], Y[201:202])
        one.learn_ids("r", waiting.ids[::2], Y[[200, 202]])
        assert one.describe("r", regret=False)["metrics"]["rows"] == 203
        files.append(one.export("r"))
        assert server.stop() == 0  # gracefully: a snapshot is written
    with serving.Server(database) as server, Client(server.url) as one:
        files.append(one.export("r"))
    assert files[0] == files[1]


def test_a_key_is_known_after_a_kill(databases):
    database = databases()
    with serving.Server(database) as server, Client(server.url) as one:
        one.create("m")
        first = one.learn("m", X[:5], Y[:5], key="k")
        server.kill()
    with serving.Server(database) as server, Client(server.url) as one:
        assert one.learn("m", X[:5], Y[:5], key="k") == first
        assert one.models()[0]["rows"] == 5


def test_the_log_goes_bit_by_bit_once_two_snapshots_are_past_it(databases):
    database = databases()
    with serving.Server(database, snapshot_records=10) as server, Client(server.url) as one:
        one.create("m")
        for k in range(45):
            one.learn("m", X[k : k + 1], Y[k : k + 1])
        server.kill()
    with serving.Server(database, snapshot_records=10) as server, Client(server.url) as one:
        for k in range(45, 95):
            one.learn("m", X[k : k + 1], Y[k : k + 1])
        server.kill()
    store = Store(database)
    try:
        (model,) = store.catalog()
        assert (model.seq, model.rows) == (95, 95)
        assert store.first_record(model.id, -1) == 81
        assert len(store.latest_records(model.id, 1000)) == 15
    finally:
        store.close()


def test_deleted_is_deleted(databases):
    database = databases()
    with serving.Server(database) as server, Client(server.url) as one:
        one.create("m")
        one.learn("m", X, Y)
        one.delete("m")
        one.create("m")
        server.kill()
    with serving.Server(database) as server, Client(server.url) as one:
        assert one.models()[0]["rows"] == 0


def test_one_server_a_database(databases, monkeypatch):
    monkeypatch.setattr("swordplay.service.store._PATIENCE", 0.3)
    database = databases()
    first = Store(database)
    with pytest.raises(SettingsError, match="Another server"):
        Store(database)
    first.close()
    Store(database).close()


def test_many_learn_and_read_at_a_time(databases):
    with serving.Server(databases()) as server:
        with Client(server.url) as one:
            one.create("m")
            one.learn("m", X, Y)
        failures, seqs = [], []

        def learn():
            with Client(server.url) as one:
                for k in range(20):
                    seqs.append(one.learn("m", X[k : k + 5], Y[k : k + 5])["seq"])

        def read():
            with Client(server.url) as one:
                for _ in range(30):
                    told = one.predict("m", X[:3])
                    if not np.isfinite(told.predictions).all() or len(told.ids) != 3:
                        failures.append(told)
                    one.describe("m", regret=False)

        threads = [threading.Thread(target=work) for work in (learn, learn, learn, read, read)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures
        assert sorted(seqs) == list(range(2, 62))
        with Client(server.url) as one:
            assert one.models()[0]["rows"] == 400 + 60 * 5


def test_it_refuses_to_open_to_the_outside_without_tokens(databases):
    with pytest.raises(RuntimeError, match="no tokens"):
        serving.Server(databases(), host="0.0.0.0")
