"""The query of the Spark tests, as a process of its own, so that it can be killed."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np

import swordplay as sp

FEATURES = ["a", "b", "c"]
BUCKETS, PARTS, KEYS, ROWS = 4, 8, 200, 1500
FILES = int(os.environ.get("FILES", "8"))  # more of them where more kills are to fit in


def model():
    facts = sp.Assumptions(lipschitz=20.0, smoothness=4.0, horizon=3000)
    return sp.SwordPP(sp.Ball(dim=3, radius=1.0), facts)


def rows():
    """Return keys, features, targets and times; times come in order and tell all rows apart."""
    rng = np.random.default_rng(0)
    n = FILES * ROWS
    X = rng.uniform(-1, 1, (n, 3))
    keys = np.array([f"sensor {k}" for k in rng.integers(0, KEYS, n)])
    return keys, X, X @ [0.5, -0.2, 0.1] + 0.05 * rng.normal(size=n), np.arange(n)


def session(master="local[2]"):
    from pyspark.sql import SparkSession

    from swordplay.fleet import spark as ours

    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers, whatever python3 is on the path
    builder = SparkSession.builder.master(master)
    chosen = {
        **ours.settings(cores=2),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Many snapshots and much deletion in a short test.
        "spark.sql.streaming.stateStore.maintenanceInterval": "1s",
        "spark.driver.memory": "1g",
        "spark.sql.session.timeZone": "UTC",
    }
    for name, value in chosen.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def main(root):
    from swordplay.fleet import spark as ours

    spark = session("local[2,4]")  # a task may fail four times, as it may on a cluster
    schema = "key string, t long, y double, a double, b double, c double"
    stream = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(f"{root}/in")
    told = ours.stream_learn(
        stream, key="key", time="t", features=FEATURES, target="y", model=model(),
        buckets=BUCKETS, parts=PARTS, checkpoint=f"{root}/checkpoint",
    )  # fmt: skip
    query = (
        told.writeStream.format("parquet")
        .option("path", f"{root}/out")
        .option("checkpointLocation", f"{root}/checkpoint")
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    # Read through Spark: only it knows which files of the sink were committed.
    answers = spark.read.parquet(f"{root}/out").toPandas().sort_values("t")
    fleet = ours.read_state(spark, f"{root}/checkpoint", model())
    fleet.save(Path(root, "final.parquet"))
    answers.to_parquet(Path(root, "answers.parquet"))
    spark.stop()
    Path(root, "done").touch()


if __name__ == "__main__":
    main(sys.argv[1])
