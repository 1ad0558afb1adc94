"""The regret of a run, and what its bounds are written in: path length and small loss."""

from __future__ import annotations

import numpy as np

from swordplay._types import Array, ArrayLike
from swordplay.domains import Domain
from swordplay.play import Run
from swordplay.streams.stream import Stream, check_decisions


def dynamic_regret(run: Run, stream: Stream, comparators: ArrayLike) -> float:
    r"""Return the universal dynamic regret, :math:`\sum_t f_t(x_t) - \sum_t f_t(u_t)`.

    Args:
        run: what ``play`` returned for this stream.
        stream: the stream that was played.
        comparators: (T, d), u_1..u_T; or (d,), the same u in every round (the static regret).

    Reference: Zinkevich, *Online convex programming and generalized infinitesimal gradient ascent*,
    ICML 2003.

    >>> import swordplay as sp
    >>> stream = sp.streams.abrupt_drift(horizon=2000, dim=5, every=500, seed=0)
    >>> domain = sp.Ball(dim=5, radius=1.0)
    >>> run = sp.play(sp.SwordPP(domain, stream.assumptions(domain)), stream)
    >>> round(dynamic_regret(run, stream, stream.comparators), 2)
    18.4
    """
    if len(run) != len(stream):
        raise ValueError(
            f"The run has {len(run)} rounds, the stream {len(stream)}: give the stream it played."
        )
    return run.cumulative_loss - small_loss(stream, comparators)


def path_length(u: ArrayLike) -> float:
    r"""Return :math:`P_T = \sum_{t=2}^T \|u_t - u_{t-1}\|_2`.

    Args:
        u: (T, d), or (T,) where d = 1.

    Reference: Zinkevich, ICML 2003; section 2 of the paper.

    >>> path_length([[0.0, 0.0], [3.0, 4.0], [3.0, 5.0]]), path_length([1.0, -1.0, 1.0])
    (6.0, 4.0)
    """
    points = _finite(u, "u")
    if points.ndim not in (1, 2) or 0 in points.shape:
        raise ValueError(f"u must be (T, d), or (T,) where d = 1; got shape {points.shape}.")
    steps = np.diff(points.reshape(len(points), -1), axis=0)
    return float(np.linalg.norm(steps, axis=1).sum())


def small_loss(stream: Stream, u: ArrayLike) -> float:
    r"""Return :math:`F_T = \sum_{t=1}^T f_t(u_t)`.

    Args:
        stream: any stream.
        u: (T, d), or (T,) where d = 1, or (d,) for the same comparator in every round.

    Reference: Srebro, Sridharan & Tewari, *Smoothness, low noise and fast rates*, NIPS 2010.

    >>> from swordplay.streams import instance_two
    >>> stream = instance_two(8)
    >>> small_loss(stream, stream.comparators), small_loss(stream, [0.0])
    (0.0, 2.5)
    """
    chosen = _finite(u, "comparators")
    if chosen.shape == (len(stream),) and getattr(stream, "knows_dim", True) and stream.dim == 1:
        chosen = chosen[:, None]
    knows_dim = getattr(stream, "knows_dim", True)
    if chosen.ndim not in (1, 2):
        raise ValueError(f"comparators must be (T, d) or (d,); got shape {chosen.shape}.")
    check_decisions(
        chosen, len(stream), stream.dim if knows_dim else chosen.shape[-1], "comparators"
    )
    return float(stream.values(chosen).sum())


def check_domain(stream: Stream, domain: Domain) -> None:
    """Refuse a domain of another dimension than the stream's."""
    if getattr(stream, "knows_dim", True) and stream.dim != domain.dim:
        raise ValueError(f"{domain!r} has {domain.dim} coordinates, the stream {stream.dim}.")


def _finite(values: ArrayLike, what: str) -> Array:
    array = np.asarray(values, dtype=np.float64)
    bad = np.argwhere(~np.isfinite(array))
    if bad.size:
        at = tuple(int(i) for i in bad[0])
        raise ValueError(f"{what} must be finite, but hold {array[at]} at index {at}.")
    return array
