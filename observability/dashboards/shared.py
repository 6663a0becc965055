"""What several dashboards show."""

from __future__ import annotations

from observability import names
from observability.dashboards.grafana import Marks, Panel, Unit, graph, number
from observability.dashboards.queries import (
    Query,
    gauge,
    increase,
    per_second,
    percentile,
    percentiles,
    series,
    share,
)

MARKS = (
    Marks("Kill switch on", Query(f"max ({series(names.KILL_SWITCH_ON)}) == 1"), "red"),
    Marks(
        "Process restarted",
        Query(f"{increase(names.PROCESS_RESTARTS, '1m', by='process')} > 0", "{{process}}"),
        "orange",
    ),
)

FIRST_TOKEN = graph(
    "Time to first token",
    "From the request to the first token; waiting for the index and the encoder included.",
    Unit.SECONDS,
    *percentiles(names.ANSWER_TIME_TO_FIRST_TOKEN),
)


CHOSEN = 'sampler=~"$sampler"'
"""The samplers that a dashboard's variable chooses."""

_SELECTIONS = per_second(names.SAMPLER_SELECTIONS, by="sampler", where=CHOSEN)
_FALLBACKS = per_second(names.SAMPLER_FALLBACKS, by="sampler", where=CHOSEN)

FALLBACK_SHARE = graph(
    "Share that fell back",
    "Of the selections that a sampler was asked for, those where `uniform` stood in.",
    Unit.SHARE,
    share(_FALLBACKS, _SELECTIONS, _FALLBACKS, legend="{{sampler}}"),
    width=12,
)
SELECTION_P99 = graph(
    "Selection time p99",
    "Waiting for a thread included; FRAMEGATE_SELECTION_DEADLINE_S ends a selection.",
    Unit.SECONDS,
    percentile(names.SAMPLER_DURATION, 0.99, by="sampler", where=CHOSEN),
    width=12,
)


def kill_switch() -> Panel:
    return number(
        "Kill switch",
        "1: it is on, and `uniform` answers every question.",
        Unit.COUNT,
        gauge(names.KILL_SWITCH_ON),
        red_from=1,
    )
