"""Sword++, rows in memory, against other libraries: one learner each, one pass over the same rows.

A peer that is not installed is reported as such.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import swordplay as sp
from benchmarks.data import PER_DIM, play, pool_size, stream, vowpal_file, vowpal_pass
from benchmarks.measure import Row, Settings, Times, absent, missing, race


def _row(
    name: str,
    what: str,
    bar: float,
    times: Times,
    rival: str,
    data: sp.LinearStream,
    facts: sp.Assumptions,
    peer_rounds: int | None = None,
    at_least: bool = True,
) -> Row:
    """Return a row; a slow peer may have played only the first ``peer_rounds``."""
    rounds = peer_rounds or len(data)
    slow, fast = (rival, "sword") if at_least else ("sword", rival)
    scale = len(data) / rounds if at_least else rounds / len(data)
    return Row(
        name=name,
        what=what,
        bar=bar,
        measured=times.ratio(slow, fast, scale),
        at_least=at_least,
        details={
            "N": pool_size(data.dim, facts),
            "d": data.dim,
            "rounds": len(data),
            "rival_rounds": rounds,
            "spread": times.spread(slow, fast, scale),
            "sword_ns": 1e9 * times.median("sword") / len(data),
            "rival_ns": 1e9 * times.median(rival) / rounds,
        },
    )


# What it is given: its own settings; and the least work, a plain step without an intercept, which
# is what a base learner does. Over text the two take the same time: reading it takes most of it.
LIGHT = "--sgd --noconstant"
VOWPAL = {"text": "text file", "cache": "its cache", "light": "its cache, --sgd"}


def vowpal(settings: Settings) -> list[Row]:
    """Vowpal Wabbit over the rows as a text file, and over its binary cache of them."""
    bars = {5: (5.0, 4.0), 50: (8.0, 2.0), 1000: (8.0, 2.0)}
    gone = missing("vowpalwabbit", "pyarrow")
    rows = []
    for dim, (text_bar, cache_bar) in bars.items():
        wanted = {
            kind: (
                f"vowpal-{kind}/d={dim}",
                f"faster than Vowpal Wabbit, {label}, d = {dim}",
                text_bar if kind == "text" else cache_bar,
            )
            for kind, label in VOWPAL.items()
        }
        if gone:
            rows += [absent(*row, at_least=True) for row in wanted.values()]
            continue
        rounds = settings.size(PER_DIM[dim])
        data = stream(rounds, dim)
        facts = data.assumptions(sp.Ball(dim, 1.0))
        with tempfile.TemporaryDirectory() as folder:
            text = vowpal_file(Path(folder) / "rows.txt", data)
            how = {
                "text": "",
                "cache": f"--cache_file {folder}/rows.cache",
                "light": f"--cache_file {folder}/light.cache {LIGHT}",
            }
            contestants = {kind: _vowpal(text, rounds, more) for kind, more in how.items()}
            contestants["sword"] = play(sp.SwordPP, data, facts)
            # The turn that is not counted writes the caches; the later ones read nothing else.
            times = race(settings.repetitions, contestants)
        rows += [_row(*row, times, kind, data, facts) for kind, row in wanted.items()]
    return rows


def _vowpal(path: Path, rounds: int, more: str = "") -> Callable[[], Callable[[], object]]:
    return lambda: lambda: vowpal_pass(path, rounds, more)


def river(settings: Settings) -> list[Row]:
    """River's LinearRegression: predict_one and learn_one on dicts that were made beforehand."""
    rows = []
    for dim, bar, rounds in ((5, 13.0, 100_000), (1000, 50.0, 2_000)):
        name, what = f"river/d={dim}", f"faster than River's LinearRegression, d = {dim}"
        if missing("river"):
            rows.append(absent(name, what, bar, at_least=True))
            continue
        data = stream(settings.size(PER_DIM[dim]), dim)
        facts = data.assumptions(sp.Ball(dim, 1.0))
        first = min(settings.size(rounds), len(data))
        names = [f"x{j}" for j in range(dim)]
        dicts = [dict(zip(names, row, strict=True)) for row in data.features[:first].tolist()]
        contestants = {
            "sword": play(sp.SwordPP, data, facts),
            "river": _river(list(zip(dicts, data.targets[:first].tolist(), strict=True))),
        }
        times = race(settings.repetitions, contestants)
        rows.append(_row(name, what, bar, times, "river", data, facts, peer_rounds=first))
    return rows


def _river(rows: list[tuple[dict[str, float], float]]) -> Callable[[], Callable[[], object]]:
    from river.linear_model import LinearRegression

    def prepare() -> Callable[[], object]:
        model = LinearRegression()

        def work() -> None:
            for x, y in rows:
                model.predict_one(x)  # type: ignore[no-untyped-call]
                model.learn_one(x, y)

        return work

    return prepare


def scikit_learn(settings: Settings) -> list[Row]:
    """One epoch of scikit-learn's SGDRegressor: one learner, one step size, no penalty."""
    rows = []
    for dim, bar in ((5, 3.5), (50, 5.0), (1000, 2.0)):
        name, what = f"scikit-learn/d={dim}", f"time over that of SGDRegressor, d = {dim}"
        if missing("sklearn"):
            rows.append(absent(name, what, bar))
            continue
        data = stream(settings.size(PER_DIM[dim]), dim)
        facts = data.assumptions(sp.Ball(dim, 1.0))
        contestants = {"sword": play(sp.SwordPP, data, facts), "sklearn": _epoch(data)}
        times = race(settings.repetitions, contestants)
        rows.append(_row(name, what, bar, times, "sklearn", data, facts, at_least=False))
    return rows


def _epoch(data: sp.LinearStream) -> Callable[[], Callable[[], object]]:
    from sklearn.linear_model import SGDRegressor

    def prepare() -> Callable[[], object]:
        model = SGDRegressor(
            learning_rate="constant",
            eta0=0.01,
            penalty=None,
            max_iter=1,
            tol=None,  # else one epoch ends with a warning
            shuffle=False,
        )
        return lambda: model.fit(data.features, data.targets)

    return prepare
