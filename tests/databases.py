"""Fixtures: empty databases, so that one test runs on SQLite and on PostgreSQL."""

from __future__ import annotations

import itertools
import tempfile

import pytest
import serving


@pytest.fixture(scope="module")
def cluster():
    """A PostgreSQL of our own."""
    if why := serving.why_no_postgres():
        pytest.skip(why)
    # Not under pytest's folder: the user that PostgreSQL runs as cannot look into it.
    with tempfile.TemporaryDirectory() as folder, serving.postgres(folder) as make:
        yield make


@pytest.fixture(params=["sqlite", "postgres"])
def databases(request, tmp_path):
    """Return a function that gives a new, empty database each time."""
    numbers = itertools.count()
    if request.param == "sqlite":
        return lambda: f"sqlite:///{tmp_path}/{next(numbers)}.db"
    make = request.getfixturevalue("cluster")
    prefix = f"t{abs(hash(request.node.name)) % 10**9}"
    return lambda: make(f"{prefix}_{next(numbers)}")
