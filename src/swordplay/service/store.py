"""What is in the database, and who may open it.

One server a database: an SQLite file is locked through a file beside it, a PostgreSQL database by
an advisory lock. Both are released by the operating system when the process dies.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Float,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    create_engine,
    event,
    func,
    make_url,
    select,
    text,
)

from swordplay.service.settings import SettingsError

_ID = BigInteger().with_variant(Integer, "sqlite")
tables = MetaData()
models = Table(
    "models",
    tables,
    Column("id", _ID, primary_key=True),
    Column("name", String(64), nullable=False, unique=True),
    Column("spec", Text, nullable=False),
    Column("created", Float, nullable=False),
    Column("seq", BigInteger, nullable=False),  # the last record in the snapshot
    Column("rows", BigInteger, nullable=False),  # learned by then
    Column("state", LargeBinary, nullable=False),
    Column("metrics", Text, nullable=False),
)
log = Table(
    "log",
    tables,
    Column("model", _ID, primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("rows", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
keys = Table(
    "keys",
    tables,
    Column("model", _ID, primary_key=True, autoincrement=False),
    Column("key", String(200), primary_key=True),
    Column("digest", String(64), nullable=False),
    Column("answer", Text, nullable=False),
    Column("at", Float, nullable=False),
    Index("keys_at", "at"),
)
predictions = Table(
    "predictions",
    tables,
    Column("id", String(24), primary_key=True),
    Column("model", _ID, nullable=False),
    Column("at", Float, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("features", LargeBinary, nullable=False),
    Column("spent", LargeBinary, nullable=False),  # one byte a row: 1 once it was learned
    Index("predictions_model_at", "model", "at"),
    Index("predictions_at", "at"),
)

_LOCK = 0x53574F5244  # "SWORD"
_PATIENCE = 10.0  # seconds until a dead server's lock is surely gone


def open_engine(url: str) -> Engine:
    """Return an engine whose commits are on disk when they return."""
    address = make_url(url)
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    engine = create_engine(address, pool_size=5, max_overflow=10, pool_pre_ping=True)
    if address.get_backend_name() == "sqlite":
        if not address.database or address.database == ":memory:":
            raise SettingsError("database must be a file: what is in memory would be lost.")

        @event.listens_for(engine, "connect")
        def _durable(connection: Any, _: Any) -> None:
            cursor = connection.cursor()
            for pragma in ("journal_mode=WAL", "synchronous=FULL", "busy_timeout=10000"):
                cursor.execute(f"PRAGMA {pragma}")
            cursor.close()

    return engine


class Lock:
    """This process's sole right to a database, until ``release``."""

    def __init__(self, engine: Engine) -> None:
        self._keeper = contextlib.ExitStack()
        end = time.monotonic() + _PATIENCE
        while not self._try(engine):
            if time.monotonic() > end:
                raise SettingsError("Another server has this database open.")
            time.sleep(0.1)

    def _try(self, engine: Engine) -> bool:
        if engine.dialect.name == "sqlite":
            import fcntl

            path = Path(str(engine.url.database) + ".lock")
            file = path.open("a")
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                file.close()
                return False
            self._keeper.enter_context(file)
            return True
        connection = engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        if connection.execute(select(func.pg_try_advisory_lock(_LOCK))).scalar():
            self._keeper.callback(_give_back, connection)
            return True
        connection.close()
        return False

    def release(self) -> None:
        """Let others in."""
        self._keeper.close()


def _give_back(connection: Connection) -> None:
    with contextlib.suppress(Exception):
        connection.execute(select(func.pg_advisory_unlock(_LOCK)))
    connection.close()


class Store:
    """Reads; all writing is the writer's."""

    def __init__(self, url: str) -> None:
        try:
            self.engine = open_engine(url)
            self.lock = Lock(self.engine)
            tables.create_all(self.engine)
        except SettingsError:
            raise
        except Exception as error:  # drivers raise what they like
            raise SettingsError(f"The database cannot be opened: {error}") from error

    def close(self) -> None:
        """Close every connection and let others in."""
        self.lock.release()
        self.engine.dispose()

    def ping(self) -> None:
        """Raise unless the database answers."""
        with self.engine.connect() as connection:
            connection.execute(text("SELECT 1"))

    def catalog(self) -> Sequence[Any]:
        """Return id, name, spec, created, seq and rows of every model, its log counted in."""
        later = (
            select(
                log.c.model,
                func.max(log.c.seq).label("seq"),
                func.sum(log.c.rows).label("rows"),
            )
            .join(models, (models.c.id == log.c.model) & (log.c.seq > models.c.seq))
            .group_by(log.c.model)
            .subquery()
        )
        query = select(
            models.c.id,
            models.c.name,
            models.c.spec,
            models.c.created,
            func.coalesce(later.c.seq, models.c.seq).label("seq"),
            (models.c.rows + func.coalesce(later.c.rows, 0)).label("rows"),
        ).outerjoin(later, later.c.model == models.c.id)
        with self.engine.connect() as connection:
            return connection.execute(query).all()

    def snapshot(self, model: int) -> Any:
        """Return seq, rows, state and metrics of a model's snapshot."""
        query = select(models.c.seq, models.c.rows, models.c.state, models.c.metrics)
        with self.engine.connect() as connection:
            return connection.execute(query.where(models.c.id == model)).one_or_none()

    def records_after(self, model: int, seq: int, most: int = 256) -> list[tuple[int, bytes]]:
        """Return the next records of a model's log."""
        query = select(log.c.seq, log.c.data).where(log.c.model == model, log.c.seq > seq)
        with self.engine.connect() as connection:
            rows = connection.execute(query.order_by(log.c.seq).limit(most)).all()
        return [(int(row.seq), bytes(row.data)) for row in rows]

    def first_record(self, model: int, default: int) -> int:
        """Return the oldest record of a model's log, ``default`` where there is none."""
        query = select(func.min(log.c.seq)).where(log.c.model == model)
        with self.engine.connect() as connection:
            found = connection.execute(query).scalar()
        return default if found is None else int(found)

    def latest_records(self, model: int, rows: int) -> list[bytes]:
        """Return the newest records that hold ``rows`` rows together, oldest first."""
        query = select(log.c.rows, log.c.data).where(log.c.model == model)
        found: list[bytes] = []
        with self.engine.connect() as connection:
            for row in connection.execute(query.order_by(log.c.seq.desc()).limit(rows)):
                found.append(bytes(row.data))
                rows -= row.rows
                if rows <= 0:
                    break
        return found[::-1]

    def answers(self, model: int, wanted: Sequence[str]) -> dict[str, tuple[str, str]]:
        """Return digest and answer of the keys that are known."""
        query = select(keys.c.key, keys.c.digest, keys.c.answer)
        query = query.where(keys.c.model == model, keys.c.key.in_(wanted))
        with self.engine.connect() as connection:
            return {row.key: (row.digest, row.answer) for row in connection.execute(query)}

    def waiting(self, model: int, batches: Sequence[str]) -> dict[str, tuple[int, bytes, bytes]]:
        """Return rows, features and spent marks of batches of predictions."""
        columns = (
            predictions.c.id,
            predictions.c.rows,
            predictions.c.features,
            predictions.c.spent,
        )
        query = select(*columns).where(predictions.c.model == model, predictions.c.id.in_(batches))
        with self.engine.connect() as connection:
            return {
                row.id: (int(row.rows), bytes(row.features), bytes(row.spent))
                for row in connection.execute(query)
            }

    def crowded(self, most: int) -> list[tuple[int, float]]:
        """Return models with more than ``most`` rows waiting, and the time before which to drop."""
        total = select(predictions.c.model).group_by(predictions.c.model)
        total = total.having(func.sum(predictions.c.rows) > most)
        found = []
        with self.engine.connect() as connection:
            for (model,) in connection.execute(total).all():
                query = select(predictions.c.at, predictions.c.rows)
                query = query.where(predictions.c.model == model).order_by(predictions.c.at.desc())
                kept = 0
                for row in connection.execute(query):
                    kept += row.rows
                    if kept > most:
                        found.append((int(model), float(row.at)))
                        break
        return found
