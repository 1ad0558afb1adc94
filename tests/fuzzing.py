"""What strangers may send: requests made from the API's description, and malformed bodies."""

from __future__ import annotations

import collections
import json
import random

import numpy as np
import pyarrow as pa
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
from serving import arrow

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
JSON, ARROW = "application/json", "application/vnd.apache.arrow.stream"
ALIKE = f"{'0' * 24}-00"  # another spelling of an id
LARGE = [[1e20], [10**20], [1e100, 3], [2**53 + 1], [2.0**53 + 2], [-1e19], [1.5], [10**400]]
COLUMNS = [{"id": ["nope"]}, {"id": [7]}, {"id": [ALIKE]}, {"id": ["\u0000"]}, {"id": [None]}]
COLUMNS += [{"x": ["a"]}, {"x": [np.inf]}, {"x": [[1.0]]}, {"x": [{"a": 1}]}, {}, {"x": [1e300]}]
LABELS = [["a\x00"], ["\n"], [""], ["a" * 201], [True], [None], [np.nan], [1e20], [2**60], [[1]]]
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


def mutated(count, number=3):
    """Yield ``count`` Arrow streams with some bytes changed, which may be refused or not."""
    dice = random.Random(number)
    seeds = [
        arrow(x=[1.0, 2.0, 3.0], y=[1, 2, 3], z=[True, False, True], label=[1.0, 2.0, 3.0]),
        arrow(id=["0" * 24 + "-0", "0" * 24 + "-1"], label=["a", "b"]),
        arrow(x=np.arange(50.0), y=np.arange(50, dtype=np.float16), label=["a"] * 50),
    ]
    for _ in range(count):
        body = bytearray(dice.choice(seeds))
        for _ in range(dice.choice((1, 1, 2, 4))):
            body[dice.randrange(len(body))] = dice.choice((0, 1, 2, 127, 255, dice.randrange(256)))
        path = dice.choice(("/m/learn", "/m/predict", "/c/learn", "/c/predict"))
        yield f"/models{path}", bytes(body), ARROW


def malformed(count, number=2):
    """Yield ``count`` paths, bodies and content types that each must be refused with 4xx."""
    dice = random.Random(number)
    for k in range(count):
        if k % 4 == 1:
            yield _bad_stream(dice)
            continue
        if k % 8 == 3:
            yield _bad_numbers(dice)
            continue
        rows, labels = dice.choice(ATOMS), dice.choice(ATOMS)
        body = json.dumps({dice.choice(["rows", "ids", "row"]): rows, "labels": labels})
        if k % 3 == 0:
            body = body[: dice.randrange(len(body))]
        if k % 7 == 0:
            body = body.replace("1", dice.choice(["1e999", "-", "Infinity", "9" * 400]))
        content = body.encode() if k % 5 else bytes(dice.randrange(256) for _ in range(30))
        yield f"/models{dice.choice(MALFORMED_PATHS)}", content, JSON


def _bad_stream(dice):
    """Return an Arrow stream with one thing wrong, or cut off."""
    good = {"x": [1.0], "label": [1]}
    if dice.random() < 0.3:
        body = arrow(**good)
        return "/models/c/learn", body[: dice.randrange(len(body) - 16)], ARROW
    if dice.random() < 0.5:
        return "/models/c/learn", arrow(**dice.choice(COLUMNS), label=[1]), ARROW
    return "/models/c/learn", arrow(x=[1.0], label=pa.array(dice.choice(LABELS))), ARROW


def _bad_numbers(dice):
    """Return labels of classes that are no whole numbers below 2^53, or an id spelled wrongly."""
    if dice.random() < 0.3:
        body = {"ids": [dice.choice([ALIKE, ALIKE + "0", ALIKE.upper(), 7])], "labels": [1]}
        return f"/models{dice.choice(['/c/learn', '/m/learn'])}", json.dumps(body).encode(), JSON
    labels = dice.choice(LARGE)
    body = {"rows": [[1, 2, 3]] * len(labels), "labels": labels}
    return "/models/c/learn", json.dumps(body).encode(), JSON
