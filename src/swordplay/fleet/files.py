"""Fleets as Parquet files and as bytes: no pickle, and nothing that was damaged is believed."""

from __future__ import annotations

import json
import os
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from swordplay._types import Array
from swordplay.fleet.batches import TIMES
from swordplay.fleet.keys import from_text, to_text
from swordplay.fleet.models import Model, refuse_other, restore
from swordplay.kernels.fleet import STATS
from swordplay.state import StateError, release, replacing

if TYPE_CHECKING:
    from swordplay.fleet.fleet import Fleet

FORMAT = 2
_META, _CHECKSUM = b"swordplay.fleet", b"swordplay.fleet.crc32"


def _arrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError(
            'Fleets are kept in Parquet files, which need pyarrow: pip install "swordplay[files]"'
        ) from error
    return pyarrow


@contextmanager
def _doubting(what: str) -> Iterator[None]:
    """Refuse what cannot be read as what it should be."""
    try:
        yield
    except StateError:
        raise
    except OSError as error:
        if error.errno is not None:  # the disk's, not the content's
            raise
        raise StateError(f"{what} is damaged or not a saved fleet: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError) as error:
        raise StateError(f"{what} is damaged or not a saved fleet: {error!r}") from error
    except (TypeError, ValueError, struct.error) as error:  # Arrow's and JSON's are ValueErrors
        raise StateError(f"{what} is damaged or not a saved fleet: {error}") from error


def header(model: Model) -> dict[str, Any]:
    """Return what a state of ``model`` says about itself."""
    fresh = model.fresh
    return {
        "format": FORMAT,
        "version": release(),
        "dtype": fresh.dtype.str,
        "floats": fresh.size,
        "model": model.saved(),
    }


def check_header(told: dict[str, Any], like: Model | None, what: str) -> Model:
    """Return the model of a state, or refuse the state with the reason."""
    if told.get("format") != FORMAT:
        raise StateError(
            f"{what} has format {told.get('format')} (version {told.get('version')}); this version "
            f"reads format {FORMAT}. Load it with the version of swordplay that wrote it."
        )
    if like is not None and like.saved() == told["model"]:
        model = like
    else:
        if told["model"].get("pool", {}).get("dim", 0) > told["floats"]:
            raise StateError(f"{what} cannot have so many columns: {told['model']['pool']['dim']}.")
        model = restore(told["model"])
        if like is not None:
            refuse_other(like, model, what)
    if told["floats"] != model.fresh.size or np.dtype(told["dtype"]) != model.fresh.dtype:
        raise StateError(
            f"{what} holds rows of {told['floats']} floats of type {told['dtype']}; the model "
            f"needs {model.fresh.size} of type {model.fresh.dtype}. Another version wrote it "
            f"({told.get('version')})."
        )
    return model


def _settings(fleet: Fleet) -> dict[str, Any]:
    """Return what a fleet goes on with, beside its learners."""
    told = {"times": fleet._time_kind, "late": fleet.late, "warm_start": bool(fleet.warm_start)}
    return told if fleet.columns is None else {**told, "columns": fleet.columns}


def _empty(told: dict[str, Any], model: Model, what: str, how: dict[str, Any]) -> Fleet:
    """Return a fleet with the settings of a state, but for those that ``how`` names."""
    from swordplay.fleet.fleet import LATE, Fleet

    kind, columns = told.get("times"), told.get("columns")
    late, warm = told.get("late", LATE[0]), told.get("warm_start", False)
    named = columns is None or (
        isinstance(columns, list)
        and all(isinstance(name, str) for name in columns)
        and len(columns) == len(set(columns)) == model.dim
    )
    if not (named and kind in (None, *TIMES) and late in LATE and isinstance(warm, bool)):
        raise StateError(
            f"{what} has settings that no fleet has: {kind=}, {late=}, {warm=}, {columns=}."
        )
    fleet = Fleet(model, **{"late": late, "warm_start": warm, **how})
    fleet._time_kind, fleet._columns = kind, columns
    return fleet


def _schema(pa: Any, kind: str, width: int) -> Any:
    key = {"whole": pa.int64(), "text": pa.string()}[kind]
    kinds = (key, pa.binary(width), pa.binary(8 * STATS), pa.int64(), pa.int64())
    return pa.schema(list(zip(("key", "row", "stats", "newest", "late"), kinds, strict=True)))


def save(fleet: Fleet, path: str | os.PathLike[str]) -> None:
    """Write a fleet, a row group for each block's worth of keys."""
    pa = _arrow()
    keys = fleet._store.keys.all()
    kind = "whole" if isinstance(keys, np.ndarray) else "text"
    if kind == "text":
        keys = [to_text(key) for key in keys]
        if len(set(keys)) < len(keys):
            raise TypeError("Two keys are different and look the same in a file: give them names.")
    told = {
        **header(fleet.model), **_settings(fleet), "keys": kind, "count": len(fleet)
    }  # fmt: skip
    text = json.dumps(told)
    plain = _schema(pa, kind, fleet.model.fresh.nbytes)
    schema = plain.with_metadata({_META: text, _CHECKSUM: str(zlib.crc32(text.encode()))})
    with (
        replacing(path) as file,
        pa.parquet.ParquetWriter(
            file,
            schema,
            compression="none",  # floats of a learner do not shrink
            use_dictionary=False,
            write_statistics=False,
            write_page_checksum=True,
        ) as writer,
    ):
        step = max(1024, 4 * fleet._store.blocks.per_block)
        for start in range(0, len(fleet), step):
            numbers = np.arange(start, min(start + step, len(fleet)))
            rows, stats = fleet._store.read(numbers)
            columns = [
                pa.array(keys[start : start + step], plain.field("key").type),
                _packed(pa, rows),
                _packed(pa, stats),
                pa.array(fleet._store.newest[numbers]),
                pa.array(fleet._store.late[numbers]),
            ]
            writer.write_table(pa.Table.from_arrays(columns, schema=schema))


def load(path: str | os.PathLike[str], like: Model | None, **how: Any) -> Fleet:
    """Read a fleet."""
    pa = _arrow()
    what = f"The file {path}"
    with _doubting(what):
        file = pa.parquet.ParquetFile(path, page_checksum_verification=True)
        metadata = file.schema_arrow.metadata or {}
        if _META not in metadata:
            raise StateError(f"{what} is not a saved fleet.")
        if metadata.get(_CHECKSUM) != str(zlib.crc32(metadata[_META])).encode():
            raise StateError(f"{what} is damaged: its checksum does not match its description.")
        told = json.loads(metadata[_META])
        width = told["floats"] * np.dtype(told["dtype"]).itemsize
        if not file.schema_arrow.equals(_schema(pa, told["keys"], width)):
            raise StateError(f"{what} does not hold the columns that it describes.")
        model = check_header(told, like, what)
        groups = file.num_row_groups
    fleet = _empty(told, model, what, how)
    for group in range(groups):
        with _doubting(what):
            learners = _read_group(file.read_row_group(group), told["keys"], model)
        fleet._store.admit(*learners)
    if len(fleet) != told["count"]:
        raise StateError(f"{what} holds {len(fleet)} keys; it says {told['count']}.")
    return fleet


def _read_group(table: Any, kind: str, model: Model) -> tuple[Any, Array, Array, Array, Array]:
    empty = [name for name in table.column_names if table[name].null_count]
    if empty:
        raise StateError(f"A saved fleet has no empty {empty[0]}.")
    keys: Any = table["key"].to_numpy()
    if kind == "text":
        keys = [from_text(text) for text in keys.tolist()]
    rows = _unpacked(table["row"], model.fresh.dtype, model.fresh.size)
    stats = _unpacked(table["stats"], np.dtype(np.float64), STATS)
    return keys, rows, stats, table["newest"].to_numpy(), table["late"].to_numpy()


_MAGIC = b"SWORDFLT"


def to_bytes(fleet: Fleet, about: dict[str, Any] | None) -> bytes:
    """Return a fleet as bytes: magic, checksum, length of the header, header, keys, arrays."""
    keys = fleet._store.keys.all()
    if isinstance(keys, np.ndarray):
        kind, packed = "whole", keys.tobytes()
    elif set(map(type, keys)) == {str}:
        kind, packed = "strings", json.dumps(keys).encode()
    else:
        kind, packed = "text", json.dumps([to_text(key) for key in keys]).encode()
    told = {
        **header(fleet.model),
        **_settings(fleet),
        "keys": kind,
        "count": len(fleet),
        "key_bytes": len(packed),
        "about": about,
    }
    rows, stats = fleet._store.read(np.arange(len(fleet)))
    arrays = (fleet._store.newest, fleet._store.late, stats, rows)
    text = json.dumps(told).encode()
    body = b"".join([struct.pack("<I", len(text)), text, packed, *(a.tobytes() for a in arrays)])
    return _MAGIC + struct.pack("<I", zlib.crc32(body)) + body


def from_bytes(
    data: bytes | bytearray | memoryview,
    like: Model | None,
    about: dict[str, Any] | None,
    **how: Any,
) -> Fleet:
    """Return the fleet that ``to_bytes`` described."""
    what = "The state"
    try:
        raw = memoryview(data).cast("B")
    except TypeError as error:
        raise TypeError(
            f"A fleet's state is bytes, as to_bytes() returns them; not {type(data).__name__}."
        ) from error
    if len(raw) < 16 or raw[:8] != _MAGIC:
        raise StateError("These bytes are not a swordplay fleet: they do not begin like one.")
    body = raw[12:]
    if struct.unpack("<I", raw[8:12])[0] != zlib.crc32(body):
        raise StateError("The state is damaged: its checksum does not match its content.")
    with _doubting(what):
        told, model, learners = _unpack(body, like, about, what)
    fleet = _empty(told, model, what, how)
    fleet._store.admit(*learners)
    if len(fleet) != told["count"]:
        raise StateError(f"{what} holds {len(fleet)} keys; it says {told['count']}.")
    return fleet


def _unpack(
    body: memoryview, like: Model | None, about: dict[str, Any] | None, what: str
) -> tuple[dict[str, Any], Model, tuple[Any, Array, Array, Array, Array]]:
    (length,) = struct.unpack("<I", body[:4])
    told = json.loads(bytes(body[4 : 4 + length]))
    model = check_header(told, like, what)
    if about is not None and told["about"] != about:
        raise StateError(
            f"{what} was made with other settings.\n  given: {json.dumps(about)}\n"
            f"  there: {json.dumps(told['about'])}"
        )
    count, at = told["count"], 4 + length
    packed = body[at : at + told["key_bytes"]]
    at += told["key_bytes"]

    def cut(dtype: Any, width: int) -> Array:
        nonlocal at
        end = at + np.dtype(dtype).itemsize * width * count
        array = np.frombuffer(body[at:end], dtype=dtype).reshape(count, width)
        at = end
        return array

    newest, late = cut(np.int64, 1)[:, 0], cut(np.int64, 1)[:, 0]
    stats, rows = cut(np.float64, STATS), cut(model.fresh.dtype, model.fresh.size)
    if at != len(body):
        raise StateError(f"{what} is {len(body)} bytes long; it says {at}.")
    keys: Any
    if told["keys"] == "whole":
        keys = np.frombuffer(packed, dtype=np.int64)
    else:
        keys = json.loads(bytes(packed))
        keys = keys if told["keys"] == "strings" else [from_text(text) for text in keys]
    if len(keys) != count:
        raise StateError(f"{what} holds {len(keys)} keys; it says {count}.")
    return told, model, (keys, rows, stats, newest, late)


def _packed(pa: Any, rows: Array) -> Any:
    """Return rows as fixed-size binary, without copying them."""
    rows = np.ascontiguousarray(rows)
    kind = pa.binary(rows.shape[1] * rows.itemsize)
    return pa.FixedSizeBinaryArray.from_buffers(kind, len(rows), [None, pa.py_buffer(rows)])


def _unpacked(column: Any, dtype: np.dtype[Any], width: int) -> Array:
    parts = []
    for chunk in column.chunks:
        size = dtype.itemsize * width
        raw = np.frombuffer(chunk.buffers()[1], dtype=np.uint8)
        raw = raw[chunk.offset * size : (chunk.offset + len(chunk)) * size]
        parts.append(raw.view(dtype).reshape(len(chunk), width))
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts) if parts else np.empty((0, width), dtype=dtype)
