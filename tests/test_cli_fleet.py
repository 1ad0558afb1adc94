"""``swordplay fleet run``."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("typer")
import pyarrow
import pyarrow.csv
import pyarrow.parquet
from test_cli import runner

from swordplay.cli import app
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
    keys = pyarrow.parquet.read_table(out / "tables" / "fleet.keys.parquet").to_pydict()
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
    keys = pyarrow.parquet.read_table(out / "tables" / "fleet.keys.parquet").to_pydict()
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
