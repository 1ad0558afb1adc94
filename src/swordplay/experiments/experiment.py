"""What an experiment is: tasks that make tables, and how the tables are shown and judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from swordplay.engines import Advance
from swordplay.ensemble import Ensemble
from swordplay.experiments.charts import Chart
from swordplay.experiments.games import Game
from swordplay.experiments.tables import Columns, Table
from swordplay.play import Run, play

Tables = Mapping[str, Table]
Work = Callable[[Advance], dict[str, Columns]]
"""Makes tables, by name; tells how many rounds were played since it last told. It must pickle, if
only by cloudpickle (closures do), to be done in another process."""


@dataclass(frozen=True)
class Finding:
    """A sentence about the numbers; ``expected`` says whether ``source`` says so too."""

    text: str
    expected: bool | None = None
    source: str = "the paper"

    @property
    def verdict(self) -> str:
        """Whether it came out as expected, in words.

        >>> Finding("It rains.", False).verdict
        'not as the paper says'
        """
        told = {True: "as {} says", False: "not as {} says", None: ""}[self.expected]
        return told.format(self.source)


@dataclass(frozen=True)
class Task:
    """The unit that is kept when a run is stopped: what it makes depends on nothing but itself."""

    key: str
    """Its name on disk, unique within the experiment."""
    work: Work
    """Returns its share of every table, by table name."""
    rounds: int
    """How many rounds it plays: its share of the progress bar."""


@dataclass(frozen=True)
class Experiment:
    """A question, the tasks that answer it, and what is drawn and said about the answer."""

    name: str
    title: str
    about: str
    tasks: tuple[Task, ...]
    charts: Callable[[Tables], Sequence[Chart]]
    findings: Callable[[Tables], Sequence[Finding]] = lambda tables: ()
    constants: Mapping[str, Any] = field(default_factory=dict)
    timed: bool = False
    """Whether its tables hold times, which no two runs share."""


class Player(Protocol):
    """Anything that can sit down at a game: see ``contenders``."""

    @property
    def labels(self) -> dict[str, Any]:
        """The columns that tell this contender from others."""

    def build(self, game: Game) -> Ensemble:
        """Return a learner that has not played."""


@dataclass(frozen=True)
class Played:
    """One finished game."""

    game: Game
    learner: Ensemble
    run: Run


Measure = Callable[[Played], Columns]


def contest(
    game: Callable[[], Game],
    players: Sequence[Player],
    measures: Mapping[str, Measure],
    labels: Mapping[str, Any],
    record: Sequence[str] = (),
    every: int = 1,
) -> Work:
    """Return the work of a task: every player plays the game, every measure looks at every play.

    Args:
        game: makes the game, when the task is done and not before.
        players: who plays.
        measures: one for each table, by table name.
        labels: columns that say the same in every row (seed, horizon, ...).
        record: what each run keeps, see :func:`swordplay.play`.
        every: keep each ``every``-th round.
    """

    def work(advance: Advance) -> dict[str, Columns]:
        from swordplay.experiments.tables import constant, stack

        here = game()
        parts: dict[str, list[Columns]] = {name: [] for name in measures}
        for player in players:
            learner = player.build(here)
            run = play(learner, here.stream, record=record, every=every)
            for name, measure in measures.items():
                measured = measure(Played(here, learner, run))
                length = len(next(iter(measured.values())))
                told = constant(length, {**player.labels, **labels})
                parts[name].append({**told, **measured})
            advance(len(run))
        return {name: stack(part).columns for name, part in parts.items()}

    return work
