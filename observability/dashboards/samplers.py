"""Which samplers select, how often do they fail, and how long do they take?"""

from __future__ import annotations

from observability import names
from observability.dashboards.grafana import Dashboard, Row, Unit, Variable, graph, stacked
from observability.dashboards.queries import (
    in_five_minutes,
    per_second,
    percentile,
    percentiles,
)
from observability.dashboards.shared import CHOSEN, FALLBACK_SHARE, MARKS, SELECTION_P99

USE = Row(
    "Selections",
    (
        stacked(
            "Selections",
            "Selections that were used; `uniform` also where it stood in for another sampler.",
            Unit.PER_SECOND,
            per_second(names.SAMPLER_SELECTIONS, by="sampler", where=CHOSEN),
            width=12,
        ),
        FALLBACK_SHARE,
    ),
)

FAILURES = Row(
    "Failures",
    (
        graph(
            "Failures by kind",
            "In the last five minutes. `dependency` is no fault of the sampler's own.",
            Unit.COUNT,
            in_five_minutes(names.SAMPLER_FAILURES, by="kind", where=CHOSEN),
        ),
        graph(
            "Failures by sampler",
            "In the last five minutes.",
            Unit.COUNT,
            in_five_minutes(names.SAMPLER_FAILURES, by="sampler", where=CHOSEN),
        ),
        graph(
            "Fallbacks",
            "In the last five minutes: answers whose frames `uniform` chose instead.",
            Unit.COUNT,
            in_five_minutes(names.SAMPLER_FALLBACKS, by="sampler", where=CHOSEN),
        ),
    ),
)

TIME = Row(
    "Time of one selection",
    (
        graph(
            "Selection time p50",
            "Waiting for a thread included.",
            Unit.SECONDS,
            percentile(names.SAMPLER_DURATION, 0.5, by="sampler", where=CHOSEN),
            width=12,
        ),
        SELECTION_P99,
        graph(
            "The chosen samplers together",
            "Waiting for a thread included.",
            Unit.SECONDS,
            *percentiles(names.SAMPLER_DURATION, where=CHOSEN),
            width=24,
        ),
    ),
)

SAMPLERS = Dashboard(
    "framegate-samplers",
    "Framegate / Samplers",
    "Which samplers select, how often do they fail, and how long do they take?",
    (USE, FAILURES, TIME),
    variables=(Variable("sampler", names.SAMPLER_SELECTIONS),),
    marks=MARKS,
)
