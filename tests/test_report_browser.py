"""The report in a real browser: opens offline, draws, answers clicks, on a phone and at night."""

from __future__ import annotations

import io
import json

import browser
import numpy as np
import pytest
from PIL import Image

from swordplay.experiments import catalogue, session

pytestmark = pytest.mark.skipif(browser.find() is None, reason="no chromium is installed here")
pytest.importorskip("websocket")

CHART = "#chart-figure-1a-common"
OPTIONS = "{block: 'center', behavior: 'instant'}"
SULFUR_FREE = catalogue.Scale(
    seeds=(0, 1),
    rounds=2000,
    every=500,
    instances=(6, 9),
    coins=(5, 7),
    switches=(0, 1, 2, 4),
    chunk=500,
)


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    folder = tmp_path_factory.mktemp("report")
    experiments = catalogue.paper(SULFUR_FREE)
    study = session.Study(
        experiments, {}, "A <title> & more", "a subtitle", session.paper_overview, ["a note"]
    )
    return study.conduct(folder).report


@pytest.fixture(scope="module")
def desktop(page):
    with browser.Browser() as opened:
        opened.open(page)
        yield opened


def picture(png):
    return np.asarray(Image.open(io.BytesIO(png)).convert("RGB")).astype(int)


def near(image, color, tolerance=40):
    """Return how many pixels have nearly this colour."""
    return int((np.abs(image - np.array(color)).max(axis=2) < tolerance).sum())


OGD, SWORD_PP, SWORD = (0x7F, 0x7F, 0x7F), (0x00, 0x80, 0xC8), (0x00, 0x9E, 0x73)


def test_it_is_one_file_with_plotly_once(page):
    text = page.read_text()
    assert text.count("plotly.js v") == 1
    assert 'src="http' not in text
    assert '<link rel="stylesheet"' not in text


def test_no_complaints_and_no_requests(desktop):
    assert desktop.complaints == []
    assert desktop.requests == []


def test_every_chart_is_drawn(desktop, page):
    figures = len(list((page.parent / "figures").glob("*.pdf")))
    assert desktop.run("document.querySelectorAll('.js-plotly-plot').length") == figures
    drawn = ".scatterlayer .js-line, .boxlayer path, .barlayer path, .heatmaplayer image"
    empty = f"""[...document.querySelectorAll('.js-plotly-plot')]
        .filter(c => !c.querySelector('{drawn}')).map(c => c.id)"""
    assert desktop.run(empty) == []


def test_the_picture_has_the_curves_in_it(desktop):
    image = picture(desktop.screenshot(element=CHART))
    assert near(image, SWORD_PP) > 300
    assert near(image, (0xD5, 0x5E, 0x00)) > 200
    # Nothing of it is cut off: the frame is the colour of the page.
    for edge in (image[0], image[:, 0], image[:, -1]):
        assert (edge > 200).mean() > 0.97


def test_contents_lead_to_sections(desktop):
    links = desktop.run("[...document.querySelectorAll('nav a')].map(a => a.getAttribute('href'))")
    assert len(links) > 6
    assert all(desktop.run(f"!!document.querySelector({json.dumps(link)})") for link in links)
    assert links[-1] == "#manifest"
    told = json.loads(desktop.run("document.querySelector('#manifest ~ pre').textContent"))
    assert told["versions"]["swordplay"]


def test_numbers_can_be_downloaded(desktop, page):
    files = desktop.run(
        "[...document.querySelectorAll('a[download]')].map(a => [a.download, a.href])"
    )
    assert len(files) == len(list((page.parent / "figures").glob("*.csv")))
    for name, address in files:
        assert address.startswith("data:text/csv;base64,")
        got = desktop.run(f"fetch({json.dumps(address)}).then(r => r.text())")
        assert got == (page.parent / "figures" / name).read_text()


def test_text_is_escaped(desktop):
    assert desktop.run("document.title") == "A <title> & more"


def test_a_click_in_the_legend_hides_a_curve(page):
    with browser.Browser() as opened:
        opened.open(page)
        opened.run(f"document.querySelector('{CHART}').scrollIntoView({OPTIONS})")
        before = near(picture(opened.screenshot(element=CHART)), SWORD_PP)
        entry = opened.run(
            f"""(() => {{ const all = [...document.querySelectorAll('{CHART} .legend .traces')];
            const r = all.find(t => t.textContent.startsWith('Sword++'))
            .querySelector('.legendtoggle').getBoundingClientRect();
            return [r.x + r.width / 2, r.y + r.height / 2]; }})()"""
        )
        opened.click(*entry)
        state = f"document.querySelector('{CHART}').data.map(t => [t.name, t.visible])"
        hidden = [name for name, shown in opened.run(state) if shown == "legendonly"]
        assert {name.split(":")[0] for name in hidden} == {"Sword++"}
        after = near(picture(opened.screenshot(element=CHART)), SWORD_PP)
        assert after < before / 3
        opened.click(*entry)
        assert all(shown != "legendonly" for _, shown in opened.run(state))
        assert opened.complaints == []


def test_everything_ends_at_the_same_edge(desktop):
    kinds = "main > p, main > .told li, .scroll, table, section > p, section li, figcaption, pre"
    edges = f"[...document.querySelectorAll('{kinds}')].map(e => e.getBoundingClientRect().right)"
    assert len(found := desktop.run(edges)) > 20
    assert max(found) - min(found) < 1


def test_labels_of_an_axis_have_one_size(desktop):
    sizes = """[...document.querySelectorAll('.js-plotly-plot')].map(c => [c.id,
        [...c.querySelectorAll('.xtick text, .ytick text')].map(t => t.style.fontSize)])"""
    for name, found in desktop.run(sizes):
        assert found
        assert {round(float(size.removesuffix("px"))) for size in found} == {12}, name


def test_it_shows_where_a_table_goes_on(page):
    with browser.Browser(width=320, height=844) as phone:
        phone.open(page)

        def shades():
            image = picture(phone.screenshot(element=".scroll"))
            return [image[:, edge].max() < 240 for edge in (1, -2)]

        assert shades() == [False, True]
        end = "(() => { const s = document.querySelector('.scroll'); s.scrollLeft = 9999; })()"
        phone.run(end)
        assert shades() == [True, False]


def test_it_fits_a_phone(page):
    with browser.Browser(width=390, height=844) as phone:
        phone.open(page)
        assert phone.run("document.documentElement.scrollWidth") <= 390
        wide = "[...document.querySelectorAll('.js-plotly-plot')].map(c => c.clientWidth)"
        assert all(200 < width <= 390 for width in phone.run(wide))
        assert phone.run("document.getElementById('contents').open") is False
        overlap = f"""(() => {{ const box = s => document.querySelector('{CHART} ' + s)
            .getBoundingClientRect(); return box('.xtitle').bottom - box('.legend').top; }})()"""
        assert phone.run(overlap) <= 2  # the legend is under the axis title, not on it
        assert phone.run("parseFloat(getComputedStyle(document.body).fontSize)") >= 16
        assert near(picture(phone.screenshot(element=CHART)), SWORD_PP) > 100
        assert phone.complaints == []


def test_it_is_dark_at_night_and_changes_with_the_reader(page):
    with browser.Browser(dark=True) as night:
        night.open(page)
        image = picture(night.screenshot())
        assert np.median(image) < 60
        ink = f"document.querySelector('{CHART} .xtitle').style.fill"
        assert np.mean([int(n) for n in night.run(ink)[4:-1].split(",")]) > 180
        assert near(picture(night.screenshot(element=CHART)), SWORD_PP) > 300
        night.ask(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "light"}],
        )
        night.run("new Promise(done => setTimeout(done, 500))")
        assert np.mean([int(n) for n in night.run(ink)[4:-1].split(",")]) < 90
        assert np.median(picture(night.screenshot())) > 200
        assert night.complaints == []
