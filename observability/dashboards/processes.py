"""Does everything run, and with how much?"""

from __future__ import annotations

from observability import ledger_names, names
from observability.dashboards.grafana import Dashboard, Panel, Row, Unit, View, graph, stacked
from observability.dashboards.queries import Query, gauge, in_five_minutes, per_second, series
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

LEDGER = Row(
    "Ledger",
    (
        stacked(
            "Rows written",
            "Selections and shadow comparisons that the database holds for sure.",
            Unit.PER_SECOND,
            per_second(ledger_names.LEDGER_ROWS_WRITTEN, by="table"),
            width=6,
        ),
        graph(
            "Rows waiting",
            "Written at least once a second; they grow while the database is away.",
            Unit.COUNT,
            gauge(ledger_names.LEDGER_QUEUED_ROWS),
            width=6,
        ),
        graph(
            "Failed attempts to write",
            "In the last five minutes; what could not be written is tried again.",
            Unit.COUNT,
            in_five_minutes(ledger_names.LEDGER_WRITE_FAILURES),
            width=6,
        ),
        graph(
            "Rows given up",
            "In the last five minutes. Guards treat a lost selection as missing.",
            Unit.COUNT,
            in_five_minutes(ledger_names.LEDGER_ROWS_DROPPED, by="table, reason"),
            width=6,
        ),
    ),
)

PROCESSES = Dashboard(
    "framegate-processes",
    "Framegate / Processes",
    "Does everything run, and with how much?",
    (CHILDREN, GATEWAY, LEDGER),
    marks=MARKS,
)
