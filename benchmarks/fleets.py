"""Fleets, in one process and in Spark: ``python -m benchmarks.fleets --help``."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import swordplay as sp
from benchmarks import report
from benchmarks.measure import Row, Settings, Work, missing, race
from swordplay.fleet import Fleet, PoolModel

KEYS, DIM = 20_000, 5


def sword(dim: int = DIM, dtype: str = "float64") -> sp.SwordPP:
    """Return Sword++ with eight base learners: what the bars are about."""
    facts = sp.Assumptions(lipschitz=20.0, smoothness=4.0, horizon=10_000)
    learner = sp.SwordPP(sp.Ball(dim=dim, radius=1.0), facts, dtype=dtype)
    assert len(learner.step_sizes) == 8
    return learner


def interleaved(keys: int, rows: int, dim: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Return keys in random order, features and targets."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (rows, dim))
    y = X.sum(axis=1) / dim + 0.05 * rng.normal(size=rows)
    return rng.integers(0, keys, rows), X, y


def fleet(settings: Settings) -> list[Row]:
    """A Fleet of 20,000 keys: Sword++ on one worker and on all, and the default pool."""
    cores, rows = os.cpu_count() or 1, settings.size(2_000_000, 200_000)
    pool_rows = settings.size(500_000, 50_000)
    data = interleaved(KEYS, rows, DIM)
    some = tuple(column[:pool_rows] for column in data)

    def learning(fleet: Fleet, batch: Any) -> Callable[[], Work]:
        fleet.learn(*batch)  # every key is known by now: what is timed is a running stream
        return lambda: lambda: fleet.predict_then_learn(*batch)

    times = race(
        settings.repetitions,
        {
            "all": learning(Fleet(sword()), data),
            "one": learning(Fleet(sword(), workers=1), data),
            "pool": learning(Fleet(PoolModel(DIM)), some),
        },
    )
    about = {"keys": KEYS, "d": DIM, "N": 8, "rows": rows, "cores": cores}
    rates = {name: rows / times.median(name) / 1e6 for name in ("all", "one")}
    return [
        Row(
            "fleet/all", f"Fleet, Sword++, {cores} workers", 2.0, rates["all"],
            "M rows/s", True, details={**about, "one_worker": rates["one"]},
        ),
        Row(
            "fleet/scaling", f"Fleet, Sword++: {cores} workers faster than one", 1.6,
            times.ratio("one", "all"), at_least=True,
            details={**about, "spread": times.spread("one", "all")},
        ),
        Row(
            "fleet/pool", f"Fleet, default pool, {cores} workers", 0.3,
            pool_rows / times.median("pool") / 1e6, "M rows/s", True,
            details={"keys": KEYS, "d": DIM, "rows": pool_rows},
        ),
    ]  # fmt: skip


MILLION = """
import json, resource, sys, time
from benchmarks.fleets import Fleet, interleaved, sword
what, path, keys = sys.argv[1], sys.argv[2], int(sys.argv[3])
out = {}
if what == "save":
    fleet = Fleet(sword(10, "float32"))
    fleet.learn(range(keys), *interleaved(keys, keys, 10)[1:])
    for seed in range(1, 5):
        fleet.learn(*interleaved(keys, keys // 2, 10, seed))
    began = time.perf_counter()
    fleet.save(path)
else:
    began = time.perf_counter()
    fleet = Fleet.load(path)
out["seconds"] = time.perf_counter() - began
out["keys"], out["row_bytes"] = len(fleet), fleet.model.fresh.nbytes
out["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9
print(json.dumps(out))
"""


def million(settings: Settings) -> list[Row]:
    """A million keys, d = 10, float32: peak memory of a process, save and load."""
    keys = settings.size(1_000_000)

    def process(what: str, path: Path) -> dict[str, Any]:
        command = [sys.executable, "-c", MILLION, what, str(path), str(keys)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        result: dict[str, Any] = json.loads(done.stdout)
        return result

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "fleet.parquet")
        saved, loaded = process("save", path), process("load", path)
        file_bytes = path.stat().st_size
    assert saved["keys"] == loaded["keys"] == keys
    about = {"d": 10, "N": 8, "dtype": "float32", "keys": keys, "file_bytes": file_bytes}
    about["row_bytes"] = saved["row_bytes"]
    peaks = {"learn_and_save": saved["peak_gb"], "load": loaded["peak_gb"]}
    return [
        Row(
            "million/memory", f"{keys:,} keys, d = 10, float32: peak memory", 2.5,
            max(peaks.values()), "GB", details={**about, **peaks},
        ),
        Row("million/save", f"{keys:,} keys: save", 20.0, saved["seconds"], "s", details=about),
        Row("million/load", f"{keys:,} keys: load", 20.0, loaded["seconds"], "s", details=about),
    ]  # fmt: skip


def _spark(name: str, what: str) -> Callable[[Settings], list[Row]]:
    def run(settings: Settings) -> list[Row]:
        if missing("pyspark"):
            note = 'not installed: pip install "swordplay[spark]", and Java 17'
            return [Row(name, f"Spark: {name}", 0.0, None, note=note)]
        from benchmarks import fleets_spark

        found: list[Row] = getattr(fleets_spark, name)(settings)
        return found

    run.__doc__ = what
    return run


GROUPS: dict[str, Callable[[Settings], list[Row]]] = {
    "fleet": fleet,
    "million": million,
    **{
        name: _spark(name, what)
        for name, what in {
            "spark": "Rows/s in Spark: ours, one group per key, and the same rows in one process.",
            "breakdown": "Where a batch in Spark goes: shuffle, Arrow, Python, state, learning.",
            "levers": "Rows/s and bytes by buckets, parts and size of Arrow batches.",
            "sparse": "Bytes that a batch of few keys writes, with and without parts.",
            "growth": "Bytes of the checkpoint's state after 10, 50 and 100 batches.",
        }.items()
    },
}


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    lines = [f"  {name:<10} {run.__doc__}" for name, run in GROUPS.items()]
    out = argparse.ArgumentParser(
        prog="python -m benchmarks.fleets",
        description="Measure fleets. Run it on a machine that does nothing else.",
        epilog="names:\n" + "\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("--only", nargs="+", choices=GROUPS, metavar="NAME", help="measure only these")
    out.add_argument("--quick", action="store_true", help="small sizes: a look, not a measurement")
    out.add_argument("--repetitions", type=int, default=5, metavar="K", help="default 5")
    out.add_argument(
        "--out", type=Path, default=Path("bench-out"), metavar="FOLDER", help="default bench-out"
    )
    return out


def main() -> None:
    """Run what was asked for."""
    options = parser().parse_args()
    settings = Settings(repetitions=options.repetitions, quick=options.quick)
    options.out.mkdir(parents=True, exist_ok=True)
    before, began = report.load_average(), time.perf_counter()
    rows: list[Row] = []
    for name, run in GROUPS.items():
        if options.only is None or name in options.only:
            started = time.perf_counter()
            rows += run(settings)
            print(f"{name}: {time.perf_counter() - started:.0f} s", flush=True)
    about = report.machine()
    about |= {"quick": settings.quick, "repetitions": settings.repetitions}
    about |= {"load_average": {"before": before, "after": report.load_average()}}
    about |= {"seconds": round(time.perf_counter() - began, 1)}
    title = "Fleets against their bars" + (" (--quick: no measurement)" if options.quick else "")
    where = (
        f"{about['processor']}, {about['cores']} cores, Python {about['python']}, "
        f"load average before {before}."
    )
    barred = [row for row in rows if np.isfinite(row.bar)]
    if barred:
        report.print_table(barred, title, report.summary(barred))
    for row in rows:
        if not np.isfinite(row.bar) and row.measured is not None:
            value = report.number(row.measured, row.unit)
            print(f"{row.what:<68} {value:>16}  {row.note}")
    print(where)
    path = options.out / "fleets.json"
    report.write_json(path, rows, about)
    print("Written:", path)


if __name__ == "__main__":
    main()
