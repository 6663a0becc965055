"""Which samplers select, how often do they fail, and how long do they take?"""

from __future__ import annotations

from observability import names, scorer_names, shadow_names
from observability.dashboards.grafana import Dashboard, Row, Unit, Variable, graph, stacked
from observability.dashboards.queries import (
    in_five_minutes,
    per_second,
    percentile,
    percentiles,
    share,
)
from observability.dashboards.shared import CHOSEN, FALLBACK_SHARE, MARKS, SELECTION_P99

SCORES = 'cache="model_scores"'

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

MODEL = Row(
    "Scoring model",
    (
        stacked(
            "Calls",
            "Of the vision-language model that some samplers ask; `retry` repeats a failed one.",
            Unit.PER_SECOND,
            per_second(scorer_names.SCORER_CALLS, by="attempt"),
        ),
        graph(
            "Tokens",
            "Read (`input`) and written (`output`) by that model.",
            Unit.PER_SECOND,
            per_second(scorer_names.SCORER_TOKENS, by="kind"),
        ),
        graph(
            "Scores that were known",
            "Share of the scores that needed no call.",
            Unit.SHARE,
            share(
                per_second(names.CACHE_LOOKUPS, where=f'{SCORES},result="hit"'),
                per_second(names.CACHE_LOOKUPS, where=SCORES),
                legend="known",
            ),
        ),
        graph(
            "Time that a selection waits for the model",
            "Failed selections included.",
            Unit.SECONDS,
            *percentiles(scorer_names.SCORER_WAIT),
        ),
        graph(
            "Given up",
            "In the last five minutes: how often the model was given up for a while, and the "
            "questions that were not sent because of that.",
            Unit.COUNT,
            in_five_minutes(scorer_names.SCORER_BREAKER_OPENINGS),
            in_five_minutes(scorer_names.SCORER_BREAKER_REFUSALS),
        ),
        graph(
            "In shadow",
            "Calls and tokens of the same model for comparisons.",
            Unit.PER_SECOND,
            per_second(shadow_names.SHADOW_MODEL_CALLS),
            per_second(shadow_names.SHADOW_MODEL_TOKENS),
        ),
    ),
)

SAMPLERS = Dashboard(
    "framegate-samplers",
    "Framegate / Samplers",
    "Which samplers select, how often do they fail, and how long do they take?",
    (USE, FAILURES, TIME, MODEL),
    variables=(Variable("sampler", names.SAMPLER_SELECTIONS),),
    marks=MARKS,
)
