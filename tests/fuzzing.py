"""What strangers may send: requests made from the API's description, and malformed bodies."""

from __future__ import annotations

import collections
import json
import random

import numpy as np
import schemathesis
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from swordplay.service.client import Client

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
)
KNOWN = ("m", "one", "c")  # half of the requests are about a model that is there
HANGS = 30  # seconds without an answer
ATOMS = [None, True, False, "", "a", "NaN", [], {}, [[]], [{}], "\u0000", {"a": {}}, [[[1]]]]
ATOMS += ["1e400", [[1, 2, 3], [1]], [["x", 1, 2]], [[None, 1, 2]], [[True, 1, 2]]]
MALFORMED_PATHS = ("/m/learn", "/m/predict", "/c/learn", "", "/nobody/learn")


def prepare(server):
    """Make the models of ``KNOWN`` and ``malformed``, and names that a fuzzer is likely to find."""
    with Client(server.url) as one:
        for name in ("a", "0", "m"):
            one.create(name)
            one.learn(name, np.eye(3), [1.0, 2.0, 3.0])
        one.create("one")
        one.learn("one", [[1.0], [2.0]], [1.0, 2.0])
        one.create("c", task="classification")


def requests(server, examples, number=0):
    """Send ``examples`` requests to each operation, fitting its description or not; check answers.

    Returns how often each status was answered.
    """
    statuses = collections.Counter()
    for result in schemathesis.openapi.from_url(f"{server.url}/openapi.json").get_all_operations():
        operation = result.ok()
        fitting = operation.as_strategy()
        unfitting = operation.as_strategy(generation_mode=GenerationMode.NEGATIVE)

        @seed(number)
        @given(case=fitting | unfitting, known=st.sampled_from((*KNOWN, None, None, None)))
        @settings(
            max_examples=examples,
            suppress_health_check=list(HealthCheck),
            deadline=None,
            database=None,
        )
        def fuzz(case, known):
            if known and "name" in case.path_parameters and case.method != "DELETE":
                case.path_parameters["name"] = known
            answer = case.call(base_url=server.url, timeout=HANGS)
            statuses[answer.status_code] += 1
            case.validate_response(answer, checks=CHECKS)

        fuzz()
    return statuses


def malformed(count, number=2):
    """Yield ``count`` paths and JSON bodies that each must be refused with 4xx."""
    dice = random.Random(number)
    for k in range(count):
        rows, labels = dice.choice(ATOMS), dice.choice(ATOMS)
        body = json.dumps({dice.choice(["rows", "ids", "row"]): rows, "labels": labels})
        if k % 3 == 0:
            body = body[: dice.randrange(len(body))]
        if k % 7 == 0:
            body = body.replace("1", dice.choice(["1e999", "-", "Infinity", "9" * 400]))
        content = body.encode() if k % 5 else bytes(dice.randrange(256) for _ in range(30))
        yield f"/models{dice.choice(MALFORMED_PATHS)}", content
