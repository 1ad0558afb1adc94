"""A fleet in Spark Structured Streaming: keys in buckets, a bucket's state in parts.

Spark hands a processor the new rows of a bucket and lets it read the parts of the bucket's state
that these rows need; it commits the parts that changed and the predictions together, exactly once.
What is done with the rows is :mod:`swordplay.fleet.bucket`'s matter.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import lru_cache, reduce
from typing import Any

import numpy as np

from swordplay.ensemble import Ensemble
from swordplay.fleet.bucket import PART, Bucket
from swordplay.fleet.fleet import Fleet
from swordplay.fleet.models import Model, PaperModel
from swordplay.losses import Loss

try:
    import pandas as pd
    from pyspark.errors import PySparkException
    from pyspark.sql import functions, types
    from pyspark.sql.streaming import StatefulProcessor
except ImportError as error:
    raise ImportError(
        'Fleets in Spark need their extra: pip install "swordplay[spark]", and Java 17 or later.'
    ) from error

BUCKET = "__bucket"
STATE = "fleets"
_PROVIDER = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


def settings(cores: int) -> dict[str, str]:
    """Return the settings of a session that ``stream_learn`` was tested with.

    ``spark.sql.shuffle.partitions`` and the number of buckets are fixed for the life of a
    checkpoint.

    >>> settings(cores=2)["spark.sql.shuffle.partitions"]
    '2'
    """
    return {
        "spark.sql.streaming.stateStore.providerClass": _PROVIDER,
        "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
        # A batch adds what it rewrote to the checkpoint, and the background task that puts these
        # into snapshots is the one that deletes them. Spark's own 100 batches and 60 s would let a
        # checkpoint grow to a hundred times its state.
        "spark.sql.streaming.minBatchesToRetain": "10",
        "spark.sql.streaming.stateStore.maintenanceInterval": "10s",
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    }


class Processor(StatefulProcessor):  # type: ignore[misc]  # Spark's classes carry no types
    """``Bucket`` as Spark's ``transformWithStateInPandas`` wants it."""

    def __init__(self, bucket: Bucket, columns: list[str]) -> None:
        self.bucket, self.columns = bucket, columns

    def init(self, handle: Any) -> None:
        """Ask for a map from part to bytes: of a large bucket only what is touched is read."""
        self.state = handle.getMapState(STATE, "part int", "state binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Predict, then learn, the new rows of a bucket."""
        # By place: Spark renames a column whose name Python would not take for an attribute.
        frame = pd.concat(list(rows), ignore_index=True).set_axis(self.columns, axis="columns")
        changed, answer = self.bucket.advance(self._read, frame)
        for part, state in changed.items():
            self.state.updateValue((part,), (state,))
        yield answer

    def _read(self, part: int) -> bytes | None:
        value = self.state.getValue((part,))
        return None if value is None else bytes(value[0])

    def close(self) -> None:
        """Nothing is held."""


def stream_learn(
    df: Any,
    *,
    key: str,
    time: str,
    features: Sequence[str],
    target: str,
    model: Model | Ensemble,
    loss: Loss | None = None,
    sequence: str | None = None,
    buckets: int = 16,
    parts: int = 64,
    late: str = "learn",
    warm_start: bool = False,
    checkpoint: str | None = None,
) -> Any:
    """Return a DataFrame of predictions, each made before its row was learned.

    On a streaming DataFrame the result is a streaming one, with exactly-once state; on a batch one
    it is the backtest of the same rows. Columns: key, time, sequence (where given), target,
    prediction.

    Rows of a key are learned in the order of ``time`` within a micro-batch; equal times in that of
    ``sequence``, else of the row's own values. A row older than the newest that its key has seen
    in an earlier micro-batch is *late*: it is predicted and learned as it comes ("learn"), or
    predicted alone ("predict"), and counted. A null key or time stops the query: filter such rows
    out before.

    Args:
        df: rows.
        key: the column of keys.
        time: the column that orders the rows of a key.
        features: the columns that are learned from.
        target: the column that is predicted.
        model: a one-gradient learner of the paper, or ``PoolModel(len(features))``.
        loss: of a learner of the paper.
        sequence: a column that tells rows of equal times apart.
        buckets: into which keys are hashed, and which cores share: have four or more for each
            core. Fixed for a checkpoint's life.
        parts: into which the keys of a bucket are hashed again. A part is read and written whole
            when one of its keys has a row: have 20 to 80 keys in each. Fixed for a checkpoint's
            life.
        late: see above.
        warm_start: whether a new key begins at the average of its part's experienced keys.
        checkpoint: the query's ``checkpointLocation``, if what it holds should be looked at now:
            a state of another model, other columns, another type of key or other counts is refused
            here. Without it, the query refuses it when it first comes upon such a state.
    """
    if isinstance(model, Ensemble):
        model = PaperModel(model, loss)
    if len(features) != model.dim:
        raise ValueError(f"There are {len(features)} features; the model has {model.dim}.")
    named = [key, time, *features, target, *([sequence] if sequence else [])]
    absent = [name for name in named if name not in df.columns]
    if absent:
        raise ValueError(f"The DataFrame has no column {absent[0]!r}; it has {df.columns}.")
    if min(buckets, parts) < 1:
        raise ValueError(f"buckets and parts must be at least 1, not {buckets} and {parts}.")
    fields = {field.name: field.dataType.simpleString() for field in df.schema}
    bucket = Bucket(
        model, key, fields[key], time, list(features), target, sequence, buckets, parts,
        late, warm_start,
    )  # fmt: skip
    if checkpoint is not None and df.isStreaming:
        _refuse_other(df.sparkSession, checkpoint, bucket)
    used = list(dict.fromkeys([*bucket.kept, *features]))
    # Columns of their own: grouping by an expression would compute it anew for the state. The
    # second hash is salted, so that the keys of a bucket are spread over all of its parts.
    rows = (
        df.select(*used)
        .withColumn(BUCKET, functions.pmod(functions.hash(key), functions.lit(buckets)))
        .withColumn(
            PART, functions.pmod(functions.hash(key, functions.lit("part")), functions.lit(parts))
        )
    )
    schema = ", ".join(f"`{name}` {fields[name]}" for name in bucket.kept) + ", prediction double"
    groups = rows.groupBy(BUCKET)
    if df.isStreaming:
        return groups.transformWithStateInPandas(
            statefulProcessor=Processor(bucket, rows.columns),
            outputStructType=schema,
            outputMode="Append",
            timeMode="None",
        )

    def backtest(frame: Any) -> Any:
        return bucket.advance(lambda part: None, frame)[1]

    return groups.applyInPandas(backtest, schema)


def _stored(spark: Any, checkpoint: str) -> Any:
    """Return a DataFrame of all parts of a checkpoint, one column of bytes."""
    reader = spark.read.format("statestore").option("stateVarName", STATE)
    return reader.load(checkpoint).select("user_map_value.state")


def _refuse_other(spark: Any, checkpoint: str, bucket: Bucket) -> None:
    """Refuse a checkpoint whose state cannot be gone on with; a part tells for all."""
    try:
        part = _stored(spark, checkpoint).first()
    except PySparkException as error:
        if error.getCondition() == "STDS_COMMITTED_BATCH_UNAVAILABLE":
            return  # nothing is there yet
        raise
    if part is not None:
        bucket.restore(bytes(part[0]))


def read_state(spark: Any, checkpoint: str, model: Model | Ensemble | None = None) -> Fleet:
    """Return the fleet of a stopped query, all buckets of its checkpoint, on this machine.

    Args:
        spark: a session with the settings of the query's.
        checkpoint: the query's ``checkpointLocation``.
        model: what you expect; another model is refused with both shown.
    """
    if isinstance(model, Ensemble):
        model = PaperModel(model)
    fleets: list[Fleet] = []
    for (state,) in _stored(spark, checkpoint).toLocalIterator():
        fleets.append(Fleet.from_bytes(bytes(state), like=model))
        # Like sizes first: one fleet that takes over part after part copies its index each time.
        while len(fleets) > 1 and len(fleets[-2]) <= len(fleets[-1]):
            last = fleets.pop()
            fleets[-1].merge(last)
    if not fleets:
        raise ValueError(f"The checkpoint {checkpoint} holds no learners yet.")
    return reduce(Fleet.merge, fleets)


@lru_cache(maxsize=4)
def _loaded(path: str, stamp: float) -> Fleet:
    return Fleet.load(path, workers=1)


def predict_with(
    df: Any, state: Fleet | str, *, key: str, features: Sequence[str], path: str | None = None
) -> Any:
    """Return ``df`` with a column ``prediction`` from a fleet that stays as it is.

    Args:
        df: rows, batch or streaming.
        state: the path of a saved fleet that every worker can read; or a fleet, saved to ``path``.
        key: the column of keys.
        features: the columns that were learned from.
        path: where to save a fleet for the workers.
    """
    if isinstance(state, Fleet):
        if path is None:
            raise ValueError("Give path=, where workers can read the fleet from.")
        state.save(path)
        state = path
    names, where = list(features), str(state)

    def answer(frames: Iterator[Any]) -> Iterator[Any]:
        fleet = _loaded(where, os.stat(where).st_mtime)
        for frame in frames:
            matrix = frame[names].to_numpy(dtype=np.float64, na_value=np.nan)
            yield frame.assign(prediction=fleet.predict(frame[key].to_numpy(), matrix))

    schema = types.StructType(list(df.schema.fields)).add("prediction", "double")
    return df.mapInPandas(answer, schema)
