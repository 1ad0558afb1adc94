"""What strangers send: ids with two spellings, labels that are no integers, odd columns."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")
pa = pytest.importorskip("pyarrow")
pytest.importorskip("httpx")

from fastapi.testclient import TestClient
from serving import arrow

from swordplay.service import api, models
from swordplay.service.settings import Settings

ARROW = {"content-type": "application/vnd.apache.arrow.stream"}
X = np.random.default_rng(0).normal(size=(40, 3))
Y = X @ [1.0, -2.0, 0.5]


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    models.warm()


@pytest.fixture
def web(tmp_path):
    app = api.build(Settings(database=f"sqlite:///{tmp_path}/s.db"))
    with TestClient(app, base_url="http://127.0.0.1", raise_server_exceptions=False) as client:
        client.post("/models", json={"name": "m"})
        client.post("/models", json={"name": "c", "task": "classification"})
        yield client


def learn_arrow(web, name="m", **columns):
    return web.post(f"/models/{name}/learn", content=arrow(**columns), headers=ARROW)


def learn(web, name="m", **body):
    return web.post(f"/models/{name}/learn", json=body)


def refused(answer, field=None, status=422):
    told = answer.json()
    assert (answer.status_code, told["field"]) == (status, field), answer.text
    return True


# ---- ids


def test_a_row_has_one_id(web):
    (one,) = web.post("/models/m/predict", json={"rows": [[1.0, 2.0]]}).json()["ids"]
    others = [one[:-1] + "0" * k for k in range(2, 7)]
    assert refused(learn(web, ids=[one, *others], labels=[5.0] * 6), "ids[1]")
    assert refused(learn_arrow(web, id=[one, *others], label=[5.0] * 6), "id[1]")
    assert learn(web, ids=[one], labels=[5.0]).json()["rows"] == 1
    for other in others:
        assert refused(learn(web, ids=[other], labels=[5.0]), "ids[0]")
    assert web.get("/models/m").json()["metrics"]["rows"] == 1


@pytest.mark.parametrize("ids", [["nope"], [7], [1.5], [True], ["0" * 24 + "-00"]])
def test_arrow_ids_are_checked_as_json_ids_are(web, ids):
    assert refused(learn_arrow(web, id=ids, label=[1.0]), "id[0]")
    assert refused(learn(web, ids=ids, labels=[1.0]), "ids[0]")


# ---- labels


@pytest.mark.parametrize(
    "labels", [[1e20], [10**20], [1e100, 3], [2**53 + 1], [2.0**53 + 2], [-1e19, 1], [1.5]]
)
def test_a_label_that_is_no_whole_number_below_2_to_the_53_is_refused(web, labels):
    rows = [[1.0]] * len(labels)
    for answer, field in (
        (learn(web, "c", rows=rows, labels=labels), "labels[0]"),
        (learn_arrow(web, "c", x=[1.0] * len(labels), label=np.array(labels, float)), "label[0]"),
    ):
        assert refused(answer, field)
    assert web.get("/models/c").json()["seq"] == 0


def test_whole_numbers_may_come_as_floats(web):
    assert learn(web, "c", rows=[[1.0]] * 2, labels=[1, 2.0]).status_code == 200
    assert learn_arrow(web, "c", x=[1.0], label=[2.0**53 - 1]).status_code == 200
    assert web.get("/models/c").json()["classes"] == [1, 2, 2**53 - 1]


@pytest.mark.parametrize("label", ["a\x00", "\x01\n", "", "x" * 201, None])
def test_arrow_labels_are_checked_as_json_labels_are(web, label):
    assert refused(learn_arrow(web, "c", x=[1.0], label=pa.array([label], pa.string())), "label[0]")
    assert refused(learn(web, "c", rows=[[1.0]], labels=[label]), "labels[0]")


def test_arrow_labels_of_other_types(web):
    assert learn_arrow(web, "c", x=[1.0], label=pa.array(["a"], pa.large_string())).is_success
    assert learn_arrow(web, x=[1.0], label=pa.array(np.array([1.5], np.float16))).is_success
    assert refused(learn_arrow(web, x=[1.0], label=[True]), "label[0]")
    assert refused(learn_arrow(web, x=[1.0], label=[float("nan")]), "label[0]")
    assert refused(learn_arrow(web, x=[1.0]), "label")


# ---- features that are called like other columns


@pytest.mark.parametrize("name", ["id", "label"])
def test_no_feature_is_called_like_an_arrow_column(web, name):
    answer = web.post("/models", json={"name": "n", "features": ["x", name]})
    assert answer.status_code == 422
    assert name in answer.json()["detail"]
    body = arrow(x=[1.0], **{name: [1.0]})
    assert refused(web.post("/models/m/predict", content=body, headers=ARROW), name)


def test_an_arrow_stream_has_ids_or_features(web):
    body = arrow(x=[1.0], y=[2.0])
    answer = web.post("/models/m/predict", content=body, headers=ARROW)
    with pa.ipc.open_stream(answer.content) as reader:
        ids = reader.read_all()["id"].to_pylist()
    assert refused(learn_arrow(web, id=ids, x=[1.0], label=[1.0]), "id")
    assert learn_arrow(web, id=ids, label=[1.0]).is_success
