"""The routes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Query, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.params import Path as PathParam
from pydantic_core import to_json
from starlette.exceptions import HTTPException

import swordplay
from swordplay.service import bodies, guard, page, watch
from swordplay.service.bodies import ARROW, BINARY, JSON, aside
from swordplay.service.catalog import Catalog
from swordplay.service.errors import OUTAGES, Refused, unreachable
from swordplay.service.guard import Allow, content_type, read_body
from swordplay.service.host import Host
from swordplay.service.metrics import Metrics
from swordplay.service.regrets import Regrets, absent
from swordplay.service.schemas import (
    NAME,
    Learned,
    LearnIn,
    ModelBrief,
    ModelInfo,
    ModelList,
    NewModel,
    PredictIn,
    Predictions,
    Problem,
)
from swordplay.service.settings import Settings
from swordplay.service.state import State
from swordplay.service.warming import Kernels
from swordplay.state import StateError

log = logging.getLogger("swordplay.service")
PATIENCE = 5.0  # seconds for the database to show that it can write

Name = Annotated[str, PathParam(pattern=NAME, description="The model's name.")]
READ, LEARN, ADMIN = (Depends(Allow(scope)) for scope in ("read", "learn", "admin"))
REFUSALS = (400, 401, 403, 404, 408, 409, 413, 415, 421, 422, 429, 503)
routes = APIRouter(responses={code: {"model": Problem} for code in REFUSALS})


def catalog_of(request: Request) -> Catalog:
    """Return the models."""
    catalog: Catalog = request.app.state.catalog
    return catalog


def _json(body: Any, status: int = 200) -> Response:
    return Response(to_json(body), status, media_type=JSON)


def _bodies(schema: Any, *others: str) -> dict[str, Any]:
    """Describe a body of several types: the routes read it themselves."""
    content: dict[str, Any] = {kind: {"schema": {"type": "string"}} for kind in others}
    if schema is not None:
        reference = f"#/components/schemas/{schema.__name__}"
        content[JSON] = {"schema": {"$ref": reference}}
    return {"requestBody": {"required": True, "content": content}}


KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "required": False,
    "description": "Requests with the same key learn once.",
    "schema": {"type": "string", "pattern": "^[!-~]{1,200}$"},
}


# ---------------------------------------------------------------------- models


@routes.get("/models", dependencies=[READ], response_model=ModelList, tags=["models"])
async def list_models(request: Request) -> Response:
    """List the models."""
    hosts = sorted(catalog_of(request).hosts.values(), key=lambda host: host.name)
    return _json({"models": [brief(host) for host in hosts]})


@routes.post(
    "/models",
    dependencies=[ADMIN],
    status_code=201,
    response_model=ModelBrief,
    openapi_extra=_bodies(NewModel),
    tags=["models"],
)
async def create_model(request: Request) -> Response:
    """Create a model."""
    catalog = catalog_of(request)
    content_type(request, (JSON,))
    asked = bodies.parse(NewModel, await read_body(request, catalog.settings.max_body))
    if asked.features is not None and len(asked.features) > catalog.settings.max_columns:
        raise Refused(422, f"A row has 1 to {catalog.settings.max_columns} features.", "features")
    host = await catalog.create(asked.name, State.fresh(asked.spec()))
    return _json(brief(host), 201)


@routes.get("/models/{name}", dependencies=[READ], response_model=ModelInfo, tags=["models"])
async def describe_model(
    request: Request,
    name: Name,
    regret: Annotated[bool, Query(description="Measure regret on recent rows.")] = True,
) -> Response:
    """Describe a model: its losses, weights, memory, drift and regret."""
    catalog = catalog_of(request)
    host = catalog[name]
    state = await host.state()
    regrets: Regrets = request.app.state.regrets
    told: dict[str, Any] = {
        **brief(host),
        "spec": host.spec.as_json(),
        "columns": state.model.columns,
        "classes": state.model.classes if host.spec.task == "classification" else None,
        "seq": state.seq,
        "metrics": state.monitor.summary(),
        **state.model.summary(),
        **(await regrets.of(host, state) if regret else absent("Not asked for.")),
        "queue": host.waiting,
    }
    told.pop("rows")
    return _json(told)


@routes.delete("/models/{name}", dependencies=[ADMIN], status_code=204, tags=["models"])
async def delete_model(request: Request, name: Name) -> Response:
    """Delete a model and all it remembers."""
    await catalog_of(request).delete(name)
    return Response(status_code=204)


@routes.get(
    "/models/{name}/export",
    dependencies=[ADMIN],
    response_class=Response,
    responses={200: {"content": {BINARY: {"schema": {"type": "string", "format": "binary"}}}}},
    tags=["models"],
)
async def export_model(request: Request, name: Name) -> Response:
    """Return the model as a file: JSON, floats and a checksum."""
    state = await catalog_of(request)[name].state()
    data = await asyncio.to_thread(state.to_file)
    disposition = {"content-disposition": f'attachment; filename="{name}.swordplay"'}
    return Response(data, media_type=BINARY, headers=disposition)


@routes.post(
    "/models/{name}/import",
    dependencies=[ADMIN],
    status_code=201,
    response_model=ModelBrief,
    openapi_extra=_bodies(None, BINARY),
    tags=["models"],
)
async def import_model(request: Request, name: Name) -> Response:
    """Create a model from an exported file. What waits for labels does not come along."""
    catalog = catalog_of(request)
    content_type(request, (BINARY,))
    await request.app.state.kernels.wait()
    data = await read_body(request, catalog.settings.max_upload)
    try:
        state = await asyncio.to_thread(State.from_file, data)
    except StateError as error:
        raise Refused(422, str(error)) from None
    return _json(brief(await catalog.create(name, state)), 201)


def brief(host: Host) -> dict[str, Any]:
    """Return a line of the list."""
    created = datetime.fromtimestamp(host.created, UTC).isoformat(timespec="seconds")
    return {
        "name": host.name,
        "task": host.spec.task,
        "rows": host.rows,
        "created": created,
        **host.glance(),
    }


# ---------------------------------------------------------------------- predict and learn


@routes.post(
    "/models/{name}/predict",
    dependencies=[READ],
    response_model=Predictions,
    openapi_extra=_bodies(PredictIn, ARROW),
    tags=["rows"],
)
async def predict(request: Request, name: Name) -> Response:
    """Predict rows; the model does not change. Labels can follow by id."""
    catalog = catalog_of(request)
    host = catalog[name]
    kind = content_type(request, (JSON, ARROW))
    body = await read_body(request, catalog.settings.max_body)
    X, remember = await aside(len(body), bodies.read_predict, host, kind, body)
    await request.app.state.kernels.wait()
    answer, ids = await host.predict(X, remember)
    request.app.state.metrics.rows.labels("predicted").inc(len(X))
    told = await aside(answer.size, bodies.write_predictions, kind, answer, ids)
    return Response(told, media_type=kind)


@routes.post(
    "/models/{name}/learn",
    dependencies=[LEARN],
    response_model=Learned,
    openapi_extra={**_bodies(LearnIn, ARROW), "parameters": [KEY]},
    tags=["rows"],
)
async def learn(request: Request, name: Name) -> Response:
    """Learn labels: on disk before the answer."""
    catalog = catalog_of(request)
    host = catalog[name]
    kind = content_type(request, (JSON, ARROW))
    key = request.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= 200 and all("!" <= c <= "~" for c in key)):
        raise Refused(422, "A key has 1 to 200 visible ASCII characters.", "Idempotency-Key")
    body = await read_body(request, catalog.settings.max_body)
    lesson = await aside(len(body), bodies.read_learn, host, kind, body, key)
    if catalog.closing:
        raise Refused(503, "The server is stopping.", retry_after=5)
    await request.app.state.kernels.wait()
    told = await host.learn(lesson)
    request.app.state.metrics.rows.labels("learned").inc(told["learned"])
    return _json(told)


# ---------------------------------------------------------------------- operations


@routes.head("/health", include_in_schema=False)
@routes.get("/health", tags=["operations"])
async def health() -> dict[str, str]:
    """Say that the process lives."""
    return {"status": "alive", "version": swordplay.__version__}


@routes.get("/ready", tags=["operations"])
async def ready(request: Request) -> dict[str, str]:
    """Say whether requests are served: kernels compiled, database there, not stopping."""
    if catalog_of(request).closing:
        raise Refused(503, "The server is stopping.", retry_after=5)
    await request.app.state.kernels.wait(0.0)
    try:
        async with asyncio.timeout(PATIENCE):
            await catalog_of(request).check()
    except Exception:
        raise Refused(
            503, "The database does not answer, or cannot write.", retry_after=5
        ) from None
    return {"status": "ready"}


@routes.get(
    "/metrics",
    dependencies=[READ],
    response_class=Response,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}},
    tags=["operations"],
)
async def show_metrics(request: Request) -> Response:
    """Return metrics for Prometheus."""
    metrics: Metrics = request.app.state.metrics
    hosts = catalog_of(request).hosts.values()
    metrics.models.set(len(hosts))
    metrics.waiting.set(sum(host.waiting for host in hosts))
    return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")


# ---------------------------------------------------------------------- the application


def build(settings: Settings) -> FastAPI:
    """Assemble the application; the database is opened here, and closed when it stops."""
    metrics = Metrics()
    catalog = Catalog(settings, metrics.committed)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.state.kernels.begin()
        catalog.start()
        log.info("listening", extra={"models": len(catalog.hosts)})
        yield
        await catalog.close()
        log.info("stopped")

    app = FastAPI(
        title="swordplay",
        version=swordplay.__version__,
        summary="Online models behind HTTP that lose nothing.",
        docs_url=None,  # the usual viewers load scripts from elsewhere
        redoc_url=None,
        lifespan=lifespan,
    )

    app.state.catalog, app.state.metrics = catalog, metrics
    app.state.kernels = Kernels()
    app.state.regrets = Regrets()
    app.include_router(routes)
    app.include_router(page.routes)
    app.include_router(watch.routes)
    app.add_middleware(guard.Guard, settings=settings, metrics=metrics)
    app.add_exception_handler(Refused, _refused)
    for kind in OUTAGES:
        app.add_exception_handler(kind, _unreachable)
    app.add_exception_handler(HTTPException, _not_routed)
    app.add_exception_handler(RequestValidationError, _invalid)
    _describe(app)
    return app


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    status, body, headers = guard.problem(error)
    more = {name.decode(): value.decode() for name, value in headers}
    return Response(body, status, headers=more)


async def _unreachable(request: Request, error: Exception) -> Response:
    told = {"path": request.url.path, "error": str(error)[:300]}
    log.warning("the database failed", extra=told)
    return await _refused(request, unreachable())


async def _not_routed(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    told = {"detail": str(error.detail), "field": None}
    return Response(
        to_json(told), error.status_code, headers=dict(error.headers or {}), media_type=JSON
    )


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:])
    return _json({"detail": str(first["msg"]), "field": field}, 422)


def _describe(app: FastAPI) -> None:
    """Add to OpenAPI the bodies that the routes read themselves."""
    usual = app.openapi

    def openapi() -> dict[str, Any]:
        described = usual()
        schemas = described["components"]["schemas"]
        for schema in (NewModel, PredictIn, LearnIn):
            whole = schema.model_json_schema(ref_template="#/components/schemas/{model}")
            schemas |= whole.pop("$defs", {})
            schemas[schema.__name__] = whole
        described["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        return described

    app.openapi = openapi  # type: ignore[method-assign]
