"""``swordplay fleet run``."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("typer")
import pyarrow
import pyarrow.csv
import pyarrow.parquet
from test_cli import runner

from swordplay.cli import app
from swordplay.experiments import draw_plotly
from swordplay.experiments.charts import Bars
from swordplay.fleet import Fleet, PoolModel


def invoke(*arguments):
    return runner.invoke(app, [str(argument) for argument in arguments], prog_name="swordplay")


@pytest.fixture
def file(tmp_path):
    rng = np.random.default_rng(0)
    rows = ["shop,day,a,b,note,revenue"]
    for day in rng.permutation(900):
        a, b, shop = rng.uniform(), rng.uniform(), "xyz"[day % 3]
        sign = -1 if shop == "y" and day > 600 else 1
        rows.append(f"{shop},{day},{a},{'' if day % 50 == 0 else b},hello,{sign * (3 * a - b)}")
    path = tmp_path / "sales.csv"
    path.write_text("\n".join(rows))
    return path


def test_fleet_run_writes_tables_and_a_report_by_key(file, tmp_path):
    out = tmp_path / "out"
    done = invoke(
        "fleet", "run", file, "--key", "shop", "--target", "revenue", "--time", "day", "--out", out,
        "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    told = json.loads(done.stdout)
    assert told["overview"][0]["worst keys"] == "y"  # the one that turned round
    page = (out / "report.html").read_text()
    assert "Worst keys" in page
    assert "Drift by key" in page

    table = pyarrow.csv.read_csv(file)
    X = np.column_stack([table[name].to_numpy() for name in "ab"])
    expected = Fleet(PoolModel(2)).predict_then_learn(
        table["shop"].to_pylist(), X, table["revenue"].to_numpy(), table["day"].to_numpy()
    )
    found = pyarrow.parquet.read_table(out / "tables" / "fleet.predictions.parquet")
    assert found["prediction"].to_numpy().tobytes() == expected.tobytes()
    keys = pyarrow.parquet.read_table(out / "tables" / "fleet.summary.parquet").to_pydict()
    for key, loss, share in zip(keys["key"], keys["loss"], keys["unexplained"], strict=True):
        mine = np.array(table["shop"].to_pylist()) == key
        y, p = table["revenue"].to_numpy()[mine], expected[mine]
        assert loss == pytest.approx(np.mean((y - p) ** 2) / 2)
        assert share == pytest.approx(np.mean((y - p) ** 2) / np.var(y))


def test_labels_become_probabilities(file, tmp_path):
    text = file.read_text().splitlines()
    rows = [line.rsplit(",", 1) for line in text[1:]]
    file.write_text(
        "\n".join([text[0], *(f"{a},{'up' if float(y) > 1 else 'down'}" for a, y in rows)])
    )
    out = tmp_path / "out"
    done = invoke("fleet", "run", file, "--key", "shop", "--target", "revenue", "--out", out)
    assert done.exit_code == 0, done.output
    keys = pyarrow.parquet.read_table(out / "tables" / "fleet.summary.parquet").to_pydict()
    shop = np.array([line.split(",")[0] for line, _ in rows])
    y = np.array([float(value) > 1 for _, value in rows])
    for key, loss, share in zip(keys["key"], keys["loss"], keys["unexplained"], strict=True):
        p = y[shop == key].mean()
        entropy = -p * np.log(p) - (1 - p) * np.log(1 - p)
        assert share == pytest.approx(loss / entropy)
        assert share < 1


def test_a_file_without_rows_or_with_a_key_that_is_no_number_is_refused(tmp_path):
    table = pyarrow.table({"k": [1.0, np.nan], "a": [1.0, 2.0], "y": [1.0, 2.0]})
    for rows, message in ((table[:0], "no rows"), (table, "empty in 1 row.")):
        path = tmp_path / "rows.parquet"
        pyarrow.parquet.write_table(rows, path)
        done = invoke("fleet", "run", path, "--key", "k", "--target", "y", "--out", tmp_path / "o")
        assert done.exit_code == 2
        assert message in done.stderr


def test_an_empty_key_or_time_is_refused(file, tmp_path):
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines, ",5,1,1,hello,2"]))
    wanted = ("--key", "shop", "--target", "revenue", "--time", "day", "--out", tmp_path / "out")
    done = invoke("fleet", "run", file, *wanted)
    assert done.exit_code == 2
    assert "The key 'shop' is empty in 1 row." in done.stderr
    file.write_text("\n".join([*lines, "x,,1,1,hello,2"]))
    done = invoke("fleet", "run", file, *wanted)
    assert done.exit_code == 2
    assert "The time 'day' is empty in 1 row." in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--key", "who", "--target", "revenue"], "no column 'who'"),
        (["--key", "shop", "--target", "note"], "holds 1 classes"),
        (["--key", "shop", "--target", "revenue", "--feature", "note"], "not numbers"),
        (["--key", "shop", "--target", "revenue", "--feature", "revenue"], "no feature"),
        (["--key", "shop", "--target", "revenue", "--time", "note"], "no order of time"),
    ],
)
def test_wrong_use_is_refused_in_a_line(file, tmp_path, options, message):
    done = invoke("fleet", "run", file, *options, "--out", tmp_path / "out")
    assert done.exit_code == 2
    assert message in done.stderr


def test_one_bad_cell_is_named_where_it_matters(file, tmp_path):
    wanted = ["--key", "shop", "--target", "revenue", "--out", tmp_path / "out"]
    good = file.read_text().splitlines()
    for column, message in (("a", "mend the cell, or choose"), ("revenue", "mend the cell.")):
        cells = good[3].split(",")
        cells[good[0].split(",").index(column)] = "oops"
        file.write_text("\n".join([*good[:3], ",".join(cells), *good[4:]]))
        done = invoke("fleet", "run", file, *wanted)
        assert done.exit_code == 2
        assert f"Column '{column}' is text because of 'oops' in row 4 (899 of 900" in done.stderr
        assert message in done.stderr
    file.write_text("\n".join([*good, "x,1,oops,1,hello,2"]))
    done = invoke("fleet", "run", file, *wanted, "--feature", "b")
    assert done.exit_code == 0, done.output
    assert "Features: b." in done.stderr


def test_it_says_which_columns_are_features(file, tmp_path):
    done = invoke(
        "fleet", "run", file, "--key", "shop", "--target", "revenue", "--out", tmp_path / "out"
    )
    assert done.stderr == "Features: day, a, b.\nLeft out, because not numbers: note.\n"
    assert "Features: day, a, b." in (tmp_path / "out" / "report.html").read_text()


def fleet_of(path, tmp_path, *more):
    out = tmp_path / "out"
    done = invoke(
        "fleet", "run", path, "--key", "id", "--target", "y", "--out", out, "--overwrite", *more
    )
    return done, out / "tables"


def test_keys_of_a_text_file_stay_as_they_are_written(tmp_path):
    path = tmp_path / "ids.csv"
    path.write_text("id,a,y\n007,1,2\n7,2,3\n07,3,4\n7.0,4,5\n")
    done, tables = fleet_of(path, tmp_path)
    assert done.exit_code == 0, done.output
    keys = pyarrow.parquet.read_table(tables / "fleet.summary.parquet")["key"].to_pylist()
    assert keys == ["007", "7", "07", "7.0"]


def test_json_has_every_key_in_numbers(tmp_path):
    path = tmp_path / "ids.csv"
    rows = [f"{k},{t},{t % 3}" for t in range(8) for k in range(30)]
    path.write_text("\n".join(["id,a,y", *rows, "alone,1,"]))
    done, _ = fleet_of(path, tmp_path, "--json")
    told = json.loads(done.stdout, parse_constant=lambda name: pytest.fail(name))
    summary = {row["key"]: row for row in told["summaries"]["fleet"]}
    assert len(summary) == 31
    assert summary["3"]["rows"] == 8
    assert summary["alone"]["loss"] is None


@pytest.mark.parametrize("classes", [("0", "1"), ("false", "true"), ("9", "10"), ("no", "yes")])
def test_two_values_are_classes_and_the_report_says_which(tmp_path, classes):
    path = tmp_path / "ids.csv"
    path.write_text("\n".join(["id,a,y", *(f"s,{t % 2},{classes[t % 2]}" for t in range(200))]))
    done, tables = fleet_of(path, tmp_path)
    assert done.exit_code == 0, done.output
    assert f"probability of {classes[1]}." in done.stderr.replace("True", "true")
    told = pyarrow.parquet.read_table(tables / "fleet.predictions.parquet")["prediction"]
    ones, zeros = told.to_numpy()[101::2], told.to_numpy()[100::2]
    assert zeros.mean() < 0.1 < 0.9 < ones.mean()


def test_columns_of_one_name_are_refused(tmp_path):
    path = tmp_path / "ids.csv"
    path.write_text("id,a,a,y\n1,2,3,4\n")
    done, _ = fleet_of(path, tmp_path)
    assert done.exit_code == 2
    assert "2 columns called 'a'" in done.stderr


def test_bars_are_named_by_keys_whatever_these_look_like():
    chart = Bars("b", "", "", "key", "loss", ("2026-01-31", "1000", "<b>x</b>" * 9), BARS)
    figure = draw_plotly.figure(chart)
    assert list(figure.data[0].x) == [0, 1, 2]
    assert figure.layout.xaxis.ticktext[:2] == ("2026-01-31", "1000")
    assert figure.layout.xaxis.ticktext[2].startswith("&lt;b&gt;x")
    assert "…" in figure.layout.xaxis.ticktext[2]
    sideways = draw_plotly.figure(replace(chart, sideways=True))
    assert list(sideways.data[0].y) == [0, 1, 2]
    assert sideways.layout.yaxis.ticktext == figure.layout.xaxis.ticktext


BARS = (("loss", np.array([3.0, 2.0, 1.0]), np.zeros(3)),)
