"""``swordplay fleet ...``: one model for each key of a file."""

# No postponed annotations here: Typer reads them.

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from swordplay.cli.shared import (
    CODES,
    OPTIONS,
    AsJson,
    Data,
    Features,
    Out,
    Overwrite,
    Resume,
    conduct,
    refuse,
)


class Commands(TyperGroup):
    """The commands; a file in place of one is answered with the command it belongs to."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command, or fail with a hint."""
        if Path(args[0]).suffix and self.get_command(ctx, args[0]) is None:
            whole = shlex.join([*ctx.command_path.split(), "run", *args])
            ctx.fail(f"{args[0]!r} is no command. Did you mean: {whole}")
        return super().resolve_command(ctx, args)


app = typer.Typer(
    cls=Commands,
    help="""One model for each key of a file.

Example:  swordplay fleet run sales.csv --key shop --target units
""",
    **OPTIONS,
)


@app.command(
    epilog=CODES,
    short_help="Give every key of a file a model of its own.",
    help="""Give every key of a file (a shop, a sensor) a model of its own.

Each row is predicted by its key's model before that learns it. Out come the predictions, a table
with a row for each key (loss, memory, drift), and a report with the worst keys.

Examples:

\b
  swordplay fleet run sales.parquet --key shop --target units --time day
  swordplay fleet run mail.csv --key user --target spam --feature length
  swordplay fleet run sensors.csv --key id --target value --json > keys.json

A target with two classes is predicted as a probability, of the second in alphabetical order. Rows
with an empty target are predicted and not learned; an empty feature is a missing value.
""",
)
def run(
    data: Data,
    key: Annotated[str, typer.Option(metavar="COLUMN", help="Whose row it is.")],
    target: Annotated[
        str, typer.Option(metavar="COLUMN", help="What to predict: numbers, or two classes.")
    ],
    time: Annotated[
        str | None,
        typer.Option(metavar="COLUMN", help="The order of the rows.  [default: as in the file]"),
    ] = None,
    feature: Features = None,
    out: Out = Path("out"),
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Run a fleet over a file."""
    from swordplay.cli import fleet_study

    try:
        told = fleet_study.study(data, key, target, time, feature or ())
    except ValueError as error:
        refuse(error)
    conduct(told, out, resume, overwrite, as_json)
