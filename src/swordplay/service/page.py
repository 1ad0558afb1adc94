"""The page at ``/``: a few small files of ours and Plotly, none from elsewhere."""

from __future__ import annotations

import asyncio
import gzip
import hashlib
from functools import lru_cache
from importlib.resources import files

from fastapi import APIRouter, Request, Response

from swordplay.service.errors import Refused

routes = APIRouter(include_in_schema=False)
KINDS = {"html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
SCRIPTS = ("page.js", "list.js", "model.js", "charts.js", "tools.js")
OURS = ("page.css", "icon.svg", *SCRIPTS)


@lru_cache(maxsize=16)
def _file(name: str) -> tuple[bytes, str]:
    """Return a file, packed, and its fingerprint."""
    if name == "plotly.min.js":
        data = files("plotly").joinpath("package_data", name).read_bytes()
    else:
        data = files("swordplay.service").joinpath("page", name).read_bytes()
    return gzip.compress(data, 6, mtime=0), hashlib.sha256(data).hexdigest()[:16]


async def _send(request: Request, name: str) -> Response:
    data, mark = await asyncio.to_thread(_file, name)
    tag = f'"{mark}"'
    headers = {"etag": tag, "cache-control": "no-cache", "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    if "gzip" in request.headers.get("accept-encoding", ""):
        headers["content-encoding"] = "gzip"
    else:
        data = gzip.decompress(data)
    return Response(data, media_type=KINDS[name.rpartition(".")[2]], headers=headers)


@routes.get("/")
async def index(request: Request) -> Response:
    """Return the page."""
    return await _send(request, "index.html")


@routes.get("/static/{name}")
async def static(request: Request, name: str) -> Response:
    """Return a file of the page."""
    if name not in (*OURS, "plotly.min.js"):
        raise Refused(404, "There is no such file.")
    return await _send(request, name)
