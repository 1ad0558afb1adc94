"""What a run was: versions, machine, command, constants, seeds and check sums."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
import time
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import swordplay
from swordplay.experiments.datasets import digest
from swordplay.experiments.experiment import Experiment

PACKAGES = ("swordplay", "numpy", "scipy", "numba", "pyarrow")


def versions() -> dict[str, str]:
    """Return the versions of everything that numbers depend on."""
    found = {"python": platform.python_version()}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # pragma: no cover - run from a bare source tree
            found[name] = "unknown"
    found["source"] = _source()
    return found


@cache
def _source() -> str:
    """Return a check sum of the code that numbers depend on, front ends left out."""
    root = Path(swordplay.__file__).parent
    folders = (".", "algorithms", "experiments", "fleet", "kernels", "regret", "streams")
    found = hashlib.sha256()
    for path in (p for folder in folders for p in sorted((root / folder).glob("*.py"))):
        found.update(path.name.encode() + path.read_bytes())
    return found.hexdigest()[:16]


def machine() -> dict[str, Any]:
    """Return what is known of the machine, and nothing about its owner."""
    memory = None
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        memory = round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1)
    return {
        "system": f"{platform.system()} {platform.release()}",
        "architecture": platform.machine(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": memory,
    }


def describe(
    folder: Path,
    experiments: Sequence[Experiment],
    settings: Mapping[str, Any],
    seconds: float,
    notes: Sequence[str] = (),
) -> dict[str, Any]:
    """Return the manifest of a finished run.

    Args:
        folder: where its results are.
        experiments: what was run.
        settings: what it was run with.
        seconds: how long the last invocation took.
        notes: what the reader should know (what was left out, and why).
    """
    files = sorted(p for kind in ("tables", "timing") for p in (folder / kind).glob("*.parquet"))
    return {
        "command": " ".join(["swordplay", *sys.argv[1:]]),
        "finished": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seconds": round(seconds, 2),
        "settings": dict(settings),
        "constants": {e.name: dict(e.constants) for e in experiments},
        "notes": list(notes),
        "versions": versions(),
        "machine": machine(),
        "tables": {str(p.relative_to(folder)): digest(p) for p in files},
    }


def write(folder: Path, manifest: Mapping[str, Any]) -> Path:
    """Write ``manifest.json``."""
    path = folder / "manifest.json"
    beside = path.with_name(path.name + ".part")
    beside.write_text(json.dumps(manifest, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(beside, path)
    return path


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()
