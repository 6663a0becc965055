"""What a check of a flag file reports."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    """An error keeps the file from being adopted; a warning does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, where (a JSON path), what it does, and what to do about it."""

    severity: Severity
    where: str
    what: str
    fix: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.where}: {self.what}. {self.fix}."


def error(where: str, what: str, fix: str) -> Finding:
    return Finding(Severity.ERROR, where, what, fix)


def warning(where: str, what: str, fix: str) -> Finding:
    return Finding(Severity.WARNING, where, what, fix)


def errors_of(findings: list[Finding]) -> list[Finding]:
    """Those that keep the file from being adopted."""
    return [finding for finding in findings if finding.severity is Severity.ERROR]
