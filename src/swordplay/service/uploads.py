"""Model files of strangers: every number that serving relies on is checked before it is used."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from swordplay.service.models import Model, Spec
from swordplay.service.schemas import Label, NewModel, Number
from swordplay.state import StateError

if TYPE_CHECKING:
    from swordplay.service.state import State

Schema = TypeVar("Schema", bound=BaseModel)
HEADER = 2 << 20  # bytes of the JSON in front of a model: its names and its charts are bounded
CLASSES = 10_000  # labels that a file may know; the server's own limit is less

Count = Annotated[int, Field(ge=0, le=2**53, strict=True)]
# Sums of losses that are each finite may be larger than any one label; never that one more row
# makes them infinite.
Sum = Annotated[float, Field(ge=-1e300, le=1e300, strict=True)]


class _Metrics(BaseModel):
    """What the monitor counts with; the rest of it is for charts, and is its own to check."""

    model_config = ConfigDict(allow_inf_nan=False)

    rows: Count
    totals: Annotated[list[Sum], Field(min_length=4, max_length=4)]
    recent: Annotated[list[Sum], Field(min_length=4, max_length=4)]
    since: Annotated[list[Sum], Field(min_length=4, max_length=4)]
    sum: Sum
    stride: Annotated[Count, Field(ge=1)]
    last: Number | Label | None
    counts: Annotated[list[tuple[Label, Count]], Field(max_length=CLASSES)]


def spec_of(header: dict[str, Any]) -> Spec:
    """Return what the model is to be; the limits are those of a new one."""
    return _parse(NewModel, {"name": "upload", **header["spec"]}).spec()


def _parse(schema: type[Schema], given: Any) -> Schema:
    try:
        return schema.model_validate(given)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        field = ".".join(str(part) for part in first["loc"])
        raise StateError(f"The model file: {field[:100]}: {first['msg'][:200]}.") from None


def check_metrics(model: Model, given: Any) -> None:
    """Refuse numbers that no monitor of this model could have counted."""
    spec, metrics = model.spec, _parse(_Metrics, given)
    if bool(metrics.rows) != model.fitted or (metrics.rows and not metrics.recent[3] > 0):
        raise StateError("The file's metrics and its state do not belong together.")
    counted = dict(metrics.counts)
    known = set(model.classes) if spec.task == "classification" else set()
    if len(counted) < len(metrics.counts) or not set(counted) <= known:
        raise StateError("The metrics count labels that the model does not know.")
    if metrics.last is None:
        return
    if spec.task == "regression":
        fits = isinstance(metrics.last, int | float)
    else:
        fits = metrics.last in known
    if not fits:
        raise StateError("The metrics' last label is not one of the model's.")


def rehearse(state: State) -> None:
    """Refuse a state that could not learn a row, or that a restart could not read back."""
    trial, spec = state.copy(), state.model.spec
    named = spec.task == "classification"
    row = np.zeros((1, state.model.columns or 1))
    try:
        told: Any = trial.monitor.summary()
        trial.learn(row, (state.model.classes[:1] or ["a"]) if named else np.zeros(1))
        json.dumps(
            [told, trial.monitor.summary(), trial.monitor.curves(trial.model.bands())],
            allow_nan=False,
        )
        kept, metrics = trial.parts()
        again = type(state).from_parts(spec, kept, metrics, trial.seq).parts()
    except (ArithmeticError, TypeError, ValueError, LookupError) as error:
        raise StateError(f"The state cannot go on: {type(error).__name__}.") from error
    if again != (kept, metrics):
        raise StateError("The state changes when it is written and read again.")
