"""A real server in a process of its own, to be asked, watched and killed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path


class Server:
    """``python -m swordplay.service serve`` on a free port of the loopback.

    ``until`` is what must answer before it counts as started; None: nothing, see ``listen``.
    """

    def __init__(self, database, *, until="/ready", **settings):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SWORDPLAY_")}
        port = str(settings.pop("port", 0))
        environment |= {f"SWORDPLAY_{name.upper()}": str(v) for name, v in settings.items()}
        self.url = None
        self.log = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the server
        command = [sys.executable, "-m", "swordplay.service", "serve"]
        self.process = subprocess.Popen(
            [*command, "--port", port, "--database", database],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
        )
        if until is not None:
            self.listen()
            self.wait(until)

    def listen(self):
        """Wait until it says where it listens."""
        line = self.process.stdout.readline()
        found = re.search(r"http://\S+:(\d+)/", line)
        if not found:
            self.process.wait(timeout=30)
            raise RuntimeError(f"no server: {line} {self.logged}")
        self.port = int(found[1])
        self.url = f"http://127.0.0.1:{self.port}"

    def wait(self, path, seconds=180):
        """Wait until a path answers with success."""
        end = time.monotonic() + seconds  # the first start on a machine compiles
        while time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"{self.url}{path}", timeout=10):
                    return
            except (urllib.error.URLError, OSError):
                if self.process.poll() is not None:
                    raise RuntimeError(f"the server died: {self.logged}") from None
                time.sleep(0.02)
        raise RuntimeError(f"the server is not ready: {self.logged}")

    @property
    def logged(self):
        self.log.flush()
        return Path(f"/proc/self/fd/{self.log.fileno()}").read_text()

    @property
    def memory(self):
        """Return resident bytes."""
        pages = Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")

    def kill(self):
        """End it on the spot. What it gave to the system to write is still written."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """Ask it to stop; return its exit code."""
        self.process.terminate()
        return self.process.wait(timeout=60)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.kill()
        self.process.stdout.close()
        self.log.close()


def postgres_binaries():
    """Return the folder with all the programs of PostgreSQL that we need, or None."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    folders += [Path(found).parent for found in [shutil.which("initdb")] if found]
    needed = ("initdb", "postgres", "pg_isready", "createdb")
    return next((f for f in folders if all((f / name).exists() for name in needed)), None)


@contextlib.contextmanager
def postgres(folder):
    """Run a PostgreSQL of our own on the loopback; give a function that makes databases.

    The function's ``restart`` ends the server at once and starts it again; ``stop`` and ``start``
    are its halves.
    """
    import socket

    binaries, folder = postgres_binaries(), Path(folder)
    # PostgreSQL refuses to run as root: then it runs as the user that its package brings.
    as_user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"]
    prefix = as_user if os.geteuid() == 0 else []
    if prefix:
        shutil.chown(folder, "postgres", "postgres")
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port = one.getsockname()[1]
    data, quiet = folder / "data", {"stdout": subprocess.DEVNULL, "check": True, "cwd": "/"}
    make = [binaries / "initdb", "-D", data, "-U", "sword", "--auth=trust", "-E", "UTF8"]
    subprocess.run([*prefix, *make], **quiet)
    command = [
        *(*prefix, binaries / "postgres", "-D", data, "-p", str(port)),
        *("-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}"),
    ]
    process = None

    def start():
        nonlocal process
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL, cwd="/")
        ready = [binaries / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)]
        end = time.monotonic() + 60
        while subprocess.run(ready, check=False).returncode:
            if time.monotonic() > end or process.poll() is not None:
                raise RuntimeError("PostgreSQL did not start")
            time.sleep(0.1)

    def stop(how=signal.SIGQUIT):  # immediate: as after a crash, it recovers when it starts
        process.send_signal(how)
        process.wait(timeout=60)

    def restart():
        stop()
        start()

    try:
        start()

        def database(name):
            at = ["-h", "127.0.0.1", "-p", str(port), "-U", "sword"]
            subprocess.run([binaries / "createdb", *at, name], **quiet)
            return f"postgresql://sword@127.0.0.1:{port}/{name}"

        database.start, database.stop, database.restart = start, stop, restart
        yield database
    finally:
        if process.poll() is None:
            stop(signal.SIGINT)  # a fast stop


def why_no_postgres():
    """Return why tests cannot have a PostgreSQL, or an empty string."""
    if postgres_binaries() is None:
        return "PostgreSQL is not installed here"
    if os.geteuid() == 0:
        import pwd

        try:
            pwd.getpwnam("postgres")
        except KeyError:
            return "PostgreSQL does not run as root, and there is no user postgres"
    return ""


def arrow(**columns):
    """Return an Arrow stream, as clients send them."""
    import pyarrow as pa

    table, sink = pa.table(columns), pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    return sink.getvalue().to_pybytes()
