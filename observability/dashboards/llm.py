"""Is the language model there, and how much does it read and write?"""

from __future__ import annotations

from observability import names
from observability.dashboards.grafana import Dashboard, Row, Unit, graph, stacked
from observability.dashboards.queries import in_five_minutes, per_second, percentiles
from observability.dashboards.shared import FIRST_TOKEN, MARKS

GENERATE = 'stage="generate"'

ROW = Row(
    "Language model",
    (
        graph(
            "Generation time",
            "The stage `generate`: from the call to the last token.",
            Unit.SECONDS,
            *percentiles(names.STAGE_DURATION, where=GENERATE),
        ),
        FIRST_TOKEN,
        stacked(
            "Generations by outcome",
            "`error`: the model was away, too slow, or its stream broke.",
            Unit.PER_SECOND,
            per_second(names.STAGE_DURATION, by="outcome", where=GENERATE),
        ),
        graph(
            "Tokens",
            "Read (`input`) and written (`output`).",
            Unit.PER_SECOND,
            per_second(names.LLM_TOKENS, by="kind"),
        ),
        graph(
            "Calls without a language model",
            "In the last five minutes; each was an error for its user.",
            Unit.COUNT,
            in_five_minutes(names.LLM_UNAVAILABLE),
        ),
        graph(
            "Generations stopped",
            "In the last five minutes, because the client left.",
            Unit.COUNT,
            in_five_minutes(names.GENERATIONS_CANCELLED),
        ),
    ),
)

LLM = Dashboard(
    "framegate-llm",
    "Framegate / LLM",
    "Is the language model there, and how much does it read and write?",
    (ROW,),
    marks=MARKS,
)
