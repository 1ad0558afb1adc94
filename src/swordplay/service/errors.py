"""Refusals: what a client did, or came at a bad time, said in one sentence."""

from __future__ import annotations

from sqlalchemy import exc

OUTAGES = (
    exc.OperationalError,  # no connection, a full disk
    exc.InterfaceError,
    exc.InternalError,  # a standby that only reads
    exc.DisconnectionError,
    exc.TimeoutError,  # no connection became free
)
"""What the database raises where the request is not to blame: the next one may well succeed."""


class Refused(Exception):
    """A request that is not granted.

    Args:
        status: of the HTTP answer.
        detail: what is wrong and what to do.
        field: which part of the request, as in ``rows[3][2]``.
        retry_after: seconds after which to try again.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        field: str | None = None,
        *,
        retry_after: int | None = None,
    ) -> None:
        super().__init__(detail)
        self.status, self.detail, self.field = status, detail, field
        self.retry_after = retry_after


def unreachable() -> Refused:
    """Return the refusal that an outage becomes."""
    detail = (
        "The database does not answer, or cannot write. A request to learn may still be done: "
        "repeat it with the same Idempotency-Key."
    )
    return Refused(503, detail, retry_after=2)


class Deposed(Refused):
    """Another server owns the database now."""

    def __init__(self) -> None:
        super().__init__(
            503, "Another server has taken the database over; this one stops.", retry_after=5
        )
