"""Keys of any kind, numbered 0, 1, 2, ... as they appear; and keys as text, for files."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import repeat
from numbers import Number
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np

from swordplay._types import Array
from swordplay.kernels import fleet as kernels

_FIRST_ROOM = 10  # 2^10 places in the first table
_WHOLE = {int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32}


class _Table(NamedTuple):
    """A hash table of whole numbers, replaced as one thing: whoever reads it reads all of it."""

    shift: int
    names: Array
    ids: Array

    @classmethod
    def of(cls, keys: Array, room: int) -> _Table:
        """Return a table of 2^room places in which ``keys`` have the numbers 0, 1, 2, ..."""
        ids = np.full(1 << room, kernels.EMPTY, dtype=np.int64)
        table = cls(64 - room, np.zeros(1 << room, dtype=np.int64), ids)
        table.enter(keys, 0, np.full(len(keys), kernels.EMPTY, dtype=np.int64))
        return table

    def look_up(self, keys: Array, out: Array) -> int:
        """Write the numbers of keys, -1 where one is new; return how many are."""
        return int(kernels.look_up(self.names, self.ids, self.shift, keys, 0, len(keys), out))

    def enter(self, keys: Array, count: int, out: Array) -> int:
        """Give the next numbers to keys that have none in ``out``; return how many there are."""
        return int(kernels.enter(self.names, self.ids, self.shift, keys, count, out))

    def first(self, count: int) -> Array:
        """Return the keys numbered below ``count``, in the order of their numbers."""
        taken = (self.ids != kernels.EMPTY) & (self.ids < count)
        keys = np.empty(count, dtype=np.int64)
        keys[self.ids[taken]] = self.names[taken]
        return keys


class Keys:
    """Which number a key has. Keys are equal where Python says so, as in a ``dict``.

    Whole numbers live in a compiled table; from the first new key of another kind on, a ``dict``
    serves all of them. Looking for keys never changes that.

    >>> keys = Keys()
    >>> keys.number(["b", "a", "b"]), keys.number(["c", "a"], add=False)
    (array([0, 1, 0]), array([-1,  1]))
    """

    def __init__(self) -> None:
        self._whole = True
        self._numbers: dict[Any, int] = {}
        self._list: list[Any] = []
        self._table = _Table.of(np.empty(0, dtype=np.int64), _FIRST_ROOM)
        self._count = 0

    def __len__(self) -> int:
        return self._count if self._whole else len(self._list)

    def all(self) -> Any:
        """Return all keys in the order of their numbers: an int64 array, or a list."""
        return self._table.first(self._count) if self._whole else self._list

    def number(self, keys: Any, add: bool = True) -> Array:
        """Return the numbers of ``keys``; new ones get the next, or -1 where not ``add``."""
        told = read(keys)
        if self._whole and isinstance(told, np.ndarray):
            return self._number_whole(told, add)
        listed = told.tolist() if isinstance(told, np.ndarray) else told
        if self._whole and not add:
            return self._look_for(listed)
        if self._whole:
            refuse_nulls(listed, range(len(listed)))
            self._mix()
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
        unknown = self._table.look_up(keys, found)
        if add and unknown:
            if 2 * (self._count + unknown) > len(self._table.ids):
                # Not more room than the keys need that are really new.
                distinct = self._count + len(np.unique(keys[found < 0]))
                room = max(_FIRST_ROOM, int(2 * distinct - 1).bit_length())
                self._table = _Table.of(self.all(), room)
            self._count = self._table.enter(keys, self._count, found)
        return found

    def _look_for(self, listed: list[Any]) -> Array:
        """Return the numbers of keys of any kind, of which some may equal a whole number."""
        whole = {
            t: number for t, key in enumerate(listed) if (number := _as_whole(key)) is not None
        }
        found = np.full(len(listed), -1, dtype=np.int64)
        if whole:
            among = np.empty(len(whole), dtype=np.int64)
            self._table.look_up(np.array(list(whole.values()), dtype=np.int64), among)
            found[list(whole)] = among
        unknown = np.flatnonzero(found < 0)
        refuse_nulls((listed[t] for t in unknown), unknown)
        return found

    def forget(self, count: int) -> None:
        """Keep the first ``count`` keys alone: there are no learners for the others."""
        if self._whole:
            self._table = _Table.of(self._table.first(count), 64 - self._table.shift)
            self._count = count
        else:
            for key in [key for key, number in self._numbers.items() if number >= count]:
                del self._numbers[key]
            del self._list[count:]

    def _mix(self) -> None:
        listed = self.all().tolist()
        self._numbers = {key: k for k, key in enumerate(listed)}
        self._list, self._whole = listed, False
        self._table = _Table.of(np.empty(0, dtype=np.int64), 0)


def read(keys: Any) -> Array | list[Any]:
    """Return keys as an int64 array where all are whole numbers, else as a list."""
    if isinstance(keys, np.ma.MaskedArray):  # what is masked is null
        keys = keys.tolist()
    elif hasattr(keys, "to_pylist"):  # Arrow: its null is None
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
    if set(map(type, listed)) <= _WHOLE and all(-(2**63) <= key < 2**63 for key in listed):
        return np.array(listed, dtype=np.int64)
    return listed


def _as_whole(key: Any) -> int | None:
    """Return the 64-bit whole number that equals ``key``, if there is one."""
    try:
        hash(key)
        number = int(key) if isinstance(key, Number) else None  # type: ignore[call-overload]
        return number if number == key and -(2**63) <= number < 2**63 else None
    except TypeError as error:
        if isinstance(key, Number):  # a complex number
            return None
        raise TypeError(f"A key must be hashable, as in a dict: {error}.") from error
    except (ValueError, OverflowError):  # NaN, infinity
        return None


def is_null(value: Any) -> bool:
    """Tell whether a value is None, NaN, NaT or their kind, or a tuple that holds one."""
    if isinstance(value, tuple):
        return any(map(is_null, value))
    try:
        return value is None or bool(value != value)
    except (TypeError, ValueError):  # pandas.NA has no truth
        return True


def refuse_nulls(keys: Iterable[Any], rows: Sequence[int] | Array) -> None:
    """Refuse None, NaN, NaT and their kind, naming the row."""
    for t, key in zip(rows, keys, strict=True):
        if is_null(key):
            raise ValueError(
                f"The key of row {int(t)} is null ({key!r}); every row needs a key. Nothing was "
                "learned."
            )


def _timestamp(text: str) -> Any:
    """Return pandas' Timestamp: there was one when it was written."""
    from pandas import Timestamp

    return Timestamp(text)


_STEP = timedelta(microseconds=1)
_TAGS: dict[str, tuple[type, Any, Any]] = {
    "bool": (bool, bool, bool),
    "int": (int, str, int),
    "float": (float, float.hex, float.fromhex),
    "str": (str, str, str),
    "bytes": (bytes, bytes.hex, bytes.fromhex),
    "decimal": (Decimal, str, Decimal),
    "datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
    "date": (date, date.isoformat, date.fromisoformat),
    "time": (time, time.isoformat, time.fromisoformat),
    "timedelta": (timedelta, lambda key: key // _STEP, lambda steps: steps * _STEP),
    "timestamp": (datetime, lambda key: key.isoformat(), _timestamp),  # pandas' own datetime
    "uuid": (UUID, str, UUID),
}
_ZONED = ("datetime", "time", "timestamp")  # a zone's name is not written, its distance from UTC is


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
    if isinstance(key, np.datetime64 | np.timedelta64):
        unit, step = np.datetime_data(key.dtype)
        return [type(key).__name__, unit, step, int(key.astype(np.int64))]
    if isinstance(key, np.generic):
        key = key.item()
    if isinstance(key, tuple):
        return ["tuple", *map(_tagged, key)]
    tag = next((tag for tag, (kind, *_) in _TAGS.items() if type(key) is kind), None)
    if isinstance(key, datetime) and hasattr(key, "nanosecond"):
        tag = "timestamp"
    if tag is None:
        raise TypeError(
            f"A key of type {type(key).__name__} cannot be written to a file; use whole numbers, "
            "strings, bytes, decimals, dates, times, UUIDs, or tuples of them."
        )
    written = [tag, _TAGS[tag][1](key)]
    if tag in _ZONED:
        again = _untagged(written)
        if again != key or hash(again) != hash(key):  # an hour that a clock change repeats
            raise TypeError(f"The key {key!r} cannot be written to a file exactly; turn it to UTC.")
    return written


def _untagged(value: list[Any]) -> Any:
    if value[0] == "tuple":
        return tuple(map(_untagged, value[1:]))
    if value[0] in ("datetime64", "timedelta64"):
        return getattr(np, value[0])(value[3], (value[1], value[2]))
    return _TAGS[value[0]][2](value[1])
