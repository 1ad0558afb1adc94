"""One pass over a file in a process of its own, so that its memory is its own.

``python -m benchmarks.one_pass sword|facts|vowpal FILE ROWS`` prints seconds, peak memory and loss
as JSON. "facts" is "sword" with a pass before, in which G and L are read off the file.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

TARGET = "y"


def peak_megabytes() -> float:
    """Return the most memory that this process has held.

    Linux carries ru_maxrss over from the parent when a process starts, so it is not asked there.
    """
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024  # bytes there, kilobytes here


def sword_pass(path: Path, rows: int, read_facts: bool) -> float:
    """Return the mean loss of Sword++ over a Parquet file."""
    import swordplay as sp

    file = sp.FileStream(path, target=TARGET)
    domain = sp.Ball(file.dim, 1.0)
    # |features| <= 1, |x| <= 1 and |y| <= 1.1 in the stream of ``benchmarks.data``.
    known = sp.Assumptions(lipschitz=2.1, smoothness=1.0, horizon=rows)
    run = sp.play(sp.SwordPP(domain, file.assumptions(domain) if read_facts else known), file)
    return run.cumulative_loss / len(run)


def main(kind: str, path: Path, rows: int) -> None:
    """Load and warm up, then time one pass from opening the file to the result."""
    if kind == "vowpal":
        from benchmarks.data import vowpal_pass
    else:
        import swordplay as sp
        from benchmarks.data import FACTS_8, sword

        sp.play(sword(2, FACTS_8), sp.LinearStream([[1.0, 0.0], [0.0, 1.0]], [1.0, 1.0]))
        sp.FileStream(path, target=TARGET)  # imports what reads files
    began = time.perf_counter()
    if kind == "vowpal":
        loss = vowpal_pass(path, rows) / 2  # it does not halve the square
    else:
        loss = sword_pass(path, rows, read_facts=kind == "facts")
    seconds = time.perf_counter() - began
    print(json.dumps({"seconds": seconds, "megabytes": peak_megabytes(), "loss": loss}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
