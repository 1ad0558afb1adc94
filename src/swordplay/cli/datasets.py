"""``swordplay datasets ...``: list, describe and fetch the data sets."""

# No postponed annotations here: Typer reads them.

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from swordplay.cli.shared import CODES, FAILED, OPTIONS, AsJson, refuse

app = typer.Typer(
    help="""The data sets: list, describe, fetch.

Example:  swordplay datasets fetch abrupt-drift --out drift.csv
""",
    **OPTIONS,
)

Name = Annotated[str, typer.Argument(metavar="NAME", help="A name from the list.")]


@app.command("list")
def list_datasets(as_json: AsJson = False) -> None:
    """List the data sets.

    Example:  swordplay datasets list --json
    """
    from swordplay.experiments import terminal
    from swordplay.experiments.datasets import DATASETS

    if as_json:
        print(json.dumps([{"name": d.name, "title": d.title} for d in DATASETS.values()]))
        return
    rows = [
        [d.name, "downloaded" if d.make is None else "made", d.title] for d in DATASETS.values()
    ]
    terminal.print_table((["name", "origin", "what it is"], rows))


@app.command()
def describe(name: Name, as_json: AsJson = False) -> None:
    """Describe a data set.

    Example:  swordplay datasets describe sulfur
    """
    data = _dataset(name)
    if as_json:
        print(json.dumps({"name": data.name, "title": data.title, "about": data.about}))
    else:
        print(f"{data.name}: {data.title}\n{data.about}")


@app.command(
    epilog=CODES,
    short_help="Write a data set to a file, or download it.",
    help="""Write a data set to a file; download the sulfur data to the cache.

Examples:

\b
  swordplay datasets fetch abrupt-drift --out drift.parquet --rounds 10000
  swordplay datasets fetch sulfur
""",
)
def fetch(
    name: Name,
    out: Annotated[
        Path | None, typer.Option(metavar="FILE", help="CSV or Parquet.  [default: NAME.csv]")
    ] = None,
    rounds: Annotated[
        int, typer.Option(metavar="N", min=1, help="Rows, of a data set that is made.")
    ] = 50_000,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="Seed, of a data set that is made.")
    ] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace the file.")] = False,
) -> None:
    """Write a data set to a file."""
    from swordplay.experiments import datasets, tables, terminal

    data = _dataset(name)
    if data.make is None:
        try:
            with terminal.waiting("Downloading"):
                path = datasets.sulfur()
        except datasets.Unavailable as error:
            refuse(error, FAILED)
        if out is None:
            print(path)
            return
        table = tables.Table(datasets.read_sulfur(path))
    else:
        stream = data.make(rounds, seed)
        columns = {f"x{j + 1}": stream.features[:, j] for j in range(stream.dim)}
        table = tables.Table({**columns, "y": stream.targets})
    target = out or Path(f"{name}.csv")
    if target.suffix not in (".csv", ".parquet"):
        refuse(f"{target}: the ending must be .csv or .parquet.")
    if target.exists() and not overwrite:
        refuse(f"{target} exists. Give another --out, or --overwrite.")
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".csv":
        target.write_text(table.csv(), encoding="utf-8")
    else:
        tables.write(target, table)
    print(target)


def _dataset(name: str) -> Any:
    from swordplay.experiments.datasets import DATASETS

    if name not in DATASETS:
        refuse(f"No data set is called {name!r}; there are {', '.join(DATASETS)}.")
    return DATASETS[name]
