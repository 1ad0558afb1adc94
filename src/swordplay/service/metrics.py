"""Counters and histograms for Prometheus."""

from __future__ import annotations

from collections import deque

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30)


class Metrics:
    """What a server counts. Labels are routes, never names that clients choose."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.requests = Counter(
            "swordplay_requests", "Requests answered.", ("route", "status"), registry=registry
        )
        self.seconds = Histogram(
            "swordplay_request_seconds",
            "Time to an answer.",
            ("route",),
            buckets=_SECONDS,
            registry=registry,
        )
        self.rows = Counter("swordplay_rows", "Rows served.", ("what",), registry=registry)
        self.commits = Histogram(
            "swordplay_commit_seconds",
            "Time of a group commit.",
            buckets=_SECONDS,
            registry=registry,
        )
        self.writes = Counter("swordplay_writes", "Writes in group commits.", registry=registry)
        self.models = Gauge("swordplay_models", "Models.", registry=registry)
        self.waiting = Gauge(
            "swordplay_queued_requests", "Requests to learn that wait.", registry=registry
        )
        self.recent: dict[str, deque[float]] = {
            what: deque(maxlen=1000) for what in ("predict", "learn")
        }

    def committed(self, writes: int, seconds: float) -> None:
        """Count a group commit."""
        self.writes.inc(writes)
        self.commits.observe(seconds)

    def answered(self, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        self.requests.labels(route, str(status)).inc()
        self.seconds.labels(route).observe(seconds)
        what = route.rpartition("/")[2]
        if what in self.recent and status == 200:
            self.recent[what].append(seconds)

    def latency(self) -> dict[str, dict[str, float] | None]:
        """Return milliseconds of the last thousand requests."""
        found: dict[str, dict[str, float] | None] = {}
        for what, times in self.recent.items():
            ordered = sorted(times)
            found[what] = (
                {
                    "p50": 1e3 * ordered[len(ordered) // 2],
                    "p99": 1e3 * ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)],
                }
                if ordered
                else None
            )
        return found

    def text(self) -> bytes:
        """Return the exposition."""
        return bytes(generate_latest(self.registry))
