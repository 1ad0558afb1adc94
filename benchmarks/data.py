"""The rows that everybody plays: the paper's drifting regression, with the squared loss."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

import swordplay as sp

PER_DIM = {5: 1_000_000, 50: 200_000, 1000: 20_000}
"""Rounds of a stream in so many dimensions: about the same work in each."""

# N = 8 with these, whatever is played.
FACTS_8 = sp.Assumptions(lipschitz=2.0, smoothness=1.0, horizon=100_000)


@cache
def stream(rounds: int, dim: int) -> sp.LinearStream:
    """Return a stream whose model jumps every 1000 rounds."""
    made = sp.streams.abrupt_drift(rounds, dim, every=1000, seed=0, loss=sp.Squared())
    return sp.LinearStream(made.features, made.targets, made.loss)


def sword(dim: int, facts: sp.Assumptions) -> sp.SwordPP:
    """Return Sword++ on the unit ball."""
    return sp.SwordPP(sp.Ball(dim, 1.0), facts)


def pool_size(dim: int, facts: sp.Assumptions) -> int:
    """Return N, the number of base learners."""
    return len(sword(dim, facts).step_sizes)


def play(
    make: Callable[[sp.Ball, sp.Assumptions], Any], rows: sp.LinearStream, facts: sp.Assumptions
) -> Callable[[], Callable[[], object]]:
    """Return a contestant: a fresh learner that plays all the rows."""

    def prepare() -> Callable[[], object]:
        learner = make(sp.Ball(rows.dim, 1.0), facts)
        return lambda: sp.play(learner, rows)

    return prepare


def write_vowpal(file: BinaryIO, rows: sp.LinearStream) -> None:
    """Append the rows in Vowpal Wabbit's text format, "target | 0:x 1:x ...", to six decimals.

    Numbers as names of features are the fastest that it can read: it does not hash them.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    step = max(1, 4_000_000 // rows.dim)  # rows at a time: the cells are strings in memory
    for at in range(0, len(rows), step):
        features = np.round(rows.features[at : at + step], 6)
        cells = [_text(rows.targets[at : at + step]), pa.scalar("|")]
        for j in range(rows.dim):
            cells.append(pc.binary_join_element_wise(f"{j}:", _text(features[:, j]), ""))
        lines = pc.binary_join_element_wise(*cells, " ")
        lines = pc.binary_join_element_wise(lines, "\n", "")
        file.write(lines.buffers()[2])  # the lines, one after the other: the text itself


def _text(numbers: Any) -> Any:
    import pyarrow as pa

    return pa.array(np.ascontiguousarray(np.round(numbers, 6))).cast(pa.string())


def vowpal_file(path: Path, rows: sp.LinearStream) -> Path:
    """Write the rows to a text file of Vowpal Wabbit's and return its path."""
    with path.open("wb") as file:
        write_vowpal(file, rows)
    return path


def vowpal_pass(path: Path, rows: int, more: str = "") -> float:
    """Let Vowpal Wabbit make one pass over a file and return its mean squared loss.

    With its own settings (adaptive, normalised steps and an intercept), unless ``more`` says else.
    """
    from vowpalwabbit import Workspace

    wabbit = Workspace(f"-d {path} {more} --loss_function squared --quiet")
    seen, loss = wabbit.get_weighted_examples(), wabbit.get_sum_loss()
    wabbit.finish()
    if seen != rows:
        raise RuntimeError(f"Vowpal Wabbit read {seen:.0f} of {rows} rows of {path}.")
    return float(loss / seen)
