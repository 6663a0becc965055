"""The metrics of the scoring model: what samplers ask of it while answers wait; `names` lists them
with the rest. What is asked in shadow counts under `framegate.shadow.*`."""

from __future__ import annotations

from observability.metric import SECONDS_BUCKETS, Kind, Label, Metric

SCORER_CALLS = Metric(
    "framegate.scorer.calls",
    Kind.COUNTER,
    "{call}",
    "Calls of the scoring model; `retry` repeats one that failed.",
    (Label("attempt", ("first", "retry")),),
)
SCORER_TOKENS = Metric(
    "framegate.scorer.tokens",
    Kind.COUNTER,
    "{token}",
    "Tokens read and written by the scoring model.",
    (Label("kind", ("input", "output")),),
)
SCORER_WAIT = Metric(
    "framegate.scorer.wait",
    Kind.HISTOGRAM,
    "s",
    "Time that one selection waited for the scoring model; 0 when all scores were known.",
    (),
    (0.0, *SECONDS_BUCKETS),
)
SCORER_BREAKER_OPENINGS = Metric(
    "framegate.scorer.breaker_openings",
    Kind.COUNTER,
    "{opening}",
    "Times that a selection process gave the scoring model up for a while.",
)
SCORER_BREAKER_REFUSALS = Metric(
    "framegate.scorer.breaker_refusals",
    Kind.COUNTER,
    "{question}",
    "Questions that were not sent because the scoring model had been given up.",
)

SCORER_METRICS = (
    SCORER_CALLS,
    SCORER_TOKENS,
    SCORER_WAIT,
    SCORER_BREAKER_OPENINGS,
    SCORER_BREAKER_REFUSALS,
)
