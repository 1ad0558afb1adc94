"""``swordplay bench``: how long a round takes on this machine."""

# No postponed annotations here: Typer reads them.

import json
from typing import Annotated

import typer

from swordplay.cli.shared import CODES, OPTIONS, AsJson, Learners, refuse

app = typer.Typer(**OPTIONS)


@app.command(
    epilog=CODES,
    short_help="Measure how long a round takes here.",
    help="""Measure how long a round takes here: median microseconds, by learner and dimension.

Examples:

\b
  swordplay bench
  swordplay bench -l OGD -l Sword++ --dim 5 --dim 100 --rounds 20000
""",
)
def bench(
    learner: Learners = None,
    dim: Annotated[
        list[int] | None,
        typer.Option(metavar="N", min=1, help="A dimension; give it once for each."),
    ] = None,
    rounds: Annotated[int, typer.Option(metavar="N", min=100, help="Rounds of a game.")] = 20_000,
    repeats: Annotated[
        int, typer.Option(metavar="N", min=1, help="Games, from fresh learners.")
    ] = 3,
    as_json: AsJson = False,
) -> None:
    """Measure how long a round takes."""
    from swordplay.experiments import LEARNERS, terminal, timing

    names, dims = learner or list(LEARNERS), dim or [5, 50]
    try:
        total = rounds * repeats * len(names) * len(dims)
        with terminal.counting(f"{len(names)} learners", total) as told:
            rows = timing.table(names, dims, rounds, repeats, told)
    except ValueError as error:
        refuse(error)
    if as_json:
        print(json.dumps(rows, indent=2))
        return
    head = ["learner", "gradients a round", *(f"µs a round, d = {d}" for d in dims)]
    body = []
    for name in names:
        mine = [row for row in rows if row["learner"] == name]
        times = [f"{row['microseconds']:.3g}" for row in mine]
        body.append([name, f"{mine[0]['gradients_per_round']:g}", *times])
    terminal.print_table((head, body))
