"""``swordplay reproduce``: the paper, from the first game to the report."""

# No postponed annotations here: Typer reads them.

from pathlib import Path
from typing import Annotated

import typer

from swordplay.cli.shared import (
    CODES,
    OPTIONS,
    AsJson,
    EngineName,
    Jobs,
    Out,
    Overwrite,
    Resume,
    Scheduler,
    choose_engine,
    conduct,
    refuse,
)

app = typer.Typer(**OPTIONS)


@app.command(
    epilog=CODES,
    short_help="Reproduce the paper: tables, figures, a report.",
    help="""Reproduce every experiment of the paper: tables, figures and out/report.html.

Examples:

\b
  swordplay reproduce --quick           a look, in seconds
  swordplay reproduce                   everything, five repetitions
  swordplay reproduce --sru sru.csv     with the data of Figures 1(b), 2(b)
  swordplay reproduce --only figure-1a --also SwordBest --out fig1
  swordplay reproduce --engine processes --jobs 8
  swordplay reproduce --resume          go on where a stopped run was
  swordplay reproduce --json > r.json   numbers and findings for a script

\b
Experiments: figure-1a, figure-1b, figure-2a, figure-2b, instances,
lower-bound, frontier, weights, collaboration.

What is finished is kept at once: after Ctrl-C or a crash, --resume does the rest, on the same
engine or another, and the tables are the same, byte for byte. A killed worker is replaced. Running
times are always measured alone, in this process.
""",
)
def reproduce(
    out: Out = Path("out"),
    seeds: Annotated[int, typer.Option(metavar="N", min=1, help="Repetitions.")] = 5,
    seed: Annotated[
        int, typer.Option(metavar="N", min=0, help="The first seed; then count up.")
    ] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Small streams, two repetitions.")] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="An experiment; give it once for each."),
    ] = None,
    also: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="One more learner in Figure 1 (Ader, SwordBest, ...)."),
    ] = None,
    sru: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The sulfur data: u1-u5, y1, y2.")
    ] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Download nothing.")] = False,
    engine: EngineName = "threads",
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce the paper."""
    where = choose_engine(engine, jobs, scheduler)

    from swordplay.experiments import catalogue, datasets, session

    notes: list[str] = []
    try:
        path = _sulfur(sru, offline, notes)
        chosen = range(seed, seed + (min(seeds, 2) if quick else seeds))
        scale = catalogue.quick(chosen) if quick else catalogue.Scale(tuple(chosen))
        experiments = catalogue.paper(scale, path, only or (), also or ())
    except (ValueError, datasets.Unavailable) as error:
        refuse(error)
    if not experiments:
        refuse("Nothing is left to run: the experiments you chose need the sulfur data.")
    settings = {
        "seeds": list(chosen),
        "quick": quick,
        "only": sorted(only or ()),
        "also": sorted(also or ()),
        "sulfur": None if path is None else datasets.digest(path),
    }
    if quick:
        notes.append("A quick run: streams are short. The paper's numbers need the full one.")
    study = session.Study(
        experiments,
        settings,
        "The paper's experiments",
        f"{len(chosen)} repetitions, seeds {chosen[0]} to {chosen[-1]}. Click a legend entry to "
        "hide a curve.",
        session.paper_overview,
        notes,
    )
    conduct(study, out, resume, overwrite, as_json, where)


def _sulfur(given: Path | None, offline: bool, notes: list[str]) -> Path | None:
    """Return where the sulfur data is, or note in one line why it is left out."""
    from swordplay.experiments import datasets

    if given is not None:
        datasets.read_sulfur(given)
        return given
    try:
        return datasets.sulfur(offline=offline)
    except datasets.Unavailable as error:
        notes.append(
            f"Figures 1(b) and 2(b) are left out, for want of the sulfur data: {error} "
            "With a copy of it: --sru PATH."
        )
        return None
