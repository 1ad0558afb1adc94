"""Rooms for Ray, which listens on every interface: a network namespace with loopback alone."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

DOOR = """
import subprocess, sys
subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
out = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
assert len(out.splitlines()) == 1, out
"""


def in_a_room(code, home):
    """Run code where Ray can be reached by nobody else; return stdout, or skip the test."""
    if importlib.util.find_spec("ray") is None:
        pytest.skip("Ray is not installed (extra ray)")
    for room in (["unshare", "-rn"], ["unshare", "-n"]):
        tools = shutil.which("unshare") and shutil.which("ip")
        if (
            tools
            and not subprocess.run(
                [*room, "ip", "link", "set", "lo", "up"], check=False, capture_output=True
            ).returncode
        ):
            break
    else:
        pytest.skip("Ray listens on every interface, and no network namespace can be made here")
    paths = [str(Path(__file__).parent), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    surroundings = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "HOME": str(home)}
    done = subprocess.run(
        [*room, sys.executable, "-c", DOOR + code],
        capture_output=True, text=True, timeout=300, env=surroundings, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
