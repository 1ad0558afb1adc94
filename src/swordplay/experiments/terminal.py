"""What the terminal shows: progress bars on stderr, silent where nobody watches, and tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    ProgressColumn,
    Task,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.table import Table
from rich.text import Text

from swordplay.experiments.experiment import Experiment
from swordplay.experiments.experiment import Task as Piece
from swordplay.experiments.report import Overview
from swordplay.experiments.session import Outcome


def print_outcome(outcome: Outcome, seconds: float) -> None:
    """Print the table, the findings and where the report is."""
    console = Console(highlight=False)
    whole = not console.is_terminal  # lines are for the reader to break
    print_table(outcome.overview)
    for title, findings in outcome.findings.items():
        if findings:
            console.print(Text(title, style="bold"), soft_wrap=whole)
        for finding in findings:
            mark = f"{finding.verdict}: ".replace("not", "NOT") if finding.verdict else ""
            console.print(Text(f"  {mark}{finding.text}"), soft_wrap=whole)
    console.print(Text(f"\n{seconds:.1f} s. Report: {outcome.report}"), soft_wrap=True)


def print_table(overview: Overview) -> None:
    """Print head and rows, numbers to the right."""
    head, rows = overview
    if not rows:
        return
    table = Table(box=box.SIMPLE)
    table.show_edge = False
    for index, name in enumerate(head):
        numbers = index and all(not row[index] or row[index][0] in "0123456789-" for row in rows)
        table.add_column(name, justify="right" if numbers else "left", no_wrap=False)
    for row in rows:
        table.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(table)


class Rate(ProgressColumn):
    """Rounds a second."""

    def render(self, task: Task) -> Text:
        """Return the rate, once it is known."""
        return Text(f"{task.speed:>12,.0f} rounds/s" if task.speed else "")


class Bar:
    """A progress bar on stderr; silent where nobody watches. See ``runner.Watcher``."""

    def __init__(self, console: Console, wanted: bool) -> None:
        self.progress = Progress(
            TextColumn("{task.description:26}"),
            BarColumn(bar_width=None),
            Rate(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TimeElapsedColumn(),
            console=console,
            disable=not (wanted and console.is_terminal),
            transient=True,
        )
        self.task = self.progress.add_task("compiling (once)", total=None)

    def expect(self, rounds: int) -> None:
        """Begin to count."""
        self.progress.update(self.task, total=rounds)

    def begin(self, experiment: Experiment, task: Piece) -> None:
        """Name what is being played."""
        self.progress.update(self.task, description=f"{experiment.name} {task.key}"[:26])

    def advance(self, rounds: int) -> None:
        """Move on."""
        self.progress.advance(self.task, rounds)

    def draw(self, done: int, of: int) -> None:
        """Say that figures are drawn."""
        self.progress.update(
            self.task, description=f"drawing figure {done + 1} of {of}", completed=done, total=of
        )


@contextmanager
def counting(what: str, rounds: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar; yield what advances it."""
    bar = Bar(Console(stderr=True), True)
    with bar.progress:
        bar.progress.update(bar.task, description=what, total=rounds)
        yield bar.advance


@contextmanager
def waiting(what: str, wanted: bool = True) -> Iterator[None]:
    """Show that something is going on."""
    err = Console(stderr=True)
    if not (wanted and err.is_terminal):
        yield
        return
    with err.status(what):
        yield
