"""The API against its own description: schemathesis sends what fits it and what does not."""

from __future__ import annotations

import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")
schemathesis = pytest.importorskip("schemathesis")

import numpy as np
import serving
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from swordplay.service import api
from swordplay.service.client import Client
from swordplay.service.settings import Settings

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


@pytest.fixture
def described(tmp_path):
    app = api.build(Settings(database=f"sqlite:///{tmp_path}/s.db"))
    description = app.openapi()
    app.state.catalog.writer.close()
    app.state.catalog.store.close()
    return schemathesis.openapi.from_dict(description)


schema = schemathesis.pytest.from_fixture("described")


@schema.parametrize()
@settings(max_examples=25, suppress_health_check=list(HealthCheck), deadline=None)
def test_nothing_breaks_it(case, server):
    case.call_and_validate(
        base_url=server.url,
        checks=CHECKS,
        excluded_checks=[negative_data_rejection],
        timeout=30,
    )
