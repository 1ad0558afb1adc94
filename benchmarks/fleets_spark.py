"""What a fleet costs in Spark: the same rows with more and more of it, and what is written."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pandas as pd
from pyspark.sql import SparkSession, functions
from pyspark.sql.streaming import StatefulProcessor

from benchmarks.fleets import DIM, KEYS, interleaved, sword
from benchmarks.measure import Row, Settings
from swordplay.fleet import Fleet
from swordplay.fleet import spark as ours
from swordplay.fleet.models import Part
from swordplay.kernels.fleet import STATS

CORES, BATCH = 2, 100_000
FEATURES = [f"x{k}" for k in range(DIM)]
SCHEMA = "key long, t long, y double, " + ", ".join(f"{name} double" for name in FEATURES)
ANSWER = "key long, t long, y double, prediction double"
NO_BAR = float("nan")


@contextmanager
def session(**more: str) -> Iterator[SparkSession]:
    """Run Spark with the settings we recommend, bound to loopback."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    # Workers unpickle what is defined here.
    root = str(Path(__file__).parent.parent)
    os.environ["PYTHONPATH"] = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    builder = SparkSession.builder.master(f"local[{CORES}]")
    chosen = {
        **ours.settings(cores=CORES),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.streaming.numRecentProgressUpdates": "1000",
        **more,
    }
    for name, value in chosen.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    try:
        yield spark
    finally:
        spark.stop()


def frames(files: int, rows: int, keys: int = KEYS) -> list[pd.DataFrame]:
    """Return batches of interleaved rows; times go on from batch to batch."""
    out = []
    for i in range(files):
        names, X, y = interleaved(keys, rows, DIM, seed=i)
        times = np.arange(i * rows, (i + 1) * rows)
        out.append(pd.DataFrame(X, columns=FEATURES).assign(key=names, t=times, y=y))
    return out


def write(folder: Path, batches: list[pd.DataFrame]) -> None:
    """Write a file for each batch; the file source goes by age."""
    folder.mkdir(parents=True)
    for i, batch in enumerate(batches):
        path = folder / f"{i:04d}.parquet"
        batch.to_parquet(path, index=False)
        os.utime(path, (1e9 + i, 1e9 + i))


def read(spark: SparkSession, folder: Path) -> Any:
    """Return the stream of a folder, a file in each micro-batch."""
    one = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return one.parquet(str(folder))


def learned(rows: Any, **how: Any) -> Any:
    """Return our predictions of a stream."""
    return ours.stream_learn(
        rows, key="key", time="t", features=FEATURES, target="y", model=sword(), **how
    )


def play(told: Any, checkpoint: Path, watch: Callable[[int], None] = lambda batch: None) -> Any:
    """Run a query to its end with nobody reading the answers; return its batches' progress."""
    query = (
        told.writeStream.format("noop")
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    while query.isActive:
        if query.lastProgress:
            watch(query.lastProgress["batchId"])
        time.sleep(0.05)
    query.awaitTermination()
    return [told for told in query.recentProgress if told["numInputRows"]]


def rates(progress: Any) -> list[float]:
    """Return rows/s of every batch but the first, which starts workers and loads kernels."""
    counts = [told["numInputRows"] for told in progress[1:]]
    return [n / seconds for n, seconds in zip(counts, taken(progress), strict=True)]


def taken(progress: Any) -> list[float]:
    """Return the seconds of every batch but the first."""
    return [told["durationMs"]["triggerExecution"] / 1e3 for told in progress[1:]]


class PerKey(StatefulProcessor):  # type: ignore[misc]
    """What one would write first: a group and a state value for each key, no more than its row."""

    def init(self, handle: Any) -> None:
        self.state = handle.getValueState("row", "state binary")
        self.model = Fleet(sword()).model

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        frame = pd.concat(list(rows)).sort_values("t")
        stored, width = self.state.get(), self.model.fresh.nbytes
        row, stats = self.model.fresh.copy()[None], np.zeros((1, STATS))
        if stored is not None:
            data = bytes(stored[0])
            row = np.frombuffer(data[:width], dtype=row.dtype)[None].copy()
            stats = np.frombuffer(data[width:])[None].copy()
        X = np.ascontiguousarray(frame[FEATURES].to_numpy())
        n, y = len(frame), frame["y"].to_numpy()
        told = np.empty(n)
        self.model.learn(row, stats, Part(np.arange(n), np.zeros(n, np.int64), 0, X, told), y)
        self.state.update((row.tobytes() + stats.tobytes(),))
        yield frame[["key", "t", "y"]].assign(prediction=told)

    def close(self) -> None:
        """Nothing is held."""


class Identity(StatefulProcessor):  # type: ignore[misc]
    """Rows to Python and back, no state."""

    def init(self, handle: Any) -> None:
        """No state."""

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        for frame in rows:
            yield frame[["key", "t", "y"]].assign(prediction=0.0)

    def close(self) -> None:
        """Nothing is held."""


class StateOnly(Identity):
    """Read and write the bytes of the parts that rows touch, and learn nothing."""

    size = KEYS // (16 * 64) * (sword()._row.nbytes + 8 * STATS + 24) + 1600

    def init(self, handle: Any) -> None:
        self.state = handle.getMapState("state", "part int", "state binary")

    def handleInputRows(self, key: Any, rows: Iterator[Any], timerValues: Any) -> Iterator[Any]:
        frame = pd.concat(list(rows))
        for part in np.unique(frame["part"]).tolist():
            stored = self.state.getValue((part,))
            state = os.urandom(self.size) if stored is None else bytes(stored[0])
            self.state.updateValue((part,), (state,))
        yield frame[["key", "t", "y"]].assign(prediction=0.0)


def buckets_of(rows: Any, buckets: int = 16, parts: int = 64) -> Any:
    """Return rows with the columns that ours are grouped by."""
    return rows.withColumn(
        "bucket", functions.pmod(functions.hash("key"), functions.lit(buckets))
    ).withColumn(
        "part",
        functions.pmod(functions.hash("key", functions.lit("part")), functions.lit(parts)),
    )


def grouped(rows: Any, by: str, processor: StatefulProcessor) -> Any:
    """Return the answers of a processor."""
    return rows.groupBy(by).transformWithStateInPandas(
        statefulProcessor=processor, outputStructType=ANSWER, outputMode="Append", timeMode="None"
    )


def rate_row(name: str, what: str, progress: Any, bar: float = NO_BAR, note: str = "") -> Row:
    """Return the median rate of a query as a row of the table."""
    steady = rates(progress)
    details = {"rows_per_s": steady, "batch": progress[-1]["numInputRows"], "cores": CORES}
    return Row(name, what, bar, median(steady), "rows/s", True, note=note, details=details)


def spark(settings: Settings) -> list[Row]:
    """Rows/s in Spark: ours against one group per key, and the same rows in one process."""
    batches = frames(settings.size(10, 3), settings.size(BATCH, 10_000))
    few = batches[: settings.size(4, 3)]  # a group per key takes ten times as long
    with tempfile.TemporaryDirectory() as folder, session() as engine:
        root = Path(folder)
        write(root / "in", batches)
        write(root / "few", few)
        mine = play(learned(read(engine, root / "in")), root / "ours")
        per_key = play(grouped(read(engine, root / "few"), "key", PerKey()), root / "per key")
    fleet, plain = Fleet(sword()), []
    for batch in batches:
        keys, X = batch["key"].to_numpy(), batch[FEATURES].to_numpy()
        began = time.perf_counter()
        fleet.predict_then_learn(keys, X, batch["y"], batch["t"])
        plain.append(len(batch) / (time.perf_counter() - began))
    about = f"{KEYS:,} keys, d = {DIM}, batches of {len(batches[0]):,}"
    row = rate_row("spark/ours", f"Spark, {about}", mine, 58_000.0)
    theirs = rate_row("spark/per-key", f"Spark, one group per key, {about}", per_key)
    assert row.measured is not None and theirs.measured is not None  # noqa: PT018
    return [
        row,
        Row(
            "spark/ratio", "Spark: ours faster than one group per key", 5.0,
            row.measured / theirs.measured, at_least=True,
        ),
        theirs,
        Row(
            "spark/plain", f"One process, no Spark, {about}", NO_BAR, median(plain[1:]),
            "rows/s", True, details={"rows_per_s": plain},
        ),
    ]  # fmt: skip


def breakdown(settings: Settings) -> list[Row]:
    """Seconds of a batch, from a bare shuffle to everything: each line does more than the last."""
    batches = frames(settings.size(8, 3), settings.size(BATCH, 10_000))
    with tempfile.TemporaryDirectory() as folder, session() as engine:
        root = Path(folder)
        write(root / "in", batches)
        rows = buckets_of(read(engine, root / "in"))
        steps = {
            "read and shuffle, no Python": rows.repartition(CORES, "bucket"),
            "and Arrow to Python and back": rows.repartition(CORES, "bucket").mapInArrow(
                lambda batches: batches, rows.schema
            ),
            "and rows into frames by group (transformWithStateInPandas)": grouped(
                rows, "bucket", Identity()
            ),
            "and state read and written": grouped(rows, "bucket", StateOnly()),
            "everything": learned(read(engine, root / "in")),
        }
        done = {
            what: play(told, root / f"checkpoint {k}")
            for k, (what, told) in enumerate(steps.items())
        }
    found, before = [], 0.0
    for what, progress in done.items():
        seconds = taken(progress)
        note = f"{median(seconds) - before:+.2f} s"
        before = median(seconds)
        name, about = f"breakdown/{what}", {"seconds": seconds, "batch": len(batches[0])}
        found.append(Row(name, f"batch: {what}", NO_BAR, before, "s", note=note, details=about))
    return found


def changelogs(checkpoint: Path) -> list[int]:
    """Return the bytes that each batch wrote to the state in the checkpoint."""
    written: dict[int, int] = {}
    for path in (checkpoint / "state").rglob("[0-9]*.changelog"):
        batch = int(path.stem.split("_")[0]) - 1
        written[batch] = written.get(batch, 0) + path.stat().st_size
    return [written[batch] for batch in sorted(written)]


def levers(settings: Settings) -> list[Row]:
    """Rows/s, and bytes written by a batch with all keys, by buckets, parts and Arrow batches.

    From their differences: what a row, a part and a bucket cost a core.
    """
    rows = settings.size(BATCH, 20_000)
    batches = frames(settings.size(7, 3), rows)
    found, seconds = [], {}
    with tempfile.TemporaryDirectory() as folder, session() as engine:
        root = Path(folder)
        write(root / "in", batches)
        write(root / "half", [batch[: rows // 2] for batch in batches])
        for buckets, parts, arrow, data in (
            (64, 1, 10_000, "in"), (16, 16, 10_000, "in"), (16, 64, 10_000, "in"),
            (16, 256, 10_000, "in"), (1024, 1, 10_000, "in"), (16, 64, 10_000, "half"),
            (16, 64, 2_000, "in"), (16, 64, 50_000, "in"),
        ):  # fmt: skip
            engine.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", str(arrow))
            name = f"{buckets}x{parts}/{arrow}/{data}"
            told = learned(read(engine, root / data), buckets=buckets, parts=parts)
            progress = play(told, root / name)
            note = f"{median(changelogs(root / name)[1:]) / 1e6:.1f} MB written a batch"
            what = f"{buckets} buckets of {parts} parts, Arrow batches of {arrow:,}"
            what += ", half the rows" if data == "half" else ""
            found.append(rate_row(f"levers/{name}", what, progress, note=note))
            touched = progress[-1]["stateOperators"][0]["numRowsUpdated"]
            seconds[name] = (median(taken(progress)), touched)
    usual, most = seconds["16x64/10000/in"], seconds["16x256/10000/in"]
    a_part = (most[0] - usual[0]) / (most[1] - usual[1])
    a_bucket = (seconds["1024x1/10000/in"][0] - usual[0]) / (1024 - 16)
    a_row = (usual[0] - seconds["16x64/10000/half"][0]) / (rows - rows // 2)
    for what, cost, unit in (
        ("row", 1e6 * a_row, "µs"), ("part", 1e3 * a_part, "ms"), ("bucket", 1e3 * a_bucket, "ms"),
    ):  # fmt: skip
        text = f"from differences: a {what} takes a core"
        found.append(Row(f"levers/a {what}", text, NO_BAR, CORES * cost, unit))
    return found


def sparse(settings: Settings) -> list[Row]:
    """Bytes written by a batch with 200 of 20,000 known keys, with and without parts."""
    rng = np.random.default_rng(0)
    batches = [frames(1, settings.size(BATCH, 60_000))[0]]
    for i in range(1, 6):
        batch = frames(1, 2000)[0]
        few = rng.choice(KEYS, 200, replace=False)
        batches.append(batch.assign(key=rng.choice(few, 2000), t=batch["t"] + i * 10**6))
    found = []
    with tempfile.TemporaryDirectory() as folder, session() as engine:
        root = Path(folder)
        write(root / "in", batches)
        for buckets, parts in ((64, 1), (16, 16), (16, 64), (16, 256)):
            checkpoint = root / f"{buckets} {parts}"
            told = learned(read(engine, root / "in"), buckets=buckets, parts=parts)
            play(told, checkpoint)
            written = changelogs(checkpoint)
            found.append(
                Row(
                    f"sparse/{buckets}x{parts}",
                    f"200 of {KEYS:,} keys, {buckets} buckets of {parts} parts: written a batch",
                    NO_BAR, median(written[1:]) / 1e6, "MB", details={"bytes": written},
                )
            )  # fmt: skip
    return found


def growth(settings: Settings) -> list[Row]:
    """Bytes of the checkpoint's state while 100 batches with all keys go by."""
    count, rows = settings.size(100, 20), settings.size(KEYS, 2_000)
    sizes: dict[int, int] = {}

    def size(folder: Path) -> int:
        total = 0
        for path in folder.rglob("*"):
            with suppress(FileNotFoundError):  # what is old is deleted while we look
                total += path.stat().st_size
        return total

    with tempfile.TemporaryDirectory() as folder, session() as engine:
        root = Path(folder)
        write(root / "in", frames(count, rows))
        state = root / "checkpoint" / "state"
        progress = play(
            learned(read(engine, root / "in")),
            root / "checkpoint",
            lambda batch: sizes.update({batch + 1: size(state)}),
        )
    held = [told["stateOperators"][0]["numRowsTotal"] for told in progress]
    found = []
    for batch in sorted({count // 10, count // 2, count}):
        last = max(b for b in sizes if b <= batch)
        found.append(
            Row(
                f"growth/{batch}", f"checkpoint's state after {batch} batches of {rows:,} rows",
                NO_BAR, sizes[last] / 1e6, "MB", note=f"{held[batch - 1]:,} parts",
                details={"largest_so_far": max(v for b, v in sizes.items() if b <= batch)},
            )
        )  # fmt: skip
    return found
