"""A small client: ``Client("http://127.0.0.1:8765").predict("demand", rows)``.

Requests to learn carry a key of their own, so that a repeated one learns once; the client repeats
what was refused with 429 or 503, or broke off, and waits as long as the server says.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self
from urllib.parse import quote
from uuid import uuid4

import httpx
import numpy as np
from numpy.typing import ArrayLike


class ServiceError(Exception):
    """The server refused; ``status`` says with which HTTP status."""

    def __init__(self, status: int, detail: str, field: str | None) -> None:
        super().__init__(f"{field}: {detail}" if field else detail)
        self.status, self.detail, self.field = status, detail, field


@dataclass(frozen=True)
class Predictions:
    """Predictions of a batch, a list entry a row."""

    predictions: list[Any]
    intervals: list[tuple[float, float]] | None = None
    probabilities: list[list[float]] | None = None
    classes: list[int | str] | None = None
    ids: list[str] | None = None


class Client:
    """A connection to a server.

    Args:
        url: of the server.
        token: where the server uses tokens.
        timeout: seconds for one attempt.
        patience: seconds for which refused or broken requests are repeated.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:8765",
        token: str | None = None,
        *,
        timeout: float = 35.0,
        patience: float = 60.0,
    ) -> None:
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        self._http = httpx.Client(
            base_url=url,
            headers=headers,
            timeout=timeout,
            trust_env=False,
            verify=url.startswith("https:"),  # certificates take long to load
        )
        self._patience = patience

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    # ---- models

    def models(self) -> list[dict[str, Any]]:
        """Return name, task, rows and creation of every model."""
        return list(self._ask("GET", "/models").json()["models"])

    def create(self, name: str, **spec: Any) -> dict[str, Any]:
        """Create a model: task, loss, pool, features, coverage, ..."""
        return dict(self._ask("POST", "/models", json={"name": name, **spec}).json())

    def delete(self, name: str) -> None:
        """Delete a model."""
        self._ask("DELETE", _path(name))

    def describe(self, name: str, *, regret: bool = True) -> dict[str, Any]:
        """Return losses, weights, memory, drift and regret."""
        params = {"regret": "true" if regret else "false"}
        return dict(self._ask("GET", _path(name), params=params).json())

    def export(self, name: str) -> bytes:
        """Return the model as a file."""
        return self._ask("GET", _path(name, "export")).content

    def import_(self, name: str, data: bytes) -> dict[str, Any]:
        """Create a model from a file."""
        headers = {"content-type": "application/octet-stream"}
        path = _path(name, "import")
        return dict(self._ask("POST", path, content=data, headers=headers).json())

    # ---- rows

    def predict(self, name: str, rows: Any, *, remember: bool = True) -> Predictions:
        """Predict rows: a matrix, a table, or objects by feature name.

        The columns of a pandas or polars table go by name where the model has feature names.
        """
        body = {"rows": self._rows(name, rows), "remember": remember}
        return Predictions(**self._ask("POST", _path(name, "predict"), json=body).json())

    def learn(
        self, name: str, rows: Any, labels: ArrayLike, *, key: str | None = None
    ) -> dict[str, Any]:
        """Learn rows and their labels; on the server's disk when this returns."""
        body = {"rows": self._rows(name, rows), "labels": _labels(labels)}
        return self._learn(name, body, key)

    def learn_ids(
        self, name: str, ids: list[str], labels: ArrayLike, *, key: str | None = None
    ) -> dict[str, Any]:
        """Learn the labels of rows that were predicted before."""
        return self._learn(name, {"ids": list(ids), "labels": _labels(labels)}, key)

    def _rows(self, name: str, rows: Any) -> list[Any]:
        if isinstance(rows, list | tuple):
            return [_row(row) for row in rows]
        if hasattr(rows, "columns") and hasattr(rows, "to_numpy"):
            # Asked every time: a model may have been deleted and made again with other names.
            names = self.describe(name, regret=False)["spec"]["features"]
            given = [str(column) for column in rows.columns]
            if names is not None and given != names:
                matrix = _matrix(rows.to_numpy())
                return [dict(zip(given, row, strict=True)) for row in matrix]
            rows = rows.to_numpy()
        return _matrix(rows)

    def _learn(self, name: str, body: dict[str, Any], key: str | None) -> dict[str, Any]:
        headers = {"idempotency-key": key or uuid4().hex}
        return dict(self._ask("POST", _path(name, "learn"), json=body, headers=headers).json())

    def _ask(self, method: str, path: str, **options: Any) -> httpx.Response:
        end = time.monotonic() + self._patience
        safe = method == "GET" or path.endswith(("/learn", "/predict"))
        while True:
            wait = 0.2
            try:
                answer = self._http.request(method, path, **options)
            except httpx.TransportError:
                if not safe or time.monotonic() > end:
                    raise
            else:
                if answer.is_success:
                    return answer
                if answer.status_code not in (429, 503) or time.monotonic() > end:
                    raise _error(answer)
                wait = float(answer.headers.get("retry-after", "1"))
            time.sleep(wait)


def _path(name: str, *more: str) -> str:
    return "/".join(("/models", quote(name, safe=""), *more))


def _matrix(rows: Any) -> list[list[float | None]]:
    matrix = np.asarray(rows, dtype=float)
    return [[None if value != value else value for value in row] for row in matrix.tolist()]


def _row(row: Any) -> Any:
    if isinstance(row, dict):
        return {name: _value(value) for name, value in row.items()}
    return [_value(value) for value in row]


def _value(value: Any) -> Any:
    value = value.item() if isinstance(value, np.generic) else value
    return None if isinstance(value, float) and value != value else value


def _labels(labels: Any) -> list[Any]:
    """Return labels as they are: an array of numbers and strings would make all of them strings."""
    if isinstance(labels, list | tuple):
        return [one.item() if isinstance(one, np.generic) else one for one in labels]
    return list(np.asarray(labels).tolist())


def _error(answer: httpx.Response) -> ServiceError:
    try:
        told = answer.json()
        return ServiceError(answer.status_code, str(told["detail"]), told.get("field"))
    except (ValueError, KeyError, TypeError):
        return ServiceError(answer.status_code, answer.text[:200], None)
