"""Guards as operators write them: `sampler_failure<=1%`, `selection_s.p95<=1.2x`,
`answer_error<=+0.5%`, `dry:total_s.p99<=30s`."""

from __future__ import annotations

import re
from decimal import Decimal
from difflib import get_close_matches
from typing import Final

from flags.figures import FIGURES, Unit
from flags.rollout_plan import Comparison, Figure, Guard, Reference, Statistic

DRY_RUN: Final = "dry:"
_GUARD: Final = re.compile(
    r"(?P<name>[a-z0-9_.]+)\s*(?P<comparison>[<>=]+)\s*"
    r"(?P<sign>[+-]?)(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>[a-z%]*)"
)
_SCALES: Final = {
    Unit.SHARE: {"": Decimal(1), "%": Decimal("0.01")},
    Unit.SCORE: {"": Decimal(1), "%": Decimal("0.01")},
    Unit.SECONDS: {"s": Decimal(1), "": Decimal(1), "ms": Decimal("0.001")},
    Unit.COUNT: {"": Decimal(1)},
}
_SUFFIXES: Final = {Unit.SHARE: "%", Unit.SECONDS: "s", Unit.SCORE: "", Unit.COUNT: ""}


def parse_guard(text: str) -> Guard:
    """The guard that `text` promises.

    Raises `ValueError` that says what is wrong and what to write instead.
    """
    written = text.strip().lower()
    promise = written.removeprefix(DRY_RUN).strip()
    match = _GUARD.fullmatch(promise)
    if match is None:
        raise ValueError(
            f"`{text}` is no guard. Write a figure, `<=` or `>=`, and a limit, such as"
            " `sampler_failure<=1%` (of its own), `selection_s.p95<=1.2x` (times the other arm's)"
            " or `answer_error<=+0.5%` (more than the other arm's)"
        )
    figure, statistic = _parse_name(text, match)
    comparison = _parse_comparison(text, figure, match)
    reference = _reference(match["sign"], match["unit"])
    limit = _parse_limit(text, figure, match, reference)
    guard = Guard(figure, statistic, comparison, limit, reference, written.startswith(DRY_RUN))
    _check_limit(text, guard)
    return guard


def guard_text(guard: Guard) -> str:
    """The text that `parse_guard` reads as `guard`."""
    dry_run = DRY_RUN if guard.is_dry_run else ""
    statistic = "" if guard.statistic is Statistic.MEAN else f".{guard.statistic}"
    return f"{dry_run}{guard.figure}{statistic}{guard.comparison}{limit_text(guard)}"


def limit_text(guard: Guard) -> str:
    """The limit alone: `1%`, `1.2x`, `+0.5%`, `0.3s`."""
    number = Decimal(repr(guard.limit))
    if guard.reference is Reference.RATIO:
        return f"{_plain(number)}x"
    suffix = _SUFFIXES[FIGURES[guard.figure].unit]
    scaled = number * 100 if suffix == "%" else number
    sign = "+" if guard.reference is Reference.DIFFERENCE and not number.is_signed() else ""
    return f"{sign}{_plain(scaled)}{suffix}"


def _plain(number: Decimal) -> str:
    digits = format(number, "f")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def _parse_name(text: str, match: re.Match[str]) -> tuple[Figure, Statistic]:
    name, dot, statistic = match["name"].partition(".")
    if name not in {*Figure}:
        raise ValueError(_unknown_figure(text, match["name"]))
    if dot and statistic not in {*Statistic}:
        raise ValueError(f"`{text}`: no statistic `{statistic}`. There are {', '.join(Statistic)}")
    figure, chosen = Figure(name), Statistic(statistic or Statistic.MEAN)
    if chosen is not Statistic.MEAN and not FIGURES[figure].has_quantiles:
        instead = text.replace(match["name"], name)
        raise ValueError(f"`{text}`: `{name}` has no {chosen}, only a mean. Write `{instead}`")
    return figure, chosen


def _unknown_figure(text: str, name: str) -> str:
    parts = re.fullmatch(r"(.+?)[._](mean|p50|p95|p99)", name)
    stem, statistic = (parts[1], f".{parts[2]}") if parts else (name.partition(".")[0], "")
    close = get_close_matches(stem, [*Figure], n=1, cutoff=0.5)
    if not close:
        return f"`{text}`: no figure `{name}`. There are {', '.join(Figure)}"
    instead = text.replace(name, close[0] + statistic)
    return f"`{text}`: no figure `{name}`. Did you mean `{instead}`?"


def _parse_comparison(text: str, figure: Figure, match: re.Match[str]) -> Comparison:
    right = Comparison.AT_MOST if FIGURES[figure].is_less_better else Comparison.AT_LEAST
    if match["comparison"] == right:
        return right
    better = "less" if FIGURES[figure].is_less_better else "more"
    instead = text.replace(match["comparison"], right)
    raise ValueError(f"`{text}`: of `{figure}`, {better} is better. Write `{instead}`")


def _reference(sign: str, unit: str) -> Reference:
    if unit == "x":
        return Reference.RATIO
    return Reference.DIFFERENCE if sign else Reference.ABSOLUTE


def _parse_limit(text: str, figure: Figure, match: re.Match[str], reference: Reference) -> float:
    number, unit = Decimal(match["sign"] + match["number"]), match["unit"]
    if reference is Reference.RATIO:
        return float(number)
    scales = _SCALES[FIGURES[figure].unit]
    if unit in scales:
        return float(number * scales[unit])
    if unit == "%" and reference is Reference.DIFFERENCE:
        instead = text.replace(match["sign"] + match["number"], _plain(1 + number / 100))
        raise ValueError(
            f"`{text}`: to allow a share of the other arm's figure, write `{instead[:-1]}x`"
        )
    units = " or ".join(f"`{known}`" if known else "no unit" for known in scales)
    raise ValueError(f"`{text}`: a limit of `{figure}` has {units}, not `{unit}`")


def _check_limit(text: str, guard: Guard) -> None:
    if guard.reference is Reference.RATIO:
        if guard.limit <= 0 or "-" in text or "+" in text:
            raise ValueError(f"`{text}`: a ratio is above 0 and has no sign, such as `1.2x`")
        return
    if guard.reference is Reference.ABSOLUTE and guard.limit == 0:
        raise ValueError(
            f"`{text}`: a limit of 0 promises nothing or the impossible. Write the"
            " least or the greatest value that you would act on"
        )
    if FIGURES[guard.figure].high is None:
        return
    if guard.reference is Reference.DIFFERENCE and abs(guard.limit) >= 1:
        raise ValueError(f"`{text}`: a difference of 100% or more can never be exceeded")
    if guard.reference is Reference.ABSOLUTE and guard.limit >= 1:
        raise ValueError(f"`{text}`: the limit is 100% or more. Write `1%` for one in a hundred")
