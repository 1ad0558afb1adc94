"""Compiling the kernels while the server already answers that it lives."""

from __future__ import annotations

import asyncio
import logging
import time

from swordplay.service import models
from swordplay.service.errors import Refused

log = logging.getLogger("swordplay.service")

COMPILING = "Compiling: the first start on a machine takes about a minute."
PATIENCE = 5.0  # seconds that a request waits: enough where all was compiled before


class Kernels:
    """The compiled code that every prediction needs."""

    def __init__(self) -> None:
        self._work: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Compile, or fetch from the cache, in a thread."""
        self._work = asyncio.create_task(self._compile())

    async def _compile(self) -> None:
        begun = time.perf_counter()
        work = asyncio.create_task(asyncio.to_thread(models.warm))
        await asyncio.wait([work], timeout=PATIENCE)
        if not work.done():
            log.warning(COMPILING)
        try:
            await work
        except Exception:
            log.exception("the kernels cannot be compiled")
            raise
        log.info("ready to serve", extra={"seconds": round(time.perf_counter() - begun, 2)})

    async def wait(self, seconds: float = PATIENCE) -> None:
        """Return once they are compiled; refuse where that takes longer."""
        assert self._work is not None
        if not self._work.done():
            await asyncio.wait([self._work], timeout=seconds)
        if not self._work.done():
            raise Refused(503, COMPILING, retry_after=5)
        if self._work.exception() is not None:
            raise Refused(503, "The kernels cannot be compiled; the server's log says why.")
