"""The default learner on drifting streams, against other libraries: ``python -m benchmarks drift``.

Every learner predicts each row before learning it. Peers play with their own settings (untuned) and
with every setting of a grid, of which the best is taken after the fact (tuned in hindsight); ours
has one setting for everything. The loss is the squared error over that of the mean (NMSE), or log
loss. Streams: River's own, and those of a file with recorded scores, where it is there.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import report
from benchmarks.measure import missing

Floats = np.ndarray[Any, np.dtype[np.float64]]
Peer = Callable[[Floats, Floats, bool], Floats]
EDGE = 1e-7  # probabilities are kept this far from 0 and 1
SHARED = Path(__file__).parents[2] / "shared" / "data"


@dataclass
class Stream:
    """Rows of one stream, and the scores that came with it."""

    name: str
    X: Floats
    y: Floats
    labels: bool
    recorded: dict[str, float] = field(default_factory=dict)
    best_recorded: tuple[str, float] | None = None


@dataclass
class Score:
    """What came out for one stream."""

    stream: str
    rows: int
    columns: int
    labels: bool
    ours: float
    untuned: str
    untuned_loss: float
    tuned: str
    tuned_loss: float
    microseconds: float

    @property
    def ratio(self) -> float:
        """Our loss over that of the best peer tuned in hindsight."""
        return self.ours / self.tuned_loss


def loss(y: Floats, p: Floats, labels: bool) -> float:
    """Return NMSE or log loss; infinite where a learner broke down."""
    if not np.isfinite(p).all():
        return math.inf
    if labels:
        p = np.clip(p, EDGE, 1 - EDGE)
        return float(-np.log(np.where(y == 1, p, 1 - p)).mean())
    with np.errstate(over="ignore"):
        return float(((y - p) ** 2).sum() / ((y - y.mean()) ** 2).sum())


# ---- streams


def river_streams(rows: int) -> Iterator[Stream]:
    """Yield River's own data sets and generators."""
    from river import datasets
    from river.datasets import synth

    def numbers(x: dict[Any, Any]) -> list[float]:
        return [float(v) for v in x.values() if isinstance(v, int | float)]

    def stream(name: str, data: Iterable[Any], labels: bool, one: Any = None) -> Stream:
        pairs = list(islice(data, rows))
        y = [float(y == one) if one is not None else float(y) for _, y in pairs]
        return Stream(name, np.array([numbers(x) for x, _ in pairs]), np.array(y), labels)

    yield stream("TrumpApproval", datasets.TrumpApproval(), False)
    yield stream("ChickWeights", datasets.ChickWeights(), False)
    for kind, at in (("lea", 3), ("gra", 2), ("gsg", 2)):
        places = tuple(rows * k // (at + 1) for k in range(1, at + 1))
        more = {} if kind == "lea" else {"transition_window": rows // 20}
        drift = synth.FriedmanDrift(kind, places, seed=1, **more)
        yield stream(f"Friedman {kind}", drift, False)
    yield stream("2dplanes", synth.Planes2D(seed=1), False)
    yield stream("Mv", synth.Mv(seed=1), False)
    yield stream("Phishing", datasets.Phishing(), True)
    yield stream("Bananas", datasets.Bananas(), True)
    yield stream("ImageSegments", datasets.ImageSegments(), True, one="sky")
    yield stream("SEA", _joined(rows, [synth.SEA(v, seed=v) for v in range(4)]), True)
    turning = synth.Hyperplane(
        seed=1, n_features=10, n_drift_features=5, mag_change=0.001, noise_percentage=0.05
    )
    yield stream("Hyperplane", turning, True)
    moving = synth.RandomRBFDrift(
        seed_model=1,
        seed_sample=1,
        n_classes=2,
        n_features=8,
        n_centroids=20,
        n_drift_centroids=10,
        change_speed=0.001,
    )
    yield stream("RandomRBF", moving, True)
    yield stream("Sine", _joined(rows, [synth.Sine(k, seed=k) for k in range(4)]), True)
    yield stream("STAGGER", _joined(rows, [synth.STAGGER(k, seed=k) for k in range(3)]), True)
    concepts = [synth.Agrawal(k, seed=k) for k in (0, 2, 4)]
    yield stream("Agrawal", _joined(rows, concepts), True)
    yield stream("Waveform", synth.Waveform(seed=1), True, one=1)


def _joined(rows: int, parts: list[Any]) -> Iterator[Any]:
    for part in parts:
        yield from islice(part, rows // len(parts))


def file_streams(folder: Path) -> Iterator[Stream]:
    """Yield the streams of ``drift_streams.npz`` with the scores beside it."""
    scores = json.loads((folder / "drift_streams.json").read_text(encoding="utf-8"))
    with np.load(folder / "drift_streams.npz") as data:
        for name, about in scores.items():
            recorded = {k: float(v) for k, v in about.items() if isinstance(v, int | float)}
            best = (about["best_peer"], float(recorded.pop("best_peer_score")))
            X, y = data[f"{name}__X"].astype(float), data[f"{name}__y"].astype(float)
            labels = about["task"] != "regression"
            yield Stream(f"{name} *", np.ascontiguousarray(X), y, labels, recorded, best)


# ---- players


def ours(X: Floats, y: Floats, labels: bool) -> Floats:
    """Play our default."""
    from swordplay.estimators import SwordClassifier, SwordRegressor

    if labels:
        return SwordClassifier().predict_then_learn(X, y.astype(int))
    out: Floats = SwordRegressor().predict_then_learn(X, y)
    return out


def _river(rate: float | None, scale: bool) -> Peer:
    def play(X: Floats, y: Floats, labels: bool) -> Floats:
        from river import linear_model, optim, preprocessing

        optimizer = None if rate is None else optim.SGD(rate)
        model: Any
        if labels:
            model = linear_model.LogisticRegression(optimizer)
        else:
            model = linear_model.LinearRegression(optimizer)
        if scale:
            model = preprocessing.StandardScaler() | model
        out = np.empty(len(y))
        for t, row in enumerate(X.tolist()):
            x = dict(enumerate(row))
            if labels:
                out[t] = model.predict_proba_one(x).get(True, 0.5)
                model.learn_one(x, bool(y[t]))
            else:
                out[t] = model.predict_one(x)
                model.learn_one(x, float(y[t]))
            if not math.isfinite(out[t]):
                out[t:] = math.nan
                break
        return out

    return play


def _scikit(eta: float | None, schedule: str | None) -> Peer:
    def play(X: Floats, y: Floats, labels: bool) -> Floats:
        from sklearn.linear_model import SGDClassifier, SGDRegressor
        from sklearn.preprocessing import StandardScaler

        more: dict[str, Any] = {}
        if eta is not None and schedule is not None:
            more = {"eta0": eta, "learning_rate": schedule}
        scaler = StandardScaler()
        model: Any = SGDRegressor(**more)
        if labels:
            model = SGDClassifier(loss="log_loss", **more)
        out = np.empty(len(y))
        for t in range(len(y)):
            row = scaler.partial_fit(X[t : t + 1]).transform(X[t : t + 1])
            if t == 0:
                out[t] = 0.5 if labels else 0.0
            else:
                out[t] = model.predict_proba(row)[0, 1] if labels else model.predict(row)[0]
            if not math.isfinite(out[t]) or abs(out[t]) > 1e100:
                out[t:] = math.nan
                break
            model.partial_fit(row, y[t : t + 1], **({"classes": [0.0, 1.0]} if labels else {}))
        return out

    return play


def _vowpal(options: str) -> Peer:
    def play(X: Floats, y: Floats, labels: bool) -> Floats:
        from vowpalwabbit import Workspace

        kind = "logistic --link logistic" if labels else "squared"
        wabbit = Workspace(f"--quiet --loss_function {kind} {options}")
        out = np.empty(len(y))
        for t, row in enumerate(X.tolist()):
            features = " ".join(f"{j}:{v:.9g}" for j, v in enumerate(row) if v)
            target = (1 if y[t] == 1 else -1) if labels else f"{y[t]:.9g}"
            example = wabbit.parse(f"{target} | {features}", wabbit.lDefault)
            wabbit.learn(example)
            out[t] = example.get_simplelabel_prediction()  # made before learning
            wabbit.finish_example(example)
        wabbit.finish()
        return out

    return play


def peers(quick: bool) -> tuple[dict[str, Peer], dict[str, Peer]]:
    """Return the untuned peers and the grids."""
    untuned: dict[str, Peer] = {}
    tuned: dict[str, Peer] = {}
    rates = [4.0**-k for k in range(0, 6, 2 if quick else 1)]
    if not missing("river"):
        untuned["River SGD"] = _river(None, False)
        untuned["River SGD, scaled"] = _river(None, True)
        for rate in rates:
            tuned[f"River SGD {rate:.2g}"] = _river(rate, False)
            tuned[f"River SGD {rate:.2g}, scaled"] = _river(rate, True)
    if not missing("sklearn"):
        untuned["scikit-learn SGD, scaled"] = _scikit(None, None)
        for eta in rates[1 :: 3 if quick else 2]:
            for schedule in ("constant", "invscaling"):
                tuned[f"scikit-learn SGD {schedule} {eta:.2g}, scaled"] = _scikit(eta, schedule)
    if not missing("vowpalwabbit"):
        untuned["Vowpal Wabbit"] = _vowpal("")
        untuned["Vowpal Wabbit --coin"] = _vowpal("--coin")
        for rate in (0.05, 0.5, 5.0) if quick else (0.02, 0.1, 0.5, 2.0, 10.0, 30.0):
            tuned[f"Vowpal Wabbit -l {rate:g}"] = _vowpal(f"-l {rate}")
            tuned[f"Vowpal Wabbit -l {rate:g} --power_t 0"] = _vowpal(f"-l {rate} --power_t 0")
    return untuned, tuned


# ---- the comparison


def compare(stream: Stream, untuned: dict[str, Peer], tuned: dict[str, Peer]) -> Score | None:
    """Let everybody play one stream; None where there is nobody to compare with."""
    began = time.perf_counter()
    mine = loss(stream.y, ours(stream.X, stream.y, stream.labels), stream.labels)
    taken = 1e6 * (time.perf_counter() - began) / len(stream.y)
    if stream.best_recorded is not None:
        plain = stream.recorded
        best = stream.best_recorded
    else:
        plain = {n: _played(stream, peer) for n, peer in untuned.items()}
        every = plain | {n: _played(stream, peer) for n, peer in tuned.items()}
        if not every:
            return None
        best = min(every.items(), key=lambda item: item[1])
    name, value = min(plain.items(), key=lambda item: item[1])
    shape = stream.X.shape
    return Score(stream.name, *shape, stream.labels, mine, name, value, *best, taken)


def _played(stream: Stream, peer: Peer) -> float:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return loss(stream.y, peer(stream.X, stream.y, stream.labels), stream.labels)
        except (OverflowError, ValueError):  # it broke down
            return math.inf


def mean(ratios: Iterable[float]) -> float:
    """Return the geometric mean."""
    return float(np.exp(np.mean(np.log(list(ratios)))))


def summary(scores: list[Score]) -> str:
    """Return geometric means and worst cases, by task."""
    lines = []
    for labels, task in ((False, "regression"), (True, "classification")):
        some = [s for s in scores if s.labels == labels]
        if not some:
            continue
        worst = max(some, key=lambda s: s.ratio)
        plain = mean(min(s.ours / s.untuned_loss, 1e3) for s in some)
        lines.append(
            f"{task}: {mean(s.ratio for s in some):.3f} of the best peer tuned in hindsight "
            f"(worst {worst.ratio:.3f}, {worst.stream}), {plain:.3f} of the best untuned one; "
            f"{len(some)} streams"
        )
    return "\n".join(lines)


def print_scores(scores: list[Score]) -> None:
    """Print the table."""
    head = ("stream", "rows", "d", "ours", "untuned", "tuned", "ratio", "us/row", "best peer")
    lines = [head]
    for s in scores:
        numbers = [f"{v:.4g}" for v in (s.ours, s.untuned_loss, s.tuned_loss)]
        size = [str(s.rows), str(s.columns)]
        lines.append(
            (s.stream, *size, *numbers, f"{s.ratio:.3f}", f"{s.microseconds:.1f}", s.tuned)
        )
    widths = [max(len(line[k]) for line in lines) for k in range(len(head))]
    for line in lines:
        cells = [
            cell.ljust(width) if k in (0, len(head) - 1) else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        print("  ".join(cells).rstrip())


def draw(path: Path, scores: list[Score]) -> bool:
    """Draw our loss over that of the best peer; return False without matplotlib."""
    try:
        from matplotlib.figure import Figure
    except ImportError:
        return False
    shown = sorted(scores, key=lambda s: -s.ratio)
    figure = Figure(figsize=(8.5, 0.26 * len(shown) + 1.6), layout="constrained")
    axes = figure.add_subplot()
    for labels, task, color, marker in (
        (False, "regression", "#0072B2", "o"),
        (True, "classification", "#D55E00", "s"),
    ):
        some = [(k, s) for k, s in enumerate(shown) if s.labels == labels]
        axes.plot([s.ratio for _, s in some], [k for k, _ in some], marker, color=color, label=task)
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xscale("log")
    low = min(0.25, *(s.ratio for s in shown)) / 1.1
    high = max(1.5, *(s.ratio for s in shown)) * 1.1
    axes.set_xlim(low, high)
    ticks = [t for t in (0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 5) if low <= t <= high]
    axes.set_xticks(ticks, [f"{t:g}" for t in ticks])
    axes.set_xticks([], minor=True)
    axes.set_yticks(range(len(shown)), [s.stream for s in shown])
    axes.grid(color="0.9")
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_ylim(-0.7, len(shown) - 0.3)
    axes.set_xlabel(
        "our loss / loss of the best peer tuned in hindsight (left of 1: ours is less)\n"
        "* peers' losses as recorded with the file"
    )
    axes.legend(frameon=False, loc="lower left")
    figure.savefig(path, dpi=150)
    return True


def main(arguments: list[str] | None = None) -> None:
    """Run the comparison."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks drift", description=__doc__)
    parser.add_argument("--data", type=Path, default=SHARED, metavar="FOLDER")
    parser.add_argument("--rows", type=int, default=5000, metavar="N", help="of a stream; 5000")
    parser.add_argument("--quick", action="store_true", help="short streams and small grids")
    parser.add_argument("--out", type=Path, default=Path("bench-out"), metavar="FOLDER")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    untuned, tuned = peers(options.quick)
    sets: list[tuple[str, Iterator[Stream]]] = []
    if missing("river"):
        print('No River: its streams and models are left out. pip install "swordplay[bench]"')
    else:
        sets.append(("River's streams", river_streams(1000 if options.quick else options.rows)))
    if (options.data / "drift_streams.npz").exists():
        sets.append(("streams with recorded scores", file_streams(options.data)))
    record: dict[str, Any] = {"machine": report.machine()}
    everything: list[Score] = []
    ours(np.zeros((2, 1)), np.array([0.0, 1.0]), False)  # compiles
    for title, streams in sets:
        found = []
        for stream in streams:
            if sys.stdout.isatty():
                print(f"\r{stream.name} ...".ljust(40), end="", flush=True)
            score = compare(stream, untuned, tuned)
            if score is not None:
                found.append(score)
        print(
            ("\r" if sys.stdout.isatty() else "")
            + title.ljust(40 if sys.stdout.isatty() else 0)
            + "\n"
        )
        print_scores(found)
        print(f"\n{summary(found)}\n")
        record[title] = [asdict(score) | {"ratio": score.ratio} for score in found]
        everything += found
    if not everything:
        print("There is nothing to compare with.")
        return
    written = [options.out / "drift.json"]
    written[0].write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    if draw(options.out / "drift.png", everything):
        written.append(options.out / "drift.png")
    print("Written:", ", ".join(str(path) for path in written))
