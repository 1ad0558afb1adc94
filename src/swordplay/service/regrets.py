"""Regret for those who ask: measured one model at a time, in a thread that holds up nobody.

The thread is a daemon, so that the process ends whatever is being measured.
"""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
from typing import Any

from swordplay.service.comparators import WIDE, WIDEST, regret_on
from swordplay.service.host import Host
from swordplay.service.state import State

log = logging.getLogger("swordplay.service")

KEPT = 256  # models whose last measurement is kept
PATIENCE = 2.0  # seconds that the first to ask waits
GLANCE = 0.2  # seconds to wait for a newer measurement than the one there is
MEASURING = "It is being measured now: ask again."
Told = dict[str, Any]


def absent(why: str) -> Told:
    """Return the answer where there is no regret."""
    return {"regret": None, "regret_reason": why}


class Regrets:
    """The last measurement of every model, and who waits for the next."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[int, Told]] = {}
        self._asked: dict[int, asyncio.Future[None]] = {}  # in the order they are measured
        self._line: queue.SimpleQueue[tuple[Host, int, asyncio.AbstractEventLoop]]
        self._line = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def of(self, host: Host, state: State) -> Told:
        """Return regret on the recent window, as of now or as last measured."""
        if (state.model.columns or 0) > WIDEST:
            return absent(WIDE)
        known = self._known.get(host.id)
        if known is None or known[0] != state.seq:
            done = self._asked.get(host.id) or self._ask(host, state.seq)
            if next(iter(self._asked)) == host.id:  # never wait for another model's
                older = known is not None and known[1]["regret"] is not None
                await asyncio.wait([done], timeout=GLANCE if older else PATIENCE)
            known = self._known.get(host.id)
        # A reason why there was none may be gone by now; a measurement says of when it is.
        if known is None or (known[1]["regret"] is None and known[0] != state.seq):
            return absent(MEASURING)
        return known[1]

    def _ask(self, host: Host, seq: int) -> asyncio.Future[None]:
        if self._thread is None:
            self._thread = threading.Thread(target=self._measure, name="regret", daemon=True)
            self._thread.start()
        loop = asyncio.get_running_loop()
        done = self._asked[host.id] = loop.create_future()
        self._line.put((host, seq, loop))
        return done

    def _measure(self) -> None:
        while True:
            host, seq, loop = self._line.get()
            told: Told | None = None
            try:
                window = host.settings.window
                found = regret_on(host.spec, host.store.latest_records(host.id, window), window)
                told = (
                    absent(found)
                    if isinstance(found, str)
                    else {"regret": {"seq": seq, **found}, "regret_reason": None}
                )
            except Exception as error:
                log.warning("regret was not measured", extra={"error": str(error)[:300]})
            try:
                loop.call_soon_threadsafe(self._done, host.id, seq, told)
            except RuntimeError:  # the server has stopped
                return

    def _done(self, ident: int, seq: int, told: Told | None) -> None:
        if told is not None:
            self._known.pop(ident, None)
            self._known[ident] = seq, told
            while len(self._known) > KEPT:
                del self._known[next(iter(self._known))]
        self._asked.pop(ident).set_result(None)
