"""How a server is set up: one TOML file, or environment variables, or both (they win)."""

from __future__ import annotations

import difflib
import hashlib
import ipaddress
import math
import os
import secrets
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

SCOPES = ("read", "learn", "admin")  # each includes those before it
PREFIX = "SWORDPLAY_"
OTHERS = ("CONFIG", "NEED", "FUZZ")  # variables that are no settings: the file, and our tests'


class SettingsError(ValueError):
    """Settings that cannot be served with; the message says what to change."""


@dataclass(frozen=True)
class Settings:
    """Every setting, with its default.

    Args:
        host: the address to listen on.
        port: 0 for any that is free.
        database: an SQLite file (``sqlite:///PATH``) or a PostgreSQL URL.
        tokens: ``scope:sha256`` of each token, see ``swordplay token``.
        max_body: bytes of a request.
        max_upload: bytes of an imported model file.
        max_rows: rows of a request.
        max_columns: features of a row.
        max_classes: labels of a classification.
        max_work: rows times features times classes (1 for two, and for a regression) of a request.
        max_models: models in the server.
        max_listeners: pages that watch at a time.
        queue: requests to learn that may wait for one model; beyond, 429.
        body_seconds: for the body of a request to arrive; beyond, 408.
        request_seconds: until a request is given up with 503.
        pending_days: how long a prediction waits for its label.
        pending_rows: how many rows of a model may wait; beyond, the oldest go.
        key_days: how long an idempotency key is remembered.
        snapshot_rows: rows between two snapshots of a model.
        snapshot_records: requests between two snapshots of a model.
        window: recent rows on which regret is measured.
        log_level: debug, info, warning or error.
    """

    host: str = "127.0.0.1"
    port: int = 8765
    database: str = "sqlite:///swordplay.db"
    tokens: tuple[str, ...] = field(default=(), repr=False)
    max_body: int = 8 << 20
    max_upload: int = 64 << 20
    max_rows: int = 10_000
    max_columns: int = 2_000
    max_classes: int = 100
    max_work: int = 20_000_000
    max_models: int = 10_000
    max_listeners: int = 64
    queue: int = 256
    body_seconds: float = 10.0
    request_seconds: float = 30.0
    pending_days: float = 30.0
    pending_rows: int = 1_000_000
    key_days: float = 7.0
    snapshot_rows: int = 20_000
    snapshot_records: int = 1_000
    window: int = 512
    log_level: str = "info"

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, int | float) and one.name != "port" and not 0 < value < math.inf:
                raise SettingsError(f"{one.name} must be positive and finite, not {value!r}.")
        if not 0 <= self.port <= 65535:
            raise SettingsError(f"port must be 0 to 65535, not {self.port}.")
        for token in self.tokens:
            scope, _, digest = token.partition(":")
            if scope not in SCOPES or len(digest) != 64 or set(digest) - set("0123456789abcdef"):
                raise SettingsError(
                    "A token is written SCOPE:SHA256 with a scope of read, learn or admin; "
                    "make one with: swordplay token"
                )
        if self.log_level not in ("debug", "info", "warning", "error"):
            raise SettingsError("log_level must be debug, info, warning or error.")
        if not self.database.startswith(("sqlite:///", "postgresql")):
            raise SettingsError("database must begin with sqlite:/// or postgresql://.")

    @property
    def loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False

    def check_exposure(self) -> None:
        """Refuse to open to the outside without tokens."""
        if not self.loopback and not self.tokens:
            raise SettingsError(
                f"{self.host} can be reached from other machines, and there are no tokens. Make "
                "one with `swordplay token --scope admin` and put its hash under `tokens`, or "
                "listen on 127.0.0.1."
            )


def load(path: str | Path | None = None, environment: Mapping[str, str] | None = None) -> Settings:
    """Read the file, then the environment: ``SWORDPLAY_PORT=80`` is ``port = 80``."""
    environment = os.environ if environment is None else environment
    path = path or environment.get(f"{PREFIX}CONFIG")
    found: dict[str, Any] = {}
    if path is not None:
        try:
            found = tomllib.loads(Path(path).read_text("utf-8"))
        except OSError as error:
            raise SettingsError(f"{path} cannot be read: {error.strerror}.") from None
        except UnicodeDecodeError:
            raise SettingsError(f"{path} is not written in UTF-8.") from None
        except tomllib.TOMLDecodeError as error:
            raise SettingsError(f"{path} is no TOML file: {error}") from error
    known = {one.name: type(one.default) for one in fields(Settings)}
    for name in sorted(set(found) - set(known)):
        raise SettingsError(f"{path}: there is no setting {name!r}.{_nearest(name, known)}")
    values = {name: _typed(name, value, known[name]) for name, value in found.items()}
    for variable in sorted(environment):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in OTHERS:
            continue
        if name.lower() not in known or name != name.upper():
            like = _nearest(name.lower(), known)
            raise SettingsError(f"{variable} in the environment is no setting.{like}")
        values[name.lower()] = _read(name.lower(), environment[variable], known[name.lower()])
    return Settings(**values)


def _nearest(name: str, known: Mapping[str, type]) -> str:
    like = difflib.get_close_matches(name, known, 1)
    return f" Is it {like[0]}?" if like else ""


def _typed(name: str, value: Any, kind: type) -> Any:
    """Return a value from the file, where it is of the setting's type."""
    if kind is tuple:
        if isinstance(value, list) and all(isinstance(part, str) for part in value):
            return tuple(part.strip() for part in value if part.strip())
        raise SettingsError(f"{name} must be a list of strings, not {value!r}.")
    if type(value) is kind:
        return value
    if kind is float and type(value) is int:
        return float(value)
    raise SettingsError(f"{name} must be {_KINDS[kind]}, not {value!r}.")


_KINDS = {int: "a whole number", float: "a number", str: "a string"}


def _read(name: str, text: str, kind: type) -> Any:
    """Return a value from the environment."""
    if kind is tuple:
        return tuple(part.strip() for part in text.split(",") if part.strip())
    try:
        return kind(text)
    except ValueError:
        raise SettingsError(f"{name} must be {_KINDS[kind]}, not {text!r}.") from None


def digest(token: str) -> str:
    """Return what is kept of a token. It has 256 random bits, so one fast hash is enough."""
    return hashlib.sha256(token.encode()).hexdigest()


def new_token() -> str:
    """Return a token nobody can guess."""
    return "sp_" + secrets.token_urlsafe(32)
