"""Pull the plug of a server under load, again and again: is anything lost, or learned twice?

    python -m benchmarks.kill_service --kills 200
    python -m benchmarks.kill_service --kills 200 --postgres

Clients send numbered requests, half of them by id after a prediction, each under its own key. The
server is killed at random moments and started again; a client repeats what was not acknowledged
under the same key. In the end every request must be in the model exactly once, in the order of the
acknowledged sequence numbers, and an undisturbed server that gets the same requests in that order
must hold the same model, bit for bit.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import serving

from swordplay.service.client import Client, ServiceError

COLUMNS = 4
# Small intervals: kills must also hit snapshots and what is dropped after them.
SETTINGS = {"snapshot_rows": 300, "snapshot_records": 40, "log_level": "error"}


class Crowd:
    """Clients that go on until told to stop; ``done`` has what was acknowledged, by sequence."""

    def __init__(self, address, clients, seed):
        self.address, self.seed = address, seed
        self.stopping = threading.Event()
        self.done, self.twice, self.lost = {}, 0, 0
        self.lock = threading.Lock()
        self.threads = [threading.Thread(target=self._go, args=(k,)) for k in range(clients)]

    def _go(self, number):
        rng = np.random.default_rng([self.seed, number])
        count = 0
        while not self.stopping.is_set():
            count += 1
            X = rng.normal(size=(int(rng.integers(1, 9)), COLUMNS))
            y = X @ np.arange(1.0, COLUMNS + 1) + 0.1 * rng.normal(size=len(X))
            ids = None
            if count % 2:
                ids = self._until_answered(lambda one, X=X: one.predict("m", X)).ids
            key = f"{self.seed}-{number}-{count}"
            if ids is None:
                told = self._until_answered(
                    lambda one, X=X, y=y, key=key: one.learn("m", X, y, key=key)
                )
            else:
                told = self._until_answered(
                    lambda one, ids=ids, y=y, key=key: one.learn_ids("m", ids, y, key=key)
                )
            with self.lock:
                if told["seq"] in self.done:
                    self.twice += 1
                self.done[told["seq"]] = (X, y)

    def _until_answered(self, ask):
        while True:
            try:
                with Client(self.address["url"], timeout=10.0, patience=0.0) as one:
                    return ask(one)
            except (httpx.TransportError, KeyError):
                time.sleep(0.05)
            except ServiceError as error:
                if error.status == 409:  # an id that was acknowledged is gone
                    self.lost += 1
                if error.status not in (429, 503):
                    raise
                time.sleep(0.05)


def trial(database, kills, seed=0, clients=3, most=0.6, minutes=60.0, told=lambda k: None):
    """Kill ``kills`` times; return (kills, rows, exported bytes, requests by sequence)."""
    dice = random.Random(seed)
    address = {}
    crowd = Crowd(address, clients, seed)
    server = serving.Server(database, **SETTINGS)
    done, end = 0, time.monotonic() + 60.0 * minutes
    try:
        address["url"] = server.url
        with Client(server.url) as one:
            one.create("m")
        for thread in crowd.threads:
            thread.start()
        while done < kills and time.monotonic() < end:
            time.sleep(dice.uniform(0.0, most))
            server.kill()
            server.__exit__()
            server = serving.Server(database, **SETTINGS)
            address["url"] = server.url
            done += 1
            told(done)
        time.sleep(0.3)
        crowd.stopping.set()
        for thread in crowd.threads:
            thread.join(timeout=60)
        with Client(server.url) as one:
            final = one.export("m")
            summary = one.describe("m", regret=False)
        server.kill()
    finally:
        crowd.stopping.set()
        server.__exit__()
    rows = sum(len(y) for _, y in crowd.done.values())
    assert not crowd.twice, f"{crowd.twice} sequence numbers were given twice"
    assert not crowd.lost, f"{crowd.lost} acknowledged ids were lost"
    assert sorted(crowd.done) == list(range(1, len(crowd.done) + 1)), "requests are missing"
    assert summary["seq"] == len(crowd.done)
    assert summary["metrics"]["rows"] == rows, (summary["metrics"]["rows"], rows)
    return done, rows, final, crowd.done


def undisturbed(database, done):
    """Return the model of a server that gets the same requests and is never killed."""
    with serving.Server(database, log_level="error") as server, Client(server.url) as one:
        one.create("m")
        for seq in sorted(done):
            one.learn("m", *done[seq])
        return one.export("m")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--minutes", type=float, default=60.0, help="stop killing after that")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL of our own")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        if options.postgres:
            make = stack.enter_context(serving.postgres(folder))
            first, second = make("killed"), make("undisturbed")
        else:
            first, second = (f"sqlite:///{folder}/{name}.db" for name in ("killed", "undisturbed"))
        begun = time.monotonic()
        every = max(1, options.kills // 10)
        kills, rows, final, done = trial(
            first,
            options.kills,
            options.seed,
            minutes=options.minutes,
            told=lambda k: k % every or print(f"{k} kills", flush=True),
        )
        same = undisturbed(second, done) == final
        print(
            f"{kills} kills in {time.monotonic() - begun:.0f} s, {len(done)} requests "
            f"acknowledged, {rows} rows: none lost, none twice; the same state bit for bit: {same}"
        )
    raise SystemExit(not same)


if __name__ == "__main__":
    main()
