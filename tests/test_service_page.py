"""The page in a real browser, against a running server: live, offline, by night, on a phone."""

from __future__ import annotations

import gzip
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

from swordplay.service import page
from swordplay.service.client import Client
from swordplay.service.monitor import BASELINES
from swordplay.service.settings import digest, new_token

CHARTS = ("loss", "heat", "drift")
AWAY = "The server does not answer."


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
        one.create("shop")
        prices = rng.normal([10, 15, 0, 3], [2, 8, 1, 2], size=(2000, 4))
        for start in range(0, 2000, 20):
            part, weights = prices[start : start + 20], [-6, 1.5, 30, 2]
            values = part @ (weights if start < 1000 else [4, -1, -20, 2]) + 200
            one.learn("shop", part, values + 4 * rng.normal(size=20))
        one.create("noise")
        for _ in range(10):
            one.learn("noise", rng.normal(size=(100, 3)), rng.normal(size=100))
        yield server


def go(opened, server, name=""):
    """Open the page at a model, and wait until it is there."""
    opened.events.clear()
    opened.ask("Page.navigate", url=f"{server.url}/#{name}")
    shown = "!document.getElementById('model').hidden"
    until(opened, f"document.getElementById('title').textContent === '{name}' && {shown}")


def look(opened, server, name):
    go(opened, server, name)
    for chart in CHARTS:
        until(opened, f"!!document.querySelector('#{chart} .main-svg')")
    time.sleep(0.5)


def text(opened, ident):
    return opened.run(f"document.getElementById('{ident}').textContent")


def says(ident, what):
    return f"document.getElementById('{ident}').textContent.includes({json.dumps(what)})"


def submit(opened, *values):
    """Fill in the form and send it."""
    opened.run(
        f"""(() => {{ const fields = document.querySelectorAll('#fields input');
        {json.dumps(values)}.forEach((value, k) => {{ fields[k].value = value; }});
        document.getElementById('try').requestSubmit(); }})()"""
    )


def press(opened, key, number, **more):
    told = {"key": key, "code": key, "windowsVirtualKeyCode": number, **more}
    opened.ask("Input.dispatchKeyEvent", type="keyDown", **told)
    opened.ask("Input.dispatchKeyEvent", type="keyUp", **told)


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
        assert sorted(names) == ["last value", "model", "running mean"]
        assert opened.run("document.querySelector('#tiles dd').textContent") == "4,000"
        assert opened.run("document.querySelectorAll('#tiles > div').length") == 4
        with Client(server.url) as one:
            one.learn("demand", np.zeros((50, 3)), np.zeros(50))
        until(opened, "document.querySelector('#tiles dd').textContent === '4,050'")
        opened.run("document.querySelector('#more summary').click()")
        until(opened, "/(more|less) than the best fixed/.test(document.body.textContent)")
        assert opened.complaints == []


def test_the_loss_shows_a_change_and_the_recovery_from_it(server):
    with browser.Browser() as opened:
        look(opened, server, "demand")
        model = "document.getElementById('loss').data.find(t => t.name === 'model')"
        rows, loss = (np.array(opened.run(f"Array.from({model}.{axis})")) for axis in "xy")
        before = loss[(rows > 1000) & (rows <= 2000)].mean()
        assert loss[(rows > 2000) & (rows <= 2300)].max() > 5 * before
        assert loss[(rows > 2500) & (rows <= 3000)].mean() < 2 * before


def test_charts_over_rows_line_up_and_colours_mean_the_same_for_all_models(server):
    for width in (1280, 390):
        with browser.Browser(width=width) as opened:
            for name in ("demand", "mail"):
                look(opened, server, name)
                places = opened.run(
                    f"""{json.dumps(CHARTS)}.map(id => document.getElementById(id)._fullLayout)
                    .map(l => [l._size.l, l._size.w, ...l.xaxis.range])"""
                )
                assert places[0] == places[1] == places[2]
                heat = "document.getElementById('heat').data[0]"
                assert opened.run(f"[{heat}.zmin, {heat}.zmax]") == [0, 1]
                assert opened.run(f"{heat}.x.length === {heat}.z[0].length + 1")
                weighted = opened.run(f"{heat}.z.every(row => Math.max(...row) > 0)")
                assert weighted  # no memory length that cannot have weight makes a stripe
            assert opened.run("document.getElementById('heat').data[0].y.at(-1)") == "1,024"
            look(opened, server, "demand")
            assert opened.run("document.getElementById('heat').data[0].y.at(-1)") == "all rows"


def test_where_drift_rises_past_an_octave_the_charts_are_marked(server):
    with browser.Browser() as opened:
        look(opened, server, "shop")
        drawn = "document.getElementById('%s').layout.shapes.map(s => [s.x0, s.y0, s.y1])"
        drift = opened.run("Array.from(document.getElementById('drift').data[0].y)")
        rows = opened.run("Array.from(document.getElementById('drift').data[0].x)")
        rises = [
            row for row, now, was in zip(rows, drift, [0, *drift], strict=False) if now >= 1 > was
        ]
        assert any(1000 < row < 1200 for row in rises)
        for chart in ("loss", "heat"):
            assert [shape[0] for shape in opened.run(drawn % chart)] == rises
        assert opened.run(drawn % "drift") == [[0, 1, 1]]
        assert "2octaves times shorter than usual" in text(opened, "charts")


def test_a_sentence_says_how_a_model_does_and_the_list_shows_it_too(server):
    with browser.Browser() as opened:
        look(opened, server, "demand")
        assert "less loss than the last value" in text(opened, "verdict")
        until(
            opened, "/^[0-9]+×/.test(document.querySelector('#models a span + span').textContent)"
        )
        look(opened, server, "mail")
        assert "fewer errors than" in text(opened, "verdict")
        look(opened, server, "noise")
        assert "As good as the running mean; steady." in text(opened, "verdict")
        assert opened.complaints == []


def test_the_sentence_fits_what_is_measured(server):
    def verdict(task, drift, *losses, rows=500):
        baselines = [*BASELINES[task]]
        recent = dict(zip(["model", *baselines], losses, strict=True))
        told = {"metrics": {"rows": rows, "recent": recent}, "baselines": baselines}
        seen = json.dumps({**told, "drift": drift, "task": task})
        return opened.run(f"import('/static/model.js').then(m => m.verdict({seen}))")

    with browser.Browser() as opened:
        go(opened, server, "demand")
        for told, level, words in (
            (
                ("regression", 0.2, 1, 33, 25),
                "good",
                "33 times less loss than the last value, "
                "25 times less than the running mean; steady.",
            ),
            (
                ("regression", 1.32, 1, 8, 4),
                "changing",
                "Changing: its memory is 2.5 times shorter than usual. "
                "8 times less loss than the last value, 4 times less than the running mean.",
            ),
            (
                ("classification", 0, 0.3, 0.5, 0.3),
                "even",
                "As good as saying the commonest; steady.",
            ),
            (
                ("classification", 0, 0.1, 0.2, 0.15),
                "good",
                "2 times fewer errors than repeating the last label, "
                "33% fewer than saying the commonest; steady.",
            ),
            (("regression", 0, 3, 2, 9), "worse", "50% more loss than the last value; steady."),
            (
                ("regression", 0, 9, 2, 3),
                "worse",
                "4.5 times more loss than the last value; steady.",
            ),
            (("classification", 0, 0, 0.2, 0.5), "good", "No errors of late; steady."),
            (("regression", 0, 1e-9, 1, 1e-8), "good", "over 999 times less loss than"),
        ):
            found = verdict(*told)
            assert found[0] == level
            assert found[1].startswith(words)
        assert verdict("regression", 0, 1, 2, 3, rows=29)[0] == "young"
        models = [
            {"name": "demand", "rows": 900, "ratio": 33.4, "drift": 1.3},
            {"name": "mail", "rows": 1, "ratio": 2.0, "drift": 0.0},
            {"name": "noise", "rows": 1000, "ratio": 0.7, "drift": None},
            {"name": "shop", "rows": 1000, "ratio": None, "drift": None},
        ]
        shown = opened.run(
            f"""import('/static/list.js').then(m => {{ m.list({json.dumps(models)});
            return [...document.querySelectorAll('#models a')].map(
            a => [...a.children].map(e => e.textContent)); }})"""
        )
        assert shown == [
            ["demand", "33×", "900 rows", "changing"],
            ["mail", "", "1 row", ""],
            ["noise", "0.7×", "1,000 rows", ""],
            ["shop", "", "1,000 rows", ""],
        ]


def test_a_model_that_learned_nothing_shows_a_command_and_then_its_first_points(server):
    with Client(server.url) as one:
        one.create("fresh", features=["a", "b", "c"])
    with browser.Browser() as opened:
        go(opened, server, "fresh")
        assert "Nothing learned" in text(opened, "fresh")
        command = text(opened, "feed")
        body = json.loads(command[command.index("-d '") + 4 : -1])
        assert command.startswith(f"curl {server.url}/models/fresh/learn")
        assert opened.run("document.getElementById('charts').hidden")
        until(opened, says("models", "0 rows"))
        with Client(server.url) as one:
            one.learn("fresh", body["rows"][:1], body["labels"][:1])
            until(opened, says("models", "1 row"))
            assert "1 rows" not in text(opened, "models")
            until(opened, says("verdict", "Too early to tell: 1 row learned."))
            until(opened, says("fresh", "Charts begin at 16 rows"))
            one.learn("fresh", np.zeros((20, 3)), np.arange(20.0))
        until(opened, "!document.getElementById('charts').hidden")
        until(opened, "!!document.querySelector('#heat .main-svg')")
        assert opened.run("document.getElementById('fresh').hidden")
        for chart in ("loss", "drift"):  # a single point is seen, too
            until(opened, f"document.querySelectorAll('#{chart} .points path').length > 0")
        assert opened.complaints == []


def test_a_row_can_be_tried_by_keyboard_alone(server):
    with browser.Browser() as opened:
        look(opened, server, "demand")
        labels = opened.run(
            "[...document.querySelectorAll('#fields label')].map(l => l.textContent)"
        )
        assert labels == ["price", "day", "rain"]
        opened.run("document.querySelector('#fields input').focus()")
        press(opened, "Enter", 13, text="\r")
        until(opened, "/to/.test(document.getElementById('answer').textContent)")
        submit(opened, "1,5", "2", "3")
        assert text(opened, "answer") == "price: “1,5” is not a number. Write a point: 1.5"
        assert opened.run("document.activeElement.parentElement.textContent") == "price"
        submit(opened, "1.5", "", "3")
        assert text(opened, "answer") == "day: write a number."
        look(opened, server, "mail")
        submit(opened)
        until(opened, "/spam: [0-9.]+%/.test(document.getElementById('answer').textContent)")
        opened.run("document.activeElement.blur()")
        opened.ask("Page.reload")
        until(opened, "document.querySelectorAll('#models a').length > 2")
        order = []
        for _ in range(4):
            press(opened, "Tab", 9)
            order.append(opened.run("document.activeElement.id || document.activeElement.title"))
        assert order == ["skip", "filter", "demand", order[3]]
        opened.run("document.getElementById('skip').click()")
        assert opened.run("document.activeElement.id + location.hash") == "main#mail"
        assert opened.complaints == []


def test_it_fits_a_phone_and_the_night(server, tmp_path):
    with browser.Browser(width=390, height=844, dark=True) as phone:
        look(phone, server, "demand")
        phone.screenshot(tmp_path / "phone.png", whole=True)
        assert phone.run("document.documentElement.scrollWidth") <= 390
        assert np.median(picture(phone.screenshot())) < 60
        assert near(picture(phone.screenshot(element="#loss")), (0, 128, 200)) > 100
        small = "[...document.querySelectorAll('nav a, button, select, summary, #try input')]"
        assert phone.run(f"{small}.every(e => !e.offsetHeight || e.offsetHeight >= 44)")
        assert phone.box("#loss")["y"] < 600  # in the first screen
        inputs = "[...document.querySelectorAll('input, select')].map(e => getComputedStyle(e))"
        assert phone.run(f"{inputs}.every(s => s.fontSize === '16px')")
        ink = "getComputedStyle(document.body).color"
        assert phone.run(f"{inputs}.every(s => s.color === {ink})")
        assert not phone.run("document.getElementById('models').offsetHeight")
        phone.run(
            """(() => { const pick = document.getElementById('pick');
            pick.value = 'mail'; pick.dispatchEvent(new Event('change')); })()"""
        )
        until(phone, "document.getElementById('title').textContent === 'mail'")
        assert phone.complaints == []


def test_names_long_or_strange_do_no_harm(server):
    long, strange = f"a-{'very-' * 10}long.name", ("detail", "main", "loss")
    with Client(server.url) as one:
        for name in (long, *strange):
            one.create(name)
    with browser.Browser() as opened:
        for name in strange:
            go(opened, server, name)
        go(opened, server, f"/{strange[0]}".removeprefix("/"))
        until(opened, says("models", long))
        first = f"document.querySelector('[data-name={json.dumps(long)}] span')"
        assert opened.run(
            f"{first}.offsetHeight < 30 && {first}.parentElement.title === {json.dumps(long)}"
        )
        assert opened.run(f"{first}.scrollWidth > {first}.clientWidth")
        opened.run(
            """(() => { const filter = document.getElementById('filter');
            filter.value = 'zzz'; filter.dispatchEvent(new Event('input')); })()"""
        )
        assert text(opened, "no-hit") == "No name contains “zzz”."
        assert opened.run("document.getElementById('models').children.length") == 0
        assert opened.complaints == []
    with Client(server.url) as one:
        for name in (long, *strange):
            one.delete(name)


def test_without_models_a_command_says_how_to_make_one(tmp_path):
    with serving.Server(f"sqlite:///{tmp_path}/s.db") as server, browser.Browser() as opened:
        opened.ask("Page.navigate", url=server.url)
        until(opened, "!document.getElementById('none').hidden")
        command = text(opened, "make")
        assert command.startswith(f"curl {server.url}/models")
        opened.run("document.querySelector('#none button').click()")
        assert opened.run("getSelection().toString()").strip() == command
        with Client(server.url) as one:
            one.create(**json.loads(command[command.index("-d '") + 4 : -1]))
        until(opened, "document.getElementById('title').textContent === 'demand'")
        assert opened.run("document.getElementById('none').hidden")
        assert opened.complaints == []


def test_a_deleted_model_is_said_once_and_left(server):
    with Client(server.url) as one, browser.Browser() as opened:
        one.create("doomed")
        go(opened, server, "doomed")
        one.delete("doomed")
        until(opened, says("notice", "The model doomed was deleted."))
        until(opened, "document.getElementById('title').textContent === 'demand'")
        asked = "doomed/events"
        time.sleep(3)
        opened.run("1")
        opened.events.clear()
        time.sleep(5)
        assert not [url for url in opened.requests if asked in url]
        assert text(opened, "notice") == "The model doomed was deleted."
        assert opened.run("location.hash") == ""
        opened.run("document.querySelector('[data-name=mail] a').click()")
        until(opened, "document.getElementById('title').textContent === 'mail'")
        assert text(opened, "notice") == ""
        opened.ask("Page.navigate", url=f"{server.url}/#/nobody")
        until(opened, says("notice", "There is no model called nobody."))


def test_the_latency_is_the_servers_and_goes_on_when_another_model_is_chosen(server):
    with browser.Browser() as opened:
        look(opened, server, "demand")
        until(
            opened,
            "/^answers in .* ms, 99 of 100 within .* ms$/"
            ".test(document.getElementById('speed').textContent)",
        )
        opened.run("document.querySelector('#server summary').click()")
        trail = "document.getElementById('latency').data?.[0].x.length"
        until(opened, f"{trail} >= 2")
        seen = opened.run(trail)
        opened.run("location.hash = '/mail'")
        until(opened, "document.getElementById('title').textContent === 'mail'")
        assert opened.run(trail) >= seen
        assert opened.complaints == []


def test_when_the_server_is_away_the_page_says_so_until_it_is_back(tmp_path):
    database = f"sqlite:///{tmp_path}/s.db"
    with serving.Server(database) as server, browser.Browser() as opened:
        with Client(server.url) as one:
            one.create("m")
            one.learn("m", np.eye(40), np.arange(40.0))
            one.predict("m", np.eye(40), remember=False)
        look(opened, server, "m")
        until(opened, "document.getElementById('speed').textContent")
        opened.run("document.querySelector('#server summary').click()")
        server.kill()
        until(
            opened,
            says("away", f"{AWAY} What you see is from "),
        )
        banner = text(opened, "away")
        assert (
            opened.run("Number(getComputedStyle(document.getElementById('charts')).opacity)") < 0.5
        )
        submit(opened)
        until(opened, says("answer", AWAY))
        assert text(opened, "away") == banner
        assert text(opened, "status") == "not connected"
        with serving.Server(database, port=server.port) as _:
            until(opened, "document.getElementById('away').textContent === ''")
            assert opened.run("getComputedStyle(document.getElementById('charts')).opacity") == "1"
            assert text(opened, "answer") == ""
            until(opened, says("status", "live, 1 model"))
            with Client(server.url) as one:
                one.learn("m", np.eye(40), np.arange(40.0))
                one.predict("m", np.eye(40), remember=False)
            until(opened, "document.querySelector('#tiles dd').textContent === '80'")
            until(opened, "document.getElementById('latency').data[0].y.at(-1) !== null")
            broken = opened.run("Array.from(document.getElementById('latency').data[0].y)")
            assert None in broken[1:-1]


def test_with_tokens_it_asks_for_one_and_goes_on(tmp_path):
    token = new_token()
    settings = {"tokens": f"admin:{digest(token)}"}
    with serving.Server(f"sqlite:///{tmp_path}/s.db", **settings) as server:
        with Client(server.url, token) as one:
            one.create("secret")
            one.learn("secret", np.zeros((40, 2)), np.zeros(40))
        with browser.Browser() as opened:
            opened.ask("Page.navigate", url=f"{server.url}/")
            until(opened, "document.getElementById('ask').open")
            press(opened, "Escape", 27)
            until(opened, "!document.getElementById('ask').open")
            time.sleep(4)  # it does not come back by itself
            assert not opened.run("document.getElementById('ask').open")
            opened.run("document.getElementById('enter').click()")
            opened.run("document.getElementById('token').value = 'wrong'")
            opened.run("document.querySelector('#token-form button').click()")
            until(opened, says("wrong", "That token is not accepted."))
            assert opened.run("document.getElementById('ask').open")
            opened.run(f"document.getElementById('token').value = '{token}'")
            opened.run("document.querySelector('#token-form button').click()")
            until(opened, "document.getElementById('title').textContent === 'secret'")
            until(opened, "!!document.querySelector('#loss .main-svg')")
            assert opened.run("document.getElementById('enter').hidden")
            assert not opened.run("document.getElementById('ask').open")


def test_our_own_files_are_light():
    sizes = {name: len(page._file(name)[0]) for name in ("index.html", *page.OURS)}
    assert sum(sizes.values()) < 25_000  # as they travel: packed
    for name in sizes:
        assert "//" not in gzip.decompress(page._file(name)[0]).decode().replace("// ", "").replace(
            "http://www.w3.org/2000/svg", ""
        ), f"{name} names another address"
