"""What every learner can do besides learning: be saved, loaded and copied, bit for bit."""

from __future__ import annotations

import base64
import functools
import json
import os
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from swordplay import domains, hints, regularisers, state
from swordplay._types import Array
from swordplay.assumptions import Assumptions
from swordplay.state import StateError

# The parts that a file may name, and the arguments that make them again.
_PARTS: dict[type, tuple[str, ...]] = {
    domains.Ball: ("dim", "radius", "center"),
    domains.Box: ("low", "high"),
    domains.Simplex: ("dim",),
    domains.L1Ball: ("dim", "radius"),
    domains.Everywhere: ("dim", "diameter"),
    Assumptions: ("lipschitz", "smoothness", "horizon"),
    hints.BuiltInHint: ("code",),
    hints.DecisionDeviation: ("strength",),
    regularisers.Euclidean: (),
    regularisers.NegativeEntropy: (),
}
_BY_NAME = {part.__name__: part for part in _PARTS}


@functools.cache  # finding it reads files: 0.4 ms, more than everything else in a state
def _release() -> str:
    try:
        return version("swordplay")
    except PackageNotFoundError:  # pragma: no cover - run from a bare source tree
        return "unknown"


def _encode(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray):
        return {
            "array": base64.b64encode(np.ascontiguousarray(value).tobytes()).decode(),
            "dtype": value.dtype.str,
            "shape": value.shape,
        }
    if type(value) in _PARTS:
        arguments = {name: _encode(getattr(value, name)) for name in _PARTS[type(value)]}
        return {"part": type(value).__name__, "arguments": arguments}
    return {"foreign": f"{type(value).__module__}.{type(value).__qualname__}"}


def _decode(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    if "array" in value:
        raw = base64.b64decode(value["array"])
        return np.frombuffer(raw, dtype=value["dtype"]).reshape(value["shape"]).copy()
    if "foreign" in value:
        raise StateError(
            f"The state was saved with a part that is not swordplay's own ({value['foreign']}), "
            "and code is never loaded from a file. Build an equal learner and pass it: "
            "load(path, like=learner)."
        )
    arguments = {name: _decode(argument) for name, argument in value["arguments"].items()}
    return _BY_NAME[value["part"]](**arguments)


class Learner:
    """A player whose whole state is one row of floats.

    A subclass keeps its row in ``_row`` and the arguments that built it in ``_arguments``, and can
    ``_adopt`` a row of its own kind.
    """

    _known: ClassVar[dict[str, type[Learner]]] = {}
    _row: Array
    _arguments: dict[str, Any]

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        Learner._known[cls._name()] = cls

    @classmethod
    def _name(cls) -> str:
        """Return the name that files know the class by: ours are short, so that yours differ."""
        ours = cls.__module__.startswith("swordplay.")
        return cls.__name__ if ours else f"{cls.__module__}.{cls.__qualname__}"

    def _adopt(self, row: Array) -> None:
        """Go on from ``row``, or raise StateError where it does not fit."""
        if row.shape != self._row.shape or row.dtype != self._row.dtype:
            raise StateError(
                f"The state holds {row.size} floats of type {row.dtype}; this {type(self).__name__}"
                f" needs {self._row.size} of type {self._row.dtype}."
            )
        self._row = row

    def to_bytes(self) -> bytes:
        """Return the whole state: a JSON header, the row, a checksum."""
        arguments = {name: _encode(value) for name, value in self._arguments.items()}
        header = {"learner": self._name(), "arguments": arguments, "version": _release()}
        return state.pack(header, self._row)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the state to ``path``; an older file there stays whole until the new one is."""
        state.write(path, self.to_bytes())

    def copy(self) -> Self:
        """Return an independent learner in the same state."""
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other._adopt(self._row.copy())
        return other


def from_bytes(data: bytes, like: Learner | None = None) -> Learner:
    """Return the learner that ``to_bytes`` described.

    Args:
        data: what ``to_bytes`` returned.
        like: a learner built as the saved one was; needed when it has parts of your own (a domain,
            a hint), because no code is ever read from a file.
    """
    header, row = state.unpack(data)
    name = header.get("learner")
    if like is None:
        if not isinstance(name, str) or name not in Learner._known:
            raise StateError(
                f"The state belongs to a learner named {name!r}, which is not known here. "
                "Import the module that defines it first."
            )
        try:
            arguments = {key: _decode(value) for key, value in header["arguments"].items()}
            learner = Learner._known[name](**arguments)
        except StateError:
            raise
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise StateError(f"The state's {name} cannot be built again: {error!r}.") from error
    else:
        arguments = {key: _encode(value) for key, value in like._arguments.items()}
        mine = json.loads(json.dumps(arguments))  # as a file would hold it
        if name != type(like)._name() or header.get("arguments") != mine:
            raise StateError(
                f"The state belongs to {name}({header.get('arguments')}), but like= is "
                f"{type(like).__name__}({mine})."
            )
        learner = like.copy()
    learner._adopt(row)
    return learner


def load(path: str | os.PathLike[str], like: Learner | None = None) -> Learner:
    """Return the learner saved at ``path``; see :func:`from_bytes` for ``like``."""
    return from_bytes(Path(path).read_bytes(), like)
