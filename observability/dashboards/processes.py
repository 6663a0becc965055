"""Does everything run, and with how much?"""

from __future__ import annotations

from observability import names
from observability.dashboards.grafana import Dashboard, Panel, Row, Unit, View, graph
from observability.dashboards.queries import Query, in_five_minutes, series
from observability.dashboards.shared import MARKS

INSTANCE = "{{instance}}"

CHILDREN = Row(
    "Child processes",
    (
        graph(
            "Restarts",
            "Of processes that died, in the last five minutes.",
            Unit.COUNT,
            in_five_minutes(names.PROCESS_RESTARTS, by="process"),
            width=12,
        ),
        graph(
            "Age of the gateway",
            "Time since the gateway process started; back to 0 at each of its own restarts.",
            Unit.SECONDS,
            Query(f"time() - {series('process_start_time_seconds')}", INSTANCE),
            width=12,
        ),
    ),
)

GATEWAY = Row(
    "Gateway process",
    (
        graph(
            "CPU",
            "Cores used, without encoder, language model and decode workers.",
            Unit.COUNT,
            Query(f"rate({series('process_cpu_seconds_total')}[$__rate_interval])", INSTANCE),
        ),
        graph(
            "Memory",
            "Resident; features kept in memory (FRAMEGATE_FEATURE_CACHE_BYTES) are part of it.",
            Unit.BYTES,
            Query(series("process_resident_memory_bytes"), INSTANCE),
        ),
        graph(
            "Open files",
            "Share of the files and sockets that the process may open.",
            Unit.SHARE,
            Query(f"{series('process_open_fds')} / {series('process_max_fds')}", INSTANCE),
        ),
        graph(
            "Scrape time",
            "What Prometheus waits for /metrics.",
            Unit.SECONDS,
            Query(series("scrape_duration_seconds"), INSTANCE),
            width=12,
        ),
        Panel(
            "Versions",
            "Name and version of each gateway.",
            Unit.COUNT,
            (Query(f"max by (instance, service_name, service_version) ({series('target_info')})"),),
            View.TABLE,
            width=12,
        ),
    ),
)

PROCESSES = Dashboard(
    "framegate-processes",
    "Framegate / Processes",
    "Does everything run, and with how much?",
    (CHILDREN, GATEWAY),
    marks=MARKS,
)
