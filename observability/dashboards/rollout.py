"""What do the flags say, who is dealt to which arm, and what does the shadow find?"""

from __future__ import annotations

from observability import names, rollout_names, shadow_names
from observability.dashboards.grafana import (
    Dashboard,
    Marks,
    Row,
    Unit,
    Variable,
    graph,
    number,
    stacked,
)
from observability.dashboards.queries import (
    Query,
    gauge,
    in_five_minutes,
    increase,
    mean,
    per_second,
    percentile,
)
from observability.dashboards.shared import (
    CHOSEN,
    FALLBACK_SHARE,
    MARKS,
    SELECTION_P99,
    kill_switch,
)

FLAGS = Row(
    "Flags",
    (
        kill_switch(),
        number(
            "Flags refused",
            "1: the flag file is not obeyed, the last good flags stay in force.",
            Unit.COUNT,
            gauge(names.FLAGS_REFUSED),
            red_from=1,
        ),
        stacked(
            "Decisions by reason",
            "`split` is the rollout's rule; `error`: broken flags, so `uniform` answers.",
            Unit.PER_SECOND,
            per_second(names.FLAGS_EVALUATIONS, by="reason"),
            width=10,
        ),
        graph(
            "Alarms",
            "In the last five minutes: flag content refused, or not readable.",
            Unit.COUNT,
            in_five_minutes(names.FLAGS_ALARMS),
        ),
    ),
)

STAGES = Row(
    "The rollout that is not over",
    (
        number(
            "Weight",
            "The candidate's weight in percent; 0 where there is no rollout.",
            Unit.COUNT,
            gauge(rollout_names.ROLLOUT_WEIGHT),
        ),
        number(
            "Stage",
            "1, 2, ...; 0 where there is no rollout.",
            Unit.COUNT,
            gauge(rollout_names.ROLLOUT_STAGE),
        ),
        graph(
            "Weight and state",
            "The weight in percent, and 1 for the state; `paused` waits for a person.",
            Unit.COUNT,
            gauge(rollout_names.ROLLOUT_WEIGHT),
            gauge(rollout_names.ROLLOUT_STATE, by="state"),
            width=9,
        ),
        graph(
            "Steps",
            "In the last five minutes, by the controller or by command.",
            Unit.COUNT,
            in_five_minutes(rollout_names.ROLLOUT_STEPS, by="kind"),
            width=9,
        ),
        graph(
            "Guards that do not pass",
            "In the last five minutes. `fail` rolls back; `inconclusive` holds, dry ones too.",
            Unit.COUNT,
            in_five_minutes(
                rollout_names.ROLLOUT_GUARD_VERDICTS,
                by="figure, verdict",
                where='verdict=~"fail|inconclusive"',
            ),
            width=12,
        ),
        graph(
            "Guards asked, and looks that failed",
            "In the last five minutes. A running rollout whose guards are not asked is unwatched.",
            Unit.COUNT,
            in_five_minutes(rollout_names.ROLLOUT_GUARD_VERDICTS),
            in_five_minutes(rollout_names.ROLLOUT_LOOK_FAILURES),
            width=12,
        ),
    ),
)

SHADOW_LOAD = Row(
    "Shadow: how much",
    (
        stacked(
            "Comparisons",
            "Of answers by the flag's sampler with those of the shadow's, or with itself (`a_a`).",
            Unit.PER_SECOND,
            per_second(shadow_names.SHADOW_COMPARISONS, by="kind, outcome", where=CHOSEN),
        ),
        stacked(
            "Comparisons not made",
            "The shadow is shed first; answers are not affected.",
            Unit.PER_SECOND,
            per_second(shadow_names.SHADOW_SHED, by="reason"),
        ),
        graph(
            "Waiting comparisons and restarts",
            "The queue, and how often the shadow's process was replaced in five minutes.",
            Unit.COUNT,
            gauge(shadow_names.SHADOW_QUEUE),
            in_five_minutes(shadow_names.SHADOW_PROCESS_RESTARTS),
        ),
        graph(
            "Failures in shadow",
            "In the last five minutes. No user saw them.",
            Unit.COUNT,
            in_five_minutes(names.SHADOW_FAILURES, by="sampler, kind", where=CHOSEN),
        ),
        graph(
            "Selection time p95",
            "In the shadow's process, which is niced: compare the sides with each other only.",
            Unit.SECONDS,
            percentile(
                shadow_names.SHADOW_SELECTION_DURATION, 0.95, by="sampler, side", where=CHOSEN
            ),
        ),
        stacked(
            "Answers from the shadow's frames",
            "Made at a rate of their own, and shed while users wait.",
            Unit.PER_SECOND,
            per_second(shadow_names.SHADOW_ANSWERS, by="outcome"),
        ),
    ),
)

STEP_MARKS = Marks(
    "Rollout step",
    Query(f"{increase(rollout_names.ROLLOUT_STEPS, '1m', by='kind')} > 0", "{{kind}}"),
    "blue",
)

SHADOW_DIFFERENCES = Row(
    "Shadow: what differs (a_a is the noise floor)",
    (
        graph(
            "Relevance",
            "Mean cosine of the chosen frames with the question; not accuracy, no guard alone.",
            Unit.COUNT,
            mean(shadow_names.SHADOW_RELEVANCE, by="sampler, side", where=CHOSEN),
            width=6,
        ),
        graph(
            "Overlap",
            "Share of the frames, within the tolerance, that both sides chose.",
            Unit.SHARE,
            mean(shadow_names.SHADOW_OVERLAP, by="sampler, kind", where=CHOSEN),
            width=6,
        ),
        graph(
            "Distance in time",
            "Mean distance of the two sides' frames, matched in order.",
            Unit.SECONDS,
            mean(shadow_names.SHADOW_TEMPORAL_DISTANCE, by="sampler, kind", where=CHOSEN),
            width=6,
        ),
        graph(
            "Agreement of the answers",
            "Where the shadow's frames were answered too.",
            Unit.SHARE,
            mean(shadow_names.SHADOW_AGREEMENT, by="sampler, kind", where=CHOSEN),
            width=6,
        ),
    ),
)

ARMS = Row("The arms beside each other", (SELECTION_P99, FALLBACK_SHARE))

ROLLOUT = Dashboard(
    "framegate-rollout",
    "Framegate / Rollout and shadow",
    "What do the flags say, who is dealt to which arm, and what does the shadow find?",
    (FLAGS, STAGES, ARMS, SHADOW_LOAD, SHADOW_DIFFERENCES),
    variables=(Variable("sampler", names.SAMPLER_SELECTIONS),),
    marks=(*MARKS, STEP_MARKS),
)
