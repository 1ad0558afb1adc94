"""Structured logs: one JSON object a line, on standard error."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

_USUAL = set(vars(logging.makeLogRecord({}))) | {"message", "asctime", "color_message"}


class Lines(logging.Formatter):
    """A record as JSON; what was given as ``extra`` becomes fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        told = {"time": when, "level": record.levelname.lower(), "event": record.getMessage()}
        told |= {key: value for key, value in vars(record).items() if key not in _USUAL}
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return json.dumps(told, default=str)


def set_up(level: str) -> None:
    """Log this server, and what uvicorn has to say, as JSON lines."""
    handler = logging.StreamHandler()
    handler.setFormatter(Lines())
    for name, least in (("swordplay.service", level), ("uvicorn", "warning")):
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(least.upper())
