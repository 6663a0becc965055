"""The files of deploy/, read."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.architecture.source_tree import ROOT

DEPLOY = ROOT / "deploy"
COMPOSE = DEPLOY / "compose.yaml"
PROMETHEUS = DEPLOY / "prometheus" / "prometheus.yaml"
ALERTS = DEPLOY / "prometheus" / "alerts.yaml"
RUNBOOK = ROOT / "docs" / "runbook.md"


@dataclass(frozen=True)
class Alert:
    name: str
    expression: str
    labels: dict[str, str]
    annotations: dict[str, str]


def read_yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text())


def alerts() -> list[Alert]:
    """Every alert rule, in the file's order."""
    return [
        Alert(rule["alert"], rule["expr"], rule["labels"], rule["annotations"])
        for group in read_yaml(ALERTS)["groups"]
        for rule in group["rules"]
    ]


def program(name: str) -> str:
    """The path of promtool or prometheus; skips the test where it is absent."""
    path = shutil.which(name)
    if path is None:
        pytest.skip(f"{name} is not installed (Debian's package `prometheus` holds it)")
    return path
