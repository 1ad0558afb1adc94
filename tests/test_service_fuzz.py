"""The API against its own description: schemathesis sends what fits it and what does not."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")
pytest.importorskip("schemathesis")

import fuzzing
import serving

EXAMPLES = int(os.environ.get("SWORDPLAY_FUZZ", "25"))  # for each operation


def test_nothing_breaks_it(tmp_path):
    with serving.Server(f"sqlite:///{tmp_path}/s.db", max_models=50) as server:
        fuzzing.prepare(server)
        fuzzing.requests(server, 2)
        before = server.memory
        statuses = fuzzing.requests(server, EXAMPLES)
        assert sum(statuses.values()) > 5 * EXAMPLES
        assert server.memory < before + 60e6
        assert "Traceback" not in server.logged
