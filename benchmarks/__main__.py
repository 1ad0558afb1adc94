"""Measure everything and compare it with the bars: ``python -m benchmarks --help``."""

from __future__ import annotations

import argparse
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks import drift, files, many, native, peers, report, sparse, startup
from benchmarks.measure import Row, Settings

GROUPS: dict[str, Callable[[Settings], list[Row]]] = {
    "numba-sgd": native.numba_sgd,
    "ogd": native.ogd,
    "vowpal": peers.vowpal,
    "river": peers.river,
    "scikit-learn": peers.scikit_learn,
    "file": files.files,
    "decide-learn": native.decide_learn,
    "huge-d": native.huge,
    "sparse": sparse.sparse,
    "linear-in-T": native.linear,
    "startup": startup.startup,
    "many": many.many,
}
BUSY = 0.5  # a load average above this disturbs the times


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {text}")
    return number


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    lines = [f"  {name:<13} {(run.__doc__ or '').strip()}" for name, run in GROUPS.items()]
    out = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Compare the speed of swordplay with its bars and with other libraries.",
        epilog=textwrap.dedent("""\
            python -m benchmarks drift compares losses, not times: see its own --help.

            Run it on a machine that does nothing else. Other libraries are measured where they are
            installed: pip install "swordplay[bench]".

            names:
            """)
        + "\n".join(lines),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("--only", nargs="+", choices=GROUPS, metavar="NAME", help="measure only these")
    out.add_argument("--quick", action="store_true", help="small sizes: a look, not a measurement")
    out.add_argument("--repetitions", type=_positive, default=5, metavar="K", help="default 5")
    out.add_argument(
        "--out", type=Path, default=Path("bench-out"), metavar="FOLDER", help="default bench-out"
    )
    return out


def main() -> None:
    """Run the benchmarks that were asked for."""
    if sys.argv[1:2] == ["drift"]:
        drift.main(sys.argv[2:])
        return
    options = parser().parse_args()
    settings = Settings(repetitions=options.repetitions, quick=options.quick)
    options.out.mkdir(parents=True, exist_ok=True)
    chosen = [name for name in GROUPS if options.only is None or name in options.only]
    before, began = report.load_average(), time.perf_counter()
    if before is not None and before > BUSY:
        print(f"Other work is running (load average {before}): the times will be disturbed.")
    rows: list[Row] = []
    for number, name in enumerate(chosen, 1):
        print(f"[{number}/{len(chosen)}] {name} ...", end="", flush=True)
        started = time.perf_counter()
        rows += GROUPS[name](settings)
        print(f" {time.perf_counter() - started:.0f} s", flush=True)

    about = report.machine()
    about |= {"quick": settings.quick, "repetitions": settings.repetitions}
    about |= {"load_average": {"before": before, "after": report.load_average()}}
    about |= {"seconds": round(time.perf_counter() - began, 1)}
    title = "swordplay (Sword++ on the unit ball) against its bars" + (
        " (--quick: no measurement)" if options.quick else ""
    )
    where = (
        f"{about['processor']}, {about['cores']} cores, Python {about['python']}, "
        f"load average before {before}; medians, interleaved, of {settings.repetitions}."
    )
    report.print_table(rows, title, f"{report.summary(rows)}\n{where}")
    report.write_json(options.out / "benchmarks.json", rows, about)
    written = [options.out / "benchmarks.json"]
    if report.draw(options.out / "benchmarks.png", rows, title, where):
        written.append(options.out / "benchmarks.png")
    else:
        print('No chart: it needs matplotlib, pip install "swordplay[bench]".')
    print("Written:", ", ".join(str(path) for path in written))


if __name__ == "__main__":
    main()
