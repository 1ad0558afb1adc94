"""Linear streams from files larger than memory: CSV, Parquet and Arrow, in batches."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from swordplay._types import Array, ArrayLike
from swordplay.assumptions import Assumptions
from swordplay.domains import Domain
from swordplay.losses import Loss, Squared
from swordplay.streams.linear import LinearStream
from swordplay.streams.stream import check_decisions

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

FORMATS = {
    ".csv": "csv",
    ".tsv": "csv",
    ".parquet": "parquet",
    ".pq": "parquet",
    ".arrow": "ipc",
    ".feather": "feather",
}
BATCH_ROWS = 1 << 16


class FileStream:
    r"""f_t from the rows of a file, read in batches in constant memory.

    Rows come in the file's order. Only whole passes are possible: ``play`` makes one, the
    regret measures make one each, and a single f_t cannot be asked for.

    Args:
        path: a .csv, .tsv, .parquet, .arrow or .feather file, or a folder of them.
        target: the column to predict.
        features: the columns to predict from; default all others.
        loss: default Squared().
        batch_rows: how many rows to hold in memory.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "two.csv"
    >>> _ = file.write_text("a,b,y\n1,0,1\n0,2,1\n")
    >>> stream = FileStream(file, target="y")
    >>> len(stream), stream.names, stream.values([0.0, 1.0])
    (2, ('a', 'b'), array([0.5, 0.5]))
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        target: str,
        features: Sequence[str] | None = None,
        loss: Loss | None = None,
        *,
        batch_rows: int = BATCH_ROWS,
    ) -> None:
        self.path, self.target = Path(path), target
        self.loss = Squared() if loss is None else loss
        if not isinstance(self.loss, Loss):
            raise TypeError(f"loss must be one of swordplay's (Squared(), ...), not {loss!r}.")
        if batch_rows < 1:
            raise ValueError(f"batch_rows must be at least 1, not {batch_rows!r}.")
        self.batch_rows = int(batch_rows)
        if isinstance(features, str):
            raise TypeError(f"features must be a list of columns: features=[{features!r}].")
        self._dataset, self._kind = _open(self.path)
        columns = list(self._dataset.schema.names)
        wanted = [c for c in columns if c != target] if features is None else list(features)
        if target in wanted:
            raise ValueError(f"The target {target!r} cannot be one of its own features.")
        if len(set(wanted)) != len(wanted):
            raise ValueError(f"A feature stands in the list twice: {', '.join(wanted)}.")
        for name in (target, *wanted):
            if name not in columns:
                raise ValueError(
                    f"{self.path} has no column {name!r}; it has {', '.join(columns)}."
                )
        if not wanted:
            raise ValueError(f"{self.path} has no column besides the target {target!r}.")
        self.names = tuple(wanted)
        if self._kind == "csv":
            try:
                self._dataset, _ = _open(self.path, (*self.names, target))
            except ValueError:
                self._find_text()
                raise
        self._rows = int(self._dataset.count_rows())
        if not self._rows:
            raise ValueError(f"{self.path} has no rows.")
        self.comparators: Array | None = None

    @property
    def dim(self) -> int:
        """The number of features."""
        return len(self.names)

    def __len__(self) -> int:
        return self._rows

    def batches(self) -> Iterator[tuple[int, LinearStream]]:
        """Yield (first round, rows as a LinearStream), checked, in the file's order."""
        origin = 0
        for batch in _ahead(self._scan()):
            rows = np.empty((batch.num_rows, self.dim))
            for j, name in enumerate(self.names):
                rows[:, j] = self._numbers(batch, name, origin)
            targets = self._numbers(batch, self.target, origin)
            yield origin, LinearStream(rows, targets, self.loss)
            origin += batch.num_rows

    def _scan(self) -> Iterator[pa.RecordBatch]:
        """Yield the file's batches, naming the row at which one cannot be read."""
        read = 0
        batches = self._parquet() if self._kind == "parquet" else self._scanner()
        while True:
            try:
                batch = next(batches)
            except StopIteration:
                return
            except Exception as error:  # pyarrow: a cell that is no number
                if self._kind == "csv":
                    self._find_text()
                raise ValueError(f"{self.path}, after row {read}: {error}") from None
            read += batch.num_rows
            if batch.num_rows:
                yield batch

    def _parquet(self) -> Iterator[pa.RecordBatch]:
        """Read row group by row group: the scanner would fetch whole files ahead of time."""
        import pyarrow.parquet as pq

        for name in self._dataset.files:
            with pq.ParquetFile(name, pre_buffer=False) as file:
                yield from file.iter_batches(self.batch_rows, columns=[*self.names, self.target])

    def _scanner(self) -> Iterator[pa.RecordBatch]:
        scanner = self._dataset.scanner(
            columns=[*self.names, self.target],
            batch_size=self.batch_rows,
            batch_readahead=2,
            fragment_readahead=1,
        )
        return iter(scanner.to_batches())

    def _numbers(self, batch: pa.RecordBatch, name: str, origin: int) -> Array:
        import pyarrow as pa
        import pyarrow.compute as pc

        column = batch.column(name)
        if not (
            pa.types.is_integer(column.type)
            or pa.types.is_floating(column.type)
            or pa.types.is_boolean(column.type)
            or pa.types.is_decimal(column.type)
        ):
            row, cell = self._first_text(column)
            raise ValueError(_no_number(self.path, name, origin + row, cell))
        if column.null_count:
            row = int(np.flatnonzero(pc.is_null(column).to_numpy(zero_copy_only=False))[0])
            raise ValueError(f"{self.path}: column {name!r} is empty or NaN in row {origin + row}.")
        numbers = np.asarray(column.cast(pa.float64()).to_numpy(zero_copy_only=False))
        if not np.isfinite(numbers).all():
            row = int(np.flatnonzero(~np.isfinite(numbers))[0])
            raise ValueError(
                f"{self.path}: column {name!r} holds {numbers[row]} in row {origin + row}."
            )
        return numbers

    def _find_text(self) -> None:
        """Raise with the first cell of a CSV file that is no number, row and column named."""
        for name in self._dataset.files:
            separator = "\t" if name.lower().endswith(".tsv") else ","
            with open(name, newline="", encoding="utf-8", errors="replace") as file:
                for row, cells in enumerate(csv.DictReader(file, delimiter=separator)):
                    for column in (*self.names, self.target):
                        cell = cells.get(column) or ""
                        try:
                            float(cell or "0")
                        except ValueError:
                            raise ValueError(_no_number(name, column, row, cell)) from None

    @staticmethod
    def _first_text(column: Any) -> tuple[int, Any]:
        for row, cell in enumerate(column.to_pylist()):
            try:
                float(cell)
            except (TypeError, ValueError):
                return row, cell
        return 0, column[0].as_py()

    def blocks(self, compact: bool) -> Iterator[tuple[int, tuple[Array, ...], Array]]:
        """Yield (first round, (features,), targets) for the kernels."""
        for origin, rows in self.batches():
            yield origin, (rows.features,), rows.targets

    def values(self, decisions: ArrayLike) -> Array:
        """Return f_t(decisions_t) for every t."""
        chosen = np.asarray(decisions, dtype=np.float64)
        check_decisions(chosen, len(self), self.dim)
        return np.concatenate(
            [
                rows.values(chosen if chosen.ndim == 1 else chosen[at : at + len(rows)])
                for at, rows in self.batches()
            ]
        )

    def value(self, t: int, x: Array) -> float:
        """Refuse: a file has no random access."""
        raise TypeError(_WHOLE)

    def gradient(self, t: int, x: Array) -> Array:
        """Refuse: a file has no random access."""
        raise TypeError(_WHOLE)

    def assumptions(self, domain: Domain) -> Assumptions:
        """Return the worst-case G, L and T, in one pass over the file."""
        seen = [rows.assumptions(domain) for _, rows in self.batches()]
        smoothness = [facts.smoothness for facts in seen if facts.smoothness is not None]
        return Assumptions(
            lipschitz=max(facts.lipschitz for facts in seen),
            smoothness=max(smoothness) if smoothness else None,
            horizon=len(self),
        )

    def load(self) -> LinearStream:
        """Return all of it in memory."""
        parts = [rows for _, rows in self.batches()]
        return LinearStream(
            np.concatenate([rows.features for rows in parts]),
            np.concatenate([rows.targets for rows in parts]),
            self.loss,
        )

    def __repr__(self) -> str:
        return f"FileStream({str(self.path)!r}, {len(self)} rows, dim={self.dim})"


_WHOLE = (
    "A FileStream is read in order, from first row to last: use play(learner, stream) with a "
    "built-in domain and learner, or stream.load() to have all of it in memory."
)


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the same batches, reading the next one while the last one is learned."""
    with ThreadPoolExecutor(1) as reader:
        coming = reader.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = reader.submit(next, batches, None)
            yield batch


def _no_number(path: str | Path, column: str, row: int, cell: object) -> str:
    return (
        f"{path}: column {column!r} holds {cell!r} in row {row}, which is not a number. Leave the "
        "column out with features=[...], or encode it."
    )


def _open(path: Path, numbers: Sequence[str] = ()) -> tuple[ds.Dataset, str]:
    """Open a file or a folder; columns called ``numbers`` of a CSV file are read as such."""
    try:
        import pyarrow.dataset as ds
    except ImportError:
        raise ImportError(
            'Streams from files need pyarrow: pip install "swordplay[files]".'
        ) from None
    if not path.exists():
        raise FileNotFoundError(f"There is no file {path}.")
    if path.is_file() and not path.stat().st_size:
        raise ValueError(f"{path} is empty.")
    sample = path if path.is_file() else next((p for p in sorted(path.rglob("*.*"))), path)
    kind = FORMATS.get(sample.suffix.lower())
    if kind is None:
        raise ValueError(
            f"{path} is of a kind that is not known by its ending; known are {', '.join(FORMATS)}."
        )
    reader: Any = kind
    if kind == "csv":
        import pyarrow as pa
        import pyarrow.csv

        separator = "\t" if sample.suffix.lower() == ".tsv" else ","
        # What a column is, its first rows cannot tell: 0, 1, 2 may be followed by 0.5.
        reader = ds.CsvFileFormat(
            parse_options=pa.csv.ParseOptions(delimiter=separator),
            convert_options=pa.csv.ConvertOptions(
                column_types=dict.fromkeys(numbers, pa.float64())
            ),
        )
    try:
        return ds.dataset(str(path), format=reader), kind
    except Exception as error:
        raise ValueError(f"{path} cannot be read as {kind}: {error}") from None
