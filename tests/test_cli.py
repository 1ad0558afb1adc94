"""The command line, as people and scripts use it."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import typer
from rooms import in_a_room
from typer.testing import CliRunner

from swordplay import __version__
from swordplay.cli import app
from swordplay.service import commands
from swordplay.service.settings import SCOPES

COMMAND = [sys.executable, "-c", "from swordplay.cli import main; main()"]
REPRODUCE = ["reproduce", "--quick", "--offline"]
runner = CliRunner()


def call(*arguments):
    return runner.invoke(app, [str(argument) for argument in arguments], prog_name="swordplay")


@pytest.fixture
def csv(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(500, 2))
    y = x @ [1.0, -2.0] + np.repeat([0.0, 3.0], 250)
    path = tmp_path / "mine.csv"
    lines = [f"{a},{b},{c}" for (a, b), c in zip(x, y, strict=True)]
    path.write_text("a,b,y\n" + "\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small reproduction that several tests look at."""
    out = tmp_path_factory.mktemp("cli") / "out"
    done = call(*REPRODUCE, "--only", "figure-1a", "--only", "weights", "--out", out)
    assert done.exit_code == 0, done.output
    return out, done


def test_version():
    assert call("--version").output == f"swordplay {__version__}\n"


@pytest.mark.parametrize("command", ["reproduce", "run", "bench", "fleet run", "datasets fetch"])
def test_help_teaches_by_example(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    told = call(*command.split(), "--help").output
    assert "Examples:" in told
    assert f"swordplay {command}" in told
    assert "Exit codes" in told
    assert max(map(len, told.splitlines())) <= 80


def every_command():
    """Return the words of every command and every group."""
    found, left = [], [((), typer.main.get_command(app))]
    for words, command in left:
        found.append(words)
        left += [((*words, name), one) for name, one in getattr(command, "commands", {}).items()]
    return found


@pytest.mark.parametrize("words", every_command(), ids=" ".join)
def test_every_help_has_an_example_and_is_laid_out(words, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    told = call(*words, "--help").stdout
    example = "reproduce --quick" if not words else " ".join(words)
    assert f"swordplay {example}" in told.partition("\n")[2]  # below the line of usage
    assert "\\b" not in told
    assert "\b" not in told
    assert max(map(len, told.splitlines())) <= 80
    assert not re.search(r"\w\.\.\.$", told, re.MULTILINE)  # no summary is cut off


@pytest.mark.parametrize("command", commands.COMMANDS)
def test_every_option_of_the_server_s_commands_is_explained(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    told = call(command, "--help").stdout
    for line in told[told.index("options:") : told.index("Examples:")].splitlines()[1:-1]:
        flag = line.lstrip().startswith(("-h", "--arrow", "--json"))
        assert re.search(r"\S  +\w.*" + ("" if flag else r"\[default: \S+\]$"), line), line


def test_the_help_of_token_explains_the_scopes():
    told = call("token", "--help").stdout
    for scope in SCOPES:
        assert re.search(rf"^  {scope} +\w", told, re.MULTILINE)


def test_a_file_in_place_of_a_command_is_answered_with_the_command():
    done = call("fleet", "my sales.csv", "--key", "shop")
    assert done.exit_code == 2
    assert "swordplay fleet run 'my sales.csv' --key shop" in done.stderr


def test_help_names_every_experiment_and_engine_and_warns_of_ray():
    from swordplay.engines import ENGINES
    from swordplay.experiments.catalogue import NAMES

    told = " ".join(call("reproduce", "--help").output.split())
    for name in NAMES:
        assert re.search(rf"[ ]{name}[,.]", told), name
    assert f"{', '.join(ENGINES)}." in told
    for command in ("reproduce", "run"):
        warning = " ".join(call(command, "--help").output.split())
        assert "RAY LISTENS ON EVERY NETWORK INTERFACE" in warning


def test_every_command_is_listed_with_a_whole_sentence(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    told = call("--help").output
    listed = told[told.index("Commands:") :].splitlines()[1:]
    assert [line.split()[0] for line in listed] == [
        "reproduce", "run", "bench", "serve", "token", "load-test", "datasets", "fleet"
    ]  # fmt: skip
    assert all(line.rstrip()[-1] in ".?" and "..." not in line for line in listed)


def test_without_the_extra_it_says_what_to_install():
    for missing in ("rich", "typer"):
        script = f"import sys; sys.modules[{missing!r}] = None; import swordplay.cli"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 2
        assert done.stderr == (
            'The swordplay command needs its extra: pip install "swordplay[app]"\n'
        )


def test_help_is_quick_to_come():
    """Nothing heavy is imported before a command needs it."""
    script = (
        "import sys, swordplay.cli; "
        "print([m for m in ('matplotlib', 'plotly', 'pyarrow') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stderr


# ---------------------------------------------------------------------- reproduce


def test_reproduce_leaves_everything_that_it_promises(folder):
    out, done = folder
    assert "Report:" in done.stdout
    assert "Figures 1(b) and 2(b) are left out" in done.stderr
    for name in ("report.html", "manifest.json", "plan.json", "tables/figure-1a.summary.parquet"):
        assert (out / name).exists()
    kinds = {path.suffix for path in (out / "figures").iterdir()}
    assert kinds == {".pdf", ".png", ".csv"}
    told = json.loads((out / "manifest.json").read_text())
    assert told["settings"]["seeds"] == [0, 1]
    assert "figure-1a" in told["constants"]
    assert any("1(b)" in note for note in told["notes"])


def tables(out):
    return {path.name: path.read_bytes() for path in sorted((out / "tables").iterdir())}


@pytest.mark.parametrize("engine", ["processes", "dask"])
def test_reproduce_gives_the_same_tables_on_every_engine(folder, tmp_path, engine):
    if engine == "dask":
        pytest.importorskip("distributed", reason="needs the extra dask")
    chosen = ["--only", "figure-1a", "--only", "weights", "--engine", engine, "--jobs", "2"]
    done = call(*REPRODUCE, *chosen, "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert tables(tmp_path / "out") == tables(folder[0])


def test_reproduce_on_ray_behind_closed_doors(folder, tmp_path):
    code = (
        "from swordplay.cli import app; "
        f"app({[*REPRODUCE, '--only', 'figure-1a', '--only', 'weights', '--engine', 'ray']!r} + "
        f"['--out', {str(tmp_path / 'out')!r}])"
    )
    in_a_room(code, tmp_path)
    assert tables(tmp_path / "out") == tables(folder[0])


def test_an_engine_that_is_not_installed_is_said_before_anything_is_done(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.chdir(tmp_path)
    done = call(*REPRODUCE, "--engine", "ray")
    assert done.exit_code == 2
    assert 'pip install "swordplay[ray]"' in done.stderr
    assert not list(tmp_path.iterdir())


def test_reproduce_does_not_overwrite(folder):
    out, _ = folder
    before = (out / "manifest.json").read_bytes()
    again = call(*REPRODUCE, "--only", "figure-1a", "--out", out)
    assert again.exit_code == 2
    assert "--resume" in again.stderr
    other = call(*REPRODUCE, "--only", "weights", "--out", out, "--resume")
    assert other.exit_code == 2
    assert "other settings" in other.stderr
    assert (out / "manifest.json").read_bytes() == before


def test_json_is_json_and_nothing_else(tmp_path):
    done = call(*REPRODUCE, "--only", "figure-1a", "--out", tmp_path / "out", "--json")
    told = json.loads(done.stdout)
    assert {row["learner"] for row in told["overview"]} == {"OGD", "Ader++", "Sword", "Sword++"}
    assert len(told["summaries"]["figure-1a"]) == 2 * 2 * 4
    assert all(finding["as_expected"] for finding in told["findings"])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["reproduce", "--offline", "--only", "figure-9"], "No experiment is called"),
        (["reproduce", "--offline", "--also", "Adam"], "No learner is called"),
        (["reproduce", "--offline", "--only", "figure-1b"], "Nothing is left to run"),
        (["reproduce", "--sru", "/nowhere.csv"], "cannot be read"),
        (["reproduce", "--seeds", "0"], "Invalid value"),
        (["reproduce", "--engine", "fork"], "engine must be one of threads, processes, ray, dask"),
        (["reproduce", "--scheduler", "127.0.0.1:8786"], "A scheduler is for Ray and Dask"),
        (["reproduce", "--jobs", "0"], "Invalid value"),
        (["run", "/nowhere.csv", "--target", "y"], "There is no file"),
        (["datasets", "describe", "iris"], "No data set is called"),
        (["bench", "-l", "Adam"], "No learner is called"),
        (["dance"], "No such command"),
    ],
)
def test_wrong_use_is_said_in_words(arguments, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    done = call(*arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_ctrl_c_keeps_what_is_done_and_says_how_to_go_on(tmp_path, engine):
    chosen = ["--offline", "--only", "lower-bound", "--seeds", "40", "--engine", engine]
    command = [*COMMAND, "reproduce", *chosen]
    with subprocess.Popen(
        [*command, "--out", "out"],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background jobs inherit a Ctrl-C that is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        parts, end = tmp_path / "out" / "parts", time.monotonic() + 120
        while not list(parts.glob("*/*[0-9]")) and time.monotonic() < end:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        told = process.communicate(timeout=60)[1]
    assert process.returncode == 130, told
    done, of = map(int, re.search(r"Stopped: (\d+) of (\d+) parts", told).groups())
    assert 0 < done < of == 40 * 11
    assert f"swordplay reproduce {' '.join(chosen)} --out out --resume" in told
    assert "Traceback" not in told


# ---------------------------------------------------------------------- run


def test_run_on_a_file(csv, tmp_path):
    out = tmp_path / "out"
    done = call("run", csv, "--target", "y", "--out", out, "-l", "OGD", "-l", "Sword++", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    learners = {row["learner"] for row in told["overview"]}
    assert learners == {"OGD", "Sword++", "last value", "running mean"}
    constants = told["manifest"]["settings"]["constants"]
    assert {"D", "G", "L", "T"} <= constants.keys()
    page = (out / "report.html").read_text()
    for section in ("losses", "frontier", "weights"):
        assert f'id="{section}"' in page
    assert "As the theory says. " in page
    assert "s the paper says" not in page


@pytest.mark.parametrize("engine", ["threads", "processes"])
def test_run_with_given_constants_says_when_they_are_broken(csv, tmp_path, engine):
    constants = ["--lipschitz", "0.01", "--engine", engine, "--jobs", "2"]
    command = [*COMMAND, "run", csv, "--target", "y", *constants, "--out", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "Assumptions that the runs broke: OGD: gradients up to" in done.stdout
    assert "as the theory says: " in done.stdout
    assert "the paper" not in done.stdout
    assert done.stderr == "Features: a, b.\n"  # and it is said once


# ---------------------------------------------------------------------- datasets and bench


def test_datasets_are_listed_and_described():
    told = json.loads(call("datasets", "list", "--json").stdout)
    names = [entry["name"] for entry in told]
    assert {"abrupt-drift", "sulfur"} <= set(names)
    for name in names:
        assert name in call("datasets", "describe", name).stdout
    assert "downloaded" in call("datasets", "list").stdout


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_made_datasets_are_written_and_can_be_run(tmp_path, ending):
    path = tmp_path / f"drift.{ending}"
    arguments = ["datasets", "fetch", "abrupt-drift", "--rounds", "300", "--out", path]
    assert call(*arguments).stdout.strip() == str(path)
    assert call(*arguments).exit_code == 2  # it exists now
    assert call(*arguments, "--overwrite").exit_code == 0
    done = call("run", path, "--target", "y", "-l", "Sword++", "--out", tmp_path / "out", "--json")
    assert json.loads(done.stdout)["manifest"]["settings"]["constants"]["T"] == 300


def test_fetching_without_a_network_fails_in_one_line(tmp_path, monkeypatch):
    from swordplay.experiments import datasets

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(datasets.sulfur, "__defaults__", ("http://127.0.0.1:9", None, False))
    done = call("datasets", "fetch", "sulfur")
    assert done.exit_code == 1
    assert done.stderr.count("\n") == 1
    assert "OpenML could not be reached" in done.stderr


def test_bench():
    done = call("bench", "-l", "OGD", "-l", "Sword", "--dim", "3", "--rounds", "500", "--json")
    rows = json.loads(done.stdout)
    assert [(row["learner"], row["dim"]) for row in rows] == [("OGD", 3), ("Sword", 3)]
    assert all(row["microseconds"] > 0 for row in rows)
    assert "d = 3" in call("bench", "-l", "OGD", "--dim", "3", "--rounds", "500").stdout


# ---------------------------------------------------------------------- who watches


def in_a_terminal(arguments, cwd):
    """Run the command with stderr and stdout on a terminal and return all it wrote."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "120"}
    with subprocess.Popen(
        [*COMMAND, *arguments], cwd=cwd, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        told, end = b"", time.monotonic() + 120
        while time.monotonic() < end:
            if select.select([ours], [], [], 1)[0]:
                try:
                    told += os.read(ours, 65536)
                except OSError:  # the other end is closed
                    break
    os.close(ours)
    assert process.returncode == 0
    return told.decode(errors="replace")


def test_progress_is_shown_on_a_terminal_and_nowhere_else(tmp_path):
    arguments = ["bench", "-l", "Sword", "--rounds", "50000", "--dim", "20"]
    told = in_a_terminal(arguments, tmp_path)
    assert "rounds/s" in told
    assert "left" in told
    piped = subprocess.run([*COMMAND, *arguments], capture_output=True, text=True, cwd=tmp_path)
    assert piped.stderr == ""
    assert "\x1b" not in piped.stdout
    assert not list(Path(tmp_path).iterdir())
