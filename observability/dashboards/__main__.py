"""Writes the dashboards as JSON beside this file: `python -m observability.dashboards`."""

from __future__ import annotations

import json
from pathlib import Path

from observability import names
from observability.dashboards.grafana import Dashboard, document
from observability.dashboards.index import INDEX
from observability.dashboards.llm import LLM
from observability.dashboards.overview import OVERVIEW
from observability.dashboards.processes import PROCESSES
from observability.dashboards.rollout import ROLLOUT
from observability.dashboards.samplers import SAMPLERS

DASHBOARDS: tuple[Dashboard, ...] = (OVERVIEW, SAMPLERS, ROLLOUT, INDEX, LLM, PROCESSES)


def rendered() -> dict[str, str]:
    """File name -> content of every dashboard."""
    return {f"{dashboard.uid}.json": _json(dashboard) for dashboard in DASHBOARDS}


def _json(dashboard: Dashboard) -> str:
    # The kill switch is a gauge, so every gateway exports it from its first second on.
    return json.dumps(document(dashboard, names.KILL_SWITCH_ON), indent=1) + "\n"


def write(folder: Path) -> None:
    for name, text in rendered().items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    write(Path(__file__).parent)
