"""What the database may do to a server: vanish, fill up, forget to answer, belong to another."""

from __future__ import annotations

import contextlib
import logging
import os
import threading
import time

import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")

import serving
from fastapi.testclient import TestClient
from sqlalchemy import delete, event, select, text, update

from swordplay.service import api
from swordplay.service import store as db
from swordplay.service.client import Client, ServiceError
from swordplay.service.ledger import SNAPSHOT
from swordplay.service.settings import Settings, SettingsError
from swordplay.service.state import State
from swordplay.service.store import Store
from swordplay.service.writer import Writer

LESSON = {"rows": [[1.0, 2.0], [2.0, 1.0]], "labels": [1.0, 2.0]}
ASKED = {"rows": [[1.0, 2.0]], "remember": False}


class Served:
    """A server in this process, without chores, whose commits can be made to fail."""

    def __init__(self, database, **settings):
        self.app = api.build(Settings(database=database, **settings))
        self.web = TestClient(self.app, base_url="http://127.0.0.1", raise_server_exceptions=False)
        self.catalog = self.app.state.catalog
        self.store, self.writer = self.catalog.store, self.catalog.writer
        self.tries = 0
        dialect = self.store.engine.dialect
        self._commit, self._how, self._times = dialect.do_commit, None, 0
        dialect.do_commit = self._try

    def _try(self, connection):
        self.tries += 1
        if self._times < 1:
            return self._commit(connection)
        self._times -= 1
        if self._how == "answer lost":
            self._commit(connection)
        raise self.store.engine.dialect.dbapi.OperationalError("the connection is gone")

    def fail(self, how, times=1):
        """Let the next commits fail: ``answer lost`` after they were done, or ``before``."""
        while any(host._worker and not host._worker.done() for host in self.catalog.hosts.values()):
            time.sleep(0.01)  # a snapshot may follow the answer
        self._how, self._times = how, times

    def __enter__(self):
        self.web.__enter__()
        self.web.portal.call(self.catalog._chores.cancel)
        while self.web.get("/ready").status_code != 200:
            time.sleep(0.05)
        return self

    def __exit__(self, *error):
        self.web.__exit__(*error)

    def learn(self, name="m", lesson=LESSON, key=None):
        headers = {} if key is None else {"idempotency-key": key}
        return self.web.post(f"/models/{name}/learn", json=lesson, headers=headers)

    def create(self, name="m", **spec):
        return self.web.post("/models", json={"name": name, **spec})

    @property
    def names(self):
        return [model["name"] for model in self.web.get("/models").json()["models"]]


def come_back(answer):
    """Whether an answer asks to come back later."""
    return answer.status_code == 503 and int(answer.headers["retry-after"]) >= 1


# ---- another server


def test_a_server_that_lost_its_right_writes_nothing_and_stops(databases, caplog):
    database, stopped = databases(), threading.Event()
    with contextlib.ExitStack() as until_last:
        with Served(database) as first:
            first.create()
            first.learn()
            first.writer.when_deposed = stopped.set
            first.store.lock.release()  # as when the connection that holds it is cut
            second = until_last.enter_context(Served(database))
            for seq in range(2, 6):
                assert second.learn().json()["seq"] == seq
            with caplog.at_level(logging.ERROR, "swordplay.service"):
                assert come_back(first.learn())
                assert come_back(first.create("other"))
                assert come_back(first.web.delete("/models/m"))
                assert come_back(first.web.post("/models/m/predict", json={"rows": [[1, 2]]}))
            assert stopped.wait(5)
            (line,) = [r.getMessage() for r in caplog.records if r.levelname == "ERROR"]
            assert "another server has taken the database over" in line
        assert second.learn().json()["seq"] == 6  # the first one's last snapshot is not there
    with Served(database) as third:
        assert third.names == ["m"]
        assert third.learn().json() == {"learned": 2, "rows": 14, "seq": 7}


def test_a_process_that_lost_its_right_ends(databases):
    database = databases()
    with serving.Server(database) as server, Client(server.url, patience=0.0) as one:
        one.create("m")
        engine = db.open_engine(database)
        with engine.begin() as connection:
            connection.execute(update(db.owner).values(epoch=db.owner.c.epoch + 1))
        engine.dispose()
        with pytest.raises(ServiceError, match="taken the database over") as refused:
            one.learn("m", [[1.0]], [1.0])
        assert refused.value.status == 503
        assert server.process.wait(timeout=30) == 2
        assert "another server has taken the database over" in server.logged
        assert "Traceback" not in server.logged


def test_a_lock_whose_connection_was_cut_is_taken_again(databases, monkeypatch):
    monkeypatch.setattr(db, "_PATIENCE", 0.3)
    database = databases()
    store = Store(database)
    if store.engine.dialect.name == "postgresql":
        with store.engine.connect() as connection:
            held = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"
            connection.execute(
                text(
                    f"{held} AND database = (SELECT oid FROM pg_database "
                    "WHERE datname = current_database())"
                )
            )
    assert store.lock.keep()
    with pytest.raises(SettingsError, match="Another server"):
        Store(database)
    store.close()


def test_an_sqlite_file_has_one_server_whatever_it_is_called(tmp_path, monkeypatch):
    monkeypatch.setattr(db, "_PATIENCE", 0.3)
    (tmp_path / "link.db").symlink_to(tmp_path / "real.db")
    (tmp_path / "folder").symlink_to(tmp_path)
    store = Store(f"sqlite:///{tmp_path}/real.db")
    for name in ("link.db", "folder/real.db", "folder/link.db"):
        with pytest.raises(SettingsError, match="Another server"):
            Store(f"sqlite:///{tmp_path}/{name}")
    store.close()
    Store(f"sqlite:///{tmp_path}/link.db").close()
    os.link(tmp_path / "real.db", tmp_path / "hard.db")
    for name in ("real.db", "hard.db"):  # each would have a log of its own
        with pytest.raises(SettingsError, match="hard link"):
            Store(f"sqlite:///{tmp_path}/{name}")


def test_a_snapshot_is_never_replaced_by_an_older_one(databases):
    with Served(databases()) as one:
        one.create()
        host = one.catalog["m"]
        for seq in (3, 2):
            row = {"model": host.id, "at_seq": seq, "at_rows": seq, "bytes": b"", "json": ""}
            one.writer.submit([(SNAPSHOT, row)]).result(timeout=10)
        assert one.store.snapshot(host.id).seq == 3


# ---- a commit whose answer is lost


@pytest.mark.parametrize("how", ["answer lost", "before"])
def test_creating_and_deleting_where_the_answer_to_commit_is_lost(databases, how):
    database, done = databases(), how == "answer lost"
    with Served(database) as one:
        one.fail(how)
        answer = one.create()
        assert answer.status_code == 201 if done else come_back(answer)
        assert one.names == ["m"] * done
        assert one.create().status_code == (409 if done else 201)
        assert one.learn().json()["seq"] == 1
        one.fail(how)
        answer = one.web.delete("/models/m")
        assert answer.status_code == 204 if done else come_back(answer)
        assert one.names == ["m"] * (not done)
        assert one.learn().status_code == (404 if done else 200)
        if done:
            assert one.create().status_code == 201
            assert one.learn().json()["seq"] == 1
        rows = one.web.get("/models").json()["models"][0]["rows"]
    with Served(database) as one:
        assert one.web.get("/models").json()["models"][0]["rows"] == rows
        assert one.learn().json()["rows"] == rows + 2


@pytest.mark.parametrize("how", ["answer lost", "before"])
def test_learning_where_the_answer_to_commit_is_lost(databases, how):
    with Served(databases(), snapshot_records=3) as one:
        one.create()
        one.learn()
        for seq in range(2, 9):
            one.fail(how)
            assert come_back(one.learn(key=f"k{seq}"))
            told = {"learned": 2, "rows": 2 * seq, "seq": seq}
            assert one.learn(key=f"k{seq}").json() == told
        assert one.web.get("/models/m").json()["metrics"]["rows"] == 16


# ---- an outage


def test_readers_go_on_without_the_database_and_it_recovers(databases):
    with Served(databases()) as one:
        one.create()
        one.learn()
        before = one.web.post("/models/m/predict", json=ASKED).json()
        one.fail("before", times=10**6)
        assert come_back(one.learn())
        assert come_back(one.learn())
        assert come_back(one.web.post("/models/m/predict", json={"rows": [[1.0, 2.0]]}))
        assert come_back(one.web.get("/ready"))
        assert one.web.post("/models/m/predict", json=ASKED).json() == before
        assert one.web.get("/models/m?regret=false").json()["seq"] == 1
        one.fail("before", times=0)
        assert one.web.get("/ready").status_code == 200
        assert one.learn().json()["seq"] == 2


def test_a_full_disk_is_an_outage_that_ends(tmp_path):
    with Served(f"sqlite:///{tmp_path}/s.db") as one:
        most = 10**9

        @event.listens_for(one.store.engine, "checkout")
        def _limit(connection, *_):
            connection.execute(f"PRAGMA max_page_count={most}")

        one.create()
        one.learn()
        with one.store.engine.connect() as connection:
            most = connection.execute(text("PRAGMA page_count")).scalar() + 2
        big = {"rows": [[1.5, 2.5]] * 5000, "labels": [1.0] * 5000}
        assert come_back(one.learn(lesson=big))
        assert come_back(one.web.get("/ready"))
        assert one.web.post("/models/m/predict", json=ASKED).status_code == 200
        most = 10**9
        assert one.web.get("/ready").status_code == 200
        assert one.learn(lesson=big).json() == {"learned": 5000, "rows": 5002, "seq": 2}


def test_an_outage_fails_a_group_at_once(databases):
    with Served(databases()) as one:
        gate, busy = threading.Event(), threading.Event()

        def slow(writes, seconds):
            busy.set()
            gate.wait(10)

        one.writer._committed = slow
        one.writer.submit([])
        assert busy.wait(10)
        group = [one.writer.submit([]) for _ in range(50)]
        one.tries = 0
        one.fail("before", times=10**6)
        gate.set()
        assert all(write.exception(timeout=10) is not None for write in group)
        assert one.tries == 1
        one.fail("before", times=0)


@pytest.mark.parametrize("databases", ["postgres"], indirect=True)
def test_postgres_is_shut_down_under_a_server(databases, cluster):
    with serving.Server(databases()) as server, Client(server.url, patience=0.0) as one:
        one.create("m")
        one.learn("m", **LESSON)
        cluster.stop()
        for ask in (
            lambda: one.learn("m", **LESSON),
            lambda: one.predict("m", [[1.0, 2.0]]),
            lambda: one._ask("GET", "/ready"),
        ):
            with pytest.raises(ServiceError) as refused:
                ask()
            assert refused.value.status == 503
        assert one.predict("m", [[1.0, 2.0]], remember=False).predictions
        cluster.start()
        with Client(server.url) as patient:
            assert patient.learn("m", **LESSON)["seq"] == 2
            assert patient.predict("m", [[1.0, 2.0]]).ids
            patient._ask("GET", "/ready")


# ---- one of many


def together(one, lessons):
    """Learn lessons as one group; return their answers."""
    gate, busy = threading.Event(), threading.Event()

    def slow(writes, seconds):
        busy.set()
        gate.wait(30)

    usual, one.writer._committed = one.writer._committed, slow
    one.writer.submit([])
    assert busy.wait(10)
    host, answers = one.catalog["m"], {}
    threads = []
    for k, lesson in enumerate(lessons):
        work = threading.Thread(
            target=lambda k=k, v=lesson: answers.update({k: one.learn(lesson=v)})
        )
        work.start()
        threads.append(work)
        end = time.monotonic() + 10
        while host._worker is None or host.waiting < k:  # the first is with the writer
            assert time.monotonic() < end
            time.sleep(0.01)
    one.writer._committed = usual
    gate.set()
    for work in threads:
        work.join()
    return [answers[k] for k in range(len(lessons))]


def test_of_a_group_only_the_faulty_request_fails(databases, monkeypatch):
    lessons = [{"rows": [[float(k), 1.0]], "labels": [float(k)]} for k in range(8)]
    lessons[3]["labels"] = lessons[6]["labels"] = [666.0]
    usual = State.learn

    def learn(self, X, y):
        record = usual(self, X, y)  # fails late: the copy has changed already
        if 666.0 in y:
            raise ZeroDivisionError
        return record

    monkeypatch.setattr(State, "learn", learn)
    with Served(databases()) as one:
        one.create()
        one.create("twin")
        statuses = [answer.status_code for answer in together(one, lessons)]
        assert statuses == [200, 200, 200, 500, 200, 200, 500, 200]
        for lesson in (lesson for lesson in lessons if lesson["labels"] != [666.0]):
            one.learn("twin", lesson)
        files = [one.web.get(f"/models/{name}/export").content for name in ("m", "twin")]
        assert files[0] == files[1]


def test_a_snapshot_that_cannot_be_made_fails_no_request(databases, monkeypatch):
    database, usual = databases(), State.parts

    def parts(self):
        if self.model.columns == 1:
            raise ZeroDivisionError
        return usual(self)

    with Served(database, snapshot_records=2) as one:
        one.create("bad")
        one.create("good")
        monkeypatch.setattr(State, "parts", parts)
        for seq in range(1, 6):
            assert one.learn("bad", {"rows": [[1.0]], "labels": [1.0]}).json()["seq"] == seq
            assert one.learn("good").json()["seq"] == seq
    store = Store(database)  # closed and released all the same
    assert {row.name: store.snapshot(row.id).seq for row in store.catalog()} == {
        "bad": 0,
        "good": 5,
    }
    store.close()
    with Served(database) as one:
        assert one.learn("bad", {"rows": [[1.0]], "labels": [1.0]}).json()["seq"] == 6


def test_as_many_ids_as_a_group_can_have(databases):
    store = Store(databases())
    assert store.waiting(1, [f"{k:024x}" for k in range(80_000)]) == {}
    store.close()


def test_a_prediction_that_meets_a_delete_is_404_and_leaves_nothing(databases):
    with Served(databases()) as one:
        one.create()
        one.learn()
        ids = one.web.post("/models/m/predict", json={"rows": [[1.0, 2.0]]}).json()["ids"]
        assert len(ids) == 1
        with one.store.engine.begin() as connection:
            connection.execute(delete(db.models))
        answer = one.web.post("/models/m/predict", json={"rows": [[1.0, 2.0]]})
        assert answer.status_code == 404
        with one.store.engine.connect() as connection:
            for table in (db.log, db.keys, db.predictions):
                assert connection.execute(select(table)).all() == []


def test_a_state_that_could_not_be_loaded_is_loaded_at_the_next_request(databases, monkeypatch):
    database = databases()
    with Served(database) as one:
        one.create()
        one.learn()
    with Served(database, request_seconds=0.5) as one:
        gate, usual = threading.Event(), one.store.snapshot

        def broken(model):
            gate.wait(10)
            raise ZeroDivisionError

        monkeypatch.setattr(one.store, "snapshot", broken)
        assert one.web.get("/models/m").status_code == 503  # given up
        gate.set()
        monkeypatch.setattr(one.store, "snapshot", usual)
        end = time.monotonic() + 10
        while one.catalog["m"]._loading is not None and time.monotonic() < end:
            time.sleep(0.01)
        assert one.web.get("/models/m").status_code == 200


# ---- the disk


def test_what_is_committed_is_flushed(databases):
    database = databases()
    first = Store(database)
    if first.engine.dialect.name == "postgresql":  # as somebody may have set it
        with first.engine.begin() as connection:
            name = first.engine.url.database
            connection.execute(text(f"ALTER DATABASE {name} SET synchronous_commit = off"))
    first.close()
    store, told = Store(database), {}
    writer = Writer(store)

    @event.listens_for(store.engine, "commit")
    def _look(connection):  # on the very connection that commits
        if connection.dialect.name == "postgresql":
            asked = {"fsync": "SHOW fsync", "commit": "SHOW synchronous_commit"}
        else:
            asked = {
                "journal": "PRAGMA journal_mode",
                "flush": "PRAGMA synchronous",
                "foreign": "PRAGMA foreign_keys",
            }
        told.update({k: connection.exec_driver_sql(v).scalar() for k, v in asked.items()})

    writer.submit([]).result(timeout=10)
    writer.close()
    store.close()
    assert told in (
        {"fsync": "on", "commit": "on"},
        {"journal": "wal", "flush": 2, "foreign": 1},  # 2: FULL, a flush a commit
    )


def test_a_log_is_read_a_few_records_at_a_time(databases):
    with Served(databases()) as one:
        one.create()
        for _ in range(10):
            one.learn()
        records = one.store.records_after(one.catalog["m"].id, 3)
        assert next(records)[0] == 4
        if one.store.engine.dialect.name == "postgresql":
            with one.store.engine.connect() as connection:
                running = connection.execute(text("SELECT query FROM pg_stat_activity")).scalars()
                assert any("FETCH FORWARD" in query for query in running)
        assert [seq for seq, _ in records] == list(range(5, 11))


def test_a_database_without_foreign_keys_is_refused(databases):
    database = databases()
    store = Store(database)
    with store.engine.begin() as connection:
        connection.execute(text("DROP TABLE keys"))
        connection.execute(text("CREATE TABLE keys (model BIGINT, key VARCHAR(200))"))
    store.close()
    with pytest.raises(SettingsError, match="before the first release"):
        Store(database)
