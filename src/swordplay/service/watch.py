"""Server-sent events: a model's charts, once a second while it learns."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Request
from fastapi.params import Path as PathParam
from fastapi.responses import StreamingResponse
from pydantic_core import to_json

from swordplay.service.catalog import Catalog
from swordplay.service.errors import Refused
from swordplay.service.guard import Allow
from swordplay.service.host import Host
from swordplay.service.metrics import Metrics
from swordplay.service.monitor import BASELINES
from swordplay.service.schemas import NAME

routes = APIRouter(include_in_schema=False)
EVERY = 1.0  # seconds between two events
SILENCE = 15  # events without news before a sign of life


@routes.get("/models/{name}/events", dependencies=[Depends(Allow("read"))])
async def events(
    request: Request, name: Annotated[str, PathParam(pattern=NAME)]
) -> StreamingResponse:
    """Stream what the page shows of a model."""
    app = request.app
    catalog: Catalog = app.state.catalog
    host = catalog[name]
    await host.state()  # what cannot be loaded is refused before the stream begins
    listeners = getattr(app.state, "listeners", 0)
    if listeners >= catalog.settings.max_listeners:
        raise Refused(429, "Too many pages watch already.", retry_after=30)
    app.state.listeners = listeners + 1

    async def stream() -> AsyncIterator[bytes]:
        try:
            seen, quiet = -1, 0
            while not (catalog.closing or host.deleted):
                state = await host.state()
                if state.seq != seen:
                    seen, quiet = state.seq, 0
                    yield b"data: " + to_json(await picture(host)) + b"\n\n"
                else:
                    quiet += 1
                    if quiet % SILENCE == 0:
                        yield b": still here\n\n"
                await asyncio.sleep(EVERY)
        finally:
            app.state.listeners -= 1

    return StreamingResponse(
        stream(), media_type="text/event-stream", headers={"cache-control": "no-store"}
    )


@routes.get("/latency", dependencies=[Depends(Allow("read"))])
async def latency(request: Request) -> dict[str, dict[str, float] | None]:
    """Return how long the last requests took: it is the server's, not a model's."""
    metrics: Metrics = request.app.state.metrics
    return metrics.latency()


async def picture(host: Host) -> dict[str, Any]:
    """Return everything the charts of a model need."""
    state = await host.state()
    summary = state.model.summary()
    top = dict(list(summary["weights"].items())[:8])
    return {
        "name": host.name,
        "task": host.spec.task,
        "columns": state.model.columns,
        "features": host.spec.features,
        "seq": state.seq,
        "baselines": BASELINES[host.spec.task],
        "metrics": state.monitor.summary(),
        "curves": state.monitor.curves(state.model.bands()),
        "effective_memory": summary["effective_memory"],
        "drift": summary["drift"],
        "weights": top,
        "queue": host.waiting,
    }
