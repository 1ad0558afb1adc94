"""``swordplay run``: the learners on the user's own file."""

# No postponed annotations here: Typer reads them.

import json
from pathlib import Path
from typing import Annotated

import typer

from swordplay.cli.shared import (
    CODES,
    OPTIONS,
    AsJson,
    Data,
    EngineName,
    Features,
    Jobs,
    Learners,
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
    short_help="Play your own data: who predicts best?",
    help="""Play your own data: who predicts best, how nimble must a model be, which steps pay?

The file is read from its first row to its last, oldest first. Every row is predicted before it is
learned.

Examples:

\b
  swordplay run mydata.csv --target y
  swordplay run sales.parquet --target units --feature price --feature day
  swordplay run mail.csv --target spam --task classification
  swordplay run mydata.csv --target y -l OGD -l Sword++ --radius 3
  swordplay run mydata.csv --target y --loss pinball:0.9
""",
)
def run(
    data: Data,
    target: Annotated[str, typer.Option(metavar="COLUMN", help="What to predict.")],
    feature: Features = None,
    task: Annotated[
        str,
        typer.Option(metavar="KIND", help="regression or classification.  [default: seen]"),
    ] = "",
    loss: Annotated[
        str,
        typer.Option(metavar="NAME", help="huber, squared, absolute, pinball:Q or logistic."),
    ] = "",
    learner: Learners = None,
    radius: Annotated[
        float | None,
        typer.Option(metavar="R", min=0, help="Of the ball of models, D/2.  [default: seen]"),
    ] = None,
    lipschitz: Annotated[
        float | None, typer.Option(metavar="G", min=0, help="G.  [default: worst case]")
    ] = None,
    smoothness: Annotated[
        float | None, typer.Option(metavar="L", min=0, help="L.  [default: worst case]")
    ] = None,
    limit: Annotated[
        int | None, typer.Option(metavar="N", min=2, help="Use the first rows alone.")
    ] = None,
    switches: Annotated[
        int, typer.Option(metavar="N", min=1, help="Most switches of a competitor in the frontier.")
    ] = 64,
    out: Out = Path("out"),
    engine: EngineName = "threads",
    jobs: Jobs = None,
    scheduler: Scheduler = None,
    resume: Resume = False,
    overwrite: Overwrite = False,
    as_json: AsJson = False,
) -> None:
    """Play the user's data."""
    where = choose_engine(engine, jobs, scheduler)

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
        refuse(error)
    rounds = len(ready.game.stream)
    counts = [0, *(2**k for k in range(32) if 2**k <= min(switches, max(1, rounds // 4)))]
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
        ready.notes,
    )
    conduct(study, out, resume, overwrite, as_json, where)
