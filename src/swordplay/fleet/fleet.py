"""A fleet: one learner for each key, as rows of arrays."""

from __future__ import annotations

import operator
import os
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from numbers import Real
from pathlib import Path
from typing import Any, Self, TypeVar, cast

import numpy as np

from swordplay._types import Array, ArrayLike
from swordplay.assumptions import AssumptionWarning
from swordplay.ensemble import Ensemble
from swordplay.fleet.batches import read_batch, read_times
from swordplay.fleet.keys import Keys
from swordplay.fleet.models import AVERAGED, EXPERIENCED, Model, as_model, readable, refuse_other
from swordplay.fleet.store import Learners, Store
from swordplay.fleet.work import Work
from swordplay.kernels import fleet as kernels
from swordplay.losses import Loss

LATE = ("learn", "predict")
_Method = TypeVar("_Method", bound=Callable[..., Any])


def _alone(method: _Method) -> _Method:
    """Let one thread at a time into a fleet; its own threads work inside."""

    @wraps(method)
    def alone(self: Fleet, *args: Any, **kwargs: Any) -> Any:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast(_Method, alone)


class Fleet:
    """One adaptive learner for each key of a stream, and nothing to tune key by key.

    Rows of one key are learned in the order they come in, whatever else the batch holds, so a
    fleet answers as so many learners of their own would, bit for bit.

    Args:
        model: a one-gradient learner of the paper (how every key begins), or ``PoolModel(dim)``,
            the default pool of the estimators.
        loss: of a learner of the paper; default ``Squared()``. A pool names its own.
        warm_start: whether a new key begins where the experienced keys are on average.
        memory_limit: bytes that the learners may take; beyond, those idle longest move to disk and
            return when their keys do.
        folder: where idle learners wait; default the system's folder for temporary files.
        late: what becomes of a row older than the newest its key has seen in an earlier batch:
            "learn" it all the same, or "predict" it alone. Either way it is counted.
        workers: threads; default one for each core. Results do not depend on it.

    >>> import numpy as np, swordplay as sp
    >>> from swordplay.fleet import Fleet
    >>> facts = sp.Assumptions(lipschitz=9.0, smoothness=2.0, horizon=2000)
    >>> fleet = Fleet(sp.SwordPP(sp.Ball(dim=2, radius=2.0), facts))
    >>> rng = np.random.default_rng(0)
    >>> keys = rng.choice(["north", "south"], 2000)
    >>> X = rng.uniform(-1, 1, (2000, 2))
    >>> y = np.where(keys == "north", 1, -1) * (X @ [1.0, 0.5])
    >>> p = fleet.predict_then_learn(keys, X, y)
    >>> len(fleet), round(float(np.mean((y - p)[1500:] ** 2)), 3)
    (2, 0.0)
    """

    def __init__(
        self,
        model: Ensemble | Model,
        loss: Loss | None = None,
        *,
        warm_start: bool = False,
        memory_limit: int | None = None,
        folder: str | os.PathLike[str] | None = None,
        late: str = "learn",
        workers: int | None = None,
    ) -> None:
        model = as_model(model, loss)
        if late not in LATE:
            raise ValueError(f'late must be "learn" or "predict", not {late!r}.')
        if workers is not None and operator.index(workers) < 1:
            raise ValueError(f"workers must be at least 1, not {workers!r}.")
        if not isinstance(memory_limit, Real | None):
            raise TypeError(
                "memory_limit is a number of bytes, say 1_000_000_000 for a gigabyte; not "
                f"{memory_limit!r}."
            )
        self.model, self.warm_start, self.late = model, warm_start, late
        self.workers = workers or os.cpu_count() or 1
        self.memory_limit, self.folder = memory_limit, None if folder is None else Path(folder)
        self._store = Store(model.fresh, memory_limit, self.folder)
        self._work = Work(model, self._store, self.workers)
        self._time_kind: str | None = None
        self._columns: list[str] | None = None
        self._warned = False
        self._lock = threading.RLock()

    def __reduce__(self) -> Any:
        how = {name: getattr(self, name) for name in ("workers", "memory_limit", "folder")}
        return _come_back, (self.to_bytes(), how)

    @property
    def _keys(self) -> Keys:
        return self._store.keys

    @property
    def columns(self) -> list[str] | None:
        """Names of the features, if they were learned from a table; others are refused then."""
        return None if self._columns is None else [*self._columns]

    # ------------------------------------------------------------------ the stream

    @_alone
    def predict_then_learn(
        self, keys: Any, X: ArrayLike, y: ArrayLike, times: ArrayLike | None = None
    ) -> Array:
        """Predict each row before its key learns it; return the predictions, (n,).

        Keys that were never seen begin here. A row whose features or target are not finite is not
        learned, whatever other rows do; ``summary`` counts it. (The default pool takes NaN in a
        feature for a missing value.) Where not even a prediction can be made it is NaN.

        Args:
            keys: n keys: anything hashable but null.
            X: (n, d). Columns of a table (pandas, polars, Arrow) are known by their names from the
                first one on, in whatever order they come; those of an array by their places.
            y: (n,); NaN where a label is not known.
            times: (n,) numbers, dates or datetimes, if the rows of a key are to be taken in that
                order; equal times keep the order of the rows.

        What is refused (ValueError, TypeError) is refused before anything is learned. A batch that
        is interrupted later (Ctrl-C, a full disk) is learned in part.
        """
        _, matrix, targets, columns = read_batch(self.model, self._columns, keys, X, y)
        moments, kind = read_times(times, len(matrix), self._time_kind)
        numbers = self._store.enrol(keys, self._newcomer)
        self._time_kind, self._columns = kind, columns
        out = np.empty(len(matrix))
        if moments is None:
            self._take_in(numbers, matrix, targets, out)
            return out
        order = np.argsort(moments, kind="stable")
        numbers, moments, targets = numbers[order], moments[order], targets[order]
        late = moments < self._store.newest[numbers]
        np.add.at(self._store.late, numbers[late], 1)
        np.maximum.at(self._store.newest, numbers, moments)
        if self.late == "predict":
            targets[late] = np.nan
        in_time = np.empty(len(matrix))
        self._take_in(numbers, matrix[order], targets, in_time)
        out[order] = in_time
        return out

    def learn(self, keys: Any, X: ArrayLike, y: ArrayLike, times: ArrayLike | None = None) -> Self:
        """Learn rows; return the fleet."""
        self.predict_then_learn(keys, X, y, times)
        return self

    @_alone
    def predict(self, keys: Any, X: ArrayLike, unknown: str = "newcomer") -> Array:
        """Return predictions, (n,), and change nothing.

        Args:
            keys: n keys.
            X: (n, d).
            unknown: who answers for a key that was never seen: a "newcomer", or nobody ("nan").
        """
        if unknown not in ("newcomer", "nan"):
            raise ValueError(f'unknown must be "newcomer" or "nan", not {unknown!r}.')
        keys, matrix, *_ = read_batch(self.model, self._columns, keys, X, None)
        numbers = self._keys.number(keys, add=False)
        out = np.full(len(matrix), np.nan)
        known = numbers >= 0
        wanted = np.flatnonzero(known) if unknown == "nan" else slice(None)
        out[wanted] = self._work.ask(numbers[wanted], matrix[wanted], self._newcomer)
        return out

    def _take_in(self, numbers: Array, matrix: Array, targets: Array, out: Array) -> None:
        """Learn rows in their order; write predictions to ``out``."""
        looks = self._work.learn(numbers, matrix, targets, out)
        if looks and not self._warned:
            self._warned = True
            warnings.warn(
                "A key's gradient was above the promised lipschitz=, or its rounds are past the "
                "promised horizon=: the theorems do not cover that key's run.",
                AssumptionWarning,
                stacklevel=4,
            )

    def _newcomer(self) -> Array:
        """Return the row of a new key."""
        if not self.warm_start:
            return self.model.fresh
        seasoned = self._store.seasoned(kernels.LEARNED, EXPERIENCED, AVERAGED)
        return self.model.average(seasoned) if len(seasoned) else self.model.fresh

    # ------------------------------------------------------------------ what can be seen

    def __len__(self) -> int:
        return len(self._keys)

    @_alone
    def __contains__(self, key: Any) -> bool:
        return bool(self._keys.number([key], add=False)[0] >= 0)

    @_alone
    def __iter__(self) -> Iterator[Any]:
        keys = self._keys.all()
        return iter(keys.tolist() if isinstance(keys, np.ndarray) else [*keys])

    @property
    def keys(self) -> list[Any]:
        """All keys, in the order they appeared."""
        return list(self)

    @property
    def resident(self) -> int:
        """How many learners are in memory; the others wait on disk."""
        return self._store.blocks.in_use

    @property
    def nbytes(self) -> int:
        """Bytes of the learners in memory."""
        return self._store.blocks.nbytes

    @_alone
    def state(self, key: Any) -> Array:
        """Return a copy of the state row of ``key``."""
        row: Array = self._store.read(self._known([key]))[0][0]
        return row

    def _known(self, keys: Iterable[Any]) -> Array:
        listed = list(keys)
        numbers = self._keys.number(listed, add=False)
        if (numbers < 0).any():
            raise KeyError(listed[int(np.flatnonzero(numbers < 0)[0])])
        return numbers

    @_alone
    def summary(self, keys: Iterable[Any] | None = None) -> dict[str, Any]:
        """Return columns, one value a key: made for ``pandas.DataFrame(...)`` or Arrow.

        ``rows`` learned, ``skipped`` (could not be learned), ``late``, mean ``loss``, ``recent``
        loss (of about the last hundred rows), effective ``memory`` in rows, ``drift`` in octaves:
        by how much the memory is shorter than usual, or, for learners of the paper, by how much
        the recent loss is above the mean; the ``peak`` of the drift after the first hundred rows,
        and the ``peak_row`` of the key at which it was seen.
        """
        listed = self.keys if keys is None else list(keys)
        numbers = np.arange(len(self)) if keys is None else self._known(listed)
        parts: list[dict[str, Array]] = []
        stats = np.empty((len(numbers), kernels.STATS))
        for start in range(0, len(numbers), self._store.blocks.per_block):
            part = slice(start, start + self._store.blocks.per_block)
            rows, stats[part] = self._store.read(numbers[part])
            parts.append(self.model.look(rows, stats[part]))
        learned = stats[:, kernels.LEARNED]
        seen = np.where(learned > 0, learned, np.nan)
        return {
            "key": listed,
            "rows": learned.astype(np.int64),
            "skipped": stats[:, kernels.SKIPPED].astype(np.int64),
            "late": self._store.late[numbers].copy(),
            "loss": stats[:, kernels.LOSS] / seen,
            "recent": np.where(learned > 0, stats[:, kernels.RECENT], np.nan),
            **{
                name: np.concatenate([part[name] for part in parts]) if parts else np.empty(0)
                for name in ("memory", "drift", "peak")
            },
            "peak_row": stats[:, kernels.PEAK_ROW].astype(np.int64),
        }

    # ------------------------------------------------------------------ merge and split

    def _empty_twin(self) -> Fleet:
        twin = Fleet(
            self.model, warm_start=self.warm_start, memory_limit=self.memory_limit,
            folder=self.folder, late=self.late, workers=self.workers,
        )  # fmt: skip
        twin._time_kind, twin._columns = self._time_kind, self.columns
        return twin

    @_alone
    def split(self, keys: Iterable[Any]) -> Fleet:
        """Return a new fleet with copies of the learners of ``keys``; this one stays as it is."""
        listed = list(keys)
        numbers = self._known(listed)
        other = self._empty_twin()
        rows, stats = self._store.read(numbers)
        other._store.admit(
            listed, rows, stats, self._store.newest[numbers], self._store.late[numbers]
        )
        return other

    def merge(self, other: Fleet) -> Self:
        """Take over copies of another fleet's learners, of the same model and other keys."""
        refuse_other(self.model, other.model, "The other fleet")
        kind, columns, learners = other._copies()  # before our own lock: no thread holds two
        self._admit(kind, columns, learners)
        return self

    @_alone
    def _copies(self) -> tuple[str | None, list[str] | None, Learners]:
        """Return all that another fleet needs to go on with these learners."""
        store = self._store
        rows, stats = store.read(np.arange(len(self)))
        keys = self._keys.all()
        keys = keys if isinstance(keys, np.ndarray) else [*keys]
        learners = keys, rows, stats, store.newest.copy(), store.late.copy()
        return self._time_kind, self.columns, learners

    @_alone
    def _admit(self, kind: str | None, columns: list[str] | None, learners: Learners) -> None:
        kinds = {one for one in (self._time_kind, kind) if one is not None}
        if len(kinds) > 1:
            raise TypeError(f"The fleets' times are {' and '.join(sorted(kinds))}: no one order.")
        if None not in (self._columns, columns) and self._columns != columns:
            raise ValueError(f"The fleets learned from {self._columns} and from {columns}.")
        theirs = learners[0]
        both = self._keys.number(theirs, add=False)
        both = both[both >= 0]
        if len(both):
            raise ValueError(
                f"{len(both)} keys are in both fleets, {self.keys[both[0]]!r} first: which learner "
                "is to stay? Split one of the fleets before."
            )
        self._store.admit(*learners)
        self._time_kind = kinds.pop() if kinds else None
        self._columns = columns if self._columns is None else self._columns

    @_alone
    def remove(self, keys: Iterable[Any]) -> Self:
        """Forget the learners of ``keys``, all or (where one is unknown) none; return the fleet.

        A later row of such a key begins it anew. Their memory is used by keys to come. It takes
        time in proportion to all keys of the fleet: remove many at once.
        """
        self._store.remove(self._known(keys))
        return self

    # ------------------------------------------------------------------ files

    @_alone
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fleet to a Parquet file; an older file there stays whole until it is done."""
        from swordplay.fleet.files import save

        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], like: Like | None = None, **how: Any) -> Fleet:
        """Return the fleet saved at ``path``; it goes on exactly.

        Args:
            path: a file of ``save``.
            like: the model, learner or fleet that you expect; another model in the file is refused
                with both shown.
            how: ``memory_limit``, ``folder``, ``workers`` of the fleet to be; ``late`` and
                ``warm_start``, which are the file's where they are not given.
        """
        from swordplay.fleet.files import load

        return load(path, None if like is None else as_model(like), **how)

    @_alone
    def to_bytes(self, about: dict[str, Any] | None = None) -> bytes:
        """Return the fleet as bytes; ``about`` is kept with it, as JSON."""
        from swordplay.fleet.files import to_bytes

        return to_bytes(self, about)

    @classmethod
    def from_bytes(
        cls,
        data: bytes | bytearray | memoryview,
        like: Like | None = None,
        about: dict[str, Any] | None = None,
        **how: Any,
    ) -> Fleet:
        """Return the fleet of ``to_bytes``; another model, or other ``about``, is refused."""
        from swordplay.fleet.files import from_bytes

        return from_bytes(data, None if like is None else as_model(like), about, **how)

    def __repr__(self) -> str:
        return f"Fleet({len(self)} keys, {readable(self.model.definition())})"


Like = Ensemble | Model | Fleet


def _come_back(data: bytes, how: dict[str, Any]) -> Fleet:
    return Fleet.from_bytes(data, **how)
