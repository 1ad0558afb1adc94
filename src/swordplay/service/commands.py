"""The commands ``swordplay serve``, ``swordplay token`` and ``swordplay load-test``.

They are plain functions over argparse-like arguments; ``swordplay.cli`` hands over to them.
"""

from __future__ import annotations

import argparse
import json
import signal
import socket
import sys
from collections.abc import Sequence
from dataclasses import replace
from types import FrameType

from swordplay.service.settings import SCOPES, Settings, SettingsError, digest, load, new_token

COMMANDS = ("serve", "token", "load-test")
MISSING = 'swordplay serve needs its extra: pip install "swordplay[service]"'
MISUSED = 2
SWITCH = 0.0005  # seconds


def main(arguments: Sequence[str]) -> int:
    """Run one of the commands; return the exit code."""
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except SettingsError as error:
        print(f"swordplay: {error}", file=sys.stderr)
        return MISUSED
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("swordplay"):
            raise
        print(f"{MISSING} ({error.name} is missing)", file=sys.stderr)
        return MISUSED


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("swordplay")
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("serve", help="Serve models over HTTP.")
    one.add_argument("--config", help="A TOML file; environment variables SWORDPLAY_... win.")
    one.add_argument("--host", help="The address to listen on; default 127.0.0.1.")
    one.add_argument("--port", type=int, help="Default 8765; 0 for any that is free.")
    one.add_argument("--database", help="sqlite:///FILE (default swordplay.db) or postgresql://...")
    one.set_defaults(run=_serve)
    one = commands.add_parser("token", help="Make a token and the hash that the server keeps.")
    one.add_argument("--scope", choices=SCOPES, default="learn")
    one.set_defaults(run=_token)
    one = commands.add_parser("load-test", help="Measure a running server on this machine.")
    one.add_argument("--url", default="http://127.0.0.1:8765")
    one.add_argument("--token", help="With the scope admin, where the server uses tokens.")
    one.add_argument("--seconds", type=float, default=5.0, help="A phase; at most 60.")
    one.add_argument("--rows", type=int, default=100, help="A batch.")
    one.add_argument("--columns", type=int, default=10)
    one.add_argument("--clients", type=int, default=4, help="Connections at a time; at most 32.")
    one.add_argument("--arrow", action="store_true", help="Arrow IPC in place of JSON.")
    one.add_argument("--json", action="store_true", help="Print JSON.")
    one.set_defaults(run=_load_test)
    return parser


def _serve(options: argparse.Namespace) -> int:
    settings = load(options.config)
    for name in ("host", "port", "database"):
        value = getattr(options, name)
        if value is not None:
            settings = replace(settings, **{name: value})
    serve(settings)
    return 0


def serve(settings: Settings) -> None:
    """Serve until SIGINT or SIGTERM; then finish what was accepted, and stop."""
    settings.check_exposure()
    import uvicorn

    from swordplay.service import api, logs

    logs.set_up(settings.log_level)
    app = api.build(settings)
    # Threads hand over the interpreter 5 ms after they are asked; that would be most of the time
    # that a prediction takes while another client learns.
    sys.setswitchinterval(SWITCH)

    class Server(uvicorn.Server):
        def handle_exit(self, sig: int, frame: FrameType | None) -> None:
            app.state.catalog.closing = True  # pages that watch let go
            super().handle_exit(sig, frame)

    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
    except OSError as error:
        raise SettingsError(f"{settings.host}:{settings.port}: {error.strerror}") from None
    shown = f"[{settings.host}]" if family == socket.AF_INET6 else settings.host
    print(f"http://{shown}:{listener.getsockname()[1]}/", flush=True)
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        limit_concurrency=1024,
        timeout_keep_alive=30,
        timeout_graceful_shutdown=15,
        h11_max_incomplete_event_size=64 << 10,
    )
    for one in (signal.SIGINT, signal.SIGTERM):
        # uvicorn raises the signal again when all is done; by then there is nobody to stop
        signal.signal(one, lambda number, frame: None)
    server, writer = Server(config), app.state.catalog.writer

    def stop() -> None:
        app.state.catalog.closing = server.should_exit = True

    writer.when_deposed = stop
    server.run(sockets=[listener])
    if writer.deposed:
        raise SettingsError("Another server has taken the database over.")


def _token(options: argparse.Namespace) -> int:
    token = new_token()
    print(f"token (shown once):  {token}")
    print(f'setting:             tokens = ["{options.scope}:{digest(token)}"]')
    return 0


def _load_test(options: argparse.Namespace) -> int:
    from swordplay.service import load_test

    found = load_test.run(
        options.url,
        token=options.token,
        seconds=options.seconds,
        rows=options.rows,
        columns=options.columns,
        clients=options.clients,
        arrow=options.arrow,
    )
    print(json.dumps(found, indent=2) if options.json else load_test.table(found))
    return 0
