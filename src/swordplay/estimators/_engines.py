"""Which engine the settings of an estimator name, and which settings there are."""

from __future__ import annotations

from typing import Any

from swordplay.estimators._paper import KINDS, Paper
from swordplay.estimators._pool import POOLS, Pool

LOSSES = ("squared", "huber", "absolute", "pinball")


def _one_of(name: str, value: Any, known: tuple[str, ...]) -> None:
    if value not in known:
        listed = ", ".join(f'"{one}"' for one in known)
        raise ValueError(f"{name} must be one of {listed}; not {value!r}.")


def check(pool: str, missing: str) -> None:
    """Refuse settings that name nothing."""
    _one_of("pool", pool, (*POOLS, *KINDS))
    _one_of("missing", missing, ("zero", "error"))


def check_loss(loss: str, delta: float, quantile: float) -> None:
    """Refuse losses of a regressor that are none."""
    _one_of("loss", loss, LOSSES)
    if not delta > 0:
        raise ValueError(f"delta must be positive, not {delta!r}.")
    if not 0 < quantile < 1:
        raise ValueError(f"quantile must lie between 0 and 1, not {quantile!r}.")


def regression(
    pool: str,
    dim: int,
    outputs: int,
    loss: str,
    delta: float,
    quantile: float,
    last_value: bool,
) -> Any:
    """Return a fresh engine that predicts values."""
    param = {"huber": delta, "pinball": quantile}.get(loss, 1.0)
    if pool in KINDS:
        return Paper(dim, loss, param, pool, outputs)
    return Pool(dim, loss, param, pool, last_value, outputs)


def classification(pool: str, dim: int) -> Any:
    """Return a fresh engine that predicts the log odds of two classes."""
    if pool in KINDS:
        return Paper(dim, "logistic", 1.0, pool)
    return Pool(dim, "logistic", 1.0, pool, last_value=False)
