"""The API inside one process: what is answered, what is refused, and that it names the field."""

from __future__ import annotations

import asyncio
import io
import random

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")
pa = pytest.importorskip("pyarrow")
httpx = pytest.importorskip("httpx")
pytest.importorskip("schemathesis")

import fuzzing
from fastapi.testclient import TestClient
from serving import arrow

from swordplay.estimators import SwordRegressor
from swordplay.service import api, models, settings
from swordplay.service.regrets import MEASURING
from swordplay.service.settings import Settings, SettingsError

ARROW = "application/vnd.apache.arrow.stream"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 3))
Y = X @ [1.0, -2.0, 0.5] + 0.1 * RNG.normal(size=300)


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    models.warm()  # else the first requests may be asked to come back


def client_of(database, **more):
    app = api.build(Settings(database=database, **more))
    return TestClient(app, base_url="http://127.0.0.1")


@pytest.fixture
def web(databases):
    with client_of(databases()) as client:
        yield client


def learn(web, name="m", rows=X, labels=Y, **headers):
    body = {"rows": np.asarray(rows).tolist(), "labels": list(labels)}
    return web.post(f"/models/{name}/learn", json=body, headers=headers)


def measured(web, name="m"):
    """Describe a model once its regret is up to date."""
    while True:
        told = web.get(f"/models/{name}").json()
        fresh = told["regret"] is None or told["regret"]["seq"] == told["seq"]
        if fresh and told["regret_reason"] != MEASURING:
            return told


def predict(web, rows, name="m", **more):
    return web.post(f"/models/{name}/predict", json={"rows": rows, **more})


# ---- models


def test_models_are_created_listed_described_and_deleted(web):
    assert web.get("/models").json() == {"models": []}
    made = web.post("/models", json={"name": "b", "task": "classification"})
    assert (made.status_code, made.json()["task"]) == (201, "classification")
    assert web.post("/models", json={"name": "a"}).status_code == 201
    assert [one["name"] for one in web.get("/models").json()["models"]] == ["a", "b"]
    again = web.post("/models", json={"name": "a"})
    assert (again.status_code, again.json()["field"]) == (409, "name")
    assert web.delete("/models/a").status_code == 204
    assert web.get("/models/a").status_code == 404
    assert web.delete("/models/a").status_code == 404


def test_it_predicts_what_the_estimator_would(web):
    web.post("/models", json={"name": "m"})
    for start in range(0, 300, 50):
        assert learn(web, rows=X[start : start + 50], labels=Y[start : start + 50]).json() == {
            "learned": 50,
            "rows": start + 50,
            "seq": start // 50 + 1,
        }
    model = SwordRegressor(coverage=0.9).partial_fit(X, Y)
    told = predict(web, X[:5].tolist()).json()
    np.testing.assert_allclose(told["predictions"], model.predict(X[:5]), rtol=1e-12)
    np.testing.assert_array_equal(told["intervals"], model.predict_interval(X[:5]))
    assert len(set(told["ids"])) == 5


def test_predicting_changes_nothing(web):
    web.post("/models", json={"name": "m"})
    learn(web)
    before = web.get("/models/m/export").content
    for _ in range(3):
        predict(web, X[:7].tolist())
    assert web.get("/models/m/export").content == before


def test_a_description_has_losses_weights_and_regret(web):
    web.post("/models", json={"name": "m"})
    empty = web.get("/models/m").json()
    assert empty["metrics"]["rows"] == 0
    assert empty["regret"] is None
    assert "too few" in empty["regret_reason"]
    learn(web)
    told = web.get("/models/m").json()
    assert told["metrics"]["recent"]["model"] < told["metrics"]["recent"]["last value"]
    assert sum(told["weights"].values()) == pytest.approx(1.0)
    assert told["effective_memory"] > 1
    regret = told["regret"]
    assert told["regret_reason"] is None
    assert regret["rows"] == 300
    assert regret["best_piecewise"] <= regret["best_fixed"] <= regret["model"]
    residuals = (
        Y
        - np.column_stack([np.ones(300), X])
        @ np.linalg.lstsq(np.column_stack([np.ones(300), X]), Y, rcond=None)[0]
    )
    assert regret["best_fixed"] == pytest.approx(0.5 * np.sum(residuals**2), rel=1e-6)
    unasked = web.get("/models/m", params={"regret": "false"}).json()
    assert (unasked["regret"], unasked["regret_reason"]) == (None, "Not asked for.")


def test_regret_is_measured_for_two_classes_and_explicitly_absent_for_more(web):
    web.post("/models", json={"name": "m", "task": "classification"})
    learn(web, labels=["up"] * 300)
    told = measured(web)
    assert told["regret"] is None
    assert "all the same" in told["regret_reason"]
    learn(web, labels=["up" if row[0] > 0 else "down" for row in X])
    regret = measured(web)["regret"]
    assert regret["loss"] == "log loss"
    assert regret["best_piecewise"] <= regret["best_fixed"] < 256 * np.log(2)
    learn(web, labels=[("up", "down", "sideways")[k % 3] for k in range(300)])
    told = measured(web)
    assert told["regret"] is None
    assert "more than two classes" in told["regret_reason"]


def test_classes_are_strings_or_integers_and_new_ones_may_come(web):
    web.post("/models", json={"name": "m", "task": "classification"})
    labels = ["up" if row[0] > 0 else "down" for row in X]
    assert learn(web, labels=labels).status_code == 200
    told = predict(web, [[2.0, 0.0, 0.0]]).json()
    assert told["predictions"] == ["up"]
    assert told["classes"] == ["down", "up"]
    assert sum(told["probabilities"][0]) == pytest.approx(1.0)
    assert learn(web, rows=X[:1], labels=[3]).status_code == 422
    assert learn(web, rows=X[:1], labels=["sideways"]).status_code == 200
    assert web.get("/models/m").json()["classes"] == ["down", "sideways", "up"]
    assert web.get("/models/m").json()["metrics"]["recent"]["model"] < 0.3


def test_rows_by_name_in_any_order(web):
    web.post("/models", json={"name": "m", "features": ["a", "b", "c"], "missing": "zero"})
    learn(web)
    row = dict(zip("cab", X[0][[2, 0, 1]], strict=True))
    by_name = predict(web, [row]).json()["predictions"]
    assert by_name == predict(web, [X[0].tolist()]).json()["predictions"]
    assert predict(web, [{"a": 1.0}]).status_code == 200  # the others are missing
    refused = predict(web, [{"a": 1.0, "z": 2.0}])
    assert (refused.status_code, refused.json()["field"]) == (422, "rows[0].z")


# ---- labels that come later


def test_labels_by_id_in_any_order_once(web):
    web.post("/models", json={"name": "m"})
    ids = predict(web, X[:4].tolist()).json()["ids"]
    path = "/models/m/learn"
    done = web.post(path, json={"ids": [ids[2], ids[0]], "labels": [Y[2], Y[0]]})
    assert done.json()["learned"] == 2
    again = web.post(path, json={"ids": [ids[1], ids[0]], "labels": [Y[1], Y[0]]})
    assert (again.status_code, again.json()["field"]) == (409, "ids[1]")
    assert web.post(path, json={"ids": ids[1::2], "labels": [Y[1], Y[3]]}).status_code == 200
    model = SwordRegressor(coverage=0.9).partial_fit(X[[2, 0, 1, 3]], Y[[2, 0, 1, 3]])
    told = predict(web, X[:1].tolist()).json()["predictions"]
    np.testing.assert_allclose(told, model.predict(X[:1]))


def test_what_is_not_remembered_has_no_id(web):
    web.post("/models", json={"name": "m"})
    assert "ids" not in predict(web, X[:2].tolist(), remember=False).json()


def test_predictions_expire_by_age_and_by_number(databases):
    database = databases()
    with client_of(database, pending_rows=10) as web:
        web.post("/models", json={"name": "m"})
        ids = [predict(web, X[:4].tolist()).json()["ids"] for _ in range(4)]
        web.portal.call(web.app.state.catalog.sweep)
        for k, batch in enumerate(ids):
            body = {"ids": batch[:1], "labels": [0.0]}
            assert web.post("/models/m/learn", json=body).status_code == (409 if k < 2 else 200)
    with client_of(database, pending_days=1e-9) as web:
        web.portal.call(web.app.state.catalog.sweep)
        body = {"ids": ids[3][1:2], "labels": [0.0]}
        assert web.post("/models/m/learn", json=body).status_code == 409


# ---- learning once


def test_a_repeated_request_learns_once(web):
    web.post("/models", json={"name": "m"})
    key = {"Idempotency-Key": "monday-1"}
    first, second = learn(web, **key), learn(web, **key)
    assert first.json() == second.json() == {"learned": 300, "rows": 300, "seq": 1}
    assert web.get("/models/m").json()["seq"] == 1
    assert learn(web, labels=Y + 1, **key).status_code == 409
    assert learn(web, **{"Idempotency-Key": "x" * 201}).status_code == 422


def test_one_key_sent_by_many_at_a_time_learns_once(databases):
    async def crowd():
        app = api.build(Settings(database=databases()))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
                await web.post("/models", json={"name": "m"})
                body = {"rows": X[:5].tolist(), "labels": Y[:5].tolist()}
                headers = {"Idempotency-Key": "k"}
                asked = [web.post("/models/m/learn", json=body, headers=headers)] * 1
                asked += [
                    web.post("/models/m/learn", json=body, headers=headers) for _ in range(30)
                ]
                answers = await asyncio.gather(*asked)
                assert {one.status_code for one in answers} == {200}
                assert len({one.text for one in answers}) == 1
                return (await web.get("/models/m")).json()["metrics"]["rows"]

    assert asyncio.run(crowd()) == 5


def test_a_full_queue_says_when_to_come_back(databases):
    async def crowd():
        app = api.build(Settings(database=databases(), queue=3))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
                await web.post("/models", json={"name": "m"})
                body = {"rows": X.tolist(), "labels": Y.tolist()}
                asked = [web.post("/models/m/learn", json=body) for _ in range(40)]
                answers = await asyncio.gather(*asked)
                accepted = sum(one.status_code == 200 for one in answers)
                refused = [one for one in answers if one.status_code == 429]
                assert accepted + len(refused) == 40
                assert refused
                assert all(int(one.headers["retry-after"]) >= 1 for one in refused)
                told = (await web.get("/models/m")).json()
                assert told["metrics"]["rows"] == 300 * accepted
                return True

    assert asyncio.run(crowd())


# ---- Arrow


def test_arrow_in_and_out(web):
    web.post("/models", json={"name": "m"})
    web.post("/models", json={"name": "n"})
    columns = {f"x{j}": X[:, j] for j in range(3)}
    headers = {"content-type": ARROW}
    body = arrow(**columns, label=Y)
    assert web.post("/models/m/learn", content=body, headers=headers).json()["learned"] == 300
    learn(web, "n")
    asked = web.post("/models/m/predict", content=arrow(**columns), headers=headers)
    table = pa.ipc.open_stream(io.BytesIO(asked.content)).read_all()
    told = predict(web, X.tolist(), "n").json()
    assert table["prediction"].to_pylist() == told["predictions"]
    assert table["lower"].to_pylist() == [low for low, _ in told["intervals"]]
    ids = table["id"].to_pylist()[:7]
    body = arrow(id=ids, label=Y[:7])
    assert web.post("/models/m/learn", content=body, headers=headers).json()["learned"] == 7


def test_arrow_streams_of_strangers_are_refused_not_believed(web):
    web.post("/models", json={"name": "m"})
    headers = {"content-type": ARROW}
    good = arrow(x=[1.0] * 50, label=[1.0] * 50)

    def status(body):
        return web.post("/models/m/learn", content=body, headers=headers).status_code

    table, sink = pa.table({"x": np.zeros(100_000)}), pa.BufferOutputStream()
    packed = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, table.schema, options=packed) as writer:
        writer.write_table(table)
    assert status(sink.getvalue().to_pybytes()) == 422
    assert status(arrow(x=[1.0], label=pa.array(["a"]).dictionary_encode())) == 422
    assert status(arrow(x=pa.array([[1.0]]), label=[1.0])) == 422
    assert status(arrow(x=[float("inf")], label=[1.0])) == 422
    assert status(b"") == 400
    dice = random.Random(0)
    for _ in range(300):
        body = bytearray(good)
        for _ in range(dice.randint(1, 8)):
            body[dice.randrange(len(body))] = dice.randrange(256)
        assert status(bytes(body[: dice.randint(1, len(body))])) in (200, 400, 413, 422)
    assert web.get("/models/m").status_code == 200


# ---- files


def test_an_exported_model_goes_on_elsewhere(web):
    web.post("/models", json={"name": "m"})
    learn(web)
    file = web.get("/models/m/export").content
    headers = {"content-type": "application/octet-stream"}
    made = web.post("/models/twin/import", content=file, headers=headers)
    assert (made.status_code, made.json()["rows"]) == (201, 300)
    for name in ("m", "twin"):
        learn(web, name, X[:50], Y[:50])
    assert web.get("/models/twin/export").content == web.get("/models/m/export").content


def test_damaged_and_crafted_files_are_refused(web):
    import hashlib

    web.post("/models", json={"name": "m"})
    learn(web)
    file = web.get("/models/m/export").content
    headers = {"content-type": "application/octet-stream"}

    def status(body):
        return web.post("/models/evil/import", content=bytes(body), headers=headers).status_code

    for place in range(0, len(file), 997):
        body = bytearray(file)
        body[place] ^= 1
        assert status(body) == 422
    assert status(file[:-1]) == 422
    assert status(b"\x80\x04N.") == 422  # a pickle

    def resealed(body):
        return body[:-32] + hashlib.sha256(body[:-32]).digest()

    assert status(resealed(file.replace(b'"coverage": 0.9', b'"coverage": 9.0', 1))) == 422
    assert status(resealed(file.replace(b'"pool": "auto"', b'"pool": "evil"', 1))) == 422
    dice = random.Random(1)
    for _ in range(150):
        body = bytearray(file)
        body[dice.randrange(12, len(body) - 64)] ^= 1 << dice.randrange(8)
        assert status(resealed(bytes(body))) in (201, 422)
        web.delete("/models/evil")


# ---- refusals


def test_ten_thousand_malformed_bodies_are_refused(web):
    web.post("/models", json={"name": "m"})
    learn(web)
    web.post("/models", json={"name": "c", "task": "classification"})
    for path, content, kind in fuzzing.malformed(10_000):
        answer = web.post(path, content=content, headers={"content-type": kind})
        assert 400 <= answer.status_code < 500, (path, content, answer.text)
        assert "Traceback" not in answer.text


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"rows": [[1, 2, "x"]], "labels": [1]}, "rows[0][2]"),
        ({"rows": [[1, 2, 3], [1, 2]], "labels": [1, 2]}, "rows[1]"),
        ({"rows": [[1, None, 3]], "labels": [1]}, "rows[0][1]"),
        ({"rows": [[1, 2, 3, 4]], "labels": [1]}, "rows"),
        ({"rows": [[1, 2, 1e300]], "labels": [1]}, "rows[0][2]"),
        ({"rows": [[1, 2, 3]], "labels": ["x"]}, "labels[0]"),
        ({"rows": [[1, 2, 3]], "labels": [1], "wieghts": [1]}, "wieghts"),
        ({"ids": ["nonsense"], "labels": [1]}, "ids[0]"),
    ],
)
def test_refusals_name_the_field(web, body, field):
    web.post("/models", json={"name": "m"})
    learn(web)
    answer = web.post("/models/m/learn", json=body)
    assert answer.status_code == 422
    assert answer.json()["field"] == field
    assert web.get("/models/m").json()["seq"] == 1


def test_limits(databases):
    with client_of(databases(), max_body=20_000, max_rows=100, max_models=2) as web:
        web.post("/models", json={"name": "m"})
        assert predict(web, X[:101].tolist()).status_code == 413
        assert predict(web, [[1.0]] * 100).status_code == 200
        assert web.post("/models/m/predict", content=b" " * 20_001).status_code == 415
        headers = {"content-type": "application/json"}
        too_much = web.post("/models/m/predict", content=b" " * 20_001, headers=headers)
        assert too_much.status_code == 413
        assert web.post("/models", json={"name": "n"}).status_code == 201
        assert web.post("/models", json={"name": "o"}).status_code == 409
        assert web.post("/models", json={"name": "../x"}).json()["field"] == "name"


def test_limits_of_width_classes_files_and_watchers(databases):
    limits = {"max_columns": 3, "max_classes": 2, "max_upload": 1000, "max_listeners": 1}
    with client_of(databases(), **limits) as web:
        web.post("/models", json={"name": "m"})
        assert predict(web, [[1.0] * 4]).status_code == 422
        assert web.post("/models", json={"name": "w", "features": [*"abcd"]}).status_code == 422
        web.post("/models", json={"name": "c", "task": "classification"})
        assert learn(web, "c", X[:3], ["a", "b", "c"]).status_code == 422
        assert learn(web, "c", X[:3], ["a", "b", "a"]).status_code == 200
        assert learn(web, "c", X[:1], ["c"]).status_code == 422
        file = {"content": b"x" * 1001, "headers": {"content-type": "application/octet-stream"}}
        assert web.post("/models/n/import", **file).status_code == 413
        web.app.state.listeners = 1
        full = web.get("/models/m/events")
        assert (full.status_code, full.headers["retry-after"]) == (429, "30")


@pytest.mark.parametrize("name", ["m", "events"])
def test_what_takes_too_long_is_given_up_with_503(databases, monkeypatch, name):
    with client_of(databases(), request_seconds=3.0) as web:
        web.post("/models", json={"name": name})

        async def slow():
            await asyncio.sleep(30)

        monkeypatch.setattr(web.app.state.catalog[name], "state", slow)
        assert web.get(f"/models/{name}").status_code == 503
        answer = predict(web, X[:1].tolist(), name)
        assert answer.status_code == 503
        assert int(answer.headers["retry-after"]) >= 1
        assert "too long" in answer.json()["detail"]


# ---- security


def test_tokens_and_scopes(databases):
    tokens = {scope: settings.new_token() for scope in settings.SCOPES}
    kept = tuple(f"{scope}:{settings.digest(token)}" for scope, token in tokens.items())
    with client_of(databases(), tokens=kept) as web:
        asked = {
            "read": lambda h: web.get("/models", headers=h),
            "learn": lambda h: web.post("/models/none/learn", json={}, headers=h),
            "admin": lambda h: web.delete("/models/none", headers=h),
        }
        for rank, (_, ask) in enumerate(asked.items()):
            assert ask({}).status_code == 401
            assert ask({"Authorization": "Bearer wrong"}).status_code == 401
            for k, token in enumerate(tokens.values()):
                status = ask({"Authorization": f"Bearer {token}"}).status_code
                assert (status == 403) == (k < rank)
        assert web.get("/health").status_code == 200
        assert web.get("/metrics").status_code == 401
        assert not any(token in repr(web.app.state.catalog.settings) for token in kept)


def test_it_does_not_open_to_the_outside_without_tokens():
    with pytest.raises(SettingsError, match="tokens"):
        Settings(host="0.0.0.0").check_exposure()
    Settings(host="0.0.0.0", tokens=("read:" + "0" * 64,)).check_exposure()
    Settings().check_exposure()
    with pytest.raises(SettingsError, match="SCOPE:SHA256"):
        Settings(tokens=("god:x",))


def test_pages_elsewhere_cannot_use_a_server_without_tokens(web):
    assert web.get("/models", headers={"host": "evil.example"}).status_code == 421
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        headers = {"content-type": kind}
        assert web.post("/models", content=b"{}", headers=headers).status_code == 415
    assert web.get("/").headers["content-security-policy"].startswith("default-src 'none'")


def test_nobody_sees_a_trace(web, monkeypatch):
    web.post("/models", json={"name": "m"})
    host = web.app.state.catalog["m"]

    async def broken():
        raise RuntimeError("secret")

    monkeypatch.setattr(host, "state", broken)
    answer = web.get("/models/m")
    assert answer.status_code == 500
    assert "secret" not in answer.text


# ---- operations


def test_health_readiness_metrics_and_description(web):
    assert web.get("/health").json()["status"] == "alive"
    assert web.get("/ready").json() == {"status": "ready"}
    web.post("/models", json={"name": "m"})
    learn(web)
    text = web.get("/metrics").text
    assert 'swordplay_rows_total{what="learned"} 300.0' in text
    assert 'route="/models/{name}/learn",status="200"' in text
    described = web.get("/openapi.json").json()
    assert "LearnIn" in described["components"]["schemas"]


def test_settings_from_file_and_environment(tmp_path):
    file = tmp_path / "s.toml"
    file.write_text('port = 9000\nqueue = 7\ntokens = ["read:%s"]\n' % ("0" * 64))
    found = settings.load(file, {"SWORDPLAY_PORT": "9001", "SWORDPLAY_PENDING_DAYS": "2.5"})
    assert (found.port, found.queue, found.pending_days) == (9001, 7, 2.5)
    assert found.tokens == ("read:" + "0" * 64,)
    file.write_text("prot = 9000")
    with pytest.raises(SettingsError, match="prot"):
        settings.load(file, {})
    for port in ("many", "99999", "-1"):
        with pytest.raises(SettingsError, match="port"):
            settings.load(None, {"SWORDPLAY_PORT": port})
    file.write_text("port = inf")
    with pytest.raises(SettingsError, match="port"):
        settings.load(file, {})
    with pytest.raises(SettingsError, match=r"^nope.toml cannot be read: No such file"):
        settings.load("nope.toml", {})


@pytest.mark.parametrize(
    ("body", "field", "detail"),
    [
        ({"row": [1], "label": 2}, "row", "There is no such field; did you mean rows?"),
        ({"labels": [1], "zzz": 1}, "zzz", "There is no such field."),
        ({"rows": [[1]]}, "labels", "Field required"),
    ],
)
def test_a_field_that_is_not_known_is_named_first(web, body, field, detail):
    web.post("/models", json={"name": "m"})
    told = web.post("/models/m/learn", json=body)
    assert (told.status_code, told.json()) == (422, {"detail": detail, "field": field})


def test_no_request_keeps_a_processor_for_long(databases):
    with client_of(databases(), max_work=2000) as web:
        for name, more in (("m", {}), ("c", {"task": "classification"})):
            web.post("/models", json={"name": name, **more})
        rows = X[:200, :3].tolist()
        assert learn(web, "m", rows, Y[:200]).status_code == 200
        assert learn(web, "c", rows, [k % 2 for k in range(200)]).status_code == 200
        too_much = learn(web, "c", rows, [k % 5 for k in range(200)])
        assert too_much.status_code == 413
        assert "200 rows x 3 features x 5 classes = 3000" in too_much.json()["detail"]
        ids = predict(web, rows, "c").json()["ids"]
        late = {"ids": ids, "labels": [k % 5 for k in range(200)]}
        assert web.post("/models/c/learn", json=late).status_code == 413
        assert learn(web, "c", rows[:20], [k % 5 for k in range(20)]).status_code == 200
        assert predict(web, rows, "c").status_code == 413
        assert predict(web, X[:300].tolist() * 3).status_code == 413
        assert web.get("/models/c").json()["seq"] == 2
