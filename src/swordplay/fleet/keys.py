"""Keys of any kind, numbered 0, 1, 2, ... as they appear; and keys as text, for files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime
from itertools import repeat
from typing import Any
from uuid import UUID

import numpy as np

from swordplay._types import Array
from swordplay.kernels import fleet as kernels

_FIRST_ROOM = 10  # 2^10 places in the first table


class Keys:
    """Which number a key has. Keys are equal where Python says so, as in a ``dict``.

    Whole numbers live in a compiled table; from the first key of another kind on, a ``dict`` serves
    all of them.

    >>> keys = Keys()
    >>> keys.number(["b", "a", "b"]), keys.number(["c", "a"], add=False)
    (array([0, 1, 0]), array([-1,  1]))
    """

    def __init__(self) -> None:
        self._whole = True
        self._numbers: dict[Any, int] = {}
        self._list: list[Any] = []
        self._room(_FIRST_ROOM)
        self._count = 0

    def __len__(self) -> int:
        return self._count if self._whole else len(self._list)

    def all(self) -> Any:
        """Return all keys in the order of their numbers: an int64 array, or a list."""
        if not self._whole:
            return self._list
        taken = self._ids != kernels.EMPTY
        keys = np.empty(self._count, dtype=np.int64)
        keys[self._ids[taken]] = self._names[taken]
        return keys

    def number(self, keys: Any, add: bool = True) -> Array:
        """Return the numbers of ``keys``; new ones get the next, or -1 where not ``add``."""
        told = read(keys)
        if self._whole and isinstance(told, np.ndarray):
            return self._number_whole(told, add)
        self._mix()
        listed = told.tolist() if isinstance(told, np.ndarray) else told
        try:
            found = np.fromiter(
                map(self._numbers.get, listed, repeat(-1)), dtype=np.int64, count=len(listed)
            )
        except TypeError as error:
            raise TypeError(f"A key must be hashable, as in a dict: {error}.") from error
        unknown = np.flatnonzero(found < 0)
        refuse_nulls((listed[t] for t in unknown), unknown)
        if add:
            for t in unknown:
                key = listed[t]
                if key not in self._numbers:
                    self._numbers[key] = len(self._list)
                    self._list.append(key)
                found[t] = self._numbers[key]
        return found

    def _number_whole(self, keys: Array, add: bool) -> Array:
        found = np.empty(len(keys), dtype=np.int64)
        unknown = kernels.look_up(self._names, self._ids, self._shift, keys, 0, len(keys), found)
        if add and unknown:
            if 2 * (self._count + unknown) > len(self._ids):
                # Not more room than the keys need that are really new.
                distinct = self._count + len(np.unique(keys[found < 0]))
                old = self.all()
                self._room(max(_FIRST_ROOM, int(2 * distinct - 1).bit_length()))
                blank = np.full(len(old), kernels.EMPTY, dtype=np.int64)
                kernels.enter(self._names, self._ids, self._shift, old, 0, blank)
            self._count = int(
                kernels.enter(self._names, self._ids, self._shift, keys, self._count, found)
            )
        return found

    def _room(self, bits: int) -> None:
        self._shift = 64 - bits
        self._names = np.zeros(1 << bits, dtype=np.int64)
        self._ids = np.full(1 << bits, kernels.EMPTY, dtype=np.int64)

    def _mix(self) -> None:
        if self._whole:
            self._list = self.all().tolist()
            self._numbers = {key: k for k, key in enumerate(self._list)}
            self._whole = False
            self._room(0)


def read(keys: Any) -> Array | list[Any]:
    """Return keys as an int64 array where all are whole numbers, else as a list."""
    if hasattr(keys, "to_pylist"):  # Arrow: its null is None
        keys = keys.to_pylist()
    elif hasattr(keys, "to_numpy"):  # pandas, polars
        keys = keys.to_numpy()
    if isinstance(keys, np.ndarray):
        if keys.ndim != 1:
            raise ValueError(f"keys must be one for each row, (n,); got shape {keys.shape}.")
        if keys.dtype.kind == "i" or (keys.dtype.kind == "u" and keys.dtype.itemsize < 8):
            return np.ascontiguousarray(keys, dtype=np.int64)
        # Not tolist() for times: nanoseconds would turn into numbers.
        listed: list[Any] = [*keys] if keys.dtype.kind in "mM" else keys.tolist()
    else:
        if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
            raise TypeError(f"keys must be one for each row, not {keys!r}.")
        listed = list(keys)
    if set(map(type, listed)) == {int} and all(-(2**63) <= key < 2**63 for key in listed):
        return np.array(listed, dtype=np.int64)
    return listed


def refuse_nulls(keys: Iterable[Any], rows: Sequence[int] | Array) -> None:
    """Refuse None, NaN, NaT and their kind, naming the row."""
    for t, key in zip(rows, keys, strict=True):
        try:
            null = key is None or bool(key != key)
        except (TypeError, ValueError):  # pandas.NA has no truth
            null = True
        if null:
            raise ValueError(
                f"The key of row {int(t)} is null ({key!r}); every row needs a key. Nothing was "
                "learned."
            )


_TAGS: dict[str, tuple[type, Any, Any]] = {
    "bool": (bool, bool, bool),
    "int": (int, str, int),
    "float": (float, float.hex, float.fromhex),
    "str": (str, str, str),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "uuid": (UUID, str, UUID),
}


def to_text(key: Any) -> str:
    """Return a key as JSON that :func:`from_text` turns back into an equal key.

    >>> from_text(to_text(("north", 7)))
    ('north', 7)
    """
    return json.dumps(_tagged(key))


def from_text(text: str) -> Any:
    """Return the key that ``to_text`` wrote."""
    return _untagged(json.loads(text))


def _tagged(key: Any) -> list[Any]:
    if isinstance(key, np.datetime64):
        return ["datetime64", np.datetime_data(key.dtype)[0], int(key.astype(np.int64))]
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, tuple):
        return ["tuple", *map(_tagged, key)]
    for tag, (kind, write, _) in _TAGS.items():
        if type(key) is kind:
            return [tag, write(key)]
    raise TypeError(
        f"A key of type {type(key).__name__} cannot be written to a file; use whole numbers, "
        "strings, bytes, dates, UUIDs, or tuples of them."
    )


def _untagged(value: list[Any]) -> Any:
    if value[0] == "tuple":
        return tuple(map(_untagged, value[1:]))
    if value[0] == "datetime64":
        return np.datetime64(value[2], value[1])
    return _TAGS[value[0]][2](value[1])
