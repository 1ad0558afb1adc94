"""The data sets: those that are made from a seed, and the one that is downloaded."""

from __future__ import annotations

import csv
import hashlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from swordplay import streams
from swordplay._types import Array
from swordplay.streams import LinearStream

OPENML = "https://www.openml.org/api/v1/json/data"
SULFUR_ID = 23515
SULFUR_ROWS = 10_081
SULFUR_COLUMNS = ("u1", "u2", "u3", "u4", "u5", "y1", "y2")


class Unavailable(Exception):
    """The data cannot be had now; the message says why and what else to do."""


@dataclass(frozen=True)
class DataSet:
    """A data set by name."""

    name: str
    title: str
    about: str
    make: Callable[[int, int], LinearStream] | None = None
    """(rounds, seed) -> stream, for those that are made; None for the one that is downloaded."""


DATASETS = {
    data.name: data
    for data in (
        DataSet(
            "abrupt-drift",
            "the paper's synthetic stream",
            "Linear regression in 5 dimensions, features uniform in the unit ball, noise uniform "
            "on [0, 0.1]; the model is drawn anew every 1000 rounds (section 8).",
            lambda rounds, seed: streams.abrupt_drift(rounds, seed=seed),
        ),
        DataSet(
            "gradual-drift",
            "the same with a model that travels",
            "As abrupt-drift, but the model walks on straight lines from one draw to the next.",
            lambda rounds, seed: streams.gradual_drift(rounds, seed=seed),
        ),
        DataSet(
            "instance-one",
            "Instance 1 of section 6.3",
            "Squared loss on [-1, 1]: the gradients hardly vary, the comparators' loss is large.",
            lambda rounds, seed: streams.instance_one(rounds),
        ),
        DataSet(
            "instance-two",
            "Instance 2 of section 6.3",
            "Squared loss on [-1, 1]: the gradients vary all the time, the comparators lose 0.",
            lambda rounds, seed: streams.instance_two(rounds),
        ),
        DataSet(
            "sulfur",
            "Sulfur Recovery Unit, the paper's real data",
            f"{SULFUR_ROWS:,} rows of a refinery, features u1-u5, targets y1 (H2S) and y2 (SO2), "
            f"scaled to [0, 1]. Downloaded from OpenML (data set {SULFUR_ID}) and kept in the "
            "user's cache folder; it is not part of this package.",
        ),
    )
}


# ---------------------------------------------------------------------- sulfur


def cache_folder() -> Path:
    """Return where downloads are kept."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("swordplay"))


def sulfur(source: str = OPENML, cache: Path | None = None, offline: bool = False) -> Path:
    """Return the path of the sulfur data, downloaded if it is not in the cache yet.

    OpenML's description of the data set names the file and its MD5 sum; the file is checked against
    that sum, its shape and its range. The copy in the cache is checked against the SHA-256 sum that
    was written beside it.

    Args:
        source: the address of OpenML's JSON interface.
        cache: where downloads are kept; default the user's cache folder.
        offline: use the cache alone.
    """
    folder = cache_folder() if cache is None else cache
    path, seal = folder / "sulfur.csv", folder / "sulfur.csv.sha256"
    if path.exists() and seal.exists():
        if digest(path) == seal.read_text().strip():
            return path
        if offline:
            raise Unavailable(f"{path} is damaged: delete it, or fetch it again.")
    elif offline:
        raise Unavailable(f"{path} does not exist and nothing may be downloaded.")
    try:
        described = json.loads(_download(f"{source}/{SULFUR_ID}"))["data_set_description"]
        raw = _download(described["url"])
    except (OSError, ValueError, KeyError) as error:
        raise Unavailable(f"OpenML could not be reached ({_reason(error)}).") from error
    found = hashlib.md5(raw, usedforsecurity=False).hexdigest()
    if found != described.get("md5_checksum"):
        raise Unavailable(
            f"The download is damaged: its MD5 sum is {found}, OpenML announced "
            f"{described.get('md5_checksum')}."
        )
    columns = parse_arff(raw.decode("utf-8"))
    folder.mkdir(parents=True, exist_ok=True)
    beside = path.with_name("sulfur.csv.part")
    with open(beside, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(SULFUR_COLUMNS)
        writer.writerows(zip(*(columns[name].tolist() for name in SULFUR_COLUMNS), strict=True))
    seal.write_text(digest(beside) + "\n")
    os.replace(beside, path)
    return path


def parse_arff(text: str) -> dict[str, Array]:
    """Return the columns of OpenML's sulfur file: five features, then y1 and y2."""
    lines = [line.strip() for line in text.splitlines()]
    start = next((i for i, line in enumerate(lines) if line.lower() == "@data"), None)
    if start is None:
        raise Unavailable("The download is not an ARFF file: it has no @data line.")
    rows = [line.split(",") for line in lines[start + 1 :] if line and not line.startswith("%")]
    if len(rows) != SULFUR_ROWS or {len(row) for row in rows} != {len(SULFUR_COLUMNS)}:
        raise Unavailable(
            f"The download has {len(rows)} rows; the sulfur data has {SULFUR_ROWS} of "
            f"{len(SULFUR_COLUMNS)} columns."
        )
    values = np.array(rows, dtype=np.float64)
    return _checked(dict(zip(SULFUR_COLUMNS, values.T, strict=True)), "The download")


def read_sulfur(path: Path) -> dict[str, Array]:
    """Return the columns of a CSV file with u1-u5, y1 and y2."""
    try:
        with open(path, newline="", encoding="utf-8") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            values = np.array([row for row in reader if row], dtype=np.float64)
    except (OSError, ValueError) as error:
        raise Unavailable(f"{path} cannot be read as the sulfur data: {error}.") from None
    missing = [name for name in SULFUR_COLUMNS if name not in header]
    if missing or not len(values):
        raise Unavailable(
            f"{path} is not the sulfur data: it needs the columns {', '.join(SULFUR_COLUMNS)}"
            + (f", and lacks {', '.join(missing)}." if missing else ", and rows.")
        )
    return _checked({name: values[:, header.index(name)] for name in SULFUR_COLUMNS}, str(path))


def digest(path: Path) -> str:
    """Return the SHA-256 sum of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _checked(columns: dict[str, Array], what: str) -> dict[str, Array]:
    for name, column in columns.items():
        if not (np.isfinite(column).all() and column.min() >= 0 and column.max() <= 1):
            raise Unavailable(f"{what} is not the sulfur data: {name} leaves [0, 1].")
    return columns


def _download(url: str) -> bytes:
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"not a web address: {url}")
    request = urllib.request.Request(url, headers={"User-Agent": "swordplay"})
    with urllib.request.urlopen(request, timeout=15) as answer:
        content: bytes = answer.read()
    return content


def _reason(error: BaseException) -> Any:
    return error.reason if isinstance(error, urllib.error.URLError) else error
