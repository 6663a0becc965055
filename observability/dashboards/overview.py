"""Are questions answered, how fast, and where does the time go?"""

from __future__ import annotations

from observability import names
from observability.dashboards.grafana import (
    Dashboard,
    Panel,
    Row,
    Unit,
    View,
    graph,
    number,
    stacked,
)
from observability.dashboards.queries import (
    Query,
    mean,
    per_second,
    percentile,
    percentiles,
    series,
    share,
)
from observability.dashboards.shared import FIRST_TOKEN, MARKS, kill_switch

OK = 'outcome="ok"'
ERROR = 'outcome="error"'
ENDED = 'outcome=~"ok|error"'
"""A client that leaves is no error and no success."""

FIRING = Query(
    'count by (alertname, severity) (ALERTS{alertname=~"Framegate.+",alertstate="firing"})'
)
UP = Query(f"count ({series('up')} == 1) or vector(0)", "up")

NOW = Row(
    "Now",
    (
        number("Gateways up", "Gateways that Prometheus reaches.", Unit.COUNT, UP),
        number(
            "Answers",
            "Answers that ended, a second.",
            Unit.PER_SECOND,
            per_second(names.ANSWERS),
        ),
        number(
            "Errors",
            "Share of the answers that failed; clients that left do not count.",
            Unit.SHARE,
            share(
                per_second(names.ANSWERS, where=ERROR),
                per_second(names.ANSWERS, where=ENDED),
                legend="errors",
            ),
            red_from=0.05,
        ),
        number(
            "Answer p95",
            "From the request to the last token, of answers that succeeded.",
            Unit.SECONDS,
            percentile(names.ANSWER_DURATION, 0.95, where=OK),
        ),
        number(
            "First token p95",
            "From the request to the first token.",
            Unit.SECONDS,
            percentile(names.ANSWER_TIME_TO_FIRST_TOKEN, 0.95),
        ),
        kill_switch(),
        Panel(
            "Alerts that fire",
            "docs/runbook.md explains each.",
            Unit.COUNT,
            (FIRING,),
            View.TABLE,
            width=6,
            height=4,
        ),
    ),
)

ANSWERS = Row(
    "Answers",
    (
        stacked(
            "Answers by outcome",
            "`cancelled`: the client left or a deadline ended the answer.",
            Unit.PER_SECOND,
            per_second(names.ANSWERS, by="outcome"),
        ),
        graph(
            "Answer time",
            "From the request to the last token, of answers that succeeded.",
            Unit.SECONDS,
            *percentiles(names.ANSWER_DURATION, where=OK),
        ),
        FIRST_TOKEN,
    ),
)

STAGES = Row(
    "Stages",
    (
        graph(
            "p95 of each stage",
            "Which stage is slow. Decode and index run once a video, not once a question.",
            Unit.SECONDS,
            percentile(names.STAGE_DURATION, 0.95, by="stage"),
        ),
        stacked(
            "Time spent by stage",
            "Seconds a second, all requests together: how many are in each stage on average.",
            Unit.COUNT,
            per_second(names.STAGE_DURATION, by="stage", of="_sum"),
        ),
        graph(
            "Stages that failed",
            "Where errors come from. A failed sampler is no failed stage: `uniform` steps in.",
            Unit.PER_SECOND,
            per_second(names.STAGE_DURATION, by="stage", where=ERROR),
        ),
    ),
)

COST = Row(
    "Cost of an answer",
    (
        graph(
            "Vision tokens an answer",
            "Before and after the token reducer.",
            Unit.COUNT,
            mean(names.ANSWER_VISION_TOKENS, by="when"),
            width=12,
        ),
        graph(
            "Encoder device-seconds an answer",
            "0 for an answer whose features and tokens were all stored.",
            Unit.SECONDS,
            mean(names.ANSWER_ENCODER_DEVICE_SECONDS),
            width=12,
        ),
    ),
)

OVERVIEW = Dashboard(
    "framegate-overview",
    "Framegate / Overview",
    "Are questions answered, how fast, and where does the time go?",
    (NOW, ANSWERS, STAGES, COST),
    marks=MARKS,
)
