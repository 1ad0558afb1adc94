"""Send a server whatever its description allows, and what it does not, for minutes on end.

    python -m benchmarks.fuzz_service --minutes 10

First 10,000 malformed bodies, JSON and Arrow, each of which must be refused with 4xx, and 5,000
Arrow streams with some bytes changed; then requests made from the API's own OpenAPI description
until the time is over. Any 5xx, any answer that takes longer than 30 s and any that does not fit
the description ends it with an error. The memory of the server is printed every minute.
"""

from __future__ import annotations

import argparse
import collections
import statistics
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import fuzzing
import serving

EVERY = 5.0  # seconds between two looks at the memory


class Watch(threading.Thread):
    """Looks at the server's memory: ``minutes`` has what was seen, a list a minute."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.minutes, self.over = server, collections.defaultdict(list), False

    def run(self):
        begun, shown = time.monotonic(), 0
        while not self.over:
            minute = int((time.monotonic() - begun) // 60)
            self.minutes[minute].append(self.server.memory / 1e6)
            if minute > shown:
                print(f"minute {minute:3}: {self.median(shown):.1f} MB", flush=True)
                shown = minute
            time.sleep(EVERY)

    def median(self, minute):
        """Return the memory in a minute, in MB."""
        return statistics.median(self.minutes[minute])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--bodies", type=int, default=10_000)
    options = parser.parse_args()
    statuses, refused, changed = (collections.Counter() for _ in range(3))
    with tempfile.TemporaryDirectory() as folder:
        database = f"sqlite:///{folder}/s.db"
        with serving.Server(database, max_models=50, log_level="error") as server:
            fuzzing.prepare(server)
            watch = Watch(server)
            watch.start()
            end = time.monotonic() + 60.0 * options.minutes
            with httpx.Client(base_url=server.url, timeout=fuzzing.HANGS) as web:
                for path, content, kind in fuzzing.malformed(options.bodies):
                    answer = web.post(path, content=content, headers={"content-type": kind})
                    refused[answer.status_code] += 1
                    assert 400 <= answer.status_code < 500, (path, content, answer.text)
                for path, content, kind in fuzzing.mutated(options.bodies // 2):
                    answer = web.post(path, content=content, headers={"content-type": kind})
                    changed[answer.status_code] += 1
                    assert answer.status_code < 500, (path, content, answer.text)
            print(
                f"{options.bodies} malformed bodies: {dict(sorted(refused.items()))}; "
                f"{options.bodies // 2} changed streams: {dict(sorted(changed.items()))}",
                flush=True,
            )
            number = 0
            while time.monotonic() < end:
                number += 1
                statuses += fuzzing.requests(server, 20, number)
            watch.over = True
            assert "Traceback" not in server.logged, server.logged
            minutes = [minute for minute in sorted(watch.minutes) if len(watch.minutes[minute]) > 3]
            early, late = watch.median(minutes[min(1, len(minutes) - 1)]), watch.median(minutes[-1])
            print(
                f"{sum(statuses.values())} requests from the description in {number} rounds: "
                f"{dict(sorted(statuses.items()))}; none over {fuzzing.HANGS} s, no 5xx; memory "
                f"{early:.1f} MB in minute 2, {late:.1f} MB in minute {minutes[-1] + 1}"
            )


if __name__ == "__main__":
    main()
