"""Refusals: what a client did, or came at a bad time, said in one sentence."""

from __future__ import annotations


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
