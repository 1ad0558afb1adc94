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
from urllib.parse import quote

import numpy as np

from swordplay.ensemble import Ensemble
from swordplay.fleet.bucket import Bucket, keys_of
from swordplay.fleet.fleet import Fleet
from swordplay.fleet.models import Model, PaperModel, as_model
from swordplay.losses import Loss

try:
    import pandas as pd
    import pyarrow as pa
    from pyspark.errors import PySparkException
    from pyspark.sql import functions, types
    from pyspark.sql.streaming import StatefulProcessor

    from swordplay.fleet.spark_columns import back, checked, column, there, type_there
except ImportError as error:
    raise ImportError(
        'Fleets in Spark need their extra: pip install "swordplay[spark]", and Java 17 or later.'
    ) from error

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

    def __init__(self, bucket: Bucket, answer: list[str]) -> None:
        self.bucket, self.answer = bucket, answer

    def init(self, handle: Any) -> None:
        """Ask for a map from part to bytes: of a large bucket only what is touched is read."""
        self.state = handle.getMapState(STATE, "part int", "state binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Predict, then learn, the new rows of a bucket."""
        frame = pd.concat(list(rows), ignore_index=True)
        changed, told = self.bucket.advance(self._read, frame)
        for part, fleet in changed.items():
            self.state.updateValue((part,), (self.bucket.store(fleet),))
        yield frame[self.answer].assign(prediction=told)

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
    operator: int | None = None,
) -> Any:
    """Return a DataFrame of predictions, each made before its row was learned.

    On a streaming DataFrame the result is a streaming one, with exactly-once state; on a batch one
    it is the backtest of the same rows. Columns: key, time, sequence (where given), target as a
    double, prediction (null where none can be made).

    Rows of a key are learned in the order of ``time`` within a micro-batch; equal times in that of
    ``sequence``, else of the row's own values. A row older than the newest that its key has seen
    in an earlier micro-batch is *late*: it is predicted and learned as it comes ("learn"), or
    predicted alone ("predict"), and counted. A null key, time or sequence stops the query: filter
    such rows out before.

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
        late: see above; may change between restarts.
        warm_start: whether a new key begins at the average of its part's experienced keys; may
            change between restarts.
        checkpoint: the query's ``checkpointLocation``, if what it holds should be looked at now:
            a state of another model, other columns, other types or other counts is refused here.
            Without it, the query refuses it when it first comes upon such a state.
        operator: which of the query's fleets this is, where ``checkpoint`` has several.
    """
    model = as_model(model, loss)
    roles = {"key": key, "time": time, **({"sequence": sequence} if sequence else {})}
    kinds = checked(df, {**roles, "target": target}, features, model.dim)
    if min(buckets, parts) < 1:
        raise ValueError(f"buckets and parts must be at least 1, not {buckets} and {parts}.")
    about = {
        **roles,
        **{f"{role}_type": kinds[name] for role, name in roles.items()},
        "features": list(features),
        "target": target,
        "buckets": buckets,
        "parts": parts,
    }
    bucket = Bucket(model, about, ("sequence",) if sequence else (), late, warm_start)
    Fleet(model, late=late)  # what is wrong with these is wrong now, not in the first batch
    if checkpoint is not None and df.isStreaming:
        state = _stored(df.sparkSession, checkpoint, operator)
        if state is not None and (part := state.first()) is not None:  # a part tells for all
            bucket.restore(bytes(part[0]))
    # The bucket is a column: grouping by an expression would compute it anew for the state. Parts
    # come from another hash, so that the keys of a bucket are spread over all of them.
    rows = df.select(
        functions.pmod(functions.hash(column(key)), functions.lit(buckets)).alias("bucket"),
        *(there(name, kinds[name]).alias(role) for role, name in roles.items()),
        column(target).cast("double").alias("target"),
        functions.xxhash64(column(key)).alias("hash"),
        *(column(name).cast("double").alias(f"x{k}") for k, name in enumerate(features)),
    )
    answer = [*roles, "target"]
    schema = ", ".join(
        [
            *(f"{role} {type_there(kinds[name])}" for role, name in roles.items()),
            "target double, prediction double",
        ]
    )
    groups = rows.groupBy("bucket")
    if df.isStreaming:
        told = groups.transformWithStateInPandas(
            statefulProcessor=Processor(bucket, answer),
            outputStructType=schema,
            outputMode="Append",
            timeMode="None",
        )
    else:

        def backtest(frame: Any) -> Any:
            frame = frame.drop(columns="bucket")
            return frame[answer].assign(prediction=bucket.advance(lambda part: None, frame)[1])

        told = groups.applyInPandas(backtest, schema)
    return told.select(
        *(back(role, kinds[name]).alias(name) for role, name in roles.items()),
        functions.col("target").alias(target),
        "prediction",
    )


def _stored(spark: Any, checkpoint: str, operator: int | None = None) -> Any:
    """Return a DataFrame of all parts of a checkpoint, one column of bytes; None if there is none.

    Spark's reader looks for a path in its URI's spelling, finds nothing there and says so.
    """
    if quote(checkpoint, safe="/:@!$&'()*+,;=~._-") != checkpoint:
        raise ValueError(
            f"Spark cannot read the state of a checkpoint at {checkpoint!r}: choose a path of "
            "letters, digits and dashes, without blanks and percent signs."
        )
    told = spark.read.format("state-metadata").load(checkpoint)
    rows = told.select("operatorId", "operatorProperties").distinct().collect()
    found = sorted(row.operatorId for row in rows if f'"{STATE}"' in (row.operatorProperties or ""))
    if rows and not found:
        raise ValueError(f"The checkpoint {checkpoint} is of a query without a fleet.")
    if operator is None and len(found) > 1:
        raise ValueError(f"The checkpoint {checkpoint} has fleets {found}: choose with operator=.")
    if operator is not None and found and operator not in found:
        raise ValueError(f"The checkpoint {checkpoint} has fleets {found}, and no {operator}.")
    if not found:
        return None
    reader = spark.read.format("statestore").option("stateVarName", STATE)
    reader = reader.option("operatorId", found[0] if operator is None else operator)
    try:
        return reader.load(checkpoint).select("user_map_value.state")
    except PySparkException as error:
        if error.getCondition() == "STDS_COMMITTED_BATCH_UNAVAILABLE":
            return None  # it was stopped in its first batch
        raise


def read_state(
    spark: Any,
    checkpoint: str,
    model: Model | Ensemble | None = None,
    loss: Loss | None = None,
    operator: int | None = None,
) -> Fleet:
    """Return the fleet of a stopped query, all buckets of its checkpoint, on this machine.

    Args:
        spark: a session with the settings of the query's.
        checkpoint: the query's ``checkpointLocation``.
        model: what you expect; another model is refused with both shown.
        loss: of a learner of the paper.
        operator: which of the query's fleets, where it has several.
    """
    if isinstance(model, Ensemble):
        model = PaperModel(model, loss)
    fleets: list[Fleet] = []
    state = _stored(spark, checkpoint, operator)
    for (part,) in () if state is None else state.toLocalIterator():
        fleets.append(Fleet.from_bytes(bytes(part), like=model))
        # Like sizes first: one fleet that takes over part after part copies its index each time.
        while len(fleets) > 1 and len(fleets[-2]) <= len(fleets[-1]):
            last = fleets.pop()
            fleets[-1].merge(last)
    if not fleets:
        raise ValueError(f"The checkpoint {checkpoint} holds no learners yet.")
    return reduce(Fleet.merge, fleets)


@lru_cache(maxsize=1)
def _loaded(path: str, stamp: tuple[int, int]) -> Fleet:
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
    if "prediction" in df.columns:
        raise ValueError("The DataFrame has a column 'prediction' already: drop or rename it.")
    kind = checked(df, {"key": key}, features, len(features))[key]
    if isinstance(state, Fleet):
        if path is None:
            raise ValueError("Give path=, where workers can read the fleet from.")
        state.save(path)
        state = path
    where, width = str(state), len(df.columns)
    schema = types.StructType(
        [*df.schema.fields, types.StructField("prediction", types.DoubleType())]
    )
    names = schema.fieldNames()

    def answer(batches: Iterator[Any]) -> Iterator[Any]:
        stamp = os.stat(where)
        fleet = _loaded(where, (stamp.st_mtime_ns, stamp.st_size))
        for batch in batches:  # as Arrow: what is not asked for passes as it is
            mine, *numbers = batch.columns[width:]
            keys = keys_of(_plain(mine), kind)
            matrix = np.column_stack([column.to_numpy(zero_copy_only=False) for column in numbers])
            told = pa.array(fleet.predict(keys, matrix))
            yield pa.RecordBatch.from_arrays([*batch.columns[:width], told], names=names)

    rows = df.select(
        "*",
        there(key, kind).alias("__key"),
        *(column(name).cast("double").alias(f"__x{k}") for k, name in enumerate(features)),
    )
    return rows.mapInArrow(answer, schema)


def _plain(column: Any) -> Any:
    """Return keys as NumPy has them; what may be null or is no number as a list."""
    if column.null_count or not pa.types.is_integer(column.type):
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy()
