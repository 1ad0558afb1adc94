"""From the bytes of a request to arrays, and back: JSON for people, Arrow IPC for bulk."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from difflib import get_close_matches
from hashlib import sha256
from typing import Any, ParamSpec, TypeVar

import numpy as np
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from swordplay._types import Array
from swordplay.service import arrow
from swordplay.service.errors import Refused
from swordplay.service.host import Host, Lesson
from swordplay.service.models import Answer
from swordplay.service.schemas import RESERVED, WHOLE, LearnColumns, LearnIn, PredictIn

JSON, ARROW, BINARY = (
    "application/json",
    "application/vnd.apache.arrow.stream",
    "application/octet-stream",
)
BULK = 64 << 10  # bytes that take too long to read or write while everybody waits
Body = TypeVar("Body", bound=BaseModel)
Given = ParamSpec("Given")
Made = TypeVar("Made")


async def aside(
    size: int, work: Callable[Given, Made], *args: Given.args, **more: Given.kwargs
) -> Made:
    """Return what ``work`` returns; where there are many bytes, a thread does it."""
    if size <= BULK:
        return work(*args, **more)
    return await asyncio.to_thread(work, *args, **more)


def parse(schema: type[Body], body: bytes | dict[str, Any]) -> Body:
    """Read JSON, or check what was read from elsewhere; or refuse it and name the field."""
    try:
        if isinstance(body, bytes):
            return schema.model_validate_json(body)
        return schema.model_validate(body)
    except ValidationError as error:
        raise Refused(422, *explain(error, schema)) from None


def explain(error: ValidationError, schema: type[BaseModel]) -> tuple[str, str | None]:
    """Return what is wrong, and the path of the field, of the first error.

    A field that is not known comes before all others: it explains why another one is missing.
    """
    errors = error.errors(include_url=False, include_input=False, include_context=False)
    strange = [one for one in errors if one["type"] == "extra_forbidden"]
    if strange:
        name = str(strange[0]["loc"][-1])[:200]
        near = get_close_matches(name, schema.model_fields, 1)
        hint = f"; did you mean {near[0]}?" if near else "."
        return f"There is no such field{hint}", name
    first, path = errors[0], ""
    for part in first["loc"]:
        if isinstance(part, int):
            path += f"[{part}]"
        elif "[" not in part and part not in ("int", "str", "float", "constrained-int"):
            path += f".{part}" if path else str(part)
    message = str(first["msg"])
    return message[:1].upper() + message[1:300], path[:200] or None


def read_predict(host: Host, kind: str, body: bytes) -> tuple[Array, bool]:
    """Return the rows of a request to predict, and whether to remember them."""
    if kind == ARROW:
        table = arrow.read(body, host.settings.max_rows)
        for name in RESERVED:
            if name in table.column_names:
                raise Refused(422, "To predict there are feature columns alone.", name)
        return arrow.features(host, table, ()), arrow.flag(table, "remember", True)
    asked = parse(PredictIn, body)
    return matrix(host, asked.rows), asked.remember


def read_learn(host: Host, kind: str, body: bytes, key: str | None) -> Lesson:
    """Return what a request to learn asks for."""
    digest = sha256(body).hexdigest()
    if kind == ARROW:
        table = arrow.read(body, host.settings.max_rows)
        given = {name: arrow.column(table, name) for name in RESERVED if name in table.column_names}
        columns = parse(LearnColumns, given)
        y = labels(host, columns.label, "label")
        if columns.id is None:
            return Lesson(y, arrow.features(host, table, RESERVED), None, key, digest)
        if len(table.column_names) > len(given):
            raise Refused(422, "With ids there are no feature columns.", "id")
        return Lesson(y, None, columns.id, key, digest)
    asked = parse(LearnIn, body)
    y = labels(host, asked.labels)
    if len(y) > host.settings.max_rows:
        raise too_many(host)
    if asked.ids is not None:
        return Lesson(y, None, asked.ids, key, digest)
    assert asked.rows is not None
    return Lesson(y, matrix(host, asked.rows), None, key, digest)


def too_many(host: Host) -> Refused:
    """Return the refusal of a request with too many rows."""
    return Refused(413, f"A request may have {host.settings.max_rows} rows.", "rows")


def matrix(host: Host, rows: list[Any]) -> Array:
    """Return rows, lists or objects by feature name, as a matrix."""
    if len(rows) > host.settings.max_rows:
        raise too_many(host)
    names = host.spec.features
    if isinstance(rows[0], dict):
        if names is None:
            raise Refused(422, "Rows are objects, but the model has no feature names.", "rows[0]")
        known = set(names)
        for k, row in enumerate(rows):
            if not isinstance(row, dict):
                raise Refused(422, "Rows must be all lists or all objects.", f"rows[{k}]")
            if strange := sorted(set(row) - known):
                raise Refused(422, "There is no such feature.", f"rows[{k}].{strange[0][:100]}")
            if host.spec.missing == "error" and (absent := sorted(known - set(row))):
                raise Refused(422, "A feature is missing.", f"rows[{k}].{absent[0]}")
        rows = [[row.get(name) for name in names] for row in rows]
    width = len(rows[0])
    for k, row in enumerate(rows):
        if not isinstance(row, list):
            raise Refused(422, "Rows must be all lists or all objects.", f"rows[{k}]")
        if len(row) != width:
            raise Refused(422, f"Rows differ: {len(row)} features, not {width}.", f"rows[{k}]")
    return check_matrix(host, np.array(rows, dtype=np.float64).reshape(len(rows), width))


def check_matrix(host: Host, X: Array) -> Array:
    """Refuse what the model could not take."""
    if not 1 <= X.shape[1] <= host.settings.max_columns:
        raise Refused(422, f"A row has 1 to {host.settings.max_columns} features.", "rows")
    if host.spec.missing == "error" and np.isnan(X).any():
        k, j = np.argwhere(np.isnan(X))[0]
        raise Refused(422, "A value is missing; this model allows none.", f"rows[{k}][{j}]")
    return X


def labels(host: Host, given: list[Any], field: str = "labels") -> Any:
    """Return labels as the model's task wants them."""
    if host.spec.task == "regression":
        for k, label in enumerate(given):
            if not isinstance(label, int | float) or isinstance(label, bool):
                raise Refused(422, "Labels of a regression are numbers.", f"{field}[{k}]")
        return np.array(given, dtype=np.float64)
    told: list[Any] = []
    for k, label in enumerate(given):
        if isinstance(label, float):
            if not label.is_integer() or abs(label) > WHOLE:
                raise Refused(
                    422, "Labels of classes are strings or integers below 2^53.", f"{field}[{k}]"
                )
            label = int(label)
        told.append(label)
    return told


def write_predictions(kind: str, answer: Answer, ids: list[str] | None) -> bytes:
    """Return the body of an answer."""
    if kind == ARROW:
        return arrow.write(answer, ids)
    told: dict[str, Any] = {"predictions": answer.values}
    if answer.intervals is not None:
        told["intervals"] = answer.intervals.tolist()
    if answer.probabilities is not None:
        told["probabilities"] = answer.probabilities.tolist()
        told["classes"] = answer.classes
    if ids is not None:
        told["ids"] = ids
    return to_json(told)
