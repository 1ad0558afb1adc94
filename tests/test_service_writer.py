"""The thread that writes: whoever gives up waiting, it goes on for everybody else."""

from __future__ import annotations

import threading
import time

import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")

from fastapi.testclient import TestClient
from sqlalchemy import func, insert, select

from swordplay.service import api
from swordplay.service import store as db
from swordplay.service.settings import Settings
from swordplay.service.store import Store
from swordplay.service.writer import Writer

ADD_KEY = insert(db.keys)


def key(name):
    row = {"model": 1, "key": name, "digest": "", "answer": "", "at": 0.0}
    return [(ADD_KEY, row)]


@pytest.fixture
def store(databases):
    store = Store(databases())
    row = {"id": 1, "name": "m", "spec": "{}", "created": 0.0, "seq": 0, "rows": 0}
    with store.engine.begin() as connection:
        connection.execute(insert(db.models), {**row, "state": b"", "metrics": ""})
    yield store
    store.close()


def count(store):
    with store.engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(db.keys)).scalar()


def test_a_write_that_nobody_waits_for_any_more_stops_no_other(store):
    committed, gate = threading.Event(), threading.Event()

    def slow(writes, seconds):
        committed.set()
        gate.wait(10)

    writer = Writer(store, slow)
    given_up = writer.submit(key("a"))
    assert committed.wait(10)
    never_begun = writer.submit(key("b"))
    given_up.cancel()  # too late: it is on disk
    never_begun.cancel()
    gate.set()
    writer.submit(key("c")).result(timeout=10)
    writer.close()
    assert count(store) == 2


def test_one_bad_write_of_a_group_fails_alone(store):
    committed, gate = threading.Event(), threading.Event()

    def slow(writes, seconds):
        committed.set()
        gate.wait(10)

    writer = Writer(store, slow)
    writer.submit(key("a"))
    assert committed.wait(10)
    group = [writer.submit(key(name)) for name in ("b", "a", "c")]  # there is an "a" already
    gate.set()
    group[0].result(timeout=10)
    assert group[1].exception(timeout=10) is not None
    group[2].result(timeout=10)
    writer.close()
    assert count(store) == 3


def test_creating_and_deleting_are_finished_even_when_the_client_is_told_503(databases):
    app = api.build(Settings(database=databases(), request_seconds=2.0))
    with TestClient(app, base_url="http://127.0.0.1") as web:
        gate = threading.Event()
        app.state.catalog.writer._committed = lambda writes, seconds: gate.wait(10)

        def until(status, path="/models/m?regret=false"):
            end = time.monotonic() + 10
            while web.get(path).status_code != status:
                assert time.monotonic() < end
                time.sleep(0.02)

        answer = web.post("/models", json={"name": "m"})
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert web.post("/models", json={"name": "m"}).status_code == 409
        gate.set()
        until(200)
        assert web.post("/models", json={"name": "m"}).status_code == 409
        gate.clear()
        assert web.delete("/models/m").status_code == 503
        gate.set()
        until(404)
        while web.post("/models", json={"name": "m"}).status_code != 201:
            time.sleep(0.02)


def test_stopping_while_expiry_is_being_written_still_writes_snapshots(databases):
    database = databases()

    def serve_and_stop():
        app = api.build(Settings(database=database))
        with TestClient(app, base_url="http://127.0.0.1") as web:
            catalog = app.state.catalog
            web.post("/models", json={"name": "m"})
            while web.get("/ready").status_code != 200:
                time.sleep(0.05)
            lesson = {"rows": [[1.0], [2.0]], "labels": [1.0, 2.0]}
            assert web.post("/models/m/learn", json=lesson).status_code == 200
            catalog.writer._committed = lambda writes, seconds: time.sleep(0.5)

            async def again():
                catalog._chores.cancel()
                catalog.start()

            web.portal.call(again)
            time.sleep(0.2)  # expiry is with the writer now

    work = threading.Thread(target=serve_and_stop, daemon=True)
    work.start()
    work.join(timeout=120)
    assert not work.is_alive(), "it never stopped"
    store = Store(database)
    (model,) = store.catalog()
    assert store.snapshot(model.id).seq == 1
    store.close()
