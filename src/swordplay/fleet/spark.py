"""A fleet in Spark Structured Streaming: keys in buckets, a bucket's fleet is one state value.

Spark hands a processor the new rows of a bucket and the bytes that the bucket's :class:`Fleet` was
left as, and commits the new bytes and the predictions together, exactly once. Everything that must
be the same after a kill is a function of those two: rows are put in their order here, whatever
order the shuffle brought them in.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from swordplay.ensemble import Ensemble
from swordplay.fleet.fleet import Fleet
from swordplay.fleet.models import Model, PaperModel
from swordplay.losses import Loss

try:
    import pandas as pd
    from pyspark.sql import functions, types
    from pyspark.sql.streaming import StatefulProcessor
except ImportError as error:
    raise ImportError(
        'Fleets in Spark need their extra: pip install "swordplay[spark]", and Java 17 or later.'
    ) from error

BUCKET = "__bucket"
STATE = "fleet"
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
        "spark.sql.shuffle.partitions": str(cores),
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.execution.arrow.maxRecordsPerBatch": "10000",
    }


class Bucket:
    """What happens to the rows of a bucket, without Spark: bytes and rows in, bytes and rows out.

    Args:
        model: of every key.
        key, time, features, target, sequence: columns; ``sequence`` may be None.
        buckets: how many there are.
        late, warm_start: see :class:`Fleet`.
    """

    def __init__(
        self,
        model: Model,
        key: str,
        time: str,
        features: Sequence[str],
        target: str,
        sequence: str | None,
        buckets: int,
        late: str,
        warm_start: bool,
    ) -> None:
        self.model, self.key, self.time, self.target = model, key, time, target
        self.features, self.sequence, self.buckets = list(features), sequence, buckets
        self.how: dict[str, Any] = {"late": late, "warm_start": warm_start, "workers": 1}
        self.kept = [key, time, *([sequence] if sequence else []), target]

    @property
    def about(self) -> dict[str, Any]:
        """What a state must have been made with to be gone on with."""
        return {
            "key": self.key,
            "features": self.features,
            "target": self.target,
            "buckets": self.buckets,
        }

    def advance(self, state: bytes | None, frames: Iterable[Any]) -> tuple[bytes, Any]:
        """Return the state after the rows, and the rows with their predictions."""
        frame = pd.concat(list(frames), ignore_index=True)
        if state is None:
            fleet = Fleet(self.model, **self.how)
        else:
            fleet = Fleet.from_bytes(state, like=self.model, about=self.about, **self.how)
        matrix = frame[self.features].to_numpy(dtype=np.float64, na_value=np.nan)
        targets = frame[self.target].to_numpy(dtype=np.float64, na_value=np.nan)
        times = frame[self.time].to_numpy()
        # Equal times are told apart by the sequence, else by the row itself: never by the shuffle.
        first = [frame[self.sequence].to_numpy()] if self.sequence else []
        order = np.lexsort([targets, *matrix.T[::-1], *first, times])
        keys = frame[self.key].to_numpy()[order]
        told = np.empty(len(frame))
        told[order] = fleet.predict_then_learn(keys, matrix[order], targets[order], times[order])
        answer = frame[self.kept].assign(prediction=told)
        return fleet.to_bytes(self.about), answer


class Processor(StatefulProcessor):  # type: ignore[misc]  # Spark's classes carry no types
    """``Bucket`` as Spark's ``transformWithStateInPandas`` wants it."""

    def __init__(self, bucket: Bucket) -> None:
        self.bucket = bucket

    def init(self, handle: Any) -> None:
        """Ask for one value a bucket."""
        self.state = handle.getValueState(STATE, "state binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        """Predict, then learn, the new rows of a bucket."""
        old = bytes(self.state.get()[0]) if self.state.exists() else None
        new, answer = self.bucket.advance(old, rows)
        self.state.update((new,))
        yield answer

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
    buckets: int = 64,
    late: str = "learn",
    warm_start: bool = False,
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
        buckets: into which keys are hashed. A bucket's state is one value, rewritten when one of
            its keys learns: have some 50 to 500 keys in each. Fixed for a checkpoint's life.
        late: see above.
        warm_start: whether a new key begins at the average of its bucket's experienced keys.
    """
    if isinstance(model, Ensemble):
        model = PaperModel(model, loss)
    if len(features) != model.dim:
        raise ValueError(f"There are {len(features)} features; the model has {model.dim}.")
    absent = [name for name in (key, time, *features, target) if name not in df.columns]
    if absent:
        raise ValueError(f"The DataFrame has no column {absent[0]!r}; it has {df.columns}.")
    bucket = Bucket(model, key, time, features, target, sequence, buckets, late, warm_start)
    used = list(dict.fromkeys([*bucket.kept, *features]))
    # A column of its own: grouping by an expression would compute it anew for the state.
    rows = df.select(*used).withColumn(
        BUCKET, functions.pmod(functions.hash(functions.col(key)), functions.lit(buckets))
    )
    fields = {field.name: field.dataType.simpleString() for field in df.schema}
    schema = ", ".join(f"`{name}` {fields[name]}" for name in bucket.kept) + ", prediction double"
    groups = rows.groupBy(BUCKET)
    if df.isStreaming:
        return groups.transformWithStateInPandas(
            statefulProcessor=Processor(bucket),
            outputStructType=schema,
            outputMode="Append",
            timeMode="None",
        )

    def backtest(frame: Any) -> Any:
        return bucket.advance(None, [frame])[1]

    return groups.applyInPandas(backtest, schema)


def read_state(spark: Any, checkpoint: str, model: Model | Ensemble | None = None) -> Fleet:
    """Return the fleet of a stopped query, all buckets of its checkpoint, on this machine.

    Args:
        spark: a session with the settings of the query's.
        checkpoint: the query's ``checkpointLocation``.
        model: what you expect; another model is refused with both shown.
    """
    if isinstance(model, Ensemble):
        model = PaperModel(model)
    values = (
        spark.read.format("statestore").option("stateVarName", STATE).load(checkpoint)
    ).select("value.state")
    fleet: Fleet | None = None
    for row in values.toLocalIterator():
        part = Fleet.from_bytes(bytes(row[0]), like=model)
        fleet = part if fleet is None else fleet.merge(part)
    if fleet is None:
        raise ValueError(f"The checkpoint {checkpoint} holds no learners yet.")
    return fleet


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
