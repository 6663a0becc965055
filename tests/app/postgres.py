"""A real PostgreSQL of the test's own, from a wheel."""

from __future__ import annotations

import atexit
import importlib
import logging
import os
import shutil
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from sqlalchemy import create_engine, make_url

if TYPE_CHECKING:
    from pgserver.postgres_server import PostgresServer

START_TIMEOUT_S = 30.0


class Postgres:
    """One running server. Every test has a database of its own in it."""

    def __init__(self, server: PostgresServer) -> None:
        self._server = server

    def new_database(self) -> str:
        """The address of an empty database."""
        name = f"ledger_{uuid.uuid4().hex}"
        url = make_url(self._server.get_uri()).set(drivername="postgresql+psycopg")
        engine = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(f'CREATE DATABASE "{name}"')
        engine.dispose()
        return url.set(drivername="postgresql", database=name).render_as_string(False)

    def kill(self) -> None:
        """`kill -9` of the postmaster, and of the processes that it leaves behind."""
        postmaster = psutil.Process(self._server.get_pid())
        processes = [postmaster, *postmaster.children(recursive=True)]
        for process in processes:
            process.kill()
        psutil.wait_procs(processes, START_TIMEOUT_S)

    def start_again(self) -> None:
        """On the same data; it recovers from its log."""
        deadline = time.monotonic() + START_TIMEOUT_S
        while True:
            try:
                self._server.ensure_postgres_running()
            except subprocess.CalledProcessError:
                # The killed server's memory may not be free yet.
                assert time.monotonic() < deadline, "PostgreSQL does not start again"
                time.sleep(0.2)
            else:
                return


@contextmanager
def running_postgres() -> Iterator[Postgres]:
    """Skips the test, with the reason, where no server can be started."""
    # Short: the path of its socket has a limit. Beside the tests' own folders, which another
    # user, as whom it runs for root, may not enter.
    folder = Path(tempfile.mkdtemp(prefix="framegate-postgres-"))
    # The same for every run: pgserver keeps the first one that it sees, and its lock there.
    runtime = Path(tempfile.gettempdir()) / f"framegate-pgserver-{os.getuid()}"
    runtime.mkdir(mode=0o700, exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_RUNTIME_DIR", str(runtime))  # platformdirs warns without one
        server = _started(folder)
    try:
        yield Postgres(server)
    finally:
        server.cleanup()
        atexit.unregister(server._cleanup)  # it would make its lock again
        shutil.rmtree(folder, ignore_errors=True)


def _started(folder: Path) -> PostgresServer:
    try:
        # Not at the top: it looks for its runtime folder when it is imported.
        pgserver = importlib.import_module("pgserver")
        # It goes on talking at the interpreter's end, when nobody can listen.
        logging.getLogger("pgserver").setLevel(logging.WARNING)
        server: PostgresServer = pgserver.get_server(folder / "data")
    except (ImportError, OSError, subprocess.SubprocessError) as exc:
        pytest.skip(f"needs PostgreSQL (extra `dev`): {exc}")
    return server
