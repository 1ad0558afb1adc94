"""The best comparators that switch a given number of times."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise

import numpy as np

from swordplay._types import Array
from swordplay.domains import Domain
from swordplay.losses import Huber, Logistic, Squared
from swordplay.regret.comparators import TOLERANCE, minimizers, nearly_best
from swordplay.regret.measures import check_domain
from swordplay.regret.variation import best_predictions
from swordplay.streams.functions import FunctionStream, QuadraticStream
from swordplay.streams.linear import LinearStream
from swordplay.streams.stream import Stream

NODES = 400  # where switches are first looked for
PLANNED = 128  # segments that are planned together; beyond, the best segments are split further
SURROGATE_DIM = 32  # longer rows are shortened to this, to find the switches


def best_piecewise(
    stream: Stream, domain: Domain, segments: int, *, tolerance: float = TOLERANCE
) -> Array:
    r"""Return u_1..u_T with at most ``segments`` - 1 switches and (nearly) the least sum f_t(u_t).

    1. Dynamic programming over a grid of up to 400 possible switches, with least squares as the
       cost of an interval (for quadratic streams and functions: the spread of the centres).
       The last solution with its most rewarding split is a second guess.
    2. In turn, until nothing moves: each segment gets its best fixed decision, exactly; each switch
       moves to where the losses of the two decisions beside it are least.
    3. The best of all numbers of segments up to ``segments`` is kept, so that more segments never
       lose more. Beyond 128, the segment with the most to gain is split until there are enough.

    One segment gives ``best_fixed``; T or more give ``minimizers``.

    Args:
        stream: any stream.
        domain: X.
        segments: how many stretches of constant decision, at least 1.
        tolerance: of each stretch's decision, as in ``best_fixed``.

    Returns:
        (T, d), members of the domain.

    Reference: Bellman, *On the approximation of curves by line segments using dynamic programming*,
    CACM 1961 (the first step).

    >>> import swordplay as sp
    >>> stream = sp.streams.abrupt_drift(horizon=2000, dim=5, every=500, seed=0)
    >>> u = best_piecewise(stream, sp.Ball(dim=5, radius=1.0), segments=4)
    >>> np.flatnonzero(np.diff(u, axis=0).any(axis=1)) + 1
    array([ 500, 1001, 1500])
    """
    check_domain(stream, domain)
    if int(segments) != segments or segments < 1:
        raise ValueError(f"segments must be a whole number of at least 1, not {segments!r}.")
    horizon, segments = len(stream), int(segments)
    if segments >= horizon:
        return minimizers(stream, domain)
    pieces = _Pieces(stream, domain, tolerance)
    best, least = [0, horizon], pieces.loss([0, horizon])
    if segments > 1:
        surrogate = _surrogate(stream, domain, pieces.solve(0, horizon)[0])
        nodes = np.unique(np.linspace(0, horizon, min(horizon, NODES) + 1).astype(int))
        plans = _plan(_costs(surrogate, nodes, domain), min(segments, PLANNED, len(nodes) - 1))
        for plan in plans[1:]:
            guesses = [int(nodes[i]) for i in plan], pieces.split(best, len(best), surrogate)
            for cuts in map(pieces.polish, guesses):
                if (loss := pieces.loss(cuts)) < least:
                    best, least = cuts, loss
        if segments > PLANNED:
            best = pieces.split(best, segments, surrogate)
    return pieces.decisions(best)


# ---------------------------------------------------------------- segments, solved exactly


@dataclass
class _Pieces:
    """The best fixed decision of every stretch that was asked for, and its loss."""

    stream: Stream
    domain: Domain
    tolerance: float = TOLERANCE
    known: dict[tuple[int, int], tuple[Array, float]] = field(default_factory=dict)
    offers: dict[tuple[int, int], tuple[float, int, int, int]] = field(default_factory=dict)

    def solve(self, a: int, b: int) -> tuple[Array, float]:
        if (a, b) not in self.known:
            part = _part(self.stream, a, b)
            x = nearly_best(part, self.domain, self.tolerance)[0]
            self.known[a, b] = x, float(part.values(x).sum())
        return self.known[a, b]

    def loss(self, cuts: list[int]) -> float:
        return sum(self.solve(a, b)[1] for a, b in pairwise(cuts))

    def decisions(self, cuts: list[int]) -> Array:
        chosen = np.stack([self.solve(a, b)[0] for a, b in pairwise(cuts)])
        return np.repeat(chosen, np.diff(cuts), axis=0)

    def polish(self, cuts: list[int]) -> list[int]:
        """Move switches and solve segments in turn; neither can raise the loss."""
        for _ in range(20):
            moved = self._moved(cuts)
            if moved == cuts:
                break
            cuts = moved
        return cuts

    def _moved(self, cuts: list[int]) -> list[int]:
        """Move every switch to its best place between the middles of the segments beside it."""
        chosen = np.stack([self.solve(a, b)[0] for a, b in pairwise(cuts)])
        edges = np.array(cuts)
        owner = np.repeat(np.arange(len(chosen)), np.diff(edges))
        middles = (edges[1:] + edges[:-1]) // 2
        early = np.arange(len(owner)) < middles[owner]
        rival = np.clip(owner + np.where(early, -1, 1), 0, len(chosen) - 1)
        own, other = (self.stream.values(chosen[who]) for who in (owner, rival))
        out = [0]
        for i in range(1, len(chosen)):
            low, here, high = int(middles[i - 1]) + 1, cuts[i], int(middles[i])
            # What it costs to leave the rounds low..s-1 to the earlier decision, against the later.
            extra = np.concatenate(
                [own[low:here] - other[low:here], other[here:high] - own[here:high]]
            )
            running = np.concatenate([[0.0], np.cumsum(extra)])
            place = int(running.argmin())
            better = running[place] < running[here - low] - 1e-12 * np.abs(extra).sum()
            out.append(low + place if better else here)
        return [*out, cuts[-1]]

    def split(self, cuts: list[int], segments: int, surrogate: _Surrogate) -> list[int]:
        """Split the segment with the most to gain until there are enough."""
        heap = [self._offer(a, b, surrogate) for a, b in pairwise(cuts)]
        heapq.heapify(heap)
        made = set(cuts)
        for _ in range(segments - (len(cuts) - 1)):
            loss, a, cut, b = heapq.heappop(heap)
            if loss >= 0:
                break
            made.add(cut)
            heapq.heappush(heap, self._offer(a, cut, surrogate))
            heapq.heappush(heap, self._offer(cut, b, surrogate))
        return sorted(made)

    def _offer(self, a: int, b: int, surrogate: _Surrogate) -> tuple[float, int, int, int]:
        """Return (change of the loss, a, cut, b) for the best cut of a segment."""
        if (a, b) in self.offers:
            return self.offers[a, b]
        if b - a < 2:
            return 0.0, a, a, b
        nodes = np.unique(np.linspace(a, b, min(b - a, 16) + 1).astype(int))
        (_, cut, _) = _plan(_costs(surrogate, nodes, self.domain), 2)[1]
        parts = [a, int(nodes[cut]), b]
        for _ in range(5):
            moved = self._moved_within(parts)
            if moved == parts:
                break
            parts = moved
        gain = self.solve(a, parts[1])[1] + self.solve(parts[1], b)[1] - self.solve(a, b)[1]
        self.offers[a, b] = gain, a, parts[1], b
        return self.offers[a, b]

    def _moved_within(self, parts: list[int]) -> list[int]:
        a, cut, b = parts
        left, right = self.solve(a, cut)[0], self.solve(cut, b)[0]
        part = _part(self.stream, a, b)
        running = np.cumsum(part.values(left) - part.values(right))[:-1]
        place = int(running.argmin())
        return [a, a + 1 + place, b] if running[place] < running[cut - a - 1] else parts


def _part(stream: Stream, a: int, b: int) -> Stream:
    """Return the rounds a..b-1 as a stream."""
    if isinstance(stream, LinearStream):
        return LinearStream(stream.features[a:b], stream.targets[a:b], stream.loss)
    if isinstance(stream, QuadraticStream):
        return QuadraticStream(stream.centers[a:b], stream.scale)
    return FunctionStream(
        [partial(stream.value, t) for t in range(a, b)],
        [partial(stream.gradient, t) for t in range(a, b)],
        stream.dim if getattr(stream, "knows_dim", True) else None,
    )


# ---------------------------------------------------------------- where to look for switches


@dataclass(frozen=True)
class _Surrogate:
    """Least squares in few dimensions: sum (y_t - <row_t, x>)^2, or sum |center_t - x|^2."""

    rows: Array | None
    y: Array
    inside: bool
    """Whether x is a decision, so that the domain means something for it."""


def _surrogate(stream: Stream, domain: Domain, fixed: Array) -> _Surrogate:
    """Return least squares that has (nearly) the stream's switches.

    Linear models keep their rows. On the domain, a target out of Huber's, absolute or pinball reach
    pulls as one just in reach does, and less wildly. Logistic: the working targets of one Newton
    step at the best fixed decision. Functions: f_t is taken for the quadratic that has its gradient
    at the best fixed decision, whose centre is that far down the gradient.
    """
    if isinstance(stream, QuadraticStream):
        return _Surrogate(None, stream.centers, True)
    if not isinstance(stream, LinearStream):
        down = [-stream.gradient(t, fixed) for t in range(len(stream))]
        return _Surrogate(None, np.stack(down), False)
    y, loss = stream.targets, stream.loss
    if isinstance(loss, Logistic):
        p = stream.predictions(fixed)
        y = p - loss.slope(y, p) / loss.smoothness
    elif not isinstance(loss, Squared):
        slack = loss.delta if isinstance(loss, Huber) else 0.0
        low, high = stream.extent(domain)
        y = best_predictions(loss, y, low - slack, high + slack)
    if stream.dim <= SURROGATE_DIM:
        dense = stream.features.toarray() if stream.sparse else stream.features
        return _Surrogate(np.asarray(dense, dtype=np.float64), y, True)
    # The directions in which long rows vary most: one step of subspace iteration.
    guess = np.random.default_rng(0).standard_normal((stream.dim, SURROGATE_DIM))
    basis = np.linalg.qr(np.asarray(stream.features.T @ (stream.features @ guess)))[0]
    return _Surrogate(np.asarray(stream.features @ basis, dtype=np.float64), y, False)


def _costs(surrogate: _Surrogate, nodes: Array, domain: Domain) -> Array:
    """Return the cost of every interval nodes[i]..nodes[j], infinite where j <= i."""
    first, last = int(nodes[0]), int(nodes[-1])
    starts = nodes[:-1] - first
    y = surrogate.y[first:last]

    def sums(values: Array) -> Array:
        """Return prefix sums at the nodes."""
        blocks = np.add.reduceat(values, starts, axis=0)
        return np.concatenate([np.zeros_like(blocks[:1]), np.cumsum(blocks, axis=0)])

    size = len(nodes)
    costs = np.full((size, size), np.inf)
    if surrogate.rows is None:
        total, square = sums(y), sums(np.einsum("td,td->t", y, y))
        for i in range(size - 1):
            count = (nodes[i + 1 :] - nodes[i])[:, None]
            mean = (total[i + 1 :] - total[i]) / count
            x = np.asarray(domain.project(mean)) if surrogate.inside else mean
            spread = count * (x * x - 2 * x * mean)
            costs[i, i + 1 :] = square[i + 1 :] - square[i] + spread.sum(axis=1)
        return costs
    rows = surrogate.rows[first:last]
    dim = rows.shape[1]
    blocks = np.stack(
        [
            rows[a:b].T @ rows[a:b]
            for a, b in zip(nodes[:-1] - first, nodes[1:] - first, strict=True)
        ]
    )
    gram = np.concatenate([np.zeros((1, dim, dim)), np.cumsum(blocks, axis=0)])
    cross, square = sums(rows * y[:, None]), sums(y * y)
    ridge = 1e-10 * float(np.trace(gram[-1])) / dim * np.eye(dim)
    if not ridge.any():
        return np.where(np.isinf(costs) & (np.arange(size)[:, None] < np.arange(size)), 0.0, costs)
    for i in range(size - 1):
        h, q = gram[i + 1 :] - gram[i], cross[i + 1 :] - cross[i]
        x = np.linalg.solve(h + ridge, q[:, :, None])[:, :, 0]
        if surrogate.inside:
            x = np.asarray(domain.project(x))
        fit = np.einsum("nd,nde,ne->n", x, h, x) - 2 * np.einsum("nd,nd->n", q, x)
        costs[i, i + 1 :] = square[i + 1 :] - square[i] + fit
    return costs


def _plan(costs: Array, most: int) -> list[list[int]]:
    """Return the cheapest chains of 1, 2, ..., ``most`` intervals across all nodes."""
    best = costs[0]
    came: list[Array] = []
    plans = [[0, len(costs) - 1]]
    for _ in range(1, most):
        through = best[:, None] + costs
        origin = through.argmin(axis=0)
        best = through[origin, np.arange(len(costs))]
        came.append(origin)
        plan = [len(costs) - 1]
        for origin in reversed(came):
            plan.append(int(origin[plan[-1]]))
        plans.append([0, *reversed(plan)])
    return plans
