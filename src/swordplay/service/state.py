"""What a model's log replays into, the log's records, and the file that carries a model."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any, NamedTuple

import numpy as np

from swordplay._types import Array
from swordplay.service.models import Model, Spec
from swordplay.service.monitor import FORMAT, Monitor
from swordplay.state import StateError

_HEAD = struct.Struct("<IIB")
_MAGIC = b"SWORDSRV"


class Record(NamedTuple):
    """One acknowledged request to learn: exactly what was learned, in its order."""

    X: Array  # (n, d) float64
    y: Any  # (n,) float64, or a list of labels
    losses: Array  # (n,): what the predictions just before cost, for comparators

    def to_bytes(self) -> bytes:
        """Return the record's bytes."""
        n, d = self.X.shape
        if isinstance(self.y, list):
            body = json.dumps(self.y).encode()
        else:
            body = self.y.astype("<f8").tobytes()
        head = _HEAD.pack(n, d, isinstance(self.y, list))
        return b"".join([head, self.X.astype("<f8").tobytes(), self.losses.tobytes(), body])

    @classmethod
    def from_bytes(cls, data: bytes) -> Record:
        """Return the record."""
        n, d, labels = _HEAD.unpack_from(data)
        at = _HEAD.size
        X = np.frombuffer(data, "<f8", n * d, at).reshape(n, d).copy()
        losses = np.frombuffer(data, "<f8", n, at + 8 * n * d).copy()
        rest = data[at + 8 * n * (d + 1) :]
        y = json.loads(rest) if labels else np.frombuffer(rest, "<f8").copy()
        return cls(X, y, losses)


class State:
    """A model, how well it does, and which record of its log it learned last."""

    def __init__(self, model: Model, monitor: Monitor, seq: int = 0) -> None:
        self.model, self.monitor, self.seq = model, monitor, seq

    @classmethod
    def fresh(cls, spec: Spec) -> State:
        """Return the state before the first record."""
        return cls(Model(spec), Monitor(spec))

    def copy(self) -> State:
        """Return a twin that goes on exactly."""
        return State(self.model.copy(), self.monitor.copy(), self.seq)

    def learn(self, X: Array, y: Any) -> Record:
        """Learn rows, change in place, and return the record that replays it."""
        outcome = self.model.learn(X, y)
        losses = self.monitor.learn(y, outcome, self.model)
        self.seq += 1
        return Record(X, y, losses)

    # ---- a snapshot is the state in two parts, a model file is both and the spec in one

    def parts(self) -> tuple[bytes, str]:
        """Return the estimator's bytes and the monitor's JSON."""
        return self.model.to_bytes(), json.dumps(self.monitor.as_json())

    @classmethod
    def from_parts(cls, spec: Spec, state: bytes, metrics: str, seq: int) -> State:
        """Return the state of a snapshot."""
        if not metrics:
            return cls.fresh(spec)
        monitor = Monitor.from_json(spec, json.loads(metrics))
        return cls(Model.from_bytes(spec, state), monitor, seq)

    def to_file(self) -> bytes:
        """Return a model file: a JSON header, the estimator's bytes, a checksum."""
        state, metrics = self.parts()
        header = {
            "format": FORMAT,
            "spec": self.model.spec.as_json(),
            "metrics": json.loads(metrics),
        }
        text = json.dumps(header).encode()
        body = _MAGIC + struct.pack("<I", len(text)) + text + state
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_file(cls, data: bytes) -> State:
        """Return the state in a model file from anybody: everything is checked."""
        if len(data) < len(_MAGIC) + 36 or not data.startswith(_MAGIC):
            raise StateError("These bytes are not a model file: they do not begin like one.")
        body = data[:-32]
        if hashlib.sha256(body).digest() != data[-32:]:
            raise StateError("The model file is damaged: its checksum does not match.")
        (length,) = struct.unpack("<I", body[8:12])
        from swordplay.service import uploads

        if length > uploads.HEADER:
            raise StateError(f"The file's header has {length} bytes; {uploads.HEADER} are read.")
        try:
            header = json.loads(body[12 : 12 + length])
            if header["format"] != FORMAT:
                raise StateError(
                    f"The model file has format {header['format']}; this version of swordplay "
                    f"reads format {FORMAT} alone."
                )
            spec = uploads.spec_of(header)
            model = Model.from_bytes(spec, body[12 + length :])
            uploads.check_metrics(model, header["metrics"])
            monitor = Monitor.from_json(spec, header["metrics"])
        except StateError:
            raise
        except (LookupError, TypeError, ValueError, RecursionError, ArithmeticError) as error:
            raise StateError(f"The model file cannot be read: {type(error).__name__}.") from error
        model.check_upload()
        state = cls(model, monitor)
        uploads.rehearse(state)
        return state
