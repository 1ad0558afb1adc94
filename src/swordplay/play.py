"""The game: a learner, a stream, and the record of what happened."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from swordplay import state
from swordplay._types import Array, ArrayLike, Mask
from swordplay.ensemble import Ensemble
from swordplay.kernels import ball_stream, sparse, whole_stream
from swordplay.streams.files import FileStream
from swordplay.streams.linear import LinearStream
from swordplay.streams.stream import Stream

RECORDABLE = ("decisions", "weights", "base_decisions", "anchors")
CHUNK = 1 << 16  # rounds between two looks at the clock


@dataclass(frozen=True)
class Run:
    """What happened in a game of T rounds.

    ``decisions``, ``weights``, ``base_decisions`` and ``anchors`` hold the rounds 0, every,
    2 every, ... of what was asked to be recorded, and None else.
    """

    losses: Array
    decisions: Array | None
    weights: Array | None
    base_decisions: Array | None
    anchors: Array | None
    every: int
    gradient_queries: int
    seconds: float
    adaptivity: float
    """A_T = sum |g_t - M_t|^2."""
    gradient_variation: float
    """V-bar_T = sum_{t>=2} |g_t - g_{t-1}|^2."""
    stability: tuple[Array, float, float]
    """S_x for every base learner, S_p, S_mix."""
    facts: dict[str, Any] = field(repr=False)
    """What the certificate needs beside: sums and rates that only this run knows."""

    @property
    def cumulative_loss(self) -> float:
        """Return sum f_t(x_t)."""
        return float(self.losses.sum())

    def __len__(self) -> int:
        return len(self.losses)


def play(
    learner: Ensemble,
    stream: Stream,
    record: Sequence[str] = (),
    every: int = 1,
    progress: bool = False,
    hints: ArrayLike | None = None,
) -> Run:
    """Let ``learner`` play all of ``stream`` and return the :class:`Run`.

    The learner goes on from where it stands, so playing two streams in turn is playing them joined.
    Linear streams run compiled; anything else goes through ``decide`` and ``learn``.

    Args:
        learner: any learner; it is changed.
        stream: any stream.
        record: what to keep of every recorded round: "decisions", "weights", "base_decisions",
            "anchors".
        every: record each ``every``-th round, from the first.
        progress: show a progress bar on stderr, if that is a terminal.
        hints: (T, d), M_t for a learner that takes hints.

    >>> import swordplay as sp
    >>> stream = sp.streams.abrupt_drift(horizon=2000, dim=5, every=500, seed=0)
    >>> domain = sp.Ball(dim=5, radius=1.0)
    >>> run = sp.play(sp.SwordPP(domain, stream.assumptions(domain)), stream)
    >>> len(run.losses), run.gradient_queries
    (2000, 2000)
    """
    record = (record,) if isinstance(record, str) else tuple(record)
    unknown = [name for name in record if name not in RECORDABLE]
    if unknown:
        raise ValueError(f"Cannot record {unknown[0]!r}; choose from {', '.join(RECORDABLE)}.")
    if int(every) != every or every < 1:
        raise ValueError(f"every must be a whole number of at least 1, not {every!r}.")
    if getattr(stream, "knows_dim", True) and stream.dim != learner.domain.dim:
        raise ValueError(
            f"The stream has {stream.dim} coordinates, the learner's domain {learner.domain.dim}."
        )
    horizon = len(stream)
    given: Array | None = None
    if hints is not None:
        given = np.asarray(hints, dtype=np.float64)
        if given.shape != (horizon, learner.domain.dim):
            raise ValueError(
                f"hints must have shape ({horizon}, {learner.domain.dim}), not {given.shape}."
            )
    before = learner._state["head"].copy()
    travel, since = learner._state["travel"].copy(), len(learner._ancestry)
    losses = np.empty(horizon)
    tape = _Tape(learner, record, every, horizon)
    bar = _Bar(horizon, progress)
    began = time.perf_counter()
    if isinstance(stream, LinearStream | FileStream) and learner._compiled and given is None:
        _play_compiled(learner, stream, losses, tape, bar)
    else:
        for t in range(horizon):
            tape.open(learner)
            x = learner.decide(None if given is None else given[t])
            tape.note(learner, t, x)
            losses[t] = stream.value(t, x)
            if not math.isfinite(losses[t]):
                raise ValueError(
                    f"The loss of round {t + 1} is {losses[t]}; all of them must be finite."
                )
            learner.learn(partial(stream.gradient, t) if learner.own else stream.gradient(t, x))
            bar.show(t + 1)
    seconds = time.perf_counter() - began
    bar.close()

    head = learner._state["head"]
    gained = head - before
    for nearest in learner._ancestry[since:]:
        travel = travel[nearest]
    return Run(
        losses=losses,
        **tape.close(),
        every=int(every),
        gradient_queries=int(gained[state.QUERIES]),
        seconds=seconds,
        adaptivity=float(gained[state.ADAPTIVITY]),
        gradient_variation=float(gained[state.VARIATION]),
        stability=(
            learner._state["travel"] - travel,
            float(gained[state.META_STABILITY]),
            float(gained[state.MIX_STABILITY]),
        ),
        facts={
            "learner": type(learner).__name__,
            "steps": learner.step_sizes,
            "prior": learner._prior,
            "rounds": learner.round,
            "spent": float(gained[state.SPENT]),
            "calm": learner._calm(),
            "inverse_rates": float(head[state.INVERSE_RATES]) + 1 / learner._rate_now(),
            "toll": learner.toll,
            "steepest": math.sqrt(head[state.STEEPEST]),
            "epochs": int(head[state.EPOCHS]),
            "fresh": bool(before[state.ROUND] == 0),
        },
    )


def _play_compiled(
    learner: Ensemble,
    stream: LinearStream | FileStream,
    losses: Array,
    tape: _Tape,
    bar: _Bar,
) -> None:
    compact = learner._layout.compact
    for origin, rows, targets in stream.blocks(compact):
        kernel: Any
        if len(rows) > 1:
            kernel, chunk = sparse.play_sparse, max(CHUNK, sparse.REFRESH * stream.dim)
        else:
            kernel, chunk = (ball_stream if compact else whole_stream).play_dense, CHUNK
        t, end = origin, origin + len(targets)
        while t < end:
            until = int(min(end, t + chunk, t + learner._rounds_left()))
            # Room for the anchors, feature by feature; a pool that grew needs more of it.
            room = (_aligned(learner._layout.count * stream.dim),) if len(rows) > 1 else ()
            reached = kernel(
                learner._row,
                learner._recipe,
                *rows,
                *room,
                targets,
                stream.loss.code,
                stream.loss.number,
                origin,
                t,
                until,
                losses,
                tape.every,
                *tape.open(learner),
            )
            if reached < until:
                learner._refuse(np.zeros(stream.dim))  # rows are finite: it overflowed
            learner._keep_promises()
            t = until
            bar.show(t)


def _aligned(size: int) -> Array:
    """Return room for ``size`` floats that begins where a line of the cache does."""
    room = np.empty(size + 8)
    skip = -room.ctypes.data % 64 // 8
    return room[skip : skip + size]


class _Tape:
    """The records of a run: one array for each kind, or none."""

    def __init__(
        self, learner: Ensemble, record: tuple[str, ...], every: int, horizon: int
    ) -> None:
        self.record, self.every, self.horizon = record, every, horizon
        self.dim, self.dtype = learner.domain.dim, learner._row.dtype
        self.hinted = learner._hinted
        self.reels: dict[str, Array] = {}
        self.rounds = -(-horizon // every)

    def _width(self, name: str, count: int) -> int:
        return {"decisions": self.dim, "weights": count}.get(name, count * self.dim)

    def open(self, learner: Ensemble) -> tuple[Array, Array, Array, Array]:
        """Return arrays for the pool as it is; a pool that grew does so at its small end."""
        count = learner._layout.count
        for name in self.record:
            width, old = self._width(name, count), self.reels.get(name)
            if old is None or old.shape[1] != width:
                fresh = np.zeros((self.rounds, width), dtype=self.dtype)
                if old is not None and old.shape[1] < width:
                    fresh[:, self._kept(learner._hinted, width)] = old
                self.reels[name] = fresh
        self.hinted = learner._hinted
        none = np.zeros((0, 0), dtype=self.dtype)
        decisions, weights, bases, anchors = (self.reels.get(name, none) for name in RECORDABLE)
        return decisions, weights, bases, anchors

    def _kept(self, hinted: Array, width: int) -> Mask:
        """Tell which columns the records so far are about: Sword_best has two pools in one."""
        kept = np.zeros(len(hinted), dtype=bool)
        for kind in (0.0, 1.0):
            ours = np.flatnonzero(hinted == kind)
            kept[ours[len(ours) - int((self.hinted == kind).sum()) :]] = True
        return np.repeat(kept, width // len(hinted))

    def note(self, learner: Ensemble, t: int, x: Array) -> None:
        """Record one round played from Python."""
        if t % self.every:
            return
        for name, reel in self.reels.items():
            value = x if name == "decisions" else getattr(learner, name)
            reel[t // self.every] = value.reshape(-1)

    def close(self) -> dict[str, Array | None]:
        """Return the records in their shapes."""
        out: dict[str, Array | None] = dict.fromkeys(RECORDABLE)
        for name, reel in self.reels.items():
            flat = name in ("decisions", "weights")
            out[name] = reel if flat else reel.reshape(self.rounds, -1, self.dim)
        return out


class _Bar:
    """A progress bar of one line: rounds, rate, time left; silent where nobody watches."""

    def __init__(self, total: int, wanted: bool) -> None:
        self.total, self.wanted = total, wanted and sys.stderr.isatty()
        self.began = self.shown = time.perf_counter()

    def show(self, done: int) -> None:
        """Redraw, ten times a second at most."""
        now = time.perf_counter()
        if not self.wanted or now - self.shown < 0.1:
            return
        self.shown = now
        rate = done / max(now - self.began, 1e-9)
        filled = int(30 * done / self.total)
        sys.stderr.write(
            f"\r[{'#' * filled}{'.' * (30 - filled)}] {done:,}/{self.total:,} rounds, "
            f"{rate:,.0f}/s, {(self.total - done) / rate:.0f} s left  "
        )
        sys.stderr.flush()

    def close(self) -> None:
        """Wipe the line."""
        if self.wanted and self.shown != self.began:
            sys.stderr.write("\r" + " " * 90 + "\r")
            sys.stderr.flush()
