"""The command ``swordplay``. It needs the extra ``app``; without, it says what to install."""

# No postponed annotations here: Typer reads them, and they name what is imported inside.

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from rich.table import Table
    from typer import Typer

    from swordplay.experiments import Row

MISSING = 'The swordplay command needs its extra: pip install "swordplay[app]"'

EXAMPLES = """Play the paper's synthetic stream with every algorithm and print what each one lost.

The stream is a linear regression in five dimensions whose model jumps every 1000 rounds.

Examples:

  swordplay reproduce                          the paper's stream, once

  swordplay reproduce --seeds 5                five streams, mean ± spread

  swordplay reproduce --rounds 5000 --seed 7   a short stream, another seed

  swordplay reproduce --json > rows.json       a record a learner and seed
"""

NOTES = """\
Regret is against the models behind the stream.
Sword.optimism is given no hint here, so it plays as Sword++ does."""


def main() -> None:
    """Run the command line."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        print(MISSING, file=sys.stderr)
        sys.exit(2)
    build()(prog_name="swordplay")


def build() -> "Typer":
    """Return the Typer application."""
    import typer
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    app = typer.Typer(
        add_completion=False, no_args_is_help=True, pretty_exceptions_show_locals=False
    )

    def show_version(wanted: bool) -> None:
        if wanted:
            from swordplay import __version__

            print(f"swordplay {__version__}")
            raise typer.Exit

    @app.callback()
    def about(
        version: Annotated[
            bool,
            typer.Option(
                "--version", callback=show_version, is_eager=True, help="Print the version."
            ),
        ] = False,
    ) -> None:
        """Online convex optimization that keeps up with a changing world.

        Start with: swordplay reproduce
        """

    @app.command(help=EXAMPLES)
    def reproduce(
        rounds: Annotated[int, typer.Option(min=1, help="Rounds of a stream.")] = 50_000,
        seeds: Annotated[int, typer.Option(min=1, help="How many streams.")] = 1,
        seed: Annotated[int, typer.Option(min=0, help="Seed of the first; then count up.")] = 0,
        as_json: Annotated[
            bool, typer.Option("--json", help="Records on stdout, no bar, no table.")
        ] = False,
    ) -> None:
        from swordplay.experiments import LEARNERS, compare

        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("plays, time left"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            disable=as_json or not sys.stderr.isatty(),
            transient=True,
        ) as bar:
            task = bar.add_task("compiling (once)", total=seeds * len(LEARNERS))
            begun = 0

            def on_play(learner: str, now: int) -> None:
                nonlocal begun
                name = f"{learner}, seed {now}" if begun else "compiling (once)"
                bar.update(task, completed=begun, description=f"{name:24}")
                begun += 1

            rows = compare(rounds, range(seed, seed + seeds), on_play)
        if as_json:
            print(json.dumps([asdict(row) for row in rows], indent=2))
        else:
            Console().print(table(rows))
            print(NOTES)

    return app


def table(rows: "Sequence[Row]") -> "Table":
    """Return the rows, one line a learner, averaged over its seeds."""
    from rich import box
    from rich.table import Table

    seeds = sorted({row.seed for row in rows})
    which = f"seed {seeds[0]}"
    if len(seeds) > 1:
        which = f"seeds {seeds[0]}-{seeds[-1]}\n(mean ± standard deviation)"
    out = Table(
        title=f"{rows[0].rounds:,} rounds, 5 dimensions, a new model every 1000, {which}",
        box=box.SIMPLE,
        title_justify="left",
    )
    out.add_column("learner", no_wrap=True)
    for heading in ("cumulative\nloss", "dynamic\nregret", "gradients\na round", "µs\na round"):
        out.add_column(heading, justify="right", no_wrap=True)

    for name in dict.fromkeys(row.learner for row in rows):
        mine = [row for row in rows if row.learner == name]
        out.add_row(
            name,
            _spread([row.cumulative_loss for row in mine]),
            _spread([row.dynamic_regret for row in mine]),
            f"{fmean(row.gradients_per_round for row in mine):g}",
            f"{fmean(row.microseconds_per_round for row in mine):.2f}",
        )
    return out


def _spread(values: list[float]) -> str:
    middle = f"{fmean(values):,.1f}"
    return middle if len(values) == 1 else f"{middle} ± {stdev(values):,.1f}"
