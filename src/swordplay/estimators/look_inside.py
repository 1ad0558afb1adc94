"""What the pool believes, how far back it looks, and whether that has just changed."""

from __future__ import annotations

from typing import Any

import numpy as np

from swordplay._types import Array


class LookInside:
    """Mix-in: diagnostics of an estimator whose engine is in ``_engine``."""

    _engine: Any

    def _fitted_engine(self) -> Any:
        engine = self.__dict__.get("_engine")
        if engine is None:
            raise AttributeError(f"This {type(self).__name__} has not learned anything yet.")
        return engine

    @property
    def weights_(self) -> dict[str, float]:
        """The share of every expert in the answer, largest first; they add up to 1.

        A Hedge hands its share to the experts by its weights, a mixer by the size of its
        coefficients. Several targets or classes: the mean over them.
        """
        engine = self._fitted_engine()
        shares = [engine.weights(m) for m in range(engine.outputs)]
        share = np.mean(shares, axis=0)
        order = np.argsort(-share, kind="stable")
        names = engine.names
        return {names[k]: float(share[k]) for k in order}

    @property
    def effective_memory_(self) -> float:
        """How far back the model is looking, in rows.

        The weighted geometric mean of the experts' memories: 1 / (1 - forgetting), (1 + eta) / eta
        for a step eta / L, 1 for the last value, all rows for what never forgets.
        """
        engine = self._fitted_engine()
        logs = [np.log2(engine.memory(m)) for m in range(engine.outputs)]
        return float(2.0 ** np.mean(logs))

    @property
    def drift_(self) -> float:
        """By how many octaves the memory is shorter than usual: rises when the pool shifts to
        faster learners. Gauged every 16 rows against a running mean over 64 gaugings.
        """
        engine = self._fitted_engine()
        return float(max(engine.drift(m) for m in range(engine.outputs)))

    def drift_history_(self, output: int = 0) -> tuple[Array, Array, Array]:
        """Return rows, effective memory and drift as they were: at most 64 points."""
        rows, memory, drift = self._fitted_engine().history(output)
        return rows, memory, drift


def plot_drift(model: LookInside, output: int = 0) -> Any:
    """Draw effective memory and drift signal over the rows learned; return the figure.

    Args:
        model: an estimator that has learned.
        output: which target or class.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise ImportError('plot_drift needs matplotlib: pip install "swordplay[app]"') from None
    rows, memory, drift = model.drift_history_(output)
    figure = Figure(figsize=(8, 4), layout="constrained")
    above, below = figure.subplots(2, 1, sharex=True)
    above.plot(rows, memory, color="#0072B2")
    above.set_yscale("log")
    above.set_ylabel("memory (rows)")
    below.fill_between(rows, drift, color="#D55E00", linewidth=0, alpha=0.8)
    below.set_ylabel("drift (octaves)")
    below.set_xlabel("rows learned")
    below.set_ylim(bottom=0)
    for axes in (above, below):
        axes.grid(color="0.9")
        axes.spines[["top", "right"]].set_visible(False)
    return figure
