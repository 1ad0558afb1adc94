"""What a fleet has one of for every key: a learner of the paper, or the default pool."""

from __future__ import annotations

import base64
import json
import operator
import zlib
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from swordplay import learner as files
from swordplay import losses, state
from swordplay._types import Array
from swordplay.ensemble import Ensemble
from swordplay.kernels import calls, codes, pool_plan
from swordplay.kernels import fleet as kernels
from swordplay.kernels import pool_layout as at
from swordplay.losses import Loss
from swordplay.state import StateError

if TYPE_CHECKING:
    from swordplay.fleet.fleet import Fleet

EXPERIENCED = 100  # rows after which a warm start counts a learner in
AVERAGED = 1000  # learners that it counts in at most, those of the oldest keys


class Part(NamedTuple):
    """Some rows of a batch, and where the learners of all its rows are."""

    order: Array
    """Rows of the batch, those of a key in their order."""
    slots: Array
    """The slot of every row's learner."""
    first: int
    """The slot of the block's first state row."""
    X: Array
    out: Array
    """Where predictions go."""


class Model(Protocol):
    """A kind of learner whose state is one row."""

    dim: int
    fresh: Array
    """The row of a learner that has seen nothing."""

    def definition(self) -> dict[str, Any]:
        """Return what the model is, as JSON can hold it: equal models have equal definitions."""

    def saved(self) -> dict[str, Any]:
        """Return what ``restore`` makes the model of."""

    def check_targets(self, y: Array) -> None:
        """Refuse targets without meaning."""

    def learn(self, rows: Array, stats: Array, part: Part, y: Array) -> int:
        """Predict, then learn, a part of a batch; return how many rows broke a promise."""

    def predict(self, rows: Array, part: Part) -> None:
        """Predict a part of a batch."""

    def average(self, rows: Array) -> Array:
        """Return the row of a newcomer that begins where these learners are on average."""

    def rounds(self, rows: Array) -> Array:
        """Return how many rows each one learned."""

    def look(self, rows: Array, stats: Array) -> dict[str, Array]:
        """Return every learner's memory in rows, its drift in octaves, and the peak of that."""


class PaperModel(Model):
    """A one-gradient learner of the paper on a linear model's loss.

    Args:
        learner: how every key begins; it is copied, never changed.
        loss: of (y, prediction).
    """

    def __init__(self, learner: Ensemble, loss: Loss | None = None) -> None:
        ours = isinstance(learner, Ensemble)
        if not (ours and learner._compiled and not learner.own):
            raise TypeError(
                "A fleet learns with compiled learners of one gradient a round (OGD, OEGD, "
                f"Ader(surrogate=True), SwordPP, SwordOptimism); {learner!r} is not one."
            )
        if learner._guesses:
            raise ValueError(
                f"{learner!r} guesses its horizon, so that its state grows, and a fleet's rows do "
                "not: give Assumptions(horizon=...), the rounds you expect of a key."
            )
        self.learner = learner.copy()
        self.loss = losses.Squared() if loss is None else loss
        if getattr(losses, type(self.loss).__name__, None) is not type(self.loss):
            raise TypeError(
                f"loss must be a loss of swordplay's, say Huber(1.0), which the kernels know; "
                f"{loss!r} is not."
            )
        self.dim = learner.domain.dim
        self.fresh = self.learner._row
        template = base64.b64encode(self.learner.to_bytes()).decode()
        self._saved = {"kind": "paper", "template": template, **self.definition()}
        self._address = calls.address_of_learn(self.learner._layout.compact, self.fresh.dtype)

    def definition(self) -> dict[str, Any]:
        arguments = {name: files._encode(value) for name, value in self.learner._arguments.items()}
        kind = {"name": type(self.loss).__name__, "number": self.loss.number}
        told = {
            "learner": self.learner._name(),
            "arguments": arguments,
            "loss": kind,
            "begins": zlib.crc32(self.fresh.tobytes()),  # a learner may have learned already
        }
        return dict(json.loads(json.dumps(told)))

    def saved(self) -> dict[str, Any]:
        return self._saved

    def __reduce__(self) -> Any:
        return restore, (self.saved(),)  # addresses are another process's own

    def check_targets(self, y: Array) -> None:
        self.loss.check_targets(y)

    def learn(self, rows: Array, stats: Array, part: Part, y: Array) -> int:
        looks = kernels.learn_rows(
            rows, stats, self.learner._recipe, self._address, self.loss.code, self.loss.number,
            part.order, part.slots, part.first, part.X, y, part.out,
        )  # fmt: skip
        return int(looks)

    def predict(self, rows: Array, part: Part) -> None:
        kernels.predict_rows(rows, self.learner._recipe, *part)

    def average(self, rows: Array) -> Array:
        """Return a fresh row that begins at the mean decision; it lies in the domain, too."""
        middle = rows[:, self.learner._at].mean(axis=0, dtype=np.float64)
        newcomer = self.learner.copy()
        newcomer._adopt_row(newcomer._layout.empty())
        newcomer._begin(newcomer.domain.project(middle))
        return newcomer._row

    def rounds(self, rows: Array) -> Array:
        return self._heads(rows)[:, state.ROUND]

    def look(self, rows: Array, stats: Array) -> dict[str, Array]:
        """Step sizes below 1/L remember 1 + 1/(eta L) rows; drift is recent loss over usual."""
        start, count = self.learner._layout.offsets["weights"], self.learner._layout.count
        curve = self.learner.facts.smoothness or np.nan
        with np.errstate(divide="ignore"):
            spans = np.log2(1 + 1 / (self.learner._steps * curve))
        longest = np.log2(self.rounds(rows) + 1)[:, None]
        shares = rows[:, start : start + count].astype(np.float64)
        memory = 2 ** np.sum(shares * np.minimum(spans, longest), axis=1)
        with np.errstate(divide="ignore", invalid="ignore"):
            usual = stats[:, kernels.LOSS] / stats[:, kernels.LEARNED]
            octaves = np.log2([stats[:, kernels.RECENT] / usual, stats[:, kernels.PEAK]])
        now, peak = np.maximum(0.0, np.nan_to_num(octaves, nan=0.0, neginf=0.0))
        return {"memory": memory, "drift": now, "peak": peak}

    def _heads(self, rows: Array) -> Array:
        floats = state.HEAD * 8 // rows.itemsize
        return np.ascontiguousarray(rows[:, :floats]).view(np.float64)


_CODES = {
    "squared": (at.SQUARED, codes.SQUARED),
    "huber": (at.HUBER, codes.HUBER),
    "absolute": (at.ABSOLUTE, codes.ABSOLUTE),
    "pinball": (at.PINBALL, codes.PINBALL),
    "logistic": (at.LOGISTIC, codes.LOGISTIC),
}


class PoolModel(Model):
    """The default pool of the estimators, ``pool="auto"``: nothing to tune, columns of any scale.

    Args:
        dim: number of columns.
        loss: "squared", "huber", "absolute", "pinball", or "logistic" for labels 0 and 1.
        param: Huber's delta in units of the target (default 1), pinball's quantile (default 0.5).
        kind: "auto", or "first-order" for no second-order experts.
        last_value: whether the last value is an expert.
    """

    def __init__(
        self,
        dim: int,
        loss: str = "squared",
        param: float | None = None,
        kind: str = "auto",
        last_value: bool = True,
    ) -> None:
        if loss not in _CODES:
            raise ValueError(f"loss must be one of {', '.join(_CODES)}; not {loss!r}.")
        if kind not in ("auto", "first-order"):
            raise ValueError(f'kind must be "auto" or "first-order", not {kind!r}.')
        self.dim = operator.index(dim)
        if self.dim < 1:
            raise ValueError(f"dim must be at least 1, not {dim!r}.")
        number = float({"pinball": 0.5}.get(loss, 1.0) if param is None else param)
        if not 0 < number < (1 if loss == "pinball" else np.inf):
            raise ValueError(f"{loss} cannot have the parameter {param!r}.")
        self._given = (self.dim, loss, number, kind, bool(last_value))
        plan = pool_plan.PoolConfig(
            loss=_CODES[loss][0],
            param=number,
            second_order=kind == "auto",
            last_value=last_value,
        )
        self._code, self._labels = _CODES[loss][1], loss == "logistic"
        self._layout = pool_plan.layout(self.dim, plan)
        self.fresh = pool_plan.fresh(self._layout)

    def definition(self) -> dict[str, Any]:
        names = ("dim", "loss", "param", "kind", "last_value")
        return {"pool": dict(zip(names, self._given, strict=True))}

    def saved(self) -> dict[str, Any]:
        return {"kind": "pool", **self.definition()}

    def __reduce__(self) -> Any:
        return restore, (self.saved(),)

    def check_targets(self, y: Array) -> None:
        if self._labels and not np.isin(y, (0.0, 1.0)).all():
            raise ValueError("A pool with logistic loss needs targets of 0 and 1.")

    def learn(self, rows: Array, stats: Array, part: Part, y: Array) -> int:
        kernels.learn_pool_rows(
            rows, stats, self._layout.config, self._labels, self._code, self._given[2],
            part.order, part.slots, part.first, part.X, y, part.out,
        )  # fmt: skip
        return 0

    def predict(self, rows: Array, part: Part) -> None:
        kernels.predict_pool_rows(rows, self._layout.config, *part)

    def average(self, rows: Array) -> Array:
        """Return the mean row, in every learner's own scaled units, with no history.

        Only the half of the learners counts that errs less, in units of its own target: one that
        is still finding its scale would spoil the mean. Means of weights, of shares and of positive
        matrices are such things again. Scales may lie decades apart: they are medians. What neither
        suits is made anew: reciprocals, counts, and the trace of the gauge.
        """
        cfg, lay = self._layout.config, self._layout
        errors = rows[:, lay.frames + at.H_SQUARES]  # 0 for labels: all of them count
        rows = rows[errors <= np.median(errors)]
        row = np.array(rows.mean(axis=0))
        row[: lay.frames] = np.median(rows[:, : lay.frames], axis=0)
        row[0] = np.floor(row[0])
        fields = row[at.FRAMES_HEAD : lay.frames].reshape(at.FIELDS, self.dim)
        learner = row[lay.frames :]
        begin = lay.frames + int(cfg[at.O_TARGET])
        row[begin : begin + at.FIELDS] = np.median(rows[:, begin : begin + at.FIELDS], axis=0)
        target = row[begin : begin + at.FIELDS].reshape(at.FIELDS, 1)
        for columns in (fields, target):
            for k in (at.F_BLOCK_MEAN, at.F_BLOCK_SQUARES, at.F_MOVES):
                columns[k] = 0.0
            columns[at.F_N] = np.floor(columns[at.F_N])
            scale = columns[at.F_SCALE]
            columns[at.F_INVERSE] = np.where(scale > 0, 1.0 / np.where(scale > 0, scale, 1.0), 0.0)
        learner[at.H_ROUND] = np.floor(learner[at.H_ROUND] / at.BLOCK) * at.BLOCK  # a whole block
        row[0] = learner[at.H_ROUND]
        learner[[at.H_GAUGED, at.H_STRIDE, at.H_KEPT, at.H_DRIFT]] = 0.0
        trace = int(cfg[at.O_HISTORY])
        learner[trace : trace + 2 * at.HISTORY] = 0.0
        return row

    def rounds(self, rows: Array) -> Array:
        return rows[:, self._layout.frames + at.H_ROUND]

    def look(self, rows: Array, stats: Array) -> dict[str, Array]:
        """Report what the pool's own gauge said last."""
        heads = rows[:, self._layout.frames : self._layout.frames + at.HEAD]
        return {
            "memory": 2.0 ** heads[:, at.H_MEMORY],
            "drift": np.maximum(0.0, heads[:, at.H_DRIFT]),
            "peak": stats[:, kernels.PEAK],
        }


def as_model(given: Ensemble | Model | Fleet, loss: Loss | None = None) -> Model:
    """Return what a fleet has one of for every key."""
    if isinstance(given, Ensemble):
        return PaperModel(given, loss)
    if loss is not None:
        raise TypeError("loss= belongs to a learner of the paper; a pool names its own.")
    model = getattr(given, "model", given)
    if not isinstance(model, PaperModel | PoolModel):
        raise TypeError(
            "A fleet is of learners of the paper, or of PoolModel(dim), which is the default pool "
            f"of SwordRegressor and SwordClassifier; not of {given!r}."
        )
    return model


def restore(saved: dict[str, Any]) -> Model:
    """Return the model that ``saved`` describes; no code is read from it."""
    try:
        if saved["kind"] == "pool":
            return PoolModel(**saved["pool"])
        learner = files.from_bytes(base64.b64decode(saved["template"]))
        if not isinstance(learner, Ensemble):
            raise StateError(f"{type(learner).__name__} is no learner for a fleet.")
        name, number = saved["loss"]["name"], saved["loss"]["number"]
        kind = getattr(losses, str(name), None)
        if not (isinstance(kind, type) and issubclass(kind, Loss)):
            raise StateError(f"There is no loss called {name!r}.")
        make: Any = kind
        return PaperModel(learner, make(number) if number else make())
    except StateError:
        raise
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"The fleet's model cannot be built again: {error!r}.") from error


def refuse_other(mine: Model, theirs: Model, what: str) -> None:
    """Refuse a state of another model, with what differs and both shown."""
    a, b = readable(mine.definition()), readable(theirs.definition())
    if a != b:
        lines = _differences("model", a, b) if a.keys() == b.keys() else []
        lines += [f"given: {json.dumps(a)}", f"there: {json.dumps(b)}"]
        raise StateError("\n  ".join([f"{what} belongs to another model.", *lines]))


def readable(value: Any) -> Any:
    """Return a definition with its arrays as lists and its parts by their names."""
    if not isinstance(value, dict):
        return value
    if "array" in value:
        return files._decode(value).tolist()
    if "part" in value:
        return {value["part"]: readable(value["arguments"])}
    if "name" in value:  # a loss
        return {value["name"]: value["number"]}
    return {name: readable(inner) for name, inner in value.items()}


def _differences(name: str, a: Any, b: Any) -> list[str]:
    """Return a line for every field in which two definitions differ."""
    if isinstance(a, dict) and isinstance(b, dict) and a.keys() & b.keys():
        fields = dict.fromkeys([*a, *b])
        lines = [line for f in fields for line in _differences(f, a.get(f), b.get(f))]
        # A learner of other constants begins otherwise, too.
        return [line for line in lines if len(lines) == 1 or not line.startswith("begins:")]
    return [] if a == b else [f"{name}: {json.dumps(a)} here, {json.dumps(b)} there"]
