"""``swordplay load-test``: throughput and latency of a running server on this machine.

It makes a model under a name that nobody has, and deletes it. Rates are what one closed loop per
client reaches; single rows are sent by the clock, so that a slow answer delays no later request's
start.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa

from swordplay.service.settings import SettingsError

RATE = 200  # single rows a second
MOST_SECONDS, MOST_CLIENTS = 60.0, 32
LOOPBACK = ("127.0.0.1", "localhost", "::1")


class Bare:
    """One keep-alive connection that speaks just enough HTTP to measure a server, not a client."""

    def __init__(self, host: str, port: int, token: str | None) -> None:
        self._at = (host, port)
        self._name = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        self._token = f"Authorization: Bearer {token}\r\n" if token else ""
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def ask(
        self, method: str, path: str, body: bytes = b"", kind: str = "application/json"
    ) -> tuple[int, bytes]:
        """Return status and body of the answer."""
        if self._streams is None:
            self._streams = await asyncio.open_connection(*self._at)
        reader, writer = self._streams
        head = (
            f"{method} {path} HTTP/1.1\r\nHost: {self._name}\r\n{self._token}"
            f"Content-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        first, *lines = (await reader.readuntil(b"\r\n\r\n")).split(b"\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in lines if b": " in line)
        size = int(fields.get(b"content-length", b"0"))
        return int(first.split()[1]), await reader.readexactly(size)

    def close(self) -> None:
        """Hang up."""
        if self._streams is not None:
            self._streams[1].close()


class _Load(NamedTuple):
    connect: Callable[[], Bare]
    seconds: float
    rows: int
    clients: int
    kind: str
    predict: bytes
    learn: bytes
    single: bytes
    model: str


def run(
    url: str,
    *,
    token: str | None = None,
    seconds: float = 5.0,
    rows: int = 100,
    columns: int = 10,
    clients: int = 4,
    arrow: bool = False,
) -> dict[str, Any]:
    """Measure; return rates in rows a second and latencies in milliseconds."""
    parts = urlsplit(url)
    if parts.scheme != "http" or parts.hostname not in LOOPBACK:
        raise SettingsError("A load test is for a server on this machine: http://127.0.0.1:PORT.")
    if not 0 < seconds <= MOST_SECONDS or not 0 < clients <= MOST_CLIENTS:
        raise SettingsError(f"At most {MOST_SECONDS:g} seconds and {MOST_CLIENTS} clients.")
    if not 0 < rows <= 10_000 or not 0 < columns <= 1000:
        raise SettingsError("A batch has 1 to 10,000 rows of 1 to 1,000 columns.")
    host, port = parts.hostname, parts.port or 80
    X, y = _data(rows, columns)
    load = _Load(
        lambda: Bare(host, port, token),
        seconds,
        rows,
        clients,
        "application/vnd.apache.arrow.stream" if arrow else "application/json",
        _table(X) if arrow else _json(rows=X.tolist()),
        _table(X, y) if arrow else _json(rows=X.tolist(), labels=y.tolist()),
        _json(rows=X[:1].tolist()),
        f"load-test-{secrets.token_hex(8)}",
    )
    try:
        return asyncio.run(_measure(load))
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except OSError as error:
        raise SettingsError(f"{url}: {error}") from None


def _data(rows: int, columns: int) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows, columns))
    return X, X @ rng.normal(size=columns) + 0.1 * rng.normal(size=rows)


def _json(**body: Any) -> bytes:
    return json.dumps(body).encode()


def _table(X: Any, y: Any = None) -> bytes:
    columns = {f"x{j}": X[:, j] for j in range(X.shape[1])}
    table = pa.table(columns if y is None else {**columns, "label": y})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())


async def _measure(load: _Load) -> dict[str, Any]:
    async with _model(load) as one:
        await _ask(load, one, "learn", load.learn, load.kind)
        learned = await _closed(load, "learn", load.learn)
        predicted = await _closed(load, "predict", load.predict)
        stop = asyncio.Event()
        learner = asyncio.create_task(_until(load, stop))
        try:
            singles = await _by_the_clock(load)
        finally:
            stop.set()
        beside = await learner
    return {
        "batch_rows": load.rows,
        "clients": load.clients,
        "body": load.kind,
        "learn": learned,
        "predict": predicted,
        "single_predict_while_learning": {
            **singles,
            "rows_learned_per_second": round(beside * load.rows / load.seconds),
        },
    }


@asynccontextmanager
async def _model(load: _Load) -> AsyncIterator[Bare]:
    one = load.connect()
    try:
        status, body = await one.ask("POST", "/models", _json(name=load.model))
        if status != 201:
            raise SettingsError(f"No model could be made: {body.decode()}")
        yield one
    finally:
        one.close()
        last = load.connect()  # the first may wait for an answer, or have been idle for too long
        await last.ask("DELETE", f"/models/{load.model}")
        last.close()


async def _ask(load: _Load, one: Bare, what: str, body: bytes, kind: str) -> float:
    """Return the seconds to an answer; wait and ask again where the server is full."""
    while True:
        begun = time.perf_counter()
        status, answer = await one.ask("POST", f"/models/{load.model}/{what}", body, kind)
        if status == 200:
            return time.perf_counter() - begun
        if status not in (429, 503):
            raise SettingsError(f"{what}: {status} {answer.decode()[:200]}")
        await asyncio.sleep(0.2)


async def _closed(load: _Load, what: str, body: bytes) -> dict[str, float]:
    """Let every client ask again as soon as it is answered."""
    end = time.perf_counter() + load.seconds

    async def client() -> list[float]:
        one, times = load.connect(), []
        while time.perf_counter() < end:
            times.append(await _ask(load, one, what, body, load.kind))
        one.close()
        return times

    begun = time.perf_counter()
    several = await asyncio.gather(*(client() for _ in range(load.clients)))
    times = [one for times in several for one in times]
    spent = time.perf_counter() - begun
    return {"rows_per_second": round(len(times) * load.rows / spent), **_latency(times)}


async def _until(load: _Load, stop: asyncio.Event) -> int:
    one, count = load.connect(), 0
    while not stop.is_set():
        await _ask(load, one, "learn", load.learn, load.kind)
        count += 1
    one.close()
    return count


async def _by_the_clock(load: _Load) -> dict[str, float]:
    """Send single rows at a steady rate; time counts from when each was due."""
    idle: asyncio.Queue[Bare] = asyncio.Queue()
    for _ in range(16):
        idle.put_nowait(load.connect())
    times: list[float] = []

    async def single(due: float) -> None:
        one = await idle.get()
        await _ask(load, one, "predict", load.single, "application/json")
        times.append(time.perf_counter() - due)
        idle.put_nowait(one)

    begun, tasks = time.perf_counter(), []
    for k in range(int(load.seconds * RATE)):
        due = begun + k / RATE
        await asyncio.sleep(max(0.0, due - time.perf_counter()))
        tasks.append(asyncio.create_task(single(due)))
    await asyncio.gather(*tasks)
    while not idle.empty():
        idle.get_nowait().close()
    return {"requests_per_second": RATE, **_latency(times)}


def _latency(times: list[float]) -> dict[str, float]:
    found = np.percentile(times, [50, 99, 100]) * 1e3
    return dict(zip(("p50_ms", "p99_ms", "max_ms"), found.round(2).tolist(), strict=True))


def table(found: dict[str, Any]) -> str:
    """Return what was found, for people."""
    lines = [f"batches of {found['batch_rows']} rows, {found['clients']} clients, {found['body']}"]
    for what in ("learn", "predict"):
        one = found[what]
        lines.append(
            f"{what:8} {one['rows_per_second']:>9,} rows/s   p50 {one['p50_ms']:.2f} ms   "
            f"p99 {one['p99_ms']:.2f} ms"
        )
    one = found["single_predict_while_learning"]
    lines.append(
        f"single rows, {one['requests_per_second']} a second, while "
        f"{one['rows_learned_per_second']:,} rows/s are learned: p50 {one['p50_ms']:.2f} ms   "
        f"p99 {one['p99_ms']:.2f} ms"
    )
    return "\n".join(lines)
