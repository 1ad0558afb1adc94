"""Regret: what is measured, how long it may take, and that nobody else waits for it."""

from __future__ import annotations

import asyncio
import threading
import time

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")
httpx = pytest.importorskip("httpx")

import serving

from swordplay.service import api, comparators, models, regrets
from swordplay.service.client import Client
from swordplay.service.models import Spec
from swordplay.service.settings import Settings
from swordplay.service.state import Record

RNG = np.random.default_rng(0)
HEAVY = RNG.standard_t(2, size=(600, 200))
NOISE = RNG.normal(size=600)
KINDS = [("regression", loss) for loss in ("squared", "huber", "absolute", "pinball")]
KINDS += [("classification", "squared")]


@pytest.fixture(scope="module", autouse=True)
def _compiled():
    models.warm()
    comparators.regret_on(Spec(loss="absolute"), log_of(40, 3, "regression"), 512)


def log_of(rows, columns, task):
    X = HEAVY[:rows, :columns]
    y = X[:, 0] + NOISE[:rows]
    y = y if task == "regression" else (y > 0).astype(int).tolist()
    return [Record(X, y, np.ones(rows)).to_bytes()]


@pytest.mark.parametrize(("task", "loss"), KINDS)
@pytest.mark.parametrize("columns", [5, 31, 63, 64, 120, 200])
def test_no_measurement_takes_long(task, loss, columns):
    begun = time.perf_counter()
    found = comparators.regret_on(
        Spec(task=task, loss=loss), log_of(600, columns, task), Settings().window
    )
    assert time.perf_counter() - begun < 2 * comparators.SECONDS
    if columns == 5:
        assert found["best_piecewise"] <= found["best_fixed"]
    else:
        assert isinstance(found, dict) or found in (
            comparators.WIDE,
            comparators.FEW,
            comparators.LONG,
        )


@pytest.mark.parametrize(("task", "loss"), KINDS)
def test_the_tolerance_is_no_coarser_than_it_says(task, loss, monkeypatch):
    spec, log = Spec(task=task, loss=loss), log_of(256, 4, task)
    quick = comparators.regret_on(spec, log, 256)
    monkeypatch.setattr(comparators, "TOLERANCE", 1e-10)
    monkeypatch.setattr(comparators, "SECONDS", 60.0)
    exact = comparators.regret_on(spec, log, 256)
    assert quick["best_fixed"] == pytest.approx(exact["best_fixed"], rel=1e-3)
    assert quick["best_piecewise"] == pytest.approx(exact["best_piecewise"], rel=0.02)


def test_what_takes_too_long_is_given_up_and_says_so(monkeypatch):
    monkeypatch.setattr(comparators, "SECONDS", 0.0)
    assert comparators.regret_on(Spec(), log_of(100, 3, "regression"), 512) == comparators.LONG


def test_nobody_waits_for_the_measurement_of_another_model(tmp_path, monkeypatch):
    go, real = threading.Event(), regrets.regret_on

    def stuck(spec, data, window):
        go.wait(30)
        return real(spec, data, window)

    async def ask():
        app = api.build(Settings(database=f"sqlite:///{tmp_path}/s.db"))
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as web:
                body = {"rows": HEAVY[:50, :3].tolist(), "labels": NOISE[:50].tolist()}
                for name in "ab":
                    await web.post("/models", json={"name": name})
                    await web.post(f"/models/{name}/learn", json=body)
                before = (await web.get("/models/a")).json()
                assert before["regret"]["seq"] == before["seq"] == 1
                monkeypatch.setattr(regrets, "regret_on", stuck)
                await web.post("/models/a/learn", json=body)

                begun = time.perf_counter()
                during = (await web.get("/models/a")).json()
                assert (during["seq"], during["regret"]) == (2, before["regret"])
                other = (await web.get("/models/b")).json()
                assert time.perf_counter() - begun < 1.0
                assert other["regret"] is None
                assert "ask again" in other["regret_reason"]

                go.set()
                end = time.monotonic() + 20
                while (await web.get("/models/a")).json()["regret"]["seq"] != 2:
                    assert time.monotonic() < end
                assert (await web.get("/models/b")).json()["regret"]["seq"] == 1

    asyncio.run(ask())


def test_a_server_stops_while_it_measures(tmp_path):
    with serving.Server(f"sqlite:///{tmp_path}/s.db") as server, Client(server.url) as one:
        for k in range(8):
            one.create(f"m{k}", loss="absolute")
            one.learn(f"m{k}", HEAVY[:300, :30], HEAVY[:300, 0])
            begun = time.monotonic()
            one.describe(f"m{k}")
            assert time.monotonic() - begun < regrets.PATIENCE + 1.0
        begun = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - begun < 10
