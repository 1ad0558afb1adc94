"""Sparse rows: the cost follows the nonzeros, not the dimension."""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array

import swordplay as sp
from benchmarks.data import play, pool_size
from benchmarks.measure import Row, Settings, race

NONZEROS = 50


def sparse_stream(rounds: int, dim: int) -> sp.LinearStream:
    """Return rows of unit norm with 50 nonzeros, one in every fiftieth of the columns."""
    rng = np.random.default_rng(0)
    width = dim // NONZEROS
    columns = np.arange(NONZEROS) * width + rng.integers(width, size=(rounds, NONZEROS))
    values = rng.standard_normal((rounds, NONZEROS))
    values /= np.linalg.norm(values, axis=1, keepdims=True)
    starts = np.arange(rounds + 1) * NONZEROS
    rows = csr_array((values.ravel(), columns.ravel(), starts), shape=(rounds, dim))
    model = np.zeros(dim)
    model[:: max(1, width // 4)] = 1.0
    model /= np.linalg.norm(model)
    return sp.LinearStream(rows, rows @ model + rng.uniform(-0.1, 0.1, rounds))


def sparse(settings: Settings) -> list[Row]:
    """50 nonzeros a row: d = 2^20 against d = 2^12."""
    rounds = settings.size(300_000)
    narrow, wide = sparse_stream(rounds, 1 << 12), sparse_stream(rounds, 1 << 20)
    facts = narrow.assumptions(sp.Ball(narrow.dim, 1.0))  # for both: the same pool
    # A game of one round is all set-up: memory for N d floats, and the way there and back.
    first = {d.dim: sp.LinearStream(d.features[:1], d.targets[:1], d.loss) for d in (narrow, wide)}
    times = race(
        settings.repetitions,
        {
            "narrow": play(sp.SwordPP, narrow, facts),
            "wide": play(sp.SwordPP, wide, facts),
            "narrow set-up": play(sp.SwordPP, first[narrow.dim], facts),
            "wide set-up": play(sp.SwordPP, first[wide.dim], facts),
        },
    )
    setup = {name: times.median(f"{name} set-up") for name in ("narrow", "wide")}
    rest = {name: times.median(name) - setup[name] for name in setup}
    return [
        Row(
            name="sparse",
            what=f"sparse, {NONZEROS} nonzeros: time at d = 2^20 over 2^12",
            bar=2.0,
            measured=times.ratio("wide", "narrow"),
            details={
                "N": pool_size(narrow.dim, facts),
                "d": [narrow.dim, wide.dim],
                "rounds": rounds,
                "spread": times.spread("wide", "narrow"),
                "sword_ns": 1e9 * times.median("wide") / rounds,
                "rival_ns": 1e9 * times.median("narrow") / rounds,
                "set_up_seconds": {narrow.dim: setup["narrow"], wide.dim: setup["wide"]},
                "ratio_without_set_up": rest["wide"] / rest["narrow"],
            },
        )
    ]
