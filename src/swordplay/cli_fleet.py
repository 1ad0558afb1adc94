"""The commands ``swordplay fleet ...``: one model for each key of a file."""

# No postponed annotations here: Typer reads them.

from pathlib import Path
from typing import Annotated

import typer

fleet_app = typer.Typer(
    no_args_is_help=True, help="One model for each key of a file.", rich_markup_mode=None
)


@fleet_app.command(
    help="""Give every key of a file a model of its own, predict each row before it is learned,
and write tables and a report with the worst keys and the drift by key.

Examples:

  swordplay fleet run sales.parquet --key shop --target revenue --time day

  swordplay fleet run sensors.csv --key sensor --target value --json > keys.json
"""
)
def run(
    data: Annotated[Path, typer.Argument(help="CSV, TSV, Parquet or Arrow file.")],
    key: Annotated[str, typer.Option(help="The column that says whose row it is.")],
    target: Annotated[str, typer.Option(help="The column to predict: numbers, or two classes.")],
    time: Annotated[
        str | None, typer.Option(help="The column to order rows by; default: as in the file.")
    ] = None,
    feature: Annotated[
        list[str] | None, typer.Option(help="A column to predict from; give it once for each.")
    ] = None,
    out: Annotated[Path, typer.Option("--out", help="Folder for the results.")] = Path("out"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what is in --out.")] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace an earlier run in --out.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else.")] = False,
) -> None:
    """Run a fleet over a file."""
    from swordplay import fleet_study
    from swordplay.cli import _conduct, _refuse

    try:
        told = fleet_study.study(data, key, target, time, feature or ())
    except ValueError as error:
        _refuse(error)
    _conduct(told, out, resume, overwrite, as_json)
