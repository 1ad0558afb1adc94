"""Experiments: what is played, that a stopped run goes on to the same bytes, what is concluded."""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

import swordplay as sp
from swordplay.engines import Engine
from swordplay.experiments import (
    catalogue,
    datasets,
    findings,
    games,
    manifest,
    plots,
    report,
    runner,
    tables,
    timing,
    userdata,
    userstudy,
)
from swordplay.experiments.charts import Bars, Boxes, HeatMap, Lines, Series
from swordplay.experiments.contenders import COMMON, OWN, Contender, common_pool
from swordplay.experiments.tables import Table

SULFUR = Path(__file__).parents[2] / "shared" / "data" / "sru.csv"
needs_sulfur = pytest.mark.skipif(
    not SULFUR.exists(), reason="the sulfur data is not on this machine"
)

TINY = catalogue.Scale(
    seeds=(0, 1),
    rounds=2000,
    every=500,
    sulfur_rows=1000,
    instances=(6, 9),
    coins=(5, 7),
    switches=(0, 1, 2),
    chunk=500,
)


def table_bytes(folder):
    return {path.name: path.read_bytes() for path in sorted((folder / "tables").iterdir())}


# ---------------------------------------------------------------------- what is played


def test_the_papers_constants():
    game = games.synthetic(seed=0, rounds=50_000)
    assert (len(game.stream), game.stream.dim, game.domain.diameter) == (50_000, 5, 2.0)
    assert game.stream.loss == sp.Huber(2.0)
    assert np.linalg.norm(game.stream.features, axis=1).max() <= 1.0
    jumps = np.flatnonzero(np.diff(game.stream.comparators, axis=0).any(axis=1)) + 1
    assert jumps.tolist() == list(range(1000, 50_000, 1000))
    # G and L are known before the game, and true.
    seen = game.stream.assumptions(game.domain)
    assert (game.facts.lipschitz, game.facts.smoothness) == (2.0, 1.0)
    assert seen.lipschitz <= 2.0
    assert seen.smoothness <= 1.0
    assert catalogue.Scale().seeds == (0, 1, 2, 3, 4)
    assert catalogue.Scale().rounds == 50_000


def test_the_common_pool_doubles_from_ogds_step_to_the_cap():
    facts = sp.Assumptions(lipschitz=2.0, smoothness=1.0, horizon=50_000)
    pool = common_pool(sp.Ball(5), facts)
    assert pool[0] == pytest.approx(2 / (2 * math.sqrt(50_000)))
    assert pool[-1] == 1 / 8
    assert np.allclose(pool[1:-1] / pool[:-2], 2)
    assert pool[-2] < 1 / 8 <= 2 * pool[-2]
    tiny = sp.Assumptions(lipschitz=2.0, smoothness=1.0, horizon=4)  # the first is above the cap
    assert common_pool(sp.Ball(5), tiny).tolist() == [1 / 8]


@pytest.mark.parametrize("learner", ["OGD", "Ader", "Ader++", "Sword", "Sword++", "SwordBest"])
def test_contenders_play_with_the_pool_that_they_say(learner):
    game = games.synthetic(seed=0, rounds=1000, every=100)
    pool = common_pool(game.domain, game.facts)
    mine = Contender(learner, COMMON).build(game).step_sizes
    expected = {"OGD": pool[:1], "SwordBest": np.tile(pool, 2)}.get(learner, pool)
    assert np.array_equal(mine, expected)
    own = Contender(learner, OWN).build(game)
    assert type(own) is type(Contender(learner, COMMON).build(game))


def test_coin_flips_are_the_quadratics_of_the_lower_bound():
    game = games.coin_flips(seed=3, rounds=200)
    quadratic = sp.streams.rademacher(200, 1, 3)
    for x in (-0.7, 0.0, 0.4):
        point = np.array([x])
        assert np.allclose(game.stream.values(point), quadratic.values(point))
        assert np.allclose(game.stream.gradient(7, point), quadratic.gradient(7, point))
    facts = quadratic.assumptions(game.domain)
    assert game.facts.lipschitz == pytest.approx(facts.lipschitz)
    assert game.facts.smoothness == pytest.approx(facts.smoothness)


def test_instance_one_has_an_odd_horizon():
    assert len(games.instance(1, 256).stream) == 255
    assert len(games.instance(2, 256).stream) == 256


@needs_sulfur
def test_repetitions_on_sulfur_start_elsewhere_on_the_same_data():
    one, two = (games.sulfur(SULFUR, "SO2", 500, seed) for seed in (0, 1))
    assert np.array_equal(one.stream.features, two.stream.features)
    assert not np.array_equal(one.start, two.start)
    assert games.sulfur(SULFUR, "SO2").start is None
    whole = games.sulfur(SULFUR, "H2S")
    assert len(whole.stream) == 10_081
    seen = whole.stream.assumptions(whole.domain)
    assert seen.lipschitz <= whole.facts.lipschitz
    assert seen.smoothness <= whole.facts.smoothness


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="No experiment is called 'figure-9'"):
        catalogue.paper(TINY, only=["figure-9"])
    with pytest.raises(ValueError, match="No learner is called 'Adam'"):
        catalogue.paper(TINY, also=["Adam"])


# ---------------------------------------------------------------------- running and resuming


class StopAfter(runner.Silent):
    """Stops the run when so many tasks have begun."""

    def __init__(self, tasks):
        self.left = tasks
        self.lock = threading.Lock()

    def begin(self, experiment, task):
        with self.lock:
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt


@pytest.fixture(scope="module")
def untimed():
    return [e for e in catalogue.paper(TINY) if not e.timed]


@pytest.fixture(scope="module")
def whole(untimed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole")
    runner.run(untimed, folder, engine=Engine(workers=1))
    return folder


@pytest.mark.parametrize("tasks", [0, 1, 3, 7])
def test_a_stopped_run_goes_on_to_the_same_bytes(untimed, whole, tmp_path, tasks):
    with pytest.raises(KeyboardInterrupt):
        runner.run(untimed, tmp_path, watcher=StopAfter(tasks), engine=Engine(workers=1))
    done, of = runner.progress(untimed, tmp_path)
    assert done == tasks < of
    runner.run(untimed, tmp_path, resume=True, engine=Engine(workers=1))
    assert table_bytes(tmp_path) == table_bytes(whole)


def test_the_number_of_jobs_changes_nothing(untimed, whole, tmp_path):
    runner.run(untimed, tmp_path, engine=Engine(workers=3))
    assert table_bytes(tmp_path) == table_bytes(whole)


def test_a_task_that_was_cut_off_while_writing_is_done_again(untimed, whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    part = tmp_path / "run" / "parts" / "figure-1a" / "seed-1"
    half = part.with_name("seed-1.0123456789ab.part")
    part.rename(half)  # what a kill before the rename leaves behind
    (half / "curve.parquet").write_bytes(b"half")
    shutil.rmtree(tmp_path / "run" / "tables")
    runner.run(untimed, tmp_path / "run", resume=True)
    assert table_bytes(tmp_path / "run") == table_bytes(whole)


@pytest.mark.parametrize("engine", ["processes", "dask"])
def test_every_engine_makes_the_same_bytes(untimed, whole, tmp_path, engine):
    if engine == "dask":
        pytest.importorskip("distributed", reason="needs the extra dask")
    runner.run(untimed, tmp_path, engine=Engine(engine, workers=2))
    assert table_bytes(tmp_path) == table_bytes(whole)


@needs_sulfur
def test_experiments_on_the_sulfur_data_travel_too(tmp_path):
    experiments = [e for e in catalogue.paper(TINY, SULFUR) if not e.timed]
    runner.run(experiments, tmp_path / "here")
    runner.run(experiments, tmp_path / "there", engine=Engine("processes", workers=2))
    assert table_bytes(tmp_path / "there") == table_bytes(tmp_path / "here")


@pytest.mark.parametrize("tasks", [1, 7])
def test_a_run_is_resumed_on_another_engine(untimed, whole, tmp_path, tasks):
    with pytest.raises(KeyboardInterrupt):
        runner.run(untimed, tmp_path, watcher=StopAfter(tasks), engine=Engine(workers=1))
    runner.run(untimed, tmp_path, resume=True, engine=Engine("processes", workers=2))
    assert table_bytes(tmp_path) == table_bytes(whole)


def killing_once(mark, work, advance):
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return work(advance)


def test_a_killed_worker_does_not_end_a_run(untimed, whole, tmp_path):
    experiment = next(e for e in untimed if e.name == "collaboration")
    work = partial(killing_once, tmp_path / "mark", experiment.tasks[1].work)
    tasks = (experiment.tasks[0], replace(experiment.tasks[1], work=work), *experiment.tasks[2:])
    told = Counting()
    runner.run(
        [replace(experiment, tasks=tasks)],
        tmp_path / "out",
        watcher=told,
        engine=Engine("processes", workers=2),
    )
    assert (tmp_path / "mark").exists()
    made, expected = table_bytes(tmp_path / "out"), table_bytes(whole)
    assert made
    assert all(expected[name] == content for name, content in made.items())
    assert told.expected == told.played
    assert told.begun == {task.key for task in tasks}


class Counting(runner.Silent):
    def __init__(self):
        self.expected, self.played, self.begun = 0, 0, set()

    def expect(self, rounds):
        self.expected = rounds

    def begin(self, experiment, task):
        self.begun.add(task.key)

    def advance(self, rounds):
        self.played += rounds


def test_times_are_measured_in_this_process_whatever_the_engine(tmp_path):
    def whose(advance):
        return {"who": {"process": [os.getpid()], "threads": [threading.active_count()]}}

    def asking(timed):
        base = catalogue.weights(TINY)
        task = replace(base.tasks[0], work=whose)
        tasks = (task, replace(task, key="again"))
        return replace(base, name="timed" if timed else "untimed", tasks=tasks, timed=timed)

    engine = Engine("processes", workers=2)
    found = runner.run([asking(False), asking(True)], tmp_path, engine=engine).tables
    assert set(found["timed"]["who"]["process"]) == {os.getpid()}
    assert os.getpid() not in set(found["untimed"]["who"]["process"])


def test_a_run_that_was_killed_before_its_plan_was_written_can_be_resumed(tmp_path):
    (tmp_path / "plan.json.part").write_text("{")
    experiments = [catalogue.weights(TINY)]
    assert runner.run(experiments, tmp_path, resume=True).tables["weights"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("parts", "engine", "then"),
    [
        (0, "threads", "threads"),
        (1, "threads", "processes"),
        (5, "threads", "threads"),
        (5, "processes", "threads"),
    ],
)
def test_kill_minus_nine_and_resume(tmp_path, parts, engine, then):
    command = [sys.executable, "-c", "from swordplay.cli import main; main()", "reproduce"]
    command += ["--quick", "--offline", "--only", "lower-bound", "--only", "collaboration"]
    subprocess.run([*command, "--out", "whole"], cwd=tmp_path, check=True, capture_output=True)
    with subprocess.Popen(
        [*command, "--out", "killed", "--engine", engine], cwd=tmp_path, stdout=subprocess.DEVNULL
    ) as process:
        folder, end = tmp_path / "killed" / "parts", time.monotonic() + 120
        while process.poll() is None and time.monotonic() < end:
            if sum(1 for _ in folder.glob("*/*[0-9]")) >= parts:
                break
        process.kill()
    again = [*command, "--out", "killed", "--engine", then, "--resume"]
    subprocess.run(again, cwd=tmp_path, check=True, capture_output=True)
    assert table_bytes(tmp_path / "killed") == table_bytes(tmp_path / "whole")


def test_folders_are_not_overwritten(tmp_path):
    experiments = [catalogue.weights(TINY)]
    (tmp_path / "diary.txt").write_text("mine")
    with pytest.raises(runner.FolderTaken, match="is not empty"):
        runner.run(experiments, tmp_path)
    runner.run(experiments, tmp_path, {"seeds": 1}, overwrite=True)
    assert (tmp_path / "diary.txt").read_text() == "mine"
    with pytest.raises(runner.FolderTaken, match="seeds: 1 there, 2 now"):
        runner.run(experiments, tmp_path, {"seeds": 2}, resume=True)
    with pytest.raises(runner.FolderTaken, match="is a file"):
        runner.run(experiments, tmp_path / "diary.txt")


@pytest.mark.parametrize("engine", [Engine(), Engine("processes", workers=2)])
def test_an_error_in_a_task_is_not_swallowed(tmp_path, engine):
    def fail(advance):
        raise RuntimeError("broken")

    base = catalogue.weights(TINY)
    task = type(base.tasks[0])("bad", fail, 1)
    broken = type(base)("bad", "", "", (task, *base.tasks), base.charts)
    with pytest.raises(RuntimeError, match="broken"):
        runner.run([broken], tmp_path, engine=engine)
    assert runner.progress([broken], tmp_path) == (1, 2)  # the other one is kept


def test_tables_keep_numbers_and_text(tmp_path):
    made = {"name": ["a", "é"], "x": [0.1, math.nan], "n": [1, 2], "ok": [True, False]}
    tables.write(tmp_path / "t.parquet", made)
    back = tables.read(tmp_path / "t.parquet")
    assert next(back.rows()) == {"name": "a", "x": 0.1, "n": 1, "ok": True}
    assert back.csv().splitlines()[0] == "name,x,n,ok"
    with pytest.raises(ValueError, match="different lengths"):
        Table({"a": [1], "b": [1, 2]})
    with pytest.raises(ValueError, match="Columns differ"):
        tables.stack([{"a": [1]}, {"b": [1]}])


# ---------------------------------------------------------------------- what is concluded


def test_every_experiment_draws_and_says_something(untimed, whole):
    results = runner.assemble(untimed, whole)
    for experiment in untimed:
        charts = list(experiment.charts(results.tables[experiment.name]))
        assert charts
        assert all(len(chart.numbers()) for chart in charts)
        assert all(chart.caption and chart.title for chart in charts)
        assert experiment.findings(results.tables[experiment.name])


@pytest.mark.slow
def test_orderings_of_figure_1_and_the_growth_of_section_6_3(tmp_path):
    scale = catalogue.Scale(seeds=(0, 1), instances=(8, 14))
    experiments = catalogue.paper(scale, only=["figure-1a", "instances"])
    found = runner.run(experiments, tmp_path).tables
    for parameters in (COMMON, OWN):
        mean = findings.losses(found["figure-1a"]["summary"].where(parameters=parameters))
        assert findings.as_in_the_paper(mean), mean
    assert all(finding.expected for finding in findings.slopes(found["instances"]["summary"]))
    asked = found["figure-1a"]["summary"].where(parameters=COMMON)
    assert set(asked.where(learner="Sword++")["gradients_per_round"]) == {1.0}
    sword = asked.where(learner="Sword")
    assert set(sword["gradients_per_round"]) == {sword["step_sizes"][0] + 2.0}


@needs_sulfur
def test_on_sulfur_the_theorems_constants_give_another_order_and_it_says_why(tmp_path):
    scale = catalogue.Scale(seeds=(0, 1))
    experiment = catalogue.figure_1b(scale, SULFUR)
    found = runner.run([experiment], tmp_path).tables[experiment.name]
    said = list(experiment.findings(found))
    assert [finding.expected for finding in said] == [True, False, None]
    assert "common pool" in said[0].text
    assert "the pools differ" in said[2].text


def test_order_of_the_paper():
    assert findings.as_in_the_paper({"OGD": (3, 0), "Ader++": (2, 0), "Sword++": (1, 0)})
    assert not findings.as_in_the_paper({"OGD": (3, 0), "Ader++": (2, 0), "Sword": (2.5, 0)})


def test_fitted_slopes_and_spread():
    x = 2.0 ** np.arange(4, 12)
    assert plots.slope(x, 7 * x**0.5) == pytest.approx(0.5)
    middle, deviation = plots.spread(np.array([[1.0], [3.0]]))
    assert (middle[0], deviation[0]) == (2.0, pytest.approx(math.sqrt(2)))
    assert plots.spread(np.array([[1.0]]))[1] == 0
    assert plots.plus_minus(1234.5, 12.3) == "1,234 ± 12"


def test_timing_counts_every_round_once():
    players = [Contender("OGD"), Contender("Sword")]
    game = partial(games.synthetic, 0, 1000, 100)
    told = []
    chunks = Table(timing.chunk_times(game, players, 300, 2)(told.append)["chunks"])
    assert len(chunks) == 2 * 3 * 2
    assert sum(told) == 2 * 900 * 2
    assert (chunks["microseconds"] > 0).all()
    asked = chunks.where(learner="Sword")["gradients_per_round"]
    assert set(asked) == {len(Contender("Sword").build(game()).step_sizes) + 2.0}


# ---------------------------------------------------------------------- the sulfur data


@pytest.fixture
def openml(tmp_path):
    """Serve what OpenML serves, on this machine."""
    rng = np.random.default_rng(0)
    rows = rng.random((datasets.SULFUR_ROWS, 7)).round(6)
    arff = "@relation sulfur\n@attribute a1 real\n\n@data\n" + "\n".join(
        ",".join(map(str, row)) for row in rows
    )
    served = {"arff": arff.encode(), "md5": None}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            body = served["arff"]
            if self.path.startswith("/json"):
                url = f"http://127.0.0.1:{self.server.server_port}/sulfur.arff"
                md5 = served["md5"] or hashlib.md5(arff.encode()).hexdigest()
                told = {"data_set_description": {"url": url, "md5_checksum": md5}}
                body = json.dumps(told).encode()
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/json", served, rows
        server.shutdown()


def test_sulfur_is_downloaded_checked_and_cached(openml, tmp_path):
    source, _, rows = openml
    path = datasets.sulfur(source, cache=tmp_path / "cache")
    columns = datasets.read_sulfur(path)
    assert np.array_equal(np.column_stack([columns[n] for n in datasets.SULFUR_COLUMNS]), rows)
    assert datasets.sulfur("http://127.0.0.1:9/none", cache=tmp_path / "cache") == path  # the cache
    path.write_text(path.read_text().replace("0", "1", 1))
    with pytest.raises(datasets.Unavailable, match="is damaged"):
        datasets.sulfur(source, cache=tmp_path / "cache", offline=True)
    datasets.sulfur(source, cache=tmp_path / "cache")  # fetched again
    assert len(datasets.read_sulfur(path)["y1"]) == datasets.SULFUR_ROWS


def test_a_damaged_download_is_refused(openml, tmp_path):
    source, served, _ = openml
    served["arff"] = served["arff"][:-5]
    with pytest.raises(datasets.Unavailable, match="The download is damaged"):
        datasets.sulfur(source, cache=tmp_path)
    assert not list(tmp_path.glob("sulfur*"))
    served["arff"] = b"not an arff file"
    served["md5"] = hashlib.md5(served["arff"]).hexdigest()  # the right sum of the wrong file
    with pytest.raises(datasets.Unavailable, match="not an ARFF file"):
        datasets.sulfur(source, cache=tmp_path)


def test_without_a_network_it_says_so_in_one_line(tmp_path):
    with pytest.raises(datasets.Unavailable, match="OpenML could not be reached") as told:
        datasets.sulfur("http://127.0.0.1:9/json", cache=tmp_path)
    assert "\n" not in str(told.value)
    with pytest.raises(datasets.Unavailable, match="nothing may be downloaded"):
        datasets.sulfur(cache=tmp_path, offline=True)


def test_other_files_are_not_taken_for_sulfur(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("a,b\n1,2\n")
    with pytest.raises(datasets.Unavailable, match="lacks u1"):
        datasets.read_sulfur(path)
    path.write_text("u1,u2,u3,u4,u5,y1,y2\n1,2,3,4,5,6,7\n")
    with pytest.raises(datasets.Unavailable, match=r"leaves \[0, 1\]"):
        datasets.read_sulfur(path)
    with pytest.raises(datasets.Unavailable, match="cannot be read"):
        datasets.read_sulfur(tmp_path / "missing.csv")


# ---------------------------------------------------------------------- the user's data


def write_file(path, columns):
    table = pa.table(columns)
    if path.suffix == ".csv":
        pa.csv.write_csv(table, path)
    elif path.suffix == ".parquet":
        pa.parquet.write_table(table, path)
    elif path.suffix == ".feather":
        pa.feather.write_feather(table, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    return path


@pytest.fixture
def columns():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(400, 2)) * [1.0, 1000.0]
    return {
        "a": x[:, 0],
        "b": x[:, 1],
        "text": ["red"] * 400,
        "flat": np.ones(400),
        "y": 5 + 2 * x[:, 0] - 0.001 * x[:, 1],
        "label": np.where(x[:, 0] > 0, "yes", "no"),
    }


@pytest.mark.parametrize("name", ["d.csv", "d.parquet", "d.feather", "d.arrow"])
def test_every_format_is_read_alike(tmp_path, columns, name):
    data = userdata.load(write_file(tmp_path / name, columns), "y", features=["a", "b"])
    assert data.task == "regression"
    assert data.names == ("a", "b")
    stream = data.game.stream
    assert np.allclose(stream.features.mean(axis=0), [0, 0, 1])
    assert np.allclose(stream.features[:, :2].std(axis=0), 1)
    assert stream.targets.std() == pytest.approx(1)
    assert data.scale == pytest.approx(columns["y"].std())
    best = sp.regret.best_fixed(stream, data.game.domain)
    assert np.linalg.norm(best) < data.game.domain.radius  # the first pass leaves it room


def test_constants_may_be_given(tmp_path, columns):
    path = write_file(tmp_path / "d.csv", columns)
    data = userdata.load(path, "y", radius=3.0, lipschitz=7.0, smoothness=2.0, limit=100)
    assert data.notes == (
        "Features: a, b.",
        "Left out, because not numbers: text, label.",
        "Left out, because always the same: flat.",
    )
    assert data.game.domain.radius == 3.0
    facts = data.game.facts
    assert (facts.lipschitz, facts.smoothness, facts.horizon) == (7.0, 2.0, 100)


def test_classes_become_signs_and_baselines_predict_before_they_see(tmp_path, columns):
    data = userdata.load(write_file(tmp_path / "d.csv", columns), "label")
    assert data.task == "classification"
    y = data.game.stream.targets
    assert np.array_equal(y, np.where(np.array(columns["label"]) == "yes", 1.0, -1.0))
    rules = userstudy.baselines(data)
    for t in (0, 1, 2, 57):
        before = y[:t]
        positive = (before > 0).sum()
        mean = math.log((positive + 0.5) / (t - positive + 0.5))
        assert rules["running mean"][t] == pytest.approx(mean)
        stayed = (before[1:] == before[:-1]).sum()
        moves = max(t - 1, 0)
        last = before[-1] if t else 0.0
        expected = last * math.log((stayed + 0.5) / (moves - stayed + 0.5))
        assert rules["last value"][t] == pytest.approx(expected)


def test_baselines_of_a_regression(tmp_path, columns):
    data = userdata.load(write_file(tmp_path / "d.csv", columns), "y")
    y, rules = data.game.stream.targets, userstudy.baselines(data)
    assert np.array_equal(rules["last value"][1:], y[:-1])
    assert rules["running mean"][10] == pytest.approx(y[:10].mean())
    assert userstudy.score(data, y + 1) == pytest.approx(data.scale)


def test_a_study_keeps_prequential_losses(tmp_path, columns):
    data = userdata.load(write_file(tmp_path / "d.csv", columns), "y")
    experiments = userstudy.study(data, ["OGD", "Sword"], [0, 1])
    found = runner.run(experiments, tmp_path / "out").tables
    summary = found["losses"]["summary"]
    assert summary.distinct("learner") == ["last value", "running mean", "OGD", "Sword"]
    run = sp.play(sp.OGD(data.game.domain, data.game.facts), data.game.stream)
    mine = summary.where(learner="OGD")
    assert mine["cumulative_loss"][0] == run.cumulative_loss
    run = sp.play(
        sp.OGD(data.game.domain, data.game.facts), data.game.stream, record=("decisions",)
    )
    missed = data.game.stream.predictions(run.decisions) - data.game.stream.targets
    assert mine["rmse"][0] == pytest.approx(data.scale * np.sqrt(np.mean(missed**2)))
    assert found["frontier"]["frontier"]["holds"].all()


def test_when_the_last_value_wins_it_is_said(tmp_path):
    rng = np.random.default_rng(1)
    y = np.cumsum(rng.normal(size=600))
    path = write_file(tmp_path / "walk.csv", {"noise": rng.normal(size=600), "y": y})
    data = userdata.load(path, "y")
    experiment = userstudy.study(data, ["OGD", "Sword++"], [0])[0]
    found = runner.run([experiment], tmp_path / "out").tables["losses"]
    said = " ".join(finding.text for finding in experiment.findings(found))
    assert "A trivial rule wins: the last value" in said


@pytest.mark.parametrize(
    ("change", "arguments", "message"),
    [
        ({}, {"target": "z"}, "no column 'z'"),
        ({}, {"target": "y", "features": ["text"]}, "'text' holds string, not numbers"),
        ({}, {"target": "text", "task": "classification"}, "needs two classes"),
        ({}, {"target": "y", "task": "ranking"}, "task must be regression or classification"),
        ({}, {"target": "y", "loss": "cross"}, "loss must be one of"),
        ({"a": [None] + [1.0] * 399}, {"target": "y"}, "'a' is empty in row 1:"),
        ({"a": [1.0, math.inf] + [1.0] * 398}, {"target": "y"}, "'a' holds inf in row 2:"),
        ({"y": [None] + [1.0] * 399}, {"target": "y"}, "'y' is empty in 1 row, first in row 1:"),
        ({}, {"target": "y", "limit": 1}, "has 1 row; a stream needs at least 2"),
    ],
)
def test_bad_files_are_refused_clearly(tmp_path, columns, change, arguments, message):
    path = write_file(tmp_path / "d.parquet", {**columns, **change})
    with pytest.raises(ValueError, match=message):
        userdata.load(path, **arguments)


def spoil(path, columns, row, **cells):
    """Write a CSV file in which the cells of one row (the header is row 1) are something else."""
    write_file(path, columns)
    lines = path.read_text().splitlines()
    names, values = (lines[k].split(",") for k in (0, row - 1))
    for name, cell in cells.items():
        values[names.index(f'"{name}"')] = cell
    lines[row - 1] = ",".join(values)
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("given", [{}, {"features": ["b", "a"]}, {"limit": 100}])
def test_a_cell_that_makes_text_of_a_column_is_named(tmp_path, columns, given):
    path = spoil(tmp_path / "d.csv", columns, 200, a="oops")
    told = (
        r"^Column 'a' is text because of 'oops' in row 200 \(399 of 400 cells are numbers\): mend "
        r"the cell, or choose the features with --feature\.$"
    )
    with pytest.raises(ValueError, match=told):
        userdata.load(path, "y", **given)
    assert userdata.load(path, "y", features=["b"]).names == ("b",)
    with pytest.raises(ValueError, match=r"^Column 'a' is text because of .*: mend the cell\.$"):
        userdata.load(path, "a", features=["b"])


def test_empty_cells_and_those_that_arrow_takes_for_empty_are_not_counted(tmp_path, columns):
    lines = ["a,y", *("NA,1" if k % 2 else f"{k},2" for k in range(300)), "n.a.,3", ",4"]
    path = tmp_path / "d.csv"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=r"'n\.a\.' in row 302 \(150 of 151 cells"):
        userdata.load(path, "y")


@pytest.mark.parametrize("bad", [1, 20, 21, 400])
def test_a_column_with_many_words_is_text(tmp_path, columns, bad):
    mixed = [f"{k}" for k in range(400 - bad)] + ["word"] * bad
    path = write_file(tmp_path / "d.csv", {**columns, "mixed": mixed})
    if bad <= 20:  # 95 % are numbers
        with pytest.raises(ValueError, match="Column 'mixed' is text"):
            userdata.load(path, "y")
    else:
        assert "mixed" in userdata.load(path, "y").notes[1]
    numbers = write_file(tmp_path / "d.parquet", {**columns, "code": ["0123"] * 400})
    assert "code" in userdata.load(numbers, "y").notes[1]  # text on purpose


def test_other_separators_are_read_and_decimal_commas_named(tmp_path, columns):
    path = write_file(tmp_path / "d.csv", columns)
    text = path.read_text()
    expected = userdata.load(path, "y").game.stream
    for separator in ";\t":
        path.write_text(text.replace(",", separator))
        found = userdata.load(path, "y").game.stream
        assert np.array_equal(found.features, expected.features)
    path.write_text(text.replace(",", ";").replace(".", ","))
    with pytest.raises(ValueError, match=r"of '-?\d+,\d+' in row 2 .*: write decimal points"):
        userdata.load(path, "y")


def test_files_that_are_no_tables_are_refused(tmp_path):
    with pytest.raises(ValueError, match="ending must be one of"):
        userdata.load(tmp_path / "d.xls", "y")
    with pytest.raises(ValueError, match="There is no file"):
        userdata.load(tmp_path / "d.csv", "y")
    (tmp_path / "d.parquet").write_text("no")
    with pytest.raises(ValueError, match="cannot be read"):
        userdata.load(tmp_path / "d.parquet", "y")


def test_learners_that_need_smooth_losses_are_refused_for_others(tmp_path, columns):
    data = userdata.load(write_file(tmp_path / "d.csv", columns), "y", loss="pinball:0.9")
    assert userstudy.learners_for(data, []) == ["OGD", "Ader++"]
    with pytest.raises(ValueError, match="has a kink"):
        userstudy.learners_for(data, ["Sword"])
    with pytest.raises(ValueError, match="No learner is called 'Adam'"):
        userstudy.learners_for(data, ["Adam"])


# ---------------------------------------------------------------------- the report


CHARTS = [
    Lines(
        "lines",
        "A & B",
        "caption",
        "x",
        "y",
        (
            Series("OGD", np.arange(3.0), np.arange(3.0), np.zeros(3), np.ones(3)),
            Series("OGD, bound", np.arange(3.0), np.ones(3), reference=True, hidden=True),
        ),
    ),
    Lines("logs", "l", "c", "x", "y", (Series("guide", np.ones(2), np.ones(2)),), True, True),
    Boxes("boxes", "b", "c", "who", "time", (("OGD", np.ones(4)), ("Sword", np.ones(4)))),
    Bars("bars", "b", "c", "k", "v", ("p", "q"), (("one", np.ones(2), np.zeros(2)),), True),
    HeatMap("heat", "h", "c", "t", "step", np.arange(2), ("a", "b"), np.eye(2), "log"),
]


@pytest.mark.parametrize("chart", CHARTS, ids=lambda chart: chart.name)
def test_every_kind_of_chart_is_drawn_and_carries_its_numbers(chart, tmp_path):
    from swordplay.experiments import draw_plotly

    report.save_figures([chart], tmp_path)
    assert (tmp_path / f"{chart.name}.pdf").read_bytes().startswith(b"%PDF")
    assert (tmp_path / f"{chart.name}.png").read_bytes().startswith(b"\x89PNG")
    assert len((tmp_path / f"{chart.name}.csv").read_text().splitlines()) == 1 + len(
        chart.numbers()
    )
    assert draw_plotly.figure(chart).data
    assert "https://cdn" not in draw_plotly.html(chart)


def test_the_same_chart_makes_the_same_files(tmp_path):
    for folder in ("one", "two"):
        report.save_figures(CHARTS[:1], tmp_path / folder)
    for kind in ("pdf", "png", "csv"):
        one, two = (tmp_path / folder / f"lines.{kind}" for folder in ("one", "two"))
        assert one.read_bytes() == two.read_bytes()


def test_the_manifest_says_what_a_run_was(untimed, whole):
    told = manifest.describe(whole, untimed, {"seeds": [0, 1]}, 1.0, ["left out"])
    assert told["versions"]["swordplay"] == manifest.versions()["swordplay"]
    assert told["constants"]["figure-1a"]["T"] == TINY.rounds
    assert told["machine"]["cores"] >= 1
    path = "tables/figure-1a.summary.parquet"
    assert told["tables"][path] == datasets.digest(whole / path)
    assert str(Path.home()) not in json.dumps({k: v for k, v in told.items() if k != "command"})
