"""HTTP of strangers: heads of bounded size that arrive in bounded time, on bounded connections.

uvicorn leaves all three open. A connection that holds no request makes room for a new one, so
that silence costs nobody else an answer.
"""

from __future__ import annotations

import asyncio
import resource
from typing import Any, ClassVar

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from swordplay.service.errors import Refused
from swordplay.service.guard import problem

HEAD_BYTES = 64 << 10  # of the request line and the headers; of trailers, too
HEAD_FIELDS = 100
HEAD_SECONDS = 5.0
# The rest of the files that the process may open is for the database.
CONNECTIONS = min(1024, resource.getrlimit(resource.RLIMIT_NOFILE)[0] // 2)

LARGE = f"A request's head may have {HEAD_BYTES} bytes and {HEAD_FIELDS} headers."


class Protocol(HttpToolsProtocol):
    """One connection. What is wrong with a head is said by the guard, see ``scope["refused"]``."""

    idle: ClassVar[dict[Protocol, None]] = {}  # connections without a request, oldest first

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin; where there are too many, the longest idle one goes."""
        super().connection_made(transport)
        self._pending = 0  # bytes since the last thing that was wholly read
        self._timer: asyncio.TimerHandle | None = None
        self._arm()
        if len(self.connections) > CONNECTIONS and self.idle:
            oldest = next(iter(self.idle))
            del self.idle[oldest]
            self.connections.discard(oldest)  # it counts no longer, though it ends a little later
            oldest.transport.abort()
        self.idle[self] = None

    def connection_lost(self, exc: Exception | None) -> None:
        """End."""
        self._disarm()
        self.idle.pop(self, None)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read on, as long as something comes of it."""
        self._pending += len(data)
        super().data_received(data)
        if self.transport.is_closing():
            return
        if self._pending > HEAD_BYTES:
            self._give_up(Refused(431, LARGE))
        elif self._timer is None and self._quiet:
            self._arm()

    # ---- a head

    def on_message_begin(self) -> None:
        """Count from here."""
        super().on_message_begin()
        self._pending = self._bytes = self._fields = 0

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        self._bytes += len(url)
        if self._bytes <= HEAD_BYTES:
            super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header, or a trailer."""
        self._fields += 1
        self._bytes += len(name) + len(value)
        if self._fields <= HEAD_FIELDS and self._bytes <= HEAD_BYTES:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Hand the request over."""
        self._disarm()
        self._pending = 0
        self.idle.pop(self, None)
        if self._fields > HEAD_FIELDS or self._bytes > HEAD_BYTES:
            self._refuse(Refused(431, LARGE))
        elif len(self.connections) > CONNECTIONS:
            self._refuse(Refused(503, "Too many connections. Try again.", retry_after=1))
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note the end of the body."""
        self._pending = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Wait for the next request."""
        super().on_response_complete()
        if not self.pipeline and not self.transport.is_closing():
            self.idle[self] = None

    # ---- refusals

    @property
    def _quiet(self) -> bool:
        """Whether no answer is under way."""
        cycle: Any = self.cycle
        return cycle is None or bool(cycle.response_complete)

    def _refuse(self, error: Refused) -> None:
        scope: Any = self.scope
        scope["refused"] = error

    def send_400_response(self, msg: str) -> None:
        """Refuse what is not HTTP."""
        self._give_up(Refused(400, msg))

    def _give_up(self, error: Refused) -> None:
        """Say why and hang up; without a word where an answer is under way."""
        if self._quiet:
            status, body, headers = problem(error)
            headers += [
                (b"content-length", str(len(body)).encode()),
                (b"connection", b"close"),
            ]
            lines = [name + b": " + value + b"\r\n" for name, value in dict(headers).items()]
            known = STATUS_LINE.get(status, b"HTTP/1.1 %d \r\n" % status)
            self.transport.write(b"".join([known, *lines, b"\r\n", body]))
        self.transport.close()

    def _arm(self) -> None:
        self._timer = self.loop.call_later(HEAD_SECONDS, self._late)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _late(self) -> None:
        self._timer = None
        if not self.transport.is_closing():
            self._give_up(Refused(408, "The request did not arrive in time."))
