"""Where f_t comes from: arrays, functions, and the paper's own constructions."""

from __future__ import annotations

from swordplay.streams.files import FileStream
from swordplay.streams.functions import FunctionStream, QuadraticStream
from swordplay.streams.generators import (
    abrupt_drift,
    gradual_drift,
    instance_one,
    instance_two,
    rademacher,
)
from swordplay.streams.linear import LinearStream
from swordplay.streams.stream import Stream

__all__ = [
    "FileStream",
    "FunctionStream",
    "LinearStream",
    "QuadraticStream",
    "Stream",
    "abrupt_drift",
    "gradual_drift",
    "instance_one",
    "instance_two",
    "rademacher",
]
