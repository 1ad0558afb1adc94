"""The command ``swordplay``. It needs the extra ``app``; without, it says what to install."""

import sys
from importlib.util import find_spec
from typing import Annotated

MISSING = 'The swordplay command needs its extra: pip install "swordplay[app]"'

try:
    import typer

    from swordplay.cli import bench, datasets, fleet, reproduce, run, serve
    from swordplay.cli.shared import OPTIONS

    if not all(map(find_spec, ("matplotlib", "platformdirs", "plotly", "pyarrow"))):
        raise ImportError
except ImportError:
    print(MISSING, file=sys.stderr)
    raise SystemExit(2) from None

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False, **OPTIONS)
for commands in (reproduce, run, bench, serve):
    app.add_typer(commands.app)
app.add_typer(datasets.app, name="datasets")
app.add_typer(fleet.app, name="fleet")


def main() -> None:
    """Run the command line."""
    app(prog_name="swordplay")


def _show_version(wanted: bool) -> None:
    if wanted:
        from swordplay import __version__

        print(f"swordplay {__version__}")
        raise typer.Exit


@app.callback(
    help="""Online convex optimization that keeps up with a changing world.

\b
Start with:           swordplay reproduce --quick
Your own data:        swordplay run mydata.csv --target y
A model for each key: swordplay fleet run sales.csv --key shop --target units
A model server:       swordplay serve

Every command has examples: swordplay COMMAND --help
"""
)
def about(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Show the version, or go on to a command."""
