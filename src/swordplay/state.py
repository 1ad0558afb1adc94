"""One learner = one row of floats, and the file that keeps it.

The row holds everything that changes while a learner plays. This module alone knows where each
number lives: :class:`Layout` hands the kernels the offsets (inside the *recipe*, the learner's row
of constants) and hands Python named views. The head counts rounds and adds up squares, so it is
float64 whatever the type of the row.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from swordplay._types import Array

# The head: float64 slots at the start of every row.
(
    ROUND,  # rounds learned
    QUERIES,  # gradients asked for
    ADAPTIVITY,  # A_t = sum |g_s - M_s|^2
    VARIATION,  # V-bar_t = sum_{s>=2} |g_s - g_{s-1}|^2
    ENERGY,  # sum |g_s|^2
    DISTRUST,  # sum |g_s - (untrusted hint)|^2, for the combined hint of Sword_best
    META_STABILITY,  # S_p
    MIX_STABILITY,  # S_mix
    SHIFT,  # |p_t - p_{t-1}|_1^2 of the round under way
    RATE,  # the meta rate that made the weights of the round under way
    SPENT,  # sum rate_{s-1} |g_s - M_s|^2
    STEEPEST,  # the largest |g_s|^2
    TRUST,  # the factor on the hint (1, or beta_t of Sword_best)
    EPOCH,  # the round at which the present guess of an unknown horizon began
    GUESS,  # the present guess of an unknown horizon
    EPOCHS,  # how many guesses there were
    WATCHED,  # the sum that the meta rate watches, as it was when that guess began
    CALM,  # sum of S_p / (4 rate cap) over the guesses before this one
    INVERSE_RATES,  # sum of 1 / meta rate at the ends of the guesses before this one
    ADAPTIVITY_BEFORE,  # A_t as it was when this guess began
    ENERGY_BEFORE,  # sum |g_s|^2 as it was then
    META_BEFORE,  # S_p as it was when this guess began
) = range(22)
HEAD = 22

# The recipe: constants and offsets at the start of a learner's row of constants.
(
    COUNT,
    DIM,
    DOMAIN,
    ENTROPIC,
    OWN,
    HINT_KIND,
    CORRECTION,
    CAP,
    NUMERATOR,
    OFFSET,
    WATCH,
    STEEP,  # the square of the longest gradient that was promised
    GRACE,  # rounds beyond the horizon, or its guess, after which Python has to look
    AT_LOG_PRIOR,
    AT_TOTALS,
    AT_WEIGHTS,
    AT_LAST_WEIGHTS,
    AT_MOVED,
    AT_TRAVEL,
    AT_OWN_SURPRISE,
    AT_GRADIENT,
    AT_HINT,
    AT_DECISION,
    AT_ANCHORS,
    AT_BASES,
    AT_LAST_BASES,
    AT_OWN_GRADIENTS,
    AT_TABLE,
    IN_STEPS,
    IN_HINTED,
    IN_NUMBERS,
    RECIPE,
) = range(32)

# One float a base learner: in every row, and in compact rows. Together they are the table that
# ``swordplay.kernels.ball`` works on.
SCALARS = ("log_prior", "totals", "weights", "moved", "travel")
COMPACT = ("squares", "shrinks", "leans", "dots", "scales")

FORMAT = 1
MAGIC = b"SWORDPLY"


class StateError(ValueError):
    """A saved state that cannot be trusted or does not fit."""


@dataclass(frozen=True)
class Layout:
    """Where the parts of a row of ``count`` base learners in ``dim`` dimensions live.

    Parts that a learner does without take no room: ``hint`` shares the last gradient's place where
    the hint is the last gradient, ``last_bases`` shares ``bases`` where no player gives hints, only
    learners of many gradients keep their own ones, and a ``compact`` row (see
    ``swordplay.kernels.ball``) has five scalars a base learner in place of all ``bases``; its
    ``anchors`` are measured from the centre.
    """

    count: int
    dim: int
    own: bool
    separate_hint: bool
    given: bool
    guesses: bool
    compact: bool
    memory: int
    itemsize: int

    @property
    def offsets(self) -> dict[str, int]:
        """The start of every part, and ``end``."""
        n, block = self.count, self.count * self.dim
        sizes = {name: n for name in SCALARS}
        sizes |= {name: n if self.compact else 0 for name in COMPACT}
        sizes |= {
            "toll": n if self.guesses else 0,
            "own_surprise": n if self.own else 0,
            "last_weights": 0 if self.compact else n,
            "gradient": self.dim,
            "hint": self.dim if self.separate_hint else 0,
            "decision": self.dim,
            "anchors": block,
            "bases": 0 if self.compact else block,
            "last_bases": block if self.given else 0,
            "own_gradients": block if self.own else 0,
            "memory": self.memory,
        }
        at = HEAD * 8 // self.itemsize
        starts = {"table": at}
        for name, size in sizes.items():
            starts[name] = at
            at += size
        if not self.separate_hint:
            starts["hint"] = starts["gradient"]
        if not self.given:
            starts["last_bases"] = starts["bases"]
        starts["end"] = at + at * self.itemsize % 8 // self.itemsize  # whole float64s
        return starts

    def view(self, row: Array) -> dict[str, Array]:
        """Return named views of ``row``: writing to them writes to the row."""
        at, n, d = self.offsets, self.count, self.dim
        views = {"head": row[: HEAD * 8 // self.itemsize].view(np.float64)}
        names = [*SCALARS]
        names += COMPACT if self.compact else ("last_weights",)
        names += ("toll",) if self.guesses else ()
        names += ("own_surprise",) if self.own else ()
        views |= {name: row[at[name] : at[name] + n] for name in names}
        for name in ("gradient", "hint", "decision"):
            views[name] = row[at[name] : at[name] + d]
        blocks = ["anchors"]
        blocks += [] if self.compact else ["bases", "last_bases"]
        blocks += ["own_gradients"] if self.own else []
        views |= {name: row[at[name] : at[name] + n * d].reshape(n, d) for name in blocks}
        views["memory"] = row[at["memory"] : at["memory"] + self.memory]
        return views

    def empty(self) -> Array:
        """Return a row of zeros."""
        return np.zeros(self.offsets["end"], dtype=f"f{self.itemsize}")


@cache  # finding it takes as long as learning thousands of rows
def release() -> str:
    """Return our version, which every state names."""
    try:
        return version("swordplay")
    except PackageNotFoundError:  # pragma: no cover - run from a bare source tree
        return "unknown"


def pack(header: dict[str, Any], row: Array) -> bytes:
    """Return a checkpoint: magic, length of the header, JSON header, row, SHA-256 of it all."""
    text = json.dumps({"format": FORMAT, "dtype": row.dtype.str, "floats": row.size, **header})
    head = text.encode()
    body = MAGIC + struct.pack("<I", len(head)) + head + row.tobytes()
    return body + hashlib.sha256(body).digest()


def unpack(data: bytes) -> tuple[dict[str, Any], Array]:
    """Return the header and the row of a checkpoint, or refuse it with the reason."""
    data = bytes(data)
    if len(data) < len(MAGIC) + 36 or not data.startswith(MAGIC):
        raise StateError("These bytes are not a swordplay state: they do not begin like one.")
    body, digest = data[:-32], data[-32:]
    if hashlib.sha256(body).digest() != digest:
        raise StateError("The state is damaged: its checksum does not match its content.")
    (length,) = struct.unpack("<I", body[8:12])
    try:
        header: dict[str, Any] = json.loads(body[12 : 12 + length])
        if header["format"] != FORMAT:
            raise StateError(
                f"The state has format {header['format']}; this version reads format {FORMAT}. "
                "Load it with the version of swordplay that wrote it."
            )
        row = np.frombuffer(body[12 + length :], dtype=header["dtype"]).copy()
        floats = header["floats"]
    except StateError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"The state's header cannot be read: {error!r}.") from error
    if row.size != floats:
        raise StateError(f"The state holds {row.size} floats; its header says {floats}.")
    return header, row


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file that takes the place of ``path`` once it is whole and on disk, or never."""
    target = Path(path)
    # A name that nobody else writes to: no other process, no other thread.
    beside = target.with_name(f"{target.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with open(beside, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, target)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Write ``data`` to ``path``; an older file there stays whole until the new one is."""
    with replacing(path) as file:
        file.write(data)
