"""The page in a real browser, against a running server: live, offline, by night, on a phone."""

from __future__ import annotations

import io
import json
import time

import browser
import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")
pytestmark = pytest.mark.skipif(browser.find() is None, reason="no chromium is installed here")
pytest.importorskip("websocket")

import serving
from PIL import Image

from swordplay.service.client import Client

CHARTS = ("loss", "heat", "drift", "latency")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page")
    with serving.Server(f"sqlite:///{folder}/s.db") as server, Client(server.url) as one:
        rng = np.random.default_rng(0)
        X = rng.normal(size=(4000, 3))
        y = X @ [1.0, -2.0, 0.5] + 0.1 * rng.normal(size=4000)
        y[2000:] *= -1.0
        one.create("demand", features=["price", "day", "rain"])
        one.create("mail", task="classification")
        for start in range(0, 4000, 100):
            part = slice(start, start + 100)
            one.learn("demand", X[part], y[part])
            one.learn("mail", X[part], np.where(y[part] > 0, "spam", "ham"))
            one.predict("demand", X[part])
        yield server


def look(opened, server, name):
    opened.events.clear()
    opened.ask("Page.navigate", url=f"{server.url}/#{name}")
    until(opened, f"document.getElementById('title').textContent === '{name}'")
    for chart in CHARTS:
        until(opened, f"!!document.querySelector('#{chart} .main-svg')")
    time.sleep(0.5)


def until(opened, condition, seconds=30):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            if opened.run(condition):
                return
        except RuntimeError:
            pass  # the page is not there yet
        time.sleep(0.1)
    raise AssertionError(f"never: {condition}; {opened.complaints}")


def picture(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def near(image, color, tolerance=40):
    return int((np.abs(image - np.array(color)).max(axis=2) < tolerance).sum())


def test_the_page_shows_a_model_and_keeps_up_with_it(server, tmp_path):
    with browser.Browser() as opened:
        look(opened, server, "demand")
        opened.screenshot(tmp_path / "page.png", whole=True)
        assert opened.complaints == []
        assert all(url.startswith(server.url) for url in opened.requests)
        assert near(picture(opened.screenshot(element="#loss")), (0, 128, 200)) > 200
        names = opened.run("document.getElementById('loss').data.map(t => t.name)")
        assert names == ["model", "last value", "running mean"]
        heat = opened.run("document.getElementById('heat').data[0].z.length")
        assert heat == 16
        rows = opened.run("document.querySelector('#tiles dd').textContent")
        assert rows == "4,000"
        with Client(server.url) as one:
            one.learn("demand", np.zeros((50, 3)), np.zeros(50))
        until(opened, "document.querySelector('#tiles dd').textContent === '4,050'")
        until(opened, "document.getElementById('tiles').textContent.includes('regret')")


def test_a_model_that_learned_nothing_says_so_and_shows_no_empty_charts(server):
    with Client(server.url) as one:
        one.create("fresh")
    with browser.Browser() as opened:
        opened.ask("Page.navigate", url=f"{server.url}/#fresh")
        until(opened, "document.getElementById('fresh').textContent.includes('Nothing learned')")
        until(opened, "document.getElementById('no-regret').textContent.includes('too few')")
        assert opened.run("document.getElementById('charts').hidden")
        with Client(server.url) as one:
            one.learn("fresh", np.zeros((40, 2)), np.arange(40.0))
        until(opened, "!document.getElementById('charts').hidden")
        until(opened, "!!document.querySelector('#heat .main-svg')")
        assert opened.run("document.getElementById('fresh').hidden")
        assert opened.complaints == []


def test_a_row_can_be_tried_by_keyboard_alone(server):
    with browser.Browser() as opened:
        look(opened, server, "demand")
        labels = opened.run(
            "[...document.querySelectorAll('#fields label')].map(l => l.textContent)"
        )
        assert labels == ["price", "day", "rain"]
        opened.run("document.querySelector('#fields input').focus()")
        key = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
        opened.ask("Input.dispatchKeyEvent", type="keyDown", **key)
        opened.ask("Input.dispatchKeyEvent", type="keyUp", **key)
        until(opened, "/to/.test(document.getElementById('answer').textContent)")
        look(opened, server, "mail")
        opened.run("document.getElementById('try').requestSubmit()")
        until(opened, "/spam: [0-9.]+%/.test(document.getElementById('answer').textContent)")
        reachable = "a, button, input, [tabindex='0']"
        order = opened.run(f"[...document.querySelectorAll({json.dumps(reachable)})].length")
        assert order > 6
        for _ in range(3):
            tab = {"key": "Tab", "code": "Tab", "windowsVirtualKeyCode": 9}
            opened.ask("Input.dispatchKeyEvent", type="keyDown", **tab)
            opened.ask("Input.dispatchKeyEvent", type="keyUp", **tab)
        assert opened.run("document.activeElement !== document.body")
        assert opened.complaints == []


def test_it_fits_a_phone_and_the_night(server, tmp_path):
    with browser.Browser(width=390, height=844, dark=True) as phone:
        look(phone, server, "demand")
        phone.screenshot(tmp_path / "phone.png", whole=True)
        assert phone.run("document.documentElement.scrollWidth") <= 390
        assert np.median(picture(phone.screenshot())) < 60
        assert near(picture(phone.screenshot(element="#loss")), (0, 128, 200)) > 100
        small = "[...document.querySelectorAll('nav a, button, #try input')]"
        assert phone.run(f"{small}.every(e => !e.offsetHeight || e.offsetHeight >= 44)")
        assert phone.complaints == []


def test_with_tokens_it_asks_for_one_and_goes_on(tmp_path):
    from swordplay.service.settings import digest, new_token

    token = new_token()
    settings = {"tokens": f"admin:{digest(token)}"}
    with serving.Server(f"sqlite:///{tmp_path}/s.db", **settings) as server:
        with Client(server.url, token) as one:
            one.create("secret")
            one.learn("secret", np.zeros((40, 2)), np.zeros(40))
        with browser.Browser() as opened:
            opened.ask("Page.navigate", url=f"{server.url}/")
            until(opened, "document.getElementById('ask').open")
            opened.run(f"document.getElementById('token').value = '{token}'")
            opened.run("document.querySelector('#token-form button').click()")
            until(opened, "document.getElementById('title').textContent === 'secret'")
            until(opened, "!!document.querySelector('#loss .main-svg')")
