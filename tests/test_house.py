"""The house rules: what is imported, where things live, how long they are, what is documented."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import swordplay as sp
from swordplay.learner import Learner

ROOT = Path(sp.__file__).parent
SOURCES = sorted(ROOT.rglob("*.py"))


def in_a_fresh_process(code):
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_importing_swordplay_imports_nothing_it_does_not_use():
    loaded = in_a_fresh_process("import swordplay, sys; print(*sys.modules)").split()
    tops = {name.split(".")[0] for name in loaded}
    unwanted = {
        "matplotlib", "plotly", "cvxpy", "cvxopt", "sklearn", "pandas", "polars", "pyarrow",
        "river",
        "joblib", "dask", "ray", "pyspark", "fastapi", "uvicorn", "sqlalchemy", "httpx", "requests",
        "typer", "rich", "click", "jinja2", "platformdirs", "pytest", "hypothesis", "IPython",
    }  # fmt: skip
    assert not tops & unwanted
    by_numba = in_a_fresh_process("import numba, sys; print(*sys.modules)").split()
    scipy = {name for name in loaded if name.split(".")[0] == "scipy"} - set(by_numba)
    assert not scipy, f"SciPy is for those who hand in sparse rows: {sorted(scipy)[:5]}"
    assert not {
        name for name in loaded if name.startswith(("swordplay.experiments", "swordplay.cli"))
    }


def test_what_stands_above_the_core_is_imported_when_it_is_asked_for():
    names = ["Fleet", "PoolModel", "SwordRegressor", "SwordClassifier"]
    told = in_a_fresh_process(
        "import sys, swordplay as sp\n"
        "above = ('swordplay.fleet', 'swordplay.estimators')\n"
        "print([name for name in sys.modules if name.startswith(above)])\n"
        f"print(set(dir(sp)) >= set({names!r} + sp.__all__))\n"
        "from swordplay import Fleet\n"
        "print(Fleet is sp.Fleet is sys.modules['swordplay.fleet'].Fleet)\n"
        "sys.modules['sklearn'] = None\n"
        "from swordplay import *\n"  # needs no extra
        "print(PoolModel.__name__, hasattr(sp, 'Flet'))\n"
        "try: sp.SwordRegressor\n"
        "except ImportError as error: print(error)\n"
    ).splitlines()
    assert told == [
        "[]", "True", "True", "PoolModel False",
        'SwordRegressor needs scikit-learn: pip install "swordplay[estimators]"',
    ]  # fmt: skip


def test_importing_swordplay_compiles_nothing_and_draws_no_random_number():
    # A kernel that compiles at import, for a signature given, would cost a second or more.
    out = in_a_fresh_process(
        "import numpy as np; before = np.random.get_state()[1].tolist()\n"
        "import swordplay\n"
        "from swordplay.kernels import ensemble, projections, whole_stream\n"
        "kernels = [ensemble.learn, projections.project_rows, whole_stream.play_dense]\n"
        "print(sum(len(getattr(k, 'signatures', ())) for k in kernels))\n"
        "print(np.random.get_state()[1].tolist() == before)"
    )
    assert out.split() == ["0", "True"]


def test_only_the_kernels_import_numba():
    for path in SOURCES:
        if path.parent.name == "kernels":
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            assert not [n for n in names if n.split(".")[0] == "numba"], path.relative_to(ROOT)


def test_kernels_are_plain_functions_at_the_level_of_their_module():
    # Closures over jitted functions miss Numba's cache: no kernel holds a function, none is held.
    machinery = [ROOT / "kernels" / name for name in ("compiled.py", "pool_compile.py")]
    compilers = {"njit", "jit", "vectorize", "guvectorize"}
    for path in machinery:
        tree = ast.parse(path.read_text())
        compilers |= {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    kernels = 0
    for path in (ROOT / "kernels").glob("*.py"):
        if path in machinery:
            continue  # how kernels are compiled: no kernels themselves
        tree = ast.parse(path.read_text())
        for function in (n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)):
            decorators = {
                getattr(name, "attr", getattr(name, "id", ""))
                for decorator in function.decorator_list
                for name in ast.walk(decorator)
            }
            if not decorators & compilers:
                continue  # plain Python beside the kernels
            kernels += 1
            inner = [n for n in ast.walk(function) if isinstance(n, ast.FunctionDef | ast.Lambda)]
            assert function in tree.body, f"{path.name}: {function.name} is made inside another"
            assert inner == [function], f"{path.name}: {function.name} makes another"
    assert kernels > 20


def test_an_algorithm_is_a_short_file():
    files = [path for path in (ROOT / "algorithms").glob("*.py") if path.name != "__init__.py"]
    assert (ROOT / "algorithms" / "sword_pp.py") in files
    for path in files:
        assert len(path.read_text().splitlines()) < 100, path.name


def test_the_house_is_where_it_should_be():
    for name in (
        "domains", "losses", "assumptions", "ensemble", "step_sizes", "learning_rates", "state",
        "play", "regret", "bounds", "kernels", "streams", "algorithms", "cli",
    ):  # fmt: skip
        assert (ROOT / f"{name}.py").is_file() or (ROOT / name / "__init__.py").is_file(), name
    assert (ROOT / "py.typed").is_file()


def test_every_public_learner_lives_in_the_algorithms():
    for name in sp.__all__:
        thing = getattr(sp, name)
        if inspect.isclass(thing) and issubclass(thing, Learner):
            if name in ("Learner", "Ensemble"):
                continue
            assert thing.__module__.startswith("swordplay.algorithms."), name
            assert Learner._known[name] is thing


PUBLIC = sorted(set(sp.__all__))


def test_public_names_exist_and_are_sorted_once():
    assert len(sp.__all__) == len(PUBLIC)
    missing = [name for name in PUBLIC if not hasattr(sp, name)]
    assert not missing


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_says_what_it_is(name):
    thing = getattr(sp, name)
    assert (inspect.getdoc(thing) or "").strip(), name
    if inspect.isclass(thing):
        for member, value in inspect.getmembers(thing):
            if member.startswith("_") or not (
                inspect.isfunction(value) or isinstance(value, property)
            ):
                continue
            assert (inspect.getdoc(value) or "").strip(), f"{name}.{member}"
    if inspect.ismodule(thing):
        for member in getattr(thing, "__all__", []):
            assert (inspect.getdoc(getattr(thing, member)) or "").strip(), f"{name}.{member}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text())), path


def test_the_version_is_the_package_s():
    from importlib.metadata import version

    assert sp.__version__ == version("swordplay")
