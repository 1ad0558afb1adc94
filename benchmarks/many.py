"""Many games at once: two threads against one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import swordplay as sp
from benchmarks.measure import Row, Settings, race

SEEDS = range(5)
LEARNERS = (sp.OGD, partial(sp.Ader, surrogate=True), sp.SwordPP)


def many(settings: Settings) -> list[Row]:
    """Five seeds of OGD, Ader++ and Sword++: jobs=2 against jobs=1."""
    rounds, domain = settings.size(500_000), sp.Ball(5, 1.0)
    streams = [sp.streams.abrupt_drift(rounds, 5, every=1000, seed=seed) for seed in SEEDS]
    facts = [data.assumptions(domain) for data in streams]

    def games(jobs: int) -> Callable[[], Callable[[], object]]:
        def prepare() -> Callable[[], object]:
            learners = [make(domain, known) for known in facts for make in LEARNERS]
            played = [data for data in streams for _ in LEARNERS]
            return lambda: sp.play_many(learners, played, jobs=jobs)

        return prepare

    times = race(settings.repetitions, {"two": games(2), "one": games(1)})
    total = rounds * len(streams) * len(LEARNERS)
    return [
        Row(
            name="many",
            what="15 games (OGD, Ader++, Sword++): jobs=2 faster than 1",
            bar=1.7,
            measured=times.ratio("one", "two"),
            at_least=True,
            details={
                "N": [len(make(domain, facts[0]).step_sizes) for make in LEARNERS],
                "d": 5,
                "rounds": rounds,
                "spread": times.spread("one", "two"),
                "sword_ns": 1e9 * times.median("two") / total,
                "rival_ns": 1e9 * times.median("one") / total,
            },
        )
    ]
