"""What stands before every route: hosts, tokens, sizes, time, headers; and what is noted after."""

from __future__ import annotations

import asyncio
import hmac
import logging
import re
import time
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from fastapi import Request
from pydantic_core import to_json
from starlette.requests import ClientDisconnect

from swordplay.service.errors import Refused
from swordplay.service.metrics import Metrics
from swordplay.service.settings import SCOPES, Settings, digest

log = logging.getLogger("swordplay.service")

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

# Scripts from here alone. Plotly writes style attributes and rules, hence the inline styles.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
HEADERS = [
    (b"content-security-policy", POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
]
LOCAL = re.compile(rb"(127\.0\.0\.1|localhost|\[::1\])(:[0-9]{1,5})?")
STREAM = re.compile("/models/[^/]+/events")  # an answer without an end
GONE = 499  # what others count where a client hung up


def problem(error: Refused) -> tuple[int, bytes, list[tuple[bytes, bytes]]]:
    """Return status, body and headers of a refusal."""
    body = to_json({"detail": error.detail, "field": error.field})
    headers = [(b"content-type", b"application/json")]
    if error.retry_after is not None:
        headers.append((b"retry-after", str(error.retry_after).encode()))
    if error.status in (408, 431):  # what is still to come of the request is nobody's
        headers.append((b"connection", b"close"))
    if error.status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    return error.status, body, headers


class Guard:
    """ASGI middleware around the whole application."""

    def __init__(self, app: App, settings: Settings, metrics: Metrics) -> None:
        self.app, self.settings, self.metrics = app, settings, metrics
        self.trusting = settings.loopback and not settings.tokens

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        begun, status = time.perf_counter(), 0

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        async def refuse(error: Refused) -> None:
            if status:
                return  # too late: an answer has begun
            code, body, headers = problem(error)
            headers.append((b"content-length", str(len(body)).encode()))
            await sending({"type": "http.response.start", "status": code, "headers": headers})
            await sending({"type": "http.response.body", "body": body})

        streams = STREAM.fullmatch(scope["path"])
        try:
            if (unread := scope.get("refused")) is not None:
                raise unread
            self._check_host(scope)
            async with asyncio.timeout(None if streams else self.settings.request_seconds):
                await self.app(scope, receive, sending)
        except Refused as error:
            await refuse(error)
        except TimeoutError:
            log.warning("a request took too long", extra={"path": scope["path"]})
            await refuse(
                Refused(
                    503,
                    "This took too long. A request to learn may still be done: repeat it with "
                    "the same Idempotency-Key.",
                    retry_after=5,
                )
            )
        except ClientDisconnect:
            status = status or GONE
        except Exception:
            log.exception("a request failed", extra={"path": scope["path"]})
            await refuse(Refused(500, "The server failed; its log says why."))
        finally:
            route = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - begun
            self.metrics.answered(route, status, seconds)
            if log.isEnabledFor(logging.DEBUG):
                told = {"method": scope["method"], "path": scope["path"], "status": status}
                log.debug("request", extra={**told, "ms": round(1e3 * seconds, 2)})

    def _check_host(self, scope: Message) -> None:
        """Refuse foreign names for this machine: a web page elsewhere could have invented them."""
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        if len(hosts) > 1:
            raise Refused(400, "There is more than one Host.", "Host")
        if self.trusting and not (hosts and LOCAL.fullmatch(hosts[0].lower())):
            raise Refused(421, "Without tokens this server answers to 127.0.0.1 and localhost.")


class Allow:
    """A dependency: where tokens are used, the request must carry one of at least this scope."""

    def __init__(self, scope: str) -> None:
        self.scope = scope

    async def __call__(self, request: Request) -> None:
        settings: Settings = request.app.state.catalog.settings
        if not settings.tokens:
            return
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        given, granted = digest(token.strip()), -1
        for entry in settings.tokens:
            scope, _, known = entry.partition(":")
            if hmac.compare_digest(known, given) and kind.lower() == "bearer":
                granted = max(granted, SCOPES.index(scope))
        if granted < 0:
            raise Refused(401, "Send a token: Authorization: Bearer TOKEN.")
        if granted < SCOPES.index(self.scope):
            raise Refused(403, f"This needs a token with the scope {self.scope}.")


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body, unless it is too large or too slow."""
    settings: Settings = request.app.state.catalog.settings
    too_large = Refused(413, f"The body may have {limit} bytes.")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal():
        raise Refused(400, "Content-Length is no number.")
    if int(length[:20]) > limit:
        raise too_large
    parts, size = [], 0
    try:
        async with asyncio.timeout(settings.body_seconds):
            async for part in request.stream():
                size += len(part)
                if size > limit:
                    raise too_large
                parts.append(part)
    except TimeoutError:
        raise Refused(408, "The body did not arrive in time.") from None
    return b"".join(parts)


def content_type(request: Request, known: tuple[str, ...]) -> str:
    """Return the body's type. Only types that a web page elsewhere cannot send unasked pass."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind not in known:
        raise Refused(415, f"Send {' or '.join(known)}.", "Content-Type")
    return str(kind)
