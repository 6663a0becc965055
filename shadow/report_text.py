"""The words of a shadow report: numbers with their units, headlines, what to switch on."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from shadow.records import ComparisonKind
from shadow.report_document import MIN_USERS, GroupReport, MeasureReport, PairReport, Unit

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
    """`1.2 to 1.9 %`, `0.6 ms to 1.2 s`, or `no bounds`."""
    if low is None or high is None:
        return "no bounds"
    first, second = value_text(low, unit), value_text(high, unit)
    number, _, first_unit = first.partition(" ")
    is_one_unit = first_unit == second.partition(" ")[2]
    return f"{number if is_one_unit else first} to {second}"


def seconds_text(seconds: float) -> str:
    """`400 µs`, `35.0 ms`, `2.40 s`, `150 s`, `0 s`."""
    if not seconds or abs(seconds) >= 0.9995:
        return f"{_rounded(seconds, 3)} s"
    if abs(seconds) < 0.0009995:
        return f"{_rounded(1e6 * seconds, 3)} µs"
    return f"{_rounded(1000 * seconds, 3)} ms"


def clock_text(seconds: float, *, with_tenths: bool = False) -> str:
    """Position in a video: `0:04`, `1:23:45`, with tenths `0:04.8`."""
    tenths = round(10 * seconds)
    whole, tenth = divmod(tenths, 10) if with_tenths else (round(seconds), 0)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    text = f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
    return f"{text}.{tenth}" if with_tenths else text


def moment_text(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"


def count_text(count: int, noun: str) -> str:
    """`1 user`, `1,204 users`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def pair_headline(kind: ComparisonKind, control: str, shadow: str, group: GroupReport) -> str:
    """One sentence, as an operator would say it."""
    named = {measure.name: measure for measure in group.measures}
    overlap, latency = named["overlap_exact"], named["latency_ratio"]
    failed = _failed_text(group)
    if overlap.values is None or latency.values is None:
        return f"{shadow} could not be compared with {control}: {failed}."
    same = value_text(overlap.values.mean, overlap.unit)
    took = value_text(latency.values.mean, latency.unit)
    if kind is ComparisonKind.A_A:
        return f"{control} against itself: {same} of the frames are the same; {failed}."
    words = [
        _change_word(named["relevance_difference"], "more relevant", "less relevant"),
        _change_word(named["redundancy_difference"], "less varied", "more varied"),
    ]
    kinds = " and ".join(word for word in words if word) or "neither better nor worse"
    return (
        f"{shadow} shares {same} of its frames with {control}, chooses {kinds} ones, "
        f"takes {took} as long to select, and {failed}."
    )


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


def _change_word(measure: MeasureReport, above: str, below: str) -> str:
    """Empty where the bounds hold no difference, or A/A varies as much."""
    values = measure.values
    if values is None or values.low is None or values.high is None:
        return ""
    if values.low <= 0 <= values.high or measure.is_beyond_noise is False:
        return ""
    return above if values.mean > 0 else below


def _failed_text(group: GroupReport) -> str:
    num_failed = group.shadow_failures.num_failed
    if not num_failed:
        return "never failed"
    return f"failed in {num_failed:,} of {count_text(group.num_comparisons, 'comparison')}"


def _rounded(value: float, num_digits: int) -> str:
    """So many significant digits, without an exponent."""
    if not value:
        return "0"
    # Rounded first: 0.9996 has another number of decimals than the 1.00 that is printed.
    rounded = float(f"{value:.{num_digits - 1}e}")
    decimals = max(0, num_digits - 1 - math.floor(math.log10(abs(rounded))))
    return f"{rounded:,.{decimals}f}"


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
    Unit.COUNT_DIFFERENCE: lambda value: _signed(_number_text(value)),
}
