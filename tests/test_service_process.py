"""A server as a process: its first start, slow clients, other addresses, and its commands."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="the service extra is not installed")

import serving

from swordplay.service import commands
from swordplay.service.client import Client
from swordplay.service.settings import SCOPES, digest, new_token

HERE = Path(__file__).parent


def status_of(url, token=None, body=None, **headers):
    """Return status, headers and body of an answer."""
    if body is not None:
        headers["content-type"] = "application/json"
        body = json.dumps(body).encode()
    if token is not None:
        headers["authorization"] = f"Bearer {token}"
    try:
        with urllib.request.urlopen(
            urllib.request.Request(url, body, headers), timeout=60
        ) as answer:
            return answer.status, answer.headers, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.headers, json.load(error)


# ---- the first start


@pytest.mark.slow
def test_while_kernels_compile_it_says_so_and_asks_to_come_back(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "nothing compiled here"))
    with serving.Server(f"sqlite:///{tmp_path}/s.db", until="/health") as server:
        assert status_of(f"{server.url}/health")[0] == 200
        assert status_of(f"{server.url}/models", body={"name": "m"})[0] == 201
        lesson = {"rows": [[1.0], [2.0]], "labels": [1.0, 2.0]}
        for path, body in (("/ready", None), ("/models/m/learn", lesson)):
            status, headers, told = status_of(server.url + path, body=body)
            assert status == 503
            assert int(headers["retry-after"]) >= 1
            assert told["detail"] == "Compiling: the first start on a machine takes about a minute."
        assert "takes about a minute" in server.logged
        assert "ready to serve" not in server.logged
        with Client(server.url, patience=300.0) as one:  # it waits as it is told
            assert one.learn("m", [[1.0], [2.0]], [1.0, 2.0])["learned"] == 2
        assert status_of(f"{server.url}/ready")[0] == 200
        assert "ready to serve" in server.logged


# ---- slow clients


def test_a_body_that_does_not_arrive_is_given_up(tmp_path):
    with serving.Server(f"sqlite:///{tmp_path}/s.db", body_seconds=0.5) as server:
        with Client(server.url) as one:
            one.create("m")
        for trickle in (False, True):
            with socket.create_connection(("127.0.0.1", server.port), timeout=20) as slow:
                begun = time.monotonic()
                head = "POST /models/m/learn HTTP/1.1\r\nHost: localhost\r\nContent-Length: 900\r\n"
                slow.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode())
                while trickle and time.monotonic() < begun + 0.4:
                    slow.sendall(b" ")
                    time.sleep(0.05)
                answer = b""
                while part := slow.recv(4096):  # until the server hangs up
                    answer += part
            assert answer.startswith(b"HTTP/1.1 408 ")
            assert b"did not arrive in time" in answer
            assert 0.4 < time.monotonic() - begun < 10
        assert status_of(f"{server.url}/models/m")[2]["seq"] == 0


# ---- other addresses

OUTSIDE = """
import sys
sys.path.insert(0, {here!r})
from test_service_process import ask_from_outside
ask_from_outside({folder!r})
"""


def ask_from_outside(folder):
    """Run a server on all addresses of a machine of its own, and try every scope."""
    tokens = {scope: new_token() for scope in SCOPES}
    kept = ",".join(f"{scope}:{digest(token)}" for scope, token in tokens.items())
    lesson = {"rows": [[1.0], [2.0]], "labels": [1.0, 2.0]}
    asked = {
        "admin": ("/models", {"name": "m"}, 201),
        "learn": ("/models/m/learn", lesson, 200),
        "read": ("/models/m/predict", {"rows": [[3.0]]}, 200),
    }
    database = f"sqlite:///{folder}/s.db"
    with serving.Server(database, host="0.0.0.0", tokens=kept) as server:
        for scope, (path, body, granted) in asked.items():
            url = server.url + path
            assert status_of(url, None, body)[0] == 401
            assert status_of(url, "sp_guess", body)[0] == 401
            for other, token in tokens.items():
                allowed = SCOPES.index(other) >= SCOPES.index(scope)
                if allowed and other != scope:
                    continue  # creating twice would be refused for another reason
                status = status_of(url, token, body, host="models.example")[0]
                assert status == (granted if allowed else 403), (scope, other, status)
        assert status_of(f"{server.url}/models/m", tokens["admin"])[2]["metrics"]["rows"] == 2
        assert not any(token in server.logged for token in tokens.values())
    print("asked")


def test_on_other_addresses_every_scope_counts(tmp_path):
    alone = ["unshare", "-rn", "sh", "-c", 'ip link set lo up && exec "$@"', "sh"]
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], check=False).returncode:
        pytest.skip("no network of one's own can be made here")
    script = OUTSIDE.format(here=str(HERE), folder=str(tmp_path))
    done = subprocess.run(
        [*alone, sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "asked\n"), done.stderr


# ---- commands


def test_load_test_measures_a_running_server_and_cleans_up(tmp_path, capsys):
    with serving.Server(f"sqlite:///{tmp_path}/s.db") as server:
        command = ["load-test", "--url", server.url, "--seconds", "0.5", "--clients", "2"]
        for more in ([], ["--arrow"]):
            assert commands.main([*command, *more, "--json"]) == 0
            found = json.loads(capsys.readouterr().out)
            for what in ("learn", "predict"):
                assert found[what]["rows_per_second"] > 100
            single = found["single_predict_while_learning"]
            assert 0 < single["p50_ms"] <= single["p99_ms"] <= single["max_ms"]
            assert single["rows_learned_per_second"] > 0
        assert commands.main(command) == 0
        assert "rows/s" in capsys.readouterr().out
        with Client(server.url) as one:
            assert one.models() == []


@pytest.mark.parametrize(
    "more",
    [
        ["--url", "http://192.0.2.1:8765"],
        ["--url", "http://127.0.0.1:1"],
        ["--seconds", "1e9"],
        ["--clients", "1000"],
        ["--rows", "0"],
    ],
)
def test_load_test_is_bounded_and_for_this_machine_alone(more, capsys):
    assert commands.main(["load-test", *more]) == 2
    assert capsys.readouterr().err.startswith("swordplay: ")


def test_a_port_in_use_is_said_plainly(tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        options = ["serve", "--port", port, "--database", f"sqlite:///{tmp_path}/s.db"]
        assert commands.main(options) == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--port", "99999"], "port must be 0 to 65535, not 99999."),
        (["--config", "nope.toml"], "nope.toml cannot be read: No such file or directory."),
    ],
)
def test_wrong_settings_are_said_in_a_line(options, message, capsys):
    assert commands.main(["serve", *options]) == 2
    assert capsys.readouterr().err == f"swordplay: {message}\n"


# ---- what the manual shows


def test_the_five_requests_can_be_pasted_in_their_order(tmp_path):
    if not shutil.which("curl") or not shutil.which("bash"):
        pytest.skip("there is no curl here")
    manual = (HERE.parent / "docs" / "service.md").read_text("utf-8")
    blocks = re.compile(r"```(?:bash|python)\n(.*?)```", re.DOTALL)
    shell, python = blocks.findall(manual.partition("## Five requests")[2])[:2]
    usual = "http://127.0.0.1:8765"
    with serving.Server(f"sqlite:///{tmp_path}/s.db") as server:
        assert usual in shell
        strict = 'set -e; curl() { command curl -fsS "$@"; }\n'
        script = strict + shell.replace(usual, server.url)
        done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        assert usual in python
        exec(compile(python.replace(usual, server.url), "service.md", "exec"), {})
        with Client(server.url) as one:
            found = {told["name"]: told["rows"] for told in one.models()}
        assert list(found.values()) == [3, 1], found
