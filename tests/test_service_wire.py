"""What arrives on the wire: heads without end, silence, hang-ups, and foreign names."""

from __future__ import annotations

import json
import resource
import socket
import time

import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")
httpx = pytest.importorskip("httpx")

import serving

from swordplay.service.client import Client

GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
HEAD_SECONDS = 5.0
CHUNK = b"a" * 60_000


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with serving.Server(f"sqlite:///{tmp_path_factory.mktemp('wire')}/s.db") as one:
        with Client(one.url) as client:
            client.create("m")
        yield one


def connect(server):
    return socket.create_connection(("127.0.0.1", server.port), timeout=30)


def answer_of(server, *parts):
    """Send parts; return status and body of the last answer, once the server hangs up."""
    with connect(server) as one:
        try:
            for part in parts:
                one.sendall(part)
            one.shutdown(socket.SHUT_WR)
        except OSError:
            pass
        return read(one)


def hung_up(one):
    """Send one more header; tell whether that is still possible."""
    try:
        one.sendall(b"x: y\r\n")
    except OSError:
        return True
    return False


def read(one):
    told = b""
    try:
        while part := one.recv(65536):
            told += part
    except ConnectionResetError:
        pass
    head, _, body = told.partition(b"\r\n\r\n")
    return int(head.split()[1]) if head else None, head.lower(), body


# ---- heads


@pytest.mark.parametrize(
    "parts",
    [
        [GET, b"x: ", *[CHUNK] * 100],
        [GET, b"x: " + CHUNK + b"\r\n", b"y: " + CHUNK + b"\r\n\r\n"],
        [b"GET /", *[CHUNK] * 100],
        [GET, b"x: y\r\n" * 101, b"\r\n"],
        [GET, b"".join(b"x%d: y\r\n" % k for k in range(20_000)), b"\r\n"],
    ],
)
def test_a_head_is_bounded(server, parts):
    before = server.memory
    status, head, body = answer_of(server, *parts)
    if status is not None:  # else the answer was lost with what had still to be sent
        assert status == 431
        assert b"content-type: application/json" in head
        assert "head may have" in json.loads(body)["detail"]
    assert server.memory < before + 5e6
    assert httpx.get(f"{server.url}/health").status_code == 200


def test_trailers_are_bounded(server):
    head = b"POST /models HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
    before = server.memory
    answer_of(server, head, b"2\r\n{}\r\n0\r\nx: ", *[CHUNK] * 500)
    assert server.memory < before + 10e6


def test_what_is_no_http_is_refused_in_json(server):
    status, head, body = answer_of(server, b"\x16\x03\x01 hello\r\n\r\n")
    assert status == 400
    assert b"content-type: application/json" in head
    assert json.loads(body)["field"] is None


# ---- silence


@pytest.mark.parametrize(
    "parts",
    [
        [],
        [GET],
        [GET + b"\r\n", b"\r\n"],
        [
            b"POST /models HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n"
            b"Content-Length: 9\r\n\r\n",
            b"x",
        ],
    ],
)
def test_silence_ends_in_some_seconds(server, parts):
    with connect(server) as one:
        for part in parts:
            one.sendall(part)
            time.sleep(0.2)
        begun = time.monotonic()
        read(one)
        assert time.monotonic() - begun < HEAD_SECONDS + 3


def test_a_trickle_is_silence(server):
    with connect(server) as one:
        begun = time.monotonic()
        one.sendall(GET)
        while not hung_up(one) and time.monotonic() < begun + 20:
            time.sleep(0.2)
        assert time.monotonic() - begun < HEAD_SECONDS + 3


def test_silent_connections_keep_nobody_out(server):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 4096), hard))
    silent = []
    try:
        with httpx.Client(base_url=server.url) as web:
            for k in range(1300):
                silent.append(connect(server))
                if k % 50 == 49:
                    assert web.get("/health").status_code == 200
        for _ in range(20):
            answer = httpx.get(f"{server.url}/health")
            assert answer.status_code == 200
    finally:
        for one in silent:
            one.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


# ---- hang-ups and names


def test_a_client_that_hangs_up_is_no_error(server):
    before = server.logged
    for _ in range(3):
        with connect(server) as one:
            one.sendall(
                b"POST /models/m/learn HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n"
                b"Content-Type: application/json\r\n\r\n{"
            )
            time.sleep(0.1)
    end = time.monotonic() + 10
    while 'status="499"} 3.0' not in httpx.get(f"{server.url}/metrics").text:
        assert time.monotonic() < end
        time.sleep(0.05)
    assert server.logged == before
    assert 'status="500"' not in httpx.get(f"{server.url}/metrics").text


@pytest.mark.parametrize(
    ("host", "status"),
    [
        (b"Host: localhost", 200),
        (b"Host: LOCALHOST:80", 200),
        (b"Host: [::1]:8765", 200),
        (b"Host: localhost:evil", 421),
        (b"Host: localhost:", 421),
        (b"Host: evil.example:80", 421),
        (b"Host: 127.0.0.1:80@evil.example", 421),
        (b"X: y", 421),
        (b"Host: localhost\r\nHost: localhost", 400),
        (b"Host: localhost\r\nHost: evil.example", 400),
    ],
)
def test_names_for_this_machine(server, host, status):
    request = b"GET /health HTTP/1.1\r\nConnection: close\r\n" + host + b"\r\n\r\n"
    assert answer_of(server, request)[0] == status


def test_health_answers_to_head(server):
    answer = httpx.head(f"{server.url}/health")
    assert (answer.status_code, answer.content) == (200, b"")


def test_pipelined_requests_are_answered_in_order(server):
    last = GET + b"Connection: close\r\n\r\n"
    with connect(server) as one:
        one.sendall((GET + b"\r\n") * 4 + last)
        told = b""
        while part := one.recv(65536):
            told += part
    assert told.count(b"HTTP/1.1 200 ") == 5
