"""The same sweep on threads, processes, Ray and Dask: identical tables, and what each engine costs.

python -m benchmarks.engines

Five algorithms with 20 seeds each, once in games of the paper's size and once in tiny ones. Every
engine has a process of its own; they take turns. "start-up" is the time until a sweep of one tiny
game a worker is done on an engine that does not run yet, kernels compiled on disk; then the engine
stays up, and "again" is the same sweep once more. Sweeps leave nothing on disk. Ray listens on
every network interface, so it runs in a network namespace that holds loopback alone; where none can
be made it is left out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from functools import partial
from statistics import median

import swordplay as sp
from benchmarks import report
from swordplay.engines import ENGINES, Engine, Missing

DIM, SEEDS = 5, range(20)
DOMAIN = sp.Ball(dim=DIM, radius=1.0)
LEARNERS = [sp.OGD, sp.OEGD, sp.Ader, sp.Sword, sp.SwordPP]


def stream(rounds: int, seed: int):
    every = max(1, rounds // 50)
    return sp.streams.abrupt_drift(rounds, DIM, every=every, seed=seed, loss=sp.Huber(2.0))


def sweep(engine: str, jobs: int, rounds: int, seeds=SEEDS, learners=LEARNERS):
    """Return the seconds of a sweep and the check sum of its table."""
    began = time.perf_counter()
    table = sp.sweep(
        learners, {"drift": partial(stream, rounds)}, seeds, engine, domain=DOMAIN, jobs=jobs
    )
    seconds = time.perf_counter() - began
    text = json.dumps({name: column.tolist() for name, column in table.items()})
    return seconds, hashlib.sha256(text.encode()).hexdigest()


def start(engine: str, jobs: int, stack: ExitStack) -> None:
    """Start Ray or Dask, so that sweeps find it running."""
    if engine == "ray":
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        links = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True)
        if len(links.stdout.splitlines()) != 1:
            raise SystemExit("Ray would listen on a real network interface.")
        import ray

        ray.init(num_cpus=jobs, include_dashboard=False, log_to_driver=False)
    if engine == "dask":
        from distributed import Client, LocalCluster

        cluster = LocalCluster(
            n_workers=jobs, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
        )
        stack.enter_context(cluster)
        stack.enter_context(Client(cluster))


def serve(engine: str, jobs: int) -> None:
    """Start an engine, then play the sweeps that are asked for, a line each."""
    began = time.perf_counter()
    few = {"seeds": range(jobs), "learners": LEARNERS[:1]}
    with ExitStack() as stack:
        start(engine, jobs, stack)
        sweep(engine, jobs, 500, **few)
        told = {"seconds": time.perf_counter() - began}
        while True:
            print(json.dumps(told), flush=True)
            line = sys.stdin.readline()
            if not line:
                return
            seconds, table = (
                sweep(engine, jobs, int(line)) if int(line) else sweep(engine, jobs, 500, **few)
            )
            told = {"seconds": seconds, "table": table}


class Contestant:
    """An engine in a process of its own."""

    def __init__(self, engine: str, jobs: int) -> None:
        room: list[str] = []
        if engine == "ray":
            room = ["unshare", "-rn"]
            if (
                not (shutil.which("unshare") and shutil.which("ip"))
                or subprocess.run(
                    [*room, "ip", "link", "set", "lo", "up"], capture_output=True, check=False
                ).returncode
            ):
                raise Missing("no network namespace can be made, and Ray listens everywhere")
        self.complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the process
        options = ["--serve", engine, "--jobs", str(jobs)]
        self.process = subprocess.Popen(
            [*room, sys.executable, "-m", "benchmarks.engines", *options],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.complaints,
            text=True,
        )
        self.tables: dict[int, str] = {}
        self.start = self._hear()["seconds"]

    def sweep(self, rounds: int) -> float:
        """Return the seconds of a sweep; 0 rounds stand for a tiny game a worker."""
        self.process.stdin.write(f"{rounds}\n")
        self.process.stdin.flush()
        told = self._hear()
        assert self.tables.setdefault(rounds, told["table"]) == told["table"]
        return told["seconds"]

    def stop(self) -> None:
        """End the process."""
        self.process.stdin.close()
        self.process.wait(60)

    def _hear(self) -> dict:
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        self.complaints.seek(0)
        raise SystemExit(self.complaints.read()[-3000:])


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.engines",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--rounds", type=int, default=50_000, help="of a game; default 50000")
    parser.add_argument("--tiny", type=int, default=500, help="rounds of a tiny game; default 500")
    parser.add_argument("--repetitions", type=int, default=5, help="sweeps; default 5")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="default: the cores")
    parser.add_argument("--serve", choices=ENGINES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.jobs)
        return
    about = report.machine()
    print(f"{about['processor']}, {about['cores']} cores, load average {report.load_average()}")
    print(
        f"{len(LEARNERS) * len(SEEDS)} games: {len(LEARNERS)} algorithms x {len(SEEDS)} seeds, "
        f"d = {DIM}, {options.jobs} at a time; seconds, median [least, most] of "
        f"{options.repetitions} sweeps; x: median of the ratios to threads"
    )
    engines: dict[str, Contestant] = {}
    for engine in ENGINES:
        try:
            Engine(engine)
            engines[engine] = Contestant(engine, options.jobs)
        except Missing as reason:
            print(f"{engine} is left out: {reason}")
    sizes = (0, options.tiny, options.rounds)
    times: dict = {engine: {rounds: [] for rounds in sizes} for engine in engines}
    for repetition in range(-1, options.repetitions):  # the first loads kernels everywhere
        for engine, contestant in engines.items():
            for rounds in sizes:
                seconds = contestant.sweep(rounds)
                if repetition >= 0:
                    times[engine][rounds].append(seconds)
    for contestant in engines.values():
        assert contestant.tables == engines["threads"].tables, "the tables differ"
        contestant.stop()
    print(f"The tables of {', '.join(engines)} are identical.")
    head = "".join(f"{f'{rounds:,} rounds':>24}      x" for rounds in sizes[1:])
    print(f"{'engine':<10} {'start-up':>8} {'again':>6}{head}")
    for engine, contestant in engines.items():
        cells = []
        for rounds in sizes[1:]:
            mine, theirs = times[engine][rounds], times["threads"][rounds]
            ratio = median(a / b for a, b in zip(mine, theirs, strict=True))
            cells.append(
                f"{f'{median(mine):.2f} [{min(mine):.2f}, {max(mine):.2f}]':>24} {ratio:6.2f}"
            )
        again = median(times[engine][0])
        print(f"{engine:<10} {contestant.start:8.2f} {again:6.2f}{''.join(cells)}")


if __name__ == "__main__":
    main()
