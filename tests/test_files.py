"""Streams from files and from tables."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest

import swordplay as sp

ROUNDS = 5000


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    columns = {name: rng.standard_normal(ROUNDS) for name in ("a", "b", "c")}
    columns["k"] = rng.integers(-3, 4, ROUNDS)
    columns["y"] = columns["a"] - columns["b"] + 0.1 * rng.standard_normal(ROUNDS)
    return pa.table(columns)


def write(table, folder, ending):
    path = folder / f"rows{ending}"
    if ending == ".csv":
        pa.csv.write_csv(table, path)
    elif ending == ".tsv":
        pa.csv.write_csv(table, path, pa.csv.WriteOptions(delimiter="\t"))
    elif ending == ".parquet":
        pa.parquet.write_table(table, path, row_group_size=700)
    elif ending == ".feather":
        pa.feather.write_feather(table, path)
    else:
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
            writer.write_table(table)
    return path


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".parquet", ".feather", ".arrow"])
def test_a_file_is_the_array_it_holds(table, tmp_path, ending):
    stream = sp.FileStream(write(table, tmp_path, ending), target="y", batch_rows=512)
    names = ["a", "b", "c", "k"]
    rows = np.column_stack([table[name].to_numpy() for name in names])
    whole = sp.LinearStream(rows, table["y"].to_numpy())
    assert stream.names == tuple(names)
    assert len(stream) == ROUNDS
    domain = sp.Ball(4, 2.0)
    assert stream.assumptions(domain) == whole.assumptions(domain)
    facts = whole.assumptions(domain)
    from_file = sp.play(sp.SwordPP(domain, facts), stream, record="decisions", every=7)
    from_array = sp.play(sp.SwordPP(domain, facts), whole, record="decisions", every=7)
    np.testing.assert_allclose(from_file.losses, from_array.losses, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(from_file.decisions, from_array.decisions, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(stream.values(np.ones(4)), whole.values(np.ones(4)))
    u = np.random.default_rng(1).standard_normal((ROUNDS, 4))
    np.testing.assert_allclose(stream.values(u), whole.values(u))
    np.testing.assert_array_equal(stream.load().features, rows)


def test_columns_can_be_chosen_and_ordered(table, tmp_path):
    path = write(table, tmp_path, ".parquet")
    stream = sp.FileStream(path, target="y", features=["c", "a"], loss=sp.Huber(1.0))
    assert stream.dim == 2
    np.testing.assert_array_equal(stream.load().features[:, 1], table["a"].to_numpy())


def test_other_domains_and_many_gradients(table, tmp_path):
    stream = sp.FileStream(write(table, tmp_path, ".parquet"), target="y", batch_rows=512)
    for domain in (sp.Ball(4, 1.0), sp.Box(-1.0, 1.0, dim=4)):
        facts = stream.assumptions(domain)
        ours = sp.play(sp.Sword(domain, facts), stream)
        theirs = sp.play(sp.Sword(domain, facts), stream.load())
        np.testing.assert_allclose(ours.losses, theirs.losses, rtol=1e-12, atol=1e-14)


def test_a_folder_of_files_is_read_in_order(table, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir()
    for k in range(3):
        pa.parquet.write_table(table.slice(k * 1000, 1000), folder / f"part-{k}.parquet")
    stream = sp.FileStream(folder, target="y")
    np.testing.assert_array_equal(stream.load().targets, table["y"].to_numpy()[:3000])


class TestBadFiles:
    def test_no_such_file(self, tmp_path):
        with pytest.raises(FileNotFoundError, match="There is no file"):
            sp.FileStream(tmp_path / "none.csv", target="y")

    def test_empty_file(self, tmp_path):
        path = tmp_path / "empty.csv"
        path.touch()
        with pytest.raises(ValueError, match="is empty"):
            sp.FileStream(path, target="y")

    def test_no_rows(self, tmp_path):
        path = tmp_path / "header.csv"
        path.write_text("a,y\n")
        with pytest.raises(ValueError, match="has no rows"):
            sp.FileStream(path, target="y")

    def test_missing_column(self, table, tmp_path):
        path = write(table, tmp_path, ".parquet")
        with pytest.raises(ValueError, match="no column 'z'; it has a, b, c, k, y"):
            sp.FileStream(path, target="z")
        with pytest.raises(ValueError, match="no column 'q'"):
            sp.FileStream(path, target="y", features=["a", "q"])

    def test_unknown_ending(self, tmp_path):
        path = tmp_path / "rows.xyz"
        path.write_text("a,y\n1,2\n")
        with pytest.raises(ValueError, match=r"known are \.csv"):
            sp.FileStream(path, target="y")

    def test_garbage(self, tmp_path):
        path = tmp_path / "rows.parquet"
        path.write_bytes(b"this is no parquet file")
        with pytest.raises(ValueError, match="cannot be read as parquet"):
            sp.FileStream(path, target="y")

    @pytest.mark.parametrize("cell", ["dog", "nan", ""])
    def test_a_cell_that_is_no_number_is_named(self, tmp_path, cell):
        path = tmp_path / "rows.csv"
        lines = ["a,b,y"] + [f"{k},{k},1" for k in range(10)]
        lines[6] = f"5,{cell},1"
        path.write_text("\n".join(lines) + "\n")
        domain = sp.Ball(2, 1.0)
        with pytest.raises(ValueError, match=r"column 'b'.*row 5"):
            sp.play(sp.OGD(domain, sp.Assumptions(1.0, 1.0, 10)), sp.FileStream(path, target="y"))

    def test_text_far_down_a_column_of_numbers(self, tmp_path):
        path = tmp_path / "rows.csv"
        lines = ["a,y"] + ["1.5,1"] * 300_000
        lines[250_001] = "cat,1"
        path.write_text("\n".join(lines) + "\n")
        with pytest.raises(ValueError, match="column 'a' holds 'cat' in row 250000"):
            sp.FileStream(path, target="y").assumptions(sp.Ball(1, 1.0))

    def test_whole_numbers_may_be_followed_by_fractions(self, tmp_path):
        path = tmp_path / "rows.csv"
        path.write_text("a,y\n" + "0,2\n" * 300_000 + "0.5,3\n")
        stream = sp.FileStream(path, target="y").load()
        assert stream.features[-1] == 0.5

    def test_features_that_make_no_sense(self, table, tmp_path):
        path = write(table, tmp_path, ".parquet")
        with pytest.raises(TypeError, match="list of columns"):
            sp.FileStream(path, target="y", features="a")
        with pytest.raises(ValueError, match="one of its own features"):
            sp.FileStream(path, target="y", features=["a", "y"])
        with pytest.raises(ValueError, match="twice"):
            sp.FileStream(path, target="y", features=["a", "a"])

    def test_random_access_is_refused(self, table, tmp_path):
        stream = sp.FileStream(write(table, tmp_path, ".parquet"), target="y")
        with pytest.raises(TypeError, match=r"stream.load\(\)"):
            stream.value(0, np.zeros(4))


class TestTables:
    def test_pandas(self, table):
        frame = table.select(["a", "b"]).to_pandas()
        stream = sp.LinearStream(frame, table["y"].to_pandas())
        np.testing.assert_array_equal(stream.features, frame.to_numpy())

    def test_polars(self, table):
        polars = pytest.importorskip("polars")
        frame = polars.from_arrow(table)
        stream = sp.LinearStream(frame.select("a", "b"), frame["y"])
        np.testing.assert_array_equal(stream.features[:, 1], table["b"].to_numpy())

    def test_arrow(self, table):
        stream = sp.LinearStream(table.select(["a", "k"]), table["y"])
        np.testing.assert_array_equal(stream.features[:, 1], table["k"].to_numpy())
        np.testing.assert_array_equal(stream.targets, table["y"].to_numpy())
