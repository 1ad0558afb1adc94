"""A file of the user's: what is read, and the constants that a first pass finds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.ipc
import pyarrow.parquet

from swordplay import regret
from swordplay._types import Array
from swordplay.assumptions import Assumptions
from swordplay.domains import Ball
from swordplay.experiments.games import Game
from swordplay.losses import Absolute, Huber, Logistic, Loss, Pinball, Squared
from swordplay.streams import LinearStream

TASKS = ("regression", "classification")
LOSSES = {"huber": Huber(2.0), "squared": Squared(), "absolute": Absolute(), "logistic": Logistic()}
READERS = {
    ".csv": lambda path, text: _separated(path, ",;\t", text),
    ".tsv": lambda path, text: _separated(path, "\t", text),
    ".parquet": lambda path, text: pyarrow.parquet.read_table(path),
    ".arrow": lambda path, text: _arrow(path),
    ".feather": lambda path, text: _arrow(path),
}
NUMBER = r"^\s*[+-]?((\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|(?i:inf|infinity))\s*$"
COMMA = r"^\s*[+-]?\d*,\d+([eE][+-]?\d+)?\s*$"
"""A number as some countries write it."""
NEARLY = 0.95
"""The share of numbers from which a column of text was meant to be one of numbers."""
SHOWN = 20


@dataclass(frozen=True)
class UserData:
    """A file, made ready: columns of mean 0 and deviation 1 and a constant one, rows in order."""

    path: Path
    target: str
    task: str
    names: tuple[str, ...]
    notes: tuple[str, ...]
    """Which columns are features, and which are not, and why."""
    game: Game
    scale: float
    """What one unit of the stream's target is in the file's units."""
    constants: dict[str, Any]


def load(
    path: Path,
    target: str,
    *,
    features: Sequence[str] = (),
    task: str = "",
    loss: str = "",
    radius: float | None = None,
    lipschitz: float | None = None,
    smoothness: float | None = None,
    limit: int | None = None,
) -> UserData:
    """Read a file and find the constants of its game, in a first pass over all rows.

    Features are brought to mean 0 and deviation 1, and a column of ones is added; so is the target
    of a regression. The radius of the ball of decisions is, unless given, 1.5 times the length of
    the best fixed decision in hindsight (at least 1); G and L are the worst case on that ball.

    Args:
        path: a CSV, TSV, Parquet or Arrow file, oldest row first.
        target: the column to predict.
        features: the columns to predict from; default every other column of numbers.
        task: "regression" or "classification"; default: classification for two values.
        loss: a name in ``LOSSES``; default huber (delta = 2) or logistic.
        radius: of the ball of decisions, D/2.
        lipschitz: G.
        smoothness: L.
        limit: rows to use, from the first.
    """
    whole = _read(path)
    columns = whole.column_names
    for name in (target, *features):
        if name not in columns:
            raise ValueError(f"{path} has no column {name!r}; it has {', '.join(columns)}.")
    table = whole.slice(0, limit)
    if table.num_rows < 2:
        raise ValueError(f"{path} has {count(table.num_rows)}; a stream needs at least 2.")
    values, task = _target(path, whole, table[target], target, task)
    others = [name for name in columns if name != target]
    numbers, text = choose(path, whole, features, others)
    used, same, rows = [], [], []
    for name in numbers:
        column = _numbers(path, table[name], name)
        if column.std() == 0:
            same.append(name)
            continue
        used.append(name)
        rows.append((column - column.mean()) / column.std())
    if not used:
        raise ValueError(f"{path} has no column of numbers beside the target {target!r}.")
    design = np.column_stack([*rows, np.ones(len(values))])

    chosen = _loss(loss, task)
    middle, scale = 0.0, 1.0
    if task == "regression":
        middle, scale = float(values.mean()), float(values.std()) or 1.0
    stream = LinearStream(design, (values - middle) / scale, chosen)
    if radius is None:
        best = regret.best_fixed(stream, Ball(stream.dim, 10.0))
        radius = max(1.0, float(f"{1.5 * np.linalg.norm(best):.2g}"))
    domain = Ball(stream.dim, radius)
    seen = stream.assumptions(domain)
    facts = Assumptions(lipschitz or seen.lipschitz, smoothness or seen.smoothness, len(stream))
    return UserData(
        path=path,
        target=target,
        task=task,
        names=tuple(used),
        notes=tuple(notes(used, text, same)),
        game=Game(stream, domain, facts),
        scale=scale,
        constants={
            "loss": repr(chosen),
            "D": domain.diameter,
            "G": facts.lipschitz,
            "L": facts.smoothness,
            "T": facts.horizon,
            "features": used,
            "left out": [*text, *same],
            "target mean": middle,
            "target scale": scale,
        },
    )


def choose(
    path: Path, table: Any, given: Sequence[str], others: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Return the features, those given or all others that are numbers, and what is left out.

    A column that one cell makes text is refused: left out, it would be missed by nobody.
    """
    used, left_out = [], []
    for name in given or others:
        if _is_number(table[name].type):
            used.append(name)
        elif why := spoiled(path, table[name], name):
            raise ValueError(f"{why}, or choose the features with --feature.")
        elif given:
            raise ValueError(f"Column {name!r} holds {table[name].type}, not numbers: encode it.")
        else:
            left_out.append(name)
    return used, left_out


def spoiled(path: Path, column: Any, name: str) -> str:
    """Return which cell makes text of a column that is nearly all numbers, or an empty string."""
    if not (pa.types.is_string(column.type) or pa.types.is_large_string(column.type)):
        return ""
    cells = pc.fill_null(column, "")
    # what Arrow takes for an empty cell in a column of numbers
    empty = pa.array(pyarrow.csv.ConvertOptions().null_values, column.type)
    filled = pc.invert(pc.is_in(cells, empty))
    number = pc.match_substring_regex(cells, NUMBER)
    meant = pc.or_(number, pc.match_substring_regex(cells, COMMA))
    of, numbers = pc.sum(filled).as_py() or 0, pc.sum(number).as_py() or 0
    if numbers == of or pc.sum(meant).as_py() < NEARLY * of:
        return ""
    place = pc.index(pc.and_not(filled, number), True).as_py()
    value = cells[place].as_py()
    cure = "write decimal points" if "," in value else "mend the cell"
    return (
        f"Column {name!r} is text because of {value[:40]!r} in row {_row(path, place)} "
        f"({numbers:,} of {of:,} cells are numbers): {cure}"
    )


def notes(used: Sequence[str], text: Sequence[str], same: Sequence[str] = ()) -> list[str]:
    """Return what to tell about the choice of features."""
    told = [f"Features: {_listed(used)}."]
    for why, names in (("not numbers", text), ("always the same", same)):
        if names:
            told.append(f"Left out, because {why}: {_listed(names)}.")
    return told


def count(rows: int) -> str:
    """Return how many rows, in words.

    >>> count(1), count(2000)
    ('1 row', '2,000 rows')
    """
    return f"{rows:,} row{'s' * (rows != 1)}"


def _listed(names: Sequence[str]) -> str:
    more = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + (f" and {more:,} more" if more > 0 else "")


# ---------------------------------------------------------------------- reading


def _separated(path: Path, delimiters: str, text: str) -> Any:
    """Read a CSV file, separated by the first of the delimiters that its header has.

    The column ``text`` stays as it is written: 007 is not 7.

    An empty cell is null in every column, also in one of strings. (Arrow could do that itself, but
    only so that the words "NA" and "null" were null, too.)
    """
    with path.open("rb") as file:
        header = file.readline()
    delimiter = next((one for one in delimiters if one.encode() in header), delimiters[0])
    options = pyarrow.csv.ParseOptions(delimiter=delimiter)
    kinds = pyarrow.csv.ConvertOptions(column_types={text: pa.string()})
    table = pyarrow.csv.read_csv(path, parse_options=options, convert_options=kinds)
    for place, field in enumerate(table.schema):
        if field.type == pa.string():
            column = table.column(place)
            filled = pc.if_else(pc.equal(column, ""), pa.scalar(None, pa.string()), column)
            table = table.set_column(place, field, filled)
    return table


def _arrow(path: Path) -> Any:
    with pa.memory_map(str(path)) as source:
        try:
            return pyarrow.ipc.open_file(source).read_all()
        except pa.ArrowInvalid:
            source.seek(0)
            return pyarrow.ipc.open_stream(source).read_all()


def _read(path: Path, text: str = "") -> Any:
    reader: Any = READERS.get(path.suffix.lower())
    if reader is None:
        raise ValueError(f"{path}: the ending must be one of {', '.join(READERS)}.")
    if not path.is_file():
        raise ValueError(f"There is no file {path}.")
    try:
        table = reader(path, text)
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} cannot be read: {error}") from None
    for name, times in Counter(table.column_names).items():
        if times > 1:
            raise ValueError(f"{path} has {times} columns called {name!r}: rename them.")
    return table


def _is_number(kind: Any) -> bool:
    kinds = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean, pa.types.is_decimal)
    return any(is_one(kind) for is_one in kinds)


def _row(path: Path, place: int) -> int:
    """Return the row as a spreadsheet shows it: the header of a text file is row 1."""
    return place + (2 if path.suffix.lower() in (".csv", ".tsv") else 1)


def _numbers(path: Path, column: Any, name: str) -> Array:
    if column.null_count:
        row = _row(path, pc.index(pc.is_null(column), True).as_py())
        raise ValueError(
            f"Column {name!r} is empty in row {row}: fill it, or leave the column out."
        )
    numbers = np.asarray(column.cast(pa.float64()).to_numpy(), dtype=np.float64)
    if not np.isfinite(numbers).all():
        place = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise ValueError(
            f"Column {name!r} holds {numbers[place]} in row {_row(path, place)}: put a number "
            "there, or leave the column out."
        )
    return numbers


def _target(path: Path, whole: Any, column: Any, name: str, task: str) -> tuple[Array, str]:
    """Return the target and the task; classes become -1 and +1, in alphabetical order."""
    if task and task not in TASKS:
        raise ValueError(f"task must be {' or '.join(TASKS)}, not {task!r}.")
    if column.null_count:
        row = _row(path, pc.index(pc.is_null(column), True).as_py())
        raise ValueError(
            f"The target {name!r} is empty in {count(column.null_count)}, first in row {row}: fill "
            "it, or take such rows out of the file."
        )
    few = [] if task == "regression" else sorted(column.unique().to_pylist()[:3], key=str)
    if not task:
        task = "classification" if len(few) == 2 else "regression"
    if task == "regression":
        if not _is_number(column.type):
            if why := spoiled(path, whole[name], name):
                raise ValueError(f"{why}.")
            raise ValueError(
                f"The target {name!r} holds {column.type}, not numbers, and more than two classes."
            )
        return _numbers(path, column, name), task
    if len(few) != 2:
        raise ValueError(
            f"Classification needs two classes; the target {name!r} has more or fewer."
        )
    positive = pc.equal(column, pa.scalar(few[1], column.type)).to_numpy()
    return np.where(positive, 1.0, -1.0), task


def _loss(name: str, task: str) -> Loss:
    name = name or ("logistic" if task == "classification" else "huber")
    if name.startswith("pinball:"):
        return Pinball(float(name.split(":", 1)[1]))
    if name not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(LOSSES)}, pinball:0.9, not {name!r}.")
    return LOSSES[name]
