"""From file to result: Sword++ over Parquet against Vowpal Wabbit over text, ten million rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import swordplay as sp
from benchmarks.data import pool_size, write_vowpal
from benchmarks.measure import MISSING, Row, Settings, Times, missing
from benchmarks.one_pass import TARGET

ROOT = Path(__file__).resolve().parents[1]
DIM = 10
BLOCK = 1 << 20  # rows written at a time, which is also pyarrow's usual row group

LABELS = {
    "sword": "file to result, d = 10: faster than Vowpal Wabbit",
    "facts": "the same, with a pass before for G and L",
}
MEMORY = "file to result, d = 10: peak memory"
SPEED_BAR, MEMORY_BAR = 3.0, 500.0


def write(folder: Path, rows: int, text: bool) -> None:
    """Write the same rows as Parquet and, if ``text``, for Vowpal Wabbit, block by block."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    names = [*(f"x{j}" for j in range(DIM)), TARGET]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with (
        pq.ParquetWriter(folder / "rows.parquet", schema) as parquet,
        (folder / "rows.txt").open("wb") as lines,
    ):
        for number, at in enumerate(range(0, rows, BLOCK)):
            block = sp.streams.abrupt_drift(
                min(BLOCK, rows - at), DIM, every=1000, seed=number, loss=sp.Squared()
            )
            columns = [*np.ascontiguousarray(block.features.T), block.targets]
            parquet.write_table(pa.table(dict(zip(names, columns, strict=True)), schema))
            if text:
                write_vowpal(lines, block)


def one_pass(kind: str, folder: Path, rows: int) -> dict[str, Any]:
    """Run one pass in a new process and return what it printed."""
    path = folder / ("rows.txt" if kind == "vowpal" else "rows.parquet")
    command = [sys.executable, "-m", "benchmarks.one_pass", kind, str(path), str(rows)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stderr}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def files(settings: Settings) -> list[Row]:
    """Ten million rows of ten features (2.5 GB in the temporary folder while it runs)."""
    rows = settings.size(10_000_000)
    speed = {name: (f"file/{name}", what, SPEED_BAR) for name, what in LABELS.items()}
    if missing("pyarrow"):
        out = [Row(*row, measured=None, at_least=True, note=MISSING) for row in speed.values()]
        return [*out, Row("file/memory", MEMORY, MEMORY_BAR, None, unit="MB", note=MISSING)]
    peer = not missing("vowpalwabbit")
    repetitions = min(settings.repetitions, 3)  # a round of them takes half a minute
    kinds = ["sword", "facts", *(["vowpal"] if peer else [])]
    results: dict[str, list[dict[str, Any]]] = {kind: [] for kind in kinds}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder, rows, text=peer)
        sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
        if hasattr(os, "sync"):
            os.sync()  # or the disk is still busy writing what is to be read
        for turn in range(-1, repetitions):
            for kind in kinds[:: 1 if turn % 2 else -1]:
                result = one_pass(kind, folder, rows)
                if turn >= 0:  # the first turn finds the files wherever they are
                    results[kind].append(result)

    times = Times({kind: [result["seconds"] for result in results[kind]] for kind in kinds})
    facts = sp.Assumptions(lipschitz=2.1, smoothness=1.0, horizon=rows)
    common: dict[str, Any] = {"N": pool_size(DIM, facts), "d": DIM, "rounds": rows}
    common |= {"bytes": sizes, "repetitions": repetitions}
    common |= {"mean_loss": {kind: results[kind][0]["loss"] for kind in kinds}}
    out = []
    for kind, row in speed.items():
        details = {**common, "sword_ns": 1e9 * times.median(kind) / rows}
        if peer:
            details |= {"rival_ns": 1e9 * times.median("vowpal") / rows}
            details |= {"spread": times.spread("vowpal", kind)}
        measured = times.ratio("vowpal", kind) if peer else None
        note = "" if peer else MISSING
        out.append(Row(*row, measured, at_least=True, note=note, details=details))
    peaks = {kind: [result["megabytes"] for result in results[kind]] for kind in kinds}
    details = {**common, "megabytes": {kind: median(peaks[kind]) for kind in kinds}}
    most = max(max(peaks["sword"]), max(peaks["facts"]))
    return [*out, Row("file/memory", MEMORY, MEMORY_BAR, most, unit="MB", details=details)]
