"""What the commands share: options, how a study is conducted, how wrong use is refused."""

# No postponed annotations here: Typer reads them.

import json
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer
from rich.console import Console

from swordplay.engines import ENGINES, THREADS, Engine

if TYPE_CHECKING:
    from swordplay.experiments.session import Study

FAILED, MISUSED, STOPPED = 1, 2, 130
CODES = "Exit codes: 0 done, 1 failed, 2 wrong use or bad data, 130 stopped by Ctrl-C."
OPTIONS: dict[str, Any] = {
    "no_args_is_help": True,
    "rich_markup_mode": None,
    "context_settings": {"help_option_names": ["-h", "--help"]},
}
"""Of every group of commands."""

Data = Annotated[Path, typer.Argument(metavar="FILE", help="CSV, TSV, Parquet or Arrow.")]
Features = Annotated[
    list[str] | None,
    typer.Option(
        "--feature",
        metavar="COLUMN",
        help="A column to predict from; give it once for each.  [default: all numbers]",
    ),
]
Learners = Annotated[
    list[str] | None,
    typer.Option("--learner", "-l", metavar="NAME", help="A learner; give it once for each."),
]
Out = Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the results go.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with what is in --out.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in --out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else.")]

EngineName = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="NAME",
        help=f"Where games are played: {', '.join(ENGINES)}. The numbers are the same. "
        "RAY LISTENS ON EVERY NETWORK INTERFACE: use it only where nobody else can reach it.",
    ),
]
Jobs = Annotated[
    int | None,
    typer.Option(
        "--jobs", metavar="N", min=1, help="Games at a time.  [default: one for each core]"
    ),
]
Scheduler = Annotated[
    str | None,
    typer.Option(
        "--scheduler",
        metavar="ADDRESS",
        help="Of a running Ray or Dask.  [default: start one on this machine]",
    ),
]


def choose_engine(name: str, jobs: int | None, scheduler: str | None) -> Engine:
    """Return the engine, or leave saying what is wrong with the choice or what to install."""
    try:
        return Engine(name, jobs, scheduler)
    except (ValueError, ImportError) as error:
        refuse(error)


def conduct(
    study: "Study",
    out: Path,
    resume: bool,
    overwrite: bool,
    as_json: bool,
    engine: Engine = THREADS,
) -> None:
    """Run a study with a progress bar and print what came out."""
    from swordplay.experiments import runner, terminal

    for note in study.notes:
        print(note, file=sys.stderr)
    began = time.perf_counter()
    bar = terminal.Bar(Console(stderr=True), not as_json)
    try:
        with warnings.catch_warnings(), bar.progress:
            warnings.simplefilter("ignore", UserWarning)  # they are in the certificates
            outcome = study.conduct(
                out, resume=resume, overwrite=overwrite, watcher=bar, engine=engine
            )
    except runner.FolderTaken as error:
        refuse(error)
    except KeyboardInterrupt:
        done, of = runner.progress(study.experiments, out)
        print(
            f"Stopped: {done} of {of} parts are finished and kept in {out}. "
            f"Go on with: swordplay {_again(sys.argv[1:])}",
            file=sys.stderr,
        )
        raise typer.Exit(STOPPED) from None
    if as_json:
        print(json.dumps(outcome.as_json(), indent=2, ensure_ascii=False, default=str))
        return
    terminal.print_outcome(outcome, time.perf_counter() - began)


def _again(arguments: Sequence[str]) -> str:
    """Return the command line that goes on."""
    kept = [word for word in arguments if word not in ("--resume", "--overwrite")]
    return " ".join([*kept, "--resume"])


def refuse(error: Exception | str, code: int = MISUSED) -> NoReturn:
    """Say in one line what is wrong, and leave."""
    print(f"swordplay: {error}", file=sys.stderr)
    raise typer.Exit(code)
