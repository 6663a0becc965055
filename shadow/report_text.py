"""The words of a shadow report: numbers with their units, headlines, what to switch on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from shadow.records import ComparisonKind
from shadow.report_document import GroupReport, MeasureReport, PairReport, SideFailures
from shadow.report_measures import Unit
from shadow.report_statistics import MIN_USERS

FEW_USERS = 30
NOTHING_TO_COMPARE = (
    "To compare a sampler, name it in the flag `video.sampler.shadow`, raise "
    "`video.sampler.shadow_rate` above 0, and ask questions; docs/shadow.md shows the flag file."
)
NO_A_A = (
    "A pair has no A/A line: raise FRAMEGATE_SHADOW_AA_SHARE above 0 to see how much a sampler "
    "differs from itself."
)
NO_ANSWERS = (
    "No answers were compared: raise `video.sampler.shadow_answer_rate` above 0 to have a share "
    "of the questions answered by the shadow's frames, too."
)


def value_text(value: float, unit: Unit) -> str:
    """A number with its unit, rounded for reading."""
    return _TEXTS[unit](value)


def bounds_text(low: float | None, high: float | None, unit: Unit) -> str:
    if low is None or high is None:
        return "no bounds"
    return f"{value_text(low, unit)} to {value_text(high, unit)}"


def seconds_text(seconds: float) -> str:
    """`0.4 ms`, `35 ms`, `2.4 s`, `150 s`."""
    if abs(seconds) < 0.9995:
        return f"{_rounded(1000 * seconds, 3)} ms" if seconds else "0 ms"
    return f"{_rounded(seconds, 3)} s"


def clock_text(seconds: float, *, with_tenths: bool = False) -> str:
    """Position in a video: `0:04`, `1:23:45`, with tenths `0:04.8`."""
    tenths = round(10 * seconds)
    whole, tenth = divmod(tenths, 10) if with_tenths else (round(seconds), 0)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    text = f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
    return f"{text}.{tenth}" if with_tenths else text


def count_text(count: int, noun: str) -> str:
    """`1 user`, `1,204 users`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def pair_headline(kind: ComparisonKind, control: str, shadow: str, group: GroupReport) -> str:
    """What an operator would say of this pair in three sentences."""
    named = {measure.name: measure for measure in group.measures}
    asked = f"{_comparisons(group)} of {count_text(group.num_users, 'user')}"
    if kind is ComparisonKind.A_A:
        opening = f"{control} against itself in {asked}"
    else:
        opening = f"{shadow} in the shadow of {control} in {asked}"
    findings = [
        _overlap_text(named["overlap_exact"]),
        _change_text(named["relevance_difference"], "more relevant", "less relevant"),
        _change_text(named["redundancy_difference"], "more alike", "more varied"),
        _latency_text(named["latency_ratio"]),
        _agreement_text(named["answers_agreement"]),
    ]
    said = "; ".join(finding for finding in findings if finding)
    return f"{opening}: {said or 'nothing could be compared'}. {_failures_text(group)}"


def report_headline(pairs: Sequence[PairReport]) -> str:
    if not pairs:
        return "No comparison was made in this time."
    return pairs[0].headline


def notes_of(pairs: Sequence[PairReport], num_without_user: int) -> list[str]:
    """What limits the figures, and what would lift the limit."""
    if not pairs:
        return [NOTHING_TO_COMPARE]
    notes = (
        [] if any(_is_different(pair) for pair in pairs) else [f"Only A/A. {NOTHING_TO_COMPARE}"]
    )
    if num_without_user:
        notes.append(
            f"{count_text(num_without_user, 'comparison')} came without a `user_id`; each counts "
            "as a user of its own, so the bounds may be too narrow."
        )
    fewest = min(pair.overall.num_users for pair in pairs)
    if fewest < MIN_USERS:
        notes.append(f"Bounds need at least {MIN_USERS} users.")
    elif fewest < FEW_USERS:
        notes.append(f"With fewer than {FEW_USERS} users the bounds are rough.")
    if any(_is_different(pair) and not pair.overall.num_a_a for pair in pairs):
        notes.append(NO_A_A)
    if not any(_has_answers(pair.overall) for pair in pairs):
        notes.append(NO_ANSWERS)
    return notes


def _is_different(pair: PairReport) -> bool:
    return pair.kind is ComparisonKind.SAMPLER


def _has_answers(group: GroupReport) -> bool:
    return any(m.name == "answers_agreement" and m.values is not None for m in group.measures)


def _comparisons(group: GroupReport) -> str:
    return count_text(group.num_comparisons, "comparison")


def _overlap_text(measure: MeasureReport) -> str:
    if measure.values is None:
        return ""
    floor = ""
    if measure.a_a is not None:
        floor = f" (A/A {value_text(measure.a_a.mean, measure.unit)})"
    return f"{value_text(measure.values.mean, measure.unit)} of the frames are the same{floor}"


def _change_text(measure: MeasureReport, above: str, below: str) -> str:
    """Silent where the bounds hold no difference, or A/A varies as much."""
    values = measure.values
    if values is None or values.low is None or values.high is None:
        return ""
    is_clear = values.low > 0 or values.high < 0
    if not is_clear or measure.is_beyond_noise is False:
        return f"no clear difference in {measure.label.lower()}"
    word = above if values.mean > 0 else below
    bounds = bounds_text(values.low, values.high, measure.unit)
    return f"its frames are {word} ({value_text(values.mean, measure.unit)}, {bounds})"


def _latency_text(measure: MeasureReport) -> str:
    if measure.values is None:
        return ""
    floor = ""
    if measure.a_a is not None:
        floor = f" (A/A {value_text(measure.a_a.mean, measure.unit)})"
    return f"selecting takes {value_text(measure.values.mean, measure.unit)} as long{floor}"


def _agreement_text(measure: MeasureReport) -> str:
    if measure.values is None:
        return ""
    answers = count_text(measure.values.num_comparisons, "answer")
    return f"{answers} compared, agreement {value_text(measure.values.mean, measure.unit)}"


def _failures_text(group: GroupReport) -> str:
    control, shadow = group.control_failures, group.shadow_failures
    if not control.num_failed and not shadow.num_failed:
        return "Neither side failed."
    return (
        f"The shadow failed in {_failure_text(shadow, group)}, "
        f"the control in {_failure_text(control, group)}."
    )


def _failure_text(failures: SideFailures, group: GroupReport) -> str:
    if not failures.num_failed:
        return "none"
    share = value_text(failures.num_failed / group.num_comparisons, Unit.SHARE)
    return f"{failures.num_failed:,} ({share})"


def _rounded(value: float, num_digits: int) -> str:
    """Significant digits, without an exponent and without trailing zeros after the point."""
    if not value:
        return "0"
    decimals = max(0, num_digits - 1 - math.floor(math.log10(abs(value))))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def _fixed(value: float, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text.removeprefix("-") if not float(text) else text


def _signed(text: str) -> str:
    """A real minus sign, and a plus sign for what is above zero."""
    if text.startswith("-"):
        return f"−{text.removeprefix('-')}"
    return f"+{text}" if any(digit in text for digit in "123456789") else text


def _share_text(value: float) -> str:
    return f"{_rounded(100 * value, 2 if abs(value) < 0.0995 else 3)} %"


def _number_text(value: float) -> str:
    return f"{value:,.0f}" if float(value).is_integer() else _rounded(value, 3)


_TEXTS: Mapping[Unit, Callable[[float], str]] = {
    Unit.SHARE: _share_text,
    Unit.SHARE_DIFFERENCE: lambda value: f"{_signed(_fixed(100 * value, 1))} points",
    Unit.COSINE_DIFFERENCE: lambda value: _signed(_fixed(value, 3)),
    Unit.SECONDS: seconds_text,
    Unit.SECONDS_DIFFERENCE: lambda value: _signed(seconds_text(value)),
    Unit.RATIO: lambda value: f"{_rounded(value, 3)} ×",
    Unit.COUNT: _number_text,
}
