"""What is in the database, and who may open it.

One server a database: an SQLite file is locked itself, a PostgreSQL database by an advisory lock.
Both go when the process dies, but the advisory lock also goes with its connection. So every start
raises an epoch, and every write begins by asking whether its epoch still holds.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Engine,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    bindparam,
    create_engine,
    event,
    func,
    insert,
    inspect,
    make_url,
    select,
    text,
    update,
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


def _of_model(**options: Any) -> Column[Any]:
    """Return the column that makes a row go with its model."""
    return Column("model", _ID, ForeignKey("models.id", ondelete="CASCADE"), **options)


log = Table(
    "log",
    tables,
    _of_model(primary_key=True, autoincrement=False),
    Column("seq", BigInteger, primary_key=True, autoincrement=False),
    Column("rows", Integer, nullable=False),
    Column("data", LargeBinary, nullable=False),
)
keys = Table(
    "keys",
    tables,
    _of_model(primary_key=True, autoincrement=False),
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
    _of_model(nullable=False),
    Column("at", Float, nullable=False),
    Column("rows", Integer, nullable=False),
    Column("features", LargeBinary, nullable=False),
    Column("spent", LargeBinary, nullable=False),  # one byte a row: 1 once it was learned
    Index("predictions_model_at", "model", "at"),
    Index("predictions_at", "at"),
)
owner = Table(
    "owner",
    tables,
    Column("id", Integer, primary_key=True),  # 1: there is one row
    Column("epoch", BigInteger, nullable=False),  # raised by every server that starts
    Column("room", LargeBinary),  # written to see whether the disk has any
)

# An update and not a look: what was sent before, and never answered, is over when it returns.
FENCE = update(owner).where(owner.c.epoch == bindparam("mine")).values(epoch=owner.c.epoch)
FILL = update(owner).values(room=bindparam("noise"))

_LOCK = 0x53574F5244  # "SWORD"
_PATIENCE = 10.0  # seconds until a dead server's lock is surely gone
_CHUNK = 5_000  # values in one query: SQLite takes 32,766, PostgreSQL 65,535
_AT_ONCE = 4  # records fetched at a time: each may have megabytes
_NETWORK = {  # seconds until a silent PostgreSQL counts as gone; the URL may say otherwise
    "connect_timeout": "5",
    "tcp_user_timeout": "10000",
    "keepalives_idle": "10",
    "keepalives_interval": "3",
    "keepalives_count": "3",
}


def open_engine(url: str) -> Engine:
    """Return an engine whose commits are on disk when they return."""
    address = make_url(url)
    if address.drivername == "postgresql":
        address = address.set(drivername="postgresql+psycopg")
    if address.get_backend_name() == "sqlite":
        name = address.database or ":memory:"
        if name == ":memory:" or name.startswith("file:"):
            raise SettingsError("database must be a file: what is in memory would be lost.")
        # By its real name: a symbolic link must not change which file is locked.
        address = address.set(database=os.path.realpath(name))
        engine, durable = create_engine(address, **_POOL), _durable_sqlite
    else:
        silence = {name: value for name, value in _NETWORK.items() if name not in address.query}
        engine, durable = create_engine(address, connect_args=silence, **_POOL), _durable_postgres
    event.listen(engine, "connect", durable)
    return engine


_POOL: dict[str, Any] = {"pool_size": 5, "max_overflow": 10, "pool_pre_ping": True}


def _durable_sqlite(connection: Any, _: Any) -> None:
    cursor = connection.cursor()
    for pragma in (
        "journal_mode=WAL",
        "synchronous=FULL",
        "busy_timeout=10000",
        "foreign_keys=ON",
    ):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _durable_postgres(connection: Any, _: Any) -> None:
    connection.autocommit = True
    with connection.cursor() as cursor:
        if cursor.execute("SHOW fsync").fetchone() == ("off",):
            raise SettingsError("PostgreSQL runs with fsync = off: it would lose what it commits.")
        if cursor.execute("SHOW synchronous_commit").fetchone() == ("off",):
            cursor.execute("SET synchronous_commit = on")
    connection.autocommit = False


class Lock:
    """This process's sole right to a database, until ``release``."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._file: int | None = None
        self._session: Connection | None = None
        end = time.monotonic() + _PATIENCE
        while not self._take():
            if time.monotonic() > end:
                raise SettingsError("Another server has this database open.")
            time.sleep(0.1)

    def _take(self) -> bool:
        return self._take_file() if self._engine.dialect.name == "sqlite" else self._take_session()

    def _take_file(self) -> bool:
        import fcntl

        if self._file is None:
            path = str(self._engine.url.database)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
            if os.fstat(self._file).st_nlink > 1:
                raise SettingsError(
                    f"{path} has a second name (a hard link). SQLite keeps a log by name, so what "
                    "was written under one would be missing under the other: remove one."
                )
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            # It stays open: closing any descriptor drops the locks SQLite has in this process.
            return False
        return True

    def _take_session(self) -> bool:
        session = self._engine.connect().execution_options(isolation_level="AUTOCOMMIT")
        session.detach()  # from the pool: closed is closed, and the lock gone
        try:
            taken = bool(session.execute(select(func.pg_try_advisory_lock(_LOCK))).scalar())
        except BaseException:
            session.close()
            raise
        if taken:
            self._session = session
        else:
            session.close()
        return taken

    def keep(self) -> bool:
        """Take the lock again if its connection was lost; return whether it is ours."""
        if self._engine.dialect.name == "sqlite":
            return True
        if self._session is not None:
            try:
                self._session.execute(text("SELECT 1"))
                return True
            except Exception:
                self.release()
        return self._take_session()

    def release(self) -> None:
        """Let others in."""
        file, session, self._file, self._session = self._file, self._session, None, None
        if file is not None:
            os.close(file)
        if session is not None:
            with contextlib.suppress(Exception):
                session.close()


class Store:
    """Reads; all writing is the writer's."""

    def __init__(self, url: str) -> None:
        try:
            self.engine = open_engine(url)
            self.lock = Lock(self.engine)
            self._check_age()
            tables.create_all(self.engine)
            self.epoch = self._take_over()
        except SettingsError:
            raise
        except Exception as error:  # drivers raise what they like
            raise SettingsError(f"The database cannot be opened: {error}") from error

    def _check_age(self) -> None:
        there = inspect(self.engine)
        for table in (log, keys, predictions):
            if there.has_table(table.name) and not there.get_foreign_keys(table.name):
                raise SettingsError(
                    "This database was made before the first release and lacks foreign keys. "
                    "Export its models with the version that made it, and import them into a "
                    "new database."
                )

    def _take_over(self) -> int:
        """Raise the epoch: from here on no earlier server can write."""
        with self.engine.begin() as connection:
            if self.engine.dialect.name == "postgresql":
                connection.execute(text("SET LOCAL lock_timeout = '10s'"))
            raised = update(owner).values(epoch=owner.c.epoch + 1)
            if connection.execute(raised).rowcount == 0:
                connection.execute(insert(owner).values(id=1, epoch=1))
            return int(connection.execute(select(owner.c.epoch)).scalar_one())

    def close(self) -> None:
        """Close every connection and let others in."""
        self.engine.dispose()
        self.lock.release()

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

    def exists(self, model: int) -> bool:
        """Return whether a model is there."""
        with self.engine.connect() as connection:
            return (
                connection.execute(select(models.c.id).where(models.c.id == model)).first()
                is not None
            )

    def records_after(self, model: int, seq: int) -> Iterator[tuple[int, bytes]]:
        """Yield the records of a model's log after one of them."""
        query = select(log.c.seq, log.c.data).where(log.c.model == model, log.c.seq > seq)
        with self.engine.connect().execution_options(yield_per=_AT_ONCE) as connection:
            for row in connection.execute(query.order_by(log.c.seq)):
                yield int(row.seq), bytes(row.data)

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
        with self.engine.connect().execution_options(yield_per=_AT_ONCE) as connection:
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
        query = select(*columns).where(predictions.c.model == model)
        found = {}
        with self.engine.connect() as connection:
            for start in range(0, len(batches), _CHUNK):
                chunk = predictions.c.id.in_(batches[start : start + _CHUNK])
                for row in connection.execute(query.where(chunk)):
                    found[row.id] = (int(row.rows), bytes(row.features), bytes(row.spent))
        return found

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
