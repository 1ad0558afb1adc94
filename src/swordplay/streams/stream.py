"""What a stream of losses is."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from swordplay._types import Array
from swordplay.assumptions import Assumptions
from swordplay.domains import Domain


@runtime_checkable
class Stream(Protocol):
    """f_1..f_T, counted from 0."""

    @property
    def dim(self) -> int:
        """The number of coordinates of a decision."""

    def __len__(self) -> int:
        """Return T."""

    def value(self, t: int, x: Array) -> float:
        """Return f_t(x)."""

    def gradient(self, t: int, x: Array) -> Array:
        """Return grad f_t(x)."""

    def values(self, decisions: Array) -> Array:
        """Return f_t(decisions[t]) for every t; ``decisions`` is (T, d), or (d,) for every t."""

    def assumptions(self, domain: Domain) -> Assumptions:
        """Return G, L and T on ``domain``."""


def check_decisions(decisions: Array, horizon: int, dim: int, what: str = "decisions") -> None:
    """Refuse anything but one decision for all rounds or one for each."""
    if decisions.shape not in ((dim,), (horizon, dim)):
        raise ValueError(
            f"{what} must have shape ({horizon}, {dim}), or ({dim},) for the same one in every "
            f"round; got {decisions.shape}."
        )
