"""The API against its own description: schemathesis sends what fits it and what does not."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")
schemathesis = pytest.importorskip("schemathesis")

import numpy as np
import serving
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from swordplay.service.client import Client

EXAMPLES = int(os.environ.get("SWORDPLAY_FUZZ", "25"))  # for each operation
CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fuzz")
    with serving.Server(f"sqlite:///{folder}/s.db", max_models=50) as server:
        with Client(server.url) as one:
            for name in ("a", "0"):  # names that the fuzzer is likely to find
                one.create(name)
                one.learn(name, np.eye(3), [1.0, 2.0, 3.0])
        yield server


def test_nothing_breaks_it(server):
    described = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    before = None
    for result in described.get_all_operations():
        operation = result.ok()
        fitting = operation.as_strategy()
        unfitting = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

        @given(case=fitting | unfitting)
        @settings(max_examples=EXAMPLES, suppress_health_check=list(HealthCheck), deadline=None)
        def fuzz(case):
            case.call_and_validate(base_url=server.url, checks=CHECKS, timeout=30)

        fuzz()
        before = before or server.memory
    assert server.memory < before + 60e6
    assert "Traceback" not in server.logged
