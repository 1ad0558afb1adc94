"""Kill a Spark query at random moments and see whether anybody can tell.

FILES=80 python tests/spark_kills.py 10 10  kills the driver ten times and Python workers ten times.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import numpy as np
import spark_query as query


def prepare(root):
    import pandas as pd

    keys, X, y, t = query.rows()
    frame = pd.DataFrame(X, columns=query.FEATURES).assign(key=keys, t=t, y=y)
    (root / "in").mkdir()
    for i in range(query.FILES):
        path = root / "in" / f"{i:03d}.parquet"
        frame[i * query.ROWS : (i + 1) * query.ROWS].to_parquet(path, index=False)
        os.utime(path, (1e9 + i, 1e9 + i))  # the file source goes by age


def start(root, log):
    command = [sys.executable, str(Path(query.__file__)), str(root)]
    return subprocess.Popen(command, stdout=log, stderr=log)


def family(pid):
    """Return (pid, command, parent) of a process's descendants, parents first."""
    children = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            with suppress(OSError, IndexError):
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                parent = int(stat[1])
                children.setdefault(parent, []).append((int(folder.name), command, parent))
    found, queue = [], [pid]
    while queue:
        below = children.get(queue.pop(0), [])
        found += below
        queue += [child for child, _, _ in below]
    return found


def kill(pid):
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def kill_driver(process):
    """Kill the driver with its JVM and its workers: as if the machine had gone."""
    everybody = family(process.pid)
    kill(process.pid)
    for pid, _, _ in everybody:
        kill(pid)
    process.wait()


def workers(pid):
    """Return Python workers: forked by a daemon of Spark's, of which they keep the name."""
    daemons = {
        child: parent for child, command, parent in family(pid) if "pyspark.daemon" in command
    }
    return [child for child, parent in daemons.items() if parent in daemons]


class Kill(NamedTuple):
    whose: str
    begun: int  # batches by then
    committed: int
    snapshots: int  # of the state, in the checkpoint


def batches(root, of):
    folder = root / "checkpoint" / of  # Spark removes the files of old batches
    names = [path.name for path in folder.iterdir()] if folder.is_dir() else []
    return max((int(name) + 1 for name in names if name.isdigit()), default=0)


def now(root, whose):
    snapshots = sum(1 for _ in (root / "checkpoint" / "state").rglob("*.zip"))
    return Kill(whose, batches(root, "offsets"), batches(root, "commits"), snapshots)


def survive(root, driver_kills, worker_kills, seed=0, patience=300):
    """Run the query to its end through kills; return what each of them hit."""
    prepare(root)
    rng = random.Random(seed)
    plan = ["driver"] * driver_kills + ["worker"] * worker_kills
    rng.shuffle(plan)
    done = []
    with open(root / "log", "ab") as log:
        process = start(root, log)
        deadline = time.monotonic() + patience * (1 + driver_kills)
        wanted = rng.randint(2, 3)  # commits before the next kill: there is something to go on from
        while process.poll() is None or process.returncode:
            assert time.monotonic() < deadline, "the query does not end"
            if process.poll() is not None:
                assert not process.returncode, (root / "log").read_text(errors="replace")[-4000:]
            if plan and batches(root, "commits") >= wanted:
                time.sleep(rng.uniform(0, 1.5))  # somewhere in a batch, or between two
                found, alive = now(root, plan[0]), workers(process.pid)
                if plan[0] == "driver":
                    kill_driver(process)
                    if (root / "done").exists():
                        break
                    process = start(root, log)
                elif alive and found.begun > found.committed:
                    kill(rng.choice(alive))
                else:
                    continue  # nobody was at work
                done.append(found)
                plan.pop(0)
                wanted = found.committed + rng.randint(1, 3)
            time.sleep(0.02)
    assert (root / "done").exists()
    return done


def check(root):
    """Compare answers and final state with one process that nobody disturbed, bit for bit."""
    import pandas as pd

    from swordplay.fleet import Fleet

    keys, X, y, t = query.rows()
    fleet = Fleet(query.model())
    expected = fleet.predict_then_learn(keys, X, y, t)
    answers = pd.read_parquet(root / "answers.parquet")
    assert answers["t"].tolist() == t.tolist(), "a row is lost or repeated"
    assert answers["prediction"].to_numpy().tobytes() == expected.tobytes()
    final = Fleet.load(root / "final.parquet", like=fleet.model)
    assert sorted(final.keys) == sorted(fleet.keys)
    for key in fleet:
        assert final.state(key).tobytes() == fleet.state(key).tobytes(), key
    a, b = fleet.summary(), final.summary(fleet.keys)
    assert all(np.array_equal(a[name], b[name]) for name in a)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        driver, worker = int(sys.argv[1]), int(sys.argv[2])
        kills = survive(Path(folder), driver, worker, seed=int(time.time()))
        print(*kills, sep="\n")
        assert len(kills) == driver + worker, "the query was over too soon: more FILES"
        assert any(kill.snapshots for kill in kills), "no kill came after a snapshot"
        check(Path(folder))
        print(f"{driver} kills of the driver, {worker} of workers: bit-identical")
