"""The commands ``swordplay serve``, ``swordplay token`` and ``swordplay load-test``.

They read their own options, because they work without the extra of ``swordplay.cli``, which hands
over to them.
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

COMMANDS = {
    "serve": "Serve models over HTTP, durably, with a page.",
    "token": "Make a token for the server.",
    "load-test": "Measure a running server on this machine.",
}
MISSING = 'swordplay serve needs its extra: pip install "swordplay[service]"'
MISUSED = 2
SWITCH = 0.0005  # seconds

SERVE = """

Everything that is learned is in the database before it is acknowledged: stop
the server at any moment and start it again. The first start on a machine
compiles for about a minute. Every setting can also stand in the file, or in the
environment as SWORDPLAY_NAME; options win over the environment, the environment
over the file.
"""
SERVE_EXAMPLES = """  swordplay serve
  swordplay serve --port 8000 --database sqlite:////var/lib/swordplay/models.db
  SWORDPLAY_WINDOW=1000 swordplay serve --config server.toml
"""
TOKEN = """

It prints the token, for whoever sends requests (Authorization: Bearer TOKEN),
and the line for the server's settings, which holds only its SHA-256. A server
that has tokens asks for one.

Scopes, each with those before it:
  read   predict, and look at models, metrics and the page
  learn  send labels
  admin  create, delete, export and import models
"""
TOKEN_EXAMPLES = """  swordplay token --scope read
  swordplay token --scope admin
"""
LOAD_TEST = """

It makes a model of its own, sends batches to learn and to predict, then single
rows while another client learns, and deletes the model. What it measures
includes the client, on the same machine.
"""
LOAD_TEST_EXAMPLES = """  swordplay load-test
  swordplay load-test --clients 16 --rows 1000 --arrow
  swordplay load-test --url http://127.0.0.1:8000 --seconds 20 --json
"""


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
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    def command(name: str, more: str, examples: str) -> argparse.ArgumentParser:
        return commands.add_parser(
            name,
            help=COMMANDS[name],
            description=f"{COMMANDS[name]}{more}",
            epilog=f"Examples:\n{examples}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )

    one = command("serve", SERVE, SERVE_EXAMPLES)
    one.add_argument("--config", metavar="FILE", help="Settings, in TOML.  [default: none]")
    for name, metavar, about in (
        ("host", "ADDRESS", "Where to listen; other machines need tokens."),
        ("port", "N", "0 for any that is free."),
        ("database", "URL", "sqlite:///FILE or postgresql://..."),
    ):
        default = getattr(Settings, name)
        about = f"{about}  [default: {default}]"
        one.add_argument(f"--{name}", metavar=metavar, type=type(default), help=about)
    one.set_defaults(run=_serve)

    one = command("token", TOKEN, TOKEN_EXAMPLES)
    about = f"{', '.join(SCOPES)}: see above.  [default: learn]"
    one.add_argument("--scope", metavar="SCOPE", choices=SCOPES, default="learn", help=about)
    one.set_defaults(run=_token)

    one = command("load-test", LOAD_TEST, LOAD_TEST_EXAMPLES)
    one.add_argument("--token", help="With the scope admin.  [default: none]")
    for name, metavar, value, about in (
        ("url", "URL", "http://127.0.0.1:8765", "Of the server."),
        ("seconds", "S", 5.0, "A phase; at most 60."),
        ("rows", "N", 100, "Of a batch."),
        ("columns", "N", 10, "Of a row."),
        ("clients", "N", 4, "Connections at a time; at most 32."),
    ):
        about = f"{about}  [default: {value}]"
        one.add_argument(f"--{name}", metavar=metavar, type=type(value), default=value, help=about)
    one.add_argument("--arrow", action="store_true", help="Send Arrow IPC in place of JSON.")
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

    from swordplay.service import api, logs, protocol

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
        http=protocol.Protocol,
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=15,
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
