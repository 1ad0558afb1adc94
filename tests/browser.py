"""A headless Chromium, spoken to through its DevTools protocol."""

from __future__ import annotations

import base64
import itertools
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find():
    """Return the path of a Chromium, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Browser:
    """One page of one Chromium; everything it logs, throws or asks the network for is kept."""

    def __init__(self, width=1280, height=900, dark=False):
        import websocket

        self.profile = tempfile.TemporaryDirectory()
        self.process = subprocess.Popen(
            [
                find(),
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--disable-background-networking",
                "--no-first-run",
                "--remote-debugging-port=0",
                "--remote-allow-origins=*",
                f"--user-data-dir={self.profile.name}",
                "about:blank",
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        note = Path(self.profile.name) / "DevToolsActivePort"
        end = time.monotonic() + 60
        while not (note.exists() and note.read_text().count("\n")):
            if time.monotonic() > end or self.process.poll() is not None:
                raise RuntimeError("Chromium did not start")
            time.sleep(0.05)
        port = note.read_text().splitlines()[0]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/json/list") as answer:
            page = next(entry for entry in json.load(answer) if entry["type"] == "page")
        self.socket = websocket.create_connection(page["webSocketDebuggerUrl"], timeout=60)
        self.numbers = itertools.count(1)
        self.events = []
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.ask(f"{domain}.enable")
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=width < 600,
        )
        self.ask(
            "Emulation.setEmulatedMedia",
            features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}],
        )

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        self.process.terminate()
        self.process.wait(timeout=20)
        try:
            self.profile.cleanup()
        except OSError:
            time.sleep(0.5)
            shutil.rmtree(self.profile.name, ignore_errors=True)

    def ask(self, method, **parameters):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message["result"]
            self.events.append(message)

    def open(self, path):
        self.events.clear()
        self.ask("Page.navigate", url=Path(path).resolve().as_uri())
        end = time.monotonic() + 60
        while self.run("document.readyState") != "complete":
            if time.monotonic() > end:
                raise RuntimeError("the page did not load")
            time.sleep(0.1)
        time.sleep(0.5)  # charts are drawn in the frames after the page is complete

    def run(self, script):
        """Return what a JavaScript expression is worth."""
        answer = self.ask(
            "Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True
        )
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"].get("exception", {}).get("description"))
        return answer["result"].get("value")

    def click(self, x, y):
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.ask(
                "Input.dispatchMouseEvent",
                type=kind,
                x=x,
                y=y,
                button="none" if kind == "mouseMoved" else "left",
                clickCount=1,
            )
        time.sleep(0.7)  # Plotly waits for a second click before it acts

    def screenshot(self, path=None, whole=False, element=None):
        """Return a PNG of what is seen, of the whole page, or of an element."""
        more = {}
        if element is not None:
            box = self.box(element)
            more = {"clip": {**box, "scale": 1}, "captureBeyondViewport": True}
        elif whole:
            size = self.ask("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            more = {"clip": clip, "captureBeyondViewport": True}
        picture = base64.b64decode(self.ask("Page.captureScreenshot", **more)["data"])
        if path is not None:
            Path(path).write_bytes(picture)
        return picture

    def box(self, selector):
        """Return where an element is on the page."""
        return self.run(
            f"""(() => {{ const r = document.querySelector({json.dumps(selector)})
            .getBoundingClientRect(); return {{x: r.x + scrollX, y: r.y + scrollY,
            width: r.width, height: r.height}}; }})()"""
        )

    @property
    def complaints(self):
        """Return console errors and warnings, uncaught exceptions and failed requests."""
        self.run("1")
        found = []
        for event in self.events:
            method, what = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(what["exceptionDetails"].get("text"))
            elif method == "Runtime.consoleAPICalled" and what["type"] in ("error", "warning"):
                found.append(str(what["args"]))
            elif method == "Log.entryAdded" and what["entry"]["level"] in ("error", "warning"):
                found.append(what["entry"]["text"])
        return found

    @property
    def requests(self):
        """Return the addresses asked for, except those of the page itself and inside it."""
        self.run("1")
        return [
            url
            for event in self.events
            if event.get("method") == "Network.requestWillBeSent"
            for url in [event["params"]["request"]["url"]]
            if not url.startswith(("file:", "data:", "blob:"))
        ]
