"""Arrow IPC streams of strangers: bounded before anything is unpacked, numbers and strings only."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from swordplay._types import Array
from swordplay.service.errors import Refused
from swordplay.service.models import LARGEST, Answer

if TYPE_CHECKING:
    from swordplay.service.host import Host

_END = 0
_COMPRESSION = 3  # the field of a record batch's metadata that says how its body is packed


def read(body: bytes, most: int) -> Any:
    """Return the table in a stream of at most ``most`` rows."""
    try:
        _refuse_compressed(body)
        with pa.ipc.open_stream(body) as reader:
            for field in reader.schema:
                kind = field.type
                numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind)
                if not (numeric or pa.types.is_boolean(kind) or _is_text(kind)):
                    raise Refused(422, f"Columns of type {kind} are not read.", field.name[:100])
            if len(set(reader.schema.names)) < len(reader.schema.names):
                raise Refused(422, "Columns must have different names.")
            batches, rows = [], 0
            for batch in reader:
                batch.validate(full=True)
                rows += batch.num_rows
                if rows > most:
                    raise Refused(413, f"A request may have {most} rows.")
                batches.append(batch)
            if rows == 0:
                raise Refused(422, "There are no rows.")
            return pa.Table.from_batches(batches, reader.schema)
    except (pa.ArrowException, ValueError, struct.error, LookupError, OSError) as error:
        raise Refused(400, f"The Arrow stream cannot be read: {str(error)[:200]}") from None


def _refuse_compressed(body: bytes) -> None:
    """Walk the messages; a packed one could unpack to any size.

    A message is 0xFFFFFFFF, the length of its metadata (a flatbuffer), the metadata, its body.
    """
    at = 0
    while at + 8 <= len(body):
        marker, length = struct.unpack_from("<Ii", body, at)
        if marker != 0xFFFFFFFF or length < 0:
            raise ValueError("a message does not begin like one")
        if length == _END:
            return
        start = at + 8
        root = start + struct.unpack_from("<I", body, start)[0]
        header = _field(body, root, 2)
        size = _field(body, root, 3)
        kind = _field(body, root, 1)
        if kind and body[kind] == 2:
            raise Refused(422, "Dictionaries are not read; send plain columns.")
        if kind and header and body[kind] == 3:
            table = header + struct.unpack_from("<I", body, header)[0]
            if _field(body, table, _COMPRESSION):
                raise Refused(422, "Compressed Arrow streams are not read.")
        length_of_body = struct.unpack_from("<q", body, size)[0] if size else 0
        if length_of_body < 0:
            raise ValueError("a body has a negative length")
        at = start + length + length_of_body


def _field(body: bytes, table: int, number: int) -> int:
    """Return where a flatbuffer table keeps a field; 0 where it has none."""
    layout = table - struct.unpack_from("<i", body, table)[0]
    if layout < 0:
        raise ValueError("a table lies outside its message")
    (size,) = struct.unpack_from("<H", body, layout)
    if 4 + 2 * number >= size:
        return 0
    (offset,) = struct.unpack_from("<H", body, layout + 4 + 2 * number)
    return table + int(offset) if offset else 0


def _is_text(kind: Any) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def column(table: Any, name: str) -> list[Any]:
    """Return a column's values, as JSON would have them."""
    values = table.column(name)
    if pa.types.is_floating(values.type):
        values = values.cast(pa.float64())
    return list(values.to_pylist())


def flag(table: Any, name: str, default: bool) -> bool:
    """Return an on-off setting from the stream's metadata."""
    metadata = table.schema.metadata or {}
    return bool(metadata.get(name.encode(), b"true" if default else b"false") == b"true")


def features(host: Host, table: Any, others: Sequence[str]) -> Array:
    """Return the feature columns: by name where the model has names, else in their order."""
    from swordplay.service.bodies import check_matrix

    names = host.spec.features
    given = [name for name in table.column_names if name not in others]
    if names is not None:
        for name in given:
            if name not in names:
                raise Refused(422, "There is no such feature.", name[:100])
    columns = []
    for name in names or given:
        if name not in given:
            columns.append(np.full(table.num_rows, np.nan))
            continue
        if _is_text(table.column(name).type):
            raise Refused(422, "Features are numbers.", name[:100])
        values = table.column(name).cast(pa.float64(), safe=False).to_numpy()
        if (np.abs(values) > LARGEST).any():
            raise Refused(422, "A value is out of range.", name[:100])
        columns.append(values)
    if not columns:
        raise Refused(422, "There are no feature columns.")
    return check_matrix(host, np.ascontiguousarray(np.column_stack(columns), dtype=np.float64))


def write(answer: Answer, ids: list[str] | None) -> bytes:
    """Return predictions as a stream: prediction, lower, upper, ``p:<class>``, id."""
    columns: dict[str, Any] = {"prediction": pa.array(answer.values)}
    if answer.intervals is not None:
        columns["lower"] = pa.array(answer.intervals[:, 0])
        columns["upper"] = pa.array(answer.intervals[:, 1])
    if answer.probabilities is not None and answer.classes is not None:
        for k, label in enumerate(answer.classes):
            columns[f"p:{label}"] = pa.array(answer.probabilities[:, k])
    if ids is not None:
        columns["id"] = pa.array(ids)
    table = pa.table(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return bytes(sink.getvalue().to_pybytes())
