"""The command ``swordplay``. It needs the extra ``app``; without, it says what to install."""

# No postponed annotations here: Typer reads them.

import json
import sys
import time
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

MISSING = 'The swordplay command needs its extra: pip install "swordplay[app]"'

try:
    import typer
    from rich.console import Console

    from swordplay.cli_fleet import fleet_app

    if not all(map(find_spec, ("matplotlib", "platformdirs", "plotly", "pyarrow"))):
        raise ImportError
except ImportError:
    print(MISSING, file=sys.stderr)
    raise SystemExit(2) from None

if TYPE_CHECKING:
    from swordplay.experiments.session import Study

FAILED, MISUSED, STOPPED = 1, 2, 130
CODES = "Exit codes: 0 done, 1 failed, 2 wrong use or bad data, 130 stopped by Ctrl-C."

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
datasets_app = typer.Typer(
    no_args_is_help=True, help="The data sets: list, describe, fetch.", rich_markup_mode=None
)
app.add_typer(datasets_app, name="datasets")
app.add_typer(fleet_app, name="fleet")


Out = Annotated[Path, typer.Option("--out", help="Folder for the results.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with what is in --out.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an earlier run in --out.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON on stdout, and nothing else.")]
Learners = Annotated[
    list[str] | None, typer.Option("--learner", "-l", help="A learner; give it once for each.")
]


def main() -> None:
    """Run the command line."""
    app(prog_name="swordplay")


def _show_version(wanted: bool) -> None:
    if wanted:
        from swordplay import __version__

        print(f"swordplay {__version__}")
        raise typer.Exit


@app.callback()
def about(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Print the version."),
    ] = False,
) -> None:
    """Online convex optimization that keeps up with a changing world.

    Start with:  swordplay reproduce

    Your own data:  swordplay run mydata.csv --target y
    """


@app.command(
    epilog=CODES,
    help="""Reproduce every experiment of the paper: tables, figures and out/report.html.

Examples:

  swordplay reproduce                        everything, five repetitions

  swordplay reproduce --quick                the same in small, to have a look

  swordplay reproduce --sru sru.csv          with the sulfur data of Figures 1(b), 2(b)

  swordplay reproduce --only figure-1a --also SwordBest --out fig1

  swordplay reproduce --resume               go on where a stopped run was

  swordplay reproduce --json > result.json   numbers and findings for a script
""",
)
def reproduce(
    out: Out = Path("out"),
    seeds: Annotated[int, typer.Option(min=1, help="Repetitions.")] = 5,
    seed: Annotated[int, typer.Option(min=0, help="The first seed; then count up.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="Small streams, two repetitions.")] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="An experiment; give it once for each.")
    ] = None,
    also: Annotated[
        list[str] | None, typer.Option(help="One more learner in Figure 1 (Ader, SwordBest, ...).")
    ] = None,
    sru: Annotated[Path | None, typer.Option(help="The sulfur data: u1-u5, y1, y2.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Download nothing.")] = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Reproduce the paper."""
    from swordplay.experiments import catalogue, datasets, session

    notes: list[str] = []
    try:
        path = _sulfur(sru, offline, notes)
        chosen = range(seed, seed + (min(seeds, 2) if quick else seeds))
        scale = catalogue.quick(chosen) if quick else catalogue.Scale(tuple(chosen))
        experiments = catalogue.paper(scale, path, only or (), also or ())
    except (ValueError, datasets.Unavailable) as error:
        _refuse(error)
    if not experiments:
        _refuse("Nothing is left to run: the experiments you chose need the sulfur data.")
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
    _conduct(study, out, resume, overwrite, as_json)


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


@app.command(
    epilog=CODES,
    help="""Play your own data: who predicts best, how nimble must a model be, which steps pay?

The file (CSV, TSV, Parquet or Arrow) is read from its first row to its last, oldest first. Every
row is predicted before it is learned.

Examples:

  swordplay run mydata.csv --target y

  swordplay run sales.parquet --target units --feature price --feature day

  swordplay run mail.csv --target spam --task classification

  swordplay run mydata.csv --target y -l OGD -l Sword++ --radius 3 --loss pinball:0.9
""",
)
def run(
    data: Annotated[Path, typer.Argument(help="CSV, TSV, Parquet or Arrow file.")],
    target: Annotated[str, typer.Option(help="The column to predict.")],
    feature: Annotated[
        list[str] | None, typer.Option(help="A column to predict from; default all numbers.")
    ] = None,
    task: Annotated[str, typer.Option(help="regression or classification; default: seen.")] = "",
    loss: Annotated[
        str, typer.Option(help="huber, squared, absolute, pinball:Q or logistic.")
    ] = "",
    learner: Learners = None,
    radius: Annotated[
        float | None, typer.Option(min=0, help="Of the ball of models (D/2); default: seen.")
    ] = None,
    lipschitz: Annotated[float | None, typer.Option(min=0, help="G; default: worst case.")] = None,
    smoothness: Annotated[float | None, typer.Option(min=0, help="L; default: worst case.")] = None,
    limit: Annotated[int | None, typer.Option(min=2, help="Use the first rows alone.")] = None,
    switches: Annotated[
        int, typer.Option(min=1, help="Most switches of a competitor in the frontier.")
    ] = 64,
    out: Out = Path("out"),
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Play the user's data."""
    from swordplay.experiments import datasets, session, terminal, userdata, userstudy

    try:
        with terminal.waiting("Reading the data, first pass", not as_json):
            ready = userdata.load(
                data,
                target,
                features=feature or (),
                task=task,
                loss=loss,
                radius=radius,
                lipschitz=lipschitz,
                smoothness=smoothness,
                limit=limit,
            )
        names = userstudy.learners_for(ready, learner or ())
    except ValueError as error:
        _refuse(error)
    rounds = len(ready.game.stream)
    counts = [0, *(2**k for k in range(32) if 2**k <= min(switches, max(1, rounds // 4)))]
    notes = (
        [f"Left out, because not numbers or always the same: {', '.join(ready.left_out)}."]
        if ready.left_out
        else []
    )
    settings = {
        "data": datasets.digest(data),
        "target": target,
        "learners": names,
        "constants": ready.constants,
        "switches": counts,
    }
    units = " in standard deviations of the target" if ready.task == "regression" else ""
    study = session.Study(
        userstudy.study(ready, names, counts),
        json.loads(json.dumps(settings)),
        f"{data.name}: predicting {target}",
        f"{rounds:,} rows, {len(ready.names)} features, {ready.task}; the loss is "
        f"{ready.constants['loss']}{units}. Click a legend entry to hide a curve.",
        session.data_overview,
        notes,
    )
    _conduct(study, out, resume, overwrite, as_json)


@datasets_app.command("list")
def list_datasets(as_json: AsJson = False) -> None:
    """List the data sets."""
    from swordplay.experiments import terminal
    from swordplay.experiments.datasets import DATASETS

    if as_json:
        print(json.dumps([{"name": d.name, "title": d.title} for d in DATASETS.values()]))
        return
    rows = [
        [d.name, "downloaded" if d.make is None else "made", d.title] for d in DATASETS.values()
    ]
    terminal.print_table((["name", "origin", "what it is"], rows))


@datasets_app.command()
def describe(
    name: Annotated[str, typer.Argument(help="A name from the list.")], as_json: AsJson = False
) -> None:
    """Describe a data set.

    Example:  swordplay datasets describe sulfur
    """
    data = _dataset(name)
    if as_json:
        print(json.dumps({"name": data.name, "title": data.title, "about": data.about}))
    else:
        print(f"{data.name}: {data.title}\n{data.about}")


@datasets_app.command(
    epilog=CODES,
    help="""Write a data set to a file; download the sulfur data to the cache.

Examples:

  swordplay datasets fetch abrupt-drift --out drift.parquet --rounds 10000

  swordplay datasets fetch sulfur
""",
)
def fetch(
    name: Annotated[str, typer.Argument(help="A name from the list.")],
    out: Annotated[Path | None, typer.Option(help="CSV or Parquet file; default NAME.csv.")] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rows, of a data set that is made.")] = 50_000,
    seed: Annotated[int, typer.Option(min=0, help="Seed, of a data set that is made.")] = 0,
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
            _refuse(error, FAILED)
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
        _refuse(f"{target}: the ending must be .csv or .parquet.")
    if target.exists() and not overwrite:
        _refuse(f"{target} exists. Give another --out, or --overwrite.")
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix == ".csv":
        target.write_text(table.csv(), encoding="utf-8")
    else:
        tables.write(target, table)
    print(target)


@app.command(
    epilog=CODES,
    help="""Measure how long a round takes here: median microseconds, by learner and dimension.

Examples:

  swordplay bench

  swordplay bench -l OGD -l Sword++ --dim 5 --dim 100 --rounds 20000
""",
)
def bench(
    learner: Learners = None,
    dim: Annotated[list[int] | None, typer.Option(min=1, help="Dimensions.")] = None,
    rounds: Annotated[int, typer.Option(min=100, help="Rounds of a game.")] = 20_000,
    repeats: Annotated[int, typer.Option(min=1, help="Games, from fresh learners.")] = 3,
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
        _refuse(error)
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


def _hand_over(name: str, about: str) -> None:
    """Add a command of the model server, which reads its own options."""

    @app.command(
        name,
        help=f"{about} Options: swordplay {name} --help",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )
    def command(context: typer.Context) -> None:
        from swordplay.service.commands import main

        raise typer.Exit(main([name, *context.args]))


_hand_over("serve", "Serve models over HTTP, durably, with a page that shows them learn.")
_hand_over("token", "Make a token for the server.")
_hand_over("load-test", "Measure a running server on this machine.")


# ---------------------------------------------------------------------- what commands share


def _conduct(study: "Study", out: Path, resume: bool, overwrite: bool, as_json: bool) -> None:
    """Run a study with a progress bar and print what came out."""
    from swordplay.experiments import runner, terminal

    for note in study.notes:
        print(note, file=sys.stderr)
    began = time.perf_counter()
    bar = terminal.Bar(Console(stderr=True), not as_json)
    try:
        with warnings.catch_warnings(), bar.progress:
            warnings.simplefilter("ignore", UserWarning)  # they are in the certificates
            outcome = study.conduct(out, resume=resume, overwrite=overwrite, watcher=bar)
    except runner.FolderTaken as error:
        _refuse(error)
    except KeyboardInterrupt:
        done, of = runner.progress(study.experiments, out)
        command = " ".join(word for word in sys.argv[1:] if word not in ("--resume", "--overwrite"))
        print(
            f"Stopped: {done} of {of} parts are finished and kept in {out}. "
            f"Go on with: swordplay {command} --resume",
            file=sys.stderr,
        )
        raise typer.Exit(STOPPED) from None
    if as_json:
        print(json.dumps(outcome.as_json(), indent=2, ensure_ascii=False, default=str))
        return
    terminal.print_outcome(outcome, time.perf_counter() - began)


def _dataset(name: str) -> Any:
    from swordplay.experiments.datasets import DATASETS

    if name not in DATASETS:
        _refuse(f"No data set is called {name!r}; there are {', '.join(DATASETS)}.")
    return DATASETS[name]


def _refuse(error: Exception | str, code: int = MISUSED) -> NoReturn:
    """Say in one line what is wrong, and leave."""
    print(f"swordplay: {error}", file=sys.stderr)
    raise typer.Exit(code)
