"""Which processes the service consists of, as a file: the supervisor writes it, anyone reads it."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

TABLE_NAME = "processes.json"


class ServiceState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    RESTARTING = "restarting"
    STOPPED = "stopped"


class ProcessName(BaseModel):
    """Names one process of one boot: pids are used again, start times are not."""

    model_config = ConfigDict(frozen=True)

    pid: int
    start_ticks: int
    """Clock ticks from boot to the start of the process."""


class ServiceRow(BaseModel):
    """One service as it is now."""

    model_config = ConfigDict(frozen=True)

    name: str
    state: ServiceState
    address: str
    since: float
    """Seconds since the epoch: when the state was entered."""
    restarts: int = 0
    last_end: str | None = None
    """How the process before this one ended."""
    guardian: ProcessName | None = None
    leader: ProcessName | None = None
    """The service's first process; its pid is also the id of its group and session."""

    @property
    def text(self) -> str:
        """For people: the state, and what happened to it."""
        if not self.restarts:
            return self.state
        return f"{self.state}; started again {self.restarts} x, the last one {self.last_end}"


class ProcessTable(BaseModel):
    model_config = ConfigDict(frozen=True)

    world: str
    """Boot and pid namespace in which the pids mean something."""
    supervisor: ProcessName
    services: tuple[ServiceRow, ...]

    def service(self, name: str) -> ServiceRow | None:
        return next((row for row in self.services if row.name == name), None)


def read_process_table(path: Path) -> ProcessTable | None:
    """None when there is no table, or none that can be read. Never a half-written one."""
    try:
        return ProcessTable.model_validate_json(path.read_bytes())
    except (OSError, ValidationError):
        return None


def read_service_rows(path: Path) -> dict[str, ServiceRow]:
    """The services by name; empty without a table, as where nobody supervises."""
    table = read_process_table(path)
    return {} if table is None else {row.name: row for row in table.services}


def write_process_table(path: Path, table: ProcessTable) -> None:
    """Under a temporary name, then renamed: a reader finds the old or the new table."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(table.model_dump_json(indent=1), encoding="utf-8")
    temporary.replace(path)
