"""Estimators for drifting streams that need no tuning.

``SwordRegressor`` and ``SwordClassifier`` speak scikit-learn (extra ``estimators``); their
namesakes in ``swordplay.estimators.river`` speak River (extra ``river``).
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from swordplay.estimators.classifier import SwordClassifier
    from swordplay.estimators.look_inside import plot_drift
    from swordplay.estimators.regressor import SwordRegressor

__all__ = ["SwordClassifier", "SwordRegressor", "plot_drift"]

_HOMES = {
    "SwordClassifier": "classifier",
    "SwordRegressor": "regressor",
    "plot_drift": "look_inside",
}


def __getattr__(name: str) -> Any:
    """Import an estimator when it is asked for: River's need no scikit-learn."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] != "sklearn":
            raise
        raise ImportError(
            f'{name} needs scikit-learn: pip install "swordplay[estimators]"'
        ) from None


def __dir__() -> list[str]:
    return sorted(__all__)
