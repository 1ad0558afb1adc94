"""Kill a server under load, again and again: is anything lost, or learned twice?

    python -m benchmarks.kill_service --kills 200
    python -m benchmarks.kill_service --kills 200 --postgres

Clients send numbered requests, half of them by id after a prediction, each under its own key; one
more makes, exports, imports and deletes other models. The server is killed (SIGKILL) at random
moments, now and then while it still starts or replays, and started again; a client repeats what
was not acknowledged under the same key. With --postgres, PostgreSQL itself is now and then shut
down on the spot under a living server. In the end every request must be in the model exactly once,
in the order of the acknowledged sequence numbers; an undisturbed server that gets the same requests
in that order must hold the same model, bit for bit; and the other models must be there as they were
exported, or gone.

A killed process leaves what it wrote to the system's page cache; a machine without power does not.
That commits are flushed, too, is for tests/test_service_outages.py to show.
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
PATIENCE = 60.0  # seconds for a ready server to acknowledge something


class Crowd:
    """Clients that go on until told to stop; ``done`` has what was acknowledged, by sequence."""

    def __init__(self, address, clients, seed):
        self.address, self.seed = address, seed
        self.stopping = threading.Event()
        self.done, self.twice = {}, 0
        self.kept, self.gone = {}, []  # other models: files by name, and names
        self.errors = []
        self.lock = threading.Lock()
        work = [(self._learn, (k,)) for k in range(clients)] + [(self._manage, ())]
        self.threads = [threading.Thread(target=self._go, args=one) for one in work]

    def _go(self, work, arguments):
        try:
            work(*arguments)
        except Exception as error:
            self.errors.append(error)

    def check(self):
        """Raise what stopped a client."""
        if self.errors:
            raise RuntimeError("a client failed") from self.errors[0]

    def wait(self):
        """Wait for one more acknowledgement."""
        before, end = len(self.done), time.monotonic() + PATIENCE
        while len(self.done) == before:
            self.check()
            assert time.monotonic() < end, "nothing is acknowledged any more"
            time.sleep(0.005)

    def _rows(self, rng):
        X = rng.normal(size=(int(rng.integers(1, 9)), COLUMNS))
        return X, X @ np.arange(1.0, COLUMNS + 1) + 0.1 * rng.normal(size=len(X))

    def _learn(self, number):
        rng = np.random.default_rng([self.seed, number])
        count = 0
        while not self.stopping.is_set():
            count += 1
            X, y = self._rows(rng)
            key = f"{self.seed}-{number}-{count}"
            if count % 2:
                ids = self._until_answered("predict", "m", X).ids
                told = self._until_answered("learn_ids", "m", ids, y, key=key)
            else:
                told = self._until_answered("learn", "m", X, y, key=key)
            with self.lock:
                if told["seq"] in self.done:
                    self.twice += 1
                self.done[told["seq"]] = (X, y)

    def _manage(self):
        rng = np.random.default_rng([self.seed, 1000])
        count = 0
        while not self.stopping.is_set():
            count += 1
            name, twin = f"made{count}", f"imported{count}"
            self._until_answered("create", name, done=409)
            for k in range(3):
                X, y = self._rows(rng)
                told = self._until_answered("learn", name, X, y, key=f"{name}-{k}")
                assert told["seq"] == k + 1, told
            data = self._until_answered("export", name)
            self._until_answered("import_", twin, data, done=409)
            assert self._until_answered("export", twin) == data
            self.kept[twin] = data
            for one in [name, *(list(self.kept)[:-5])]:  # a few stay
                self._until_answered("delete", one, done=404)
                self.kept.pop(one, None)
                self.gone.append(one)
            time.sleep(0.1)

    def _until_answered(self, ask, *arguments, done=None, **options):
        """Repeat a request; ``done`` is the status which says that an earlier attempt did it."""
        repeated = False
        while True:
            try:
                with Client(self.address["url"], timeout=10.0, patience=0.0) as one:
                    return getattr(one, ask)(*arguments, **options)
            except httpx.TransportError:
                pass
            except ServiceError as error:
                if error.status == done and repeated:
                    return None
                if error.status not in (429, 503):
                    raise
            repeated = True
            time.sleep(0.05)


def trial(
    database, kills, seed=0, clients=3, most=0.6, minutes=60.0, told=lambda k: None, restart=None
):
    """Kill ``kills`` times; return (kills, rows, exported bytes, requests by sequence).

    ``restart`` ends the database's own server at once and starts it again.
    """
    dice = random.Random(seed)
    address = {}
    crowd = Crowd(address, clients, seed)
    server = serving.Server(database, **SETTINGS)
    done, at_work, end = 0, 0, time.monotonic() + 60.0 * minutes
    try:
        address["url"] = server.url
        with Client(server.url) as one:
            one.create("m")
        for thread in crowd.threads:
            thread.start()
        while done < kills and time.monotonic() < end:
            early = dice.random() if done else 1.0  # where to kill: < 0.25 while it starts
            if early >= 0.25:
                if server.url is None:
                    server.listen()
                    address["url"] = server.url
                    server.wait("/ready")
                crowd.wait()
                if restart is not None and at_work % 4 == 2:
                    time.sleep(dice.uniform(0.0, most))
                    restart()
                    crowd.wait()
                time.sleep(dice.uniform(0.0, most))
                at_work += 1
            elif early >= 0.12:
                server.listen()
                address["url"] = server.url  # clients come, and it replays
                time.sleep(dice.uniform(0.0, 0.5))
            else:
                time.sleep(dice.uniform(0.0, 1.5))
            server.kill()
            server.__exit__()
            crowd.check()
            server = serving.Server(database, until=None, **SETTINGS)
            done += 1
            told(done)
        server.listen()
        address["url"] = server.url
        server.wait("/ready")
        crowd.wait()
        crowd.stopping.set()
        for thread in crowd.threads:
            thread.join(timeout=60)
            assert not thread.is_alive(), "a client got no answer"
        crowd.check()
        with Client(server.url) as one:
            final = one.export("m")
            summary = one.describe("m", regret=False)
            names = {model["name"] for model in one.models()}
            others = {name: one.export(name) for name in crowd.kept}
        server.kill()
    finally:
        crowd.stopping.set()
        server.__exit__()
    rows = sum(len(y) for _, y in crowd.done.values())
    assert not crowd.twice, f"{crowd.twice} sequence numbers were given twice"
    assert sorted(crowd.done) == list(range(1, len(crowd.done) + 1)), "requests are missing"
    assert len(crowd.done) > at_work, "too few requests to tell"
    assert summary["seq"] == len(crowd.done)
    assert summary["metrics"]["rows"] == rows, (summary["metrics"]["rows"], rows)
    assert names == {"m", *crowd.kept}, "models came back, or went"
    assert others == crowd.kept, "other models changed"
    assert crowd.gone, "no model was ever deleted"
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
        restart, restarts = None, 0
        if options.postgres:
            make = stack.enter_context(serving.postgres(folder))
            first, second = make("killed"), make("undisturbed")

            def restart():
                nonlocal restarts
                restarts += 1
                make.restart()

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
            restart=restart,
        )
        same = undisturbed(second, done) == final
        print(
            f"{kills} kills and {restarts} restarts of the database in "
            f"{time.monotonic() - begun:.0f} s, {len(done)} requests "
            f"acknowledged, {rows} rows: none lost, none twice; the same state bit for bit: {same}"
        )
    raise SystemExit(not same)


if __name__ == "__main__":
    main()
