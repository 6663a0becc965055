"""Guards read from text and written as text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from flags.figures import FIGURES
from flags.guard_text import guard_text, parse_guard
from flags.rollout_plan import Comparison, Figure, Guard, Reference, Statistic


@st.composite
def guards(draw: st.DrawFn) -> Guard:
    figure = draw(st.sampled_from(Figure))
    traits = FIGURES[figure]
    reference = draw(st.sampled_from(Reference))
    greatest = 0.999 if traits.high is not None and reference is not Reference.RATIO else 1e6
    least = -greatest if reference is Reference.DIFFERENCE else 1e-6
    return Guard(
        figure=figure,
        statistic=draw(st.sampled_from(Statistic)) if traits.has_quantiles else Statistic.MEAN,
        comparison=Comparison.AT_MOST if traits.is_less_better else Comparison.AT_LEAST,
        limit=draw(st.floats(least, greatest)),
        reference=reference,
        is_dry_run=draw(st.booleans()),
    )


@given(guards())
def test_every_guard_is_read_back_from_its_text(guard: Guard) -> None:
    assert parse_guard(guard_text(guard)) == guard


@given(st.text())
def test_other_text_is_refused_with_a_reason_that_quotes_it(text: str) -> None:
    with pytest.raises(ValueError, match=r"Write|There are|Did you") as refused:
        parse_guard(text)
    assert f"`{text}`" in str(refused.value)


@pytest.mark.parametrize(
    ("text", "guard"),
    [
        (
            "sampler_failure<=1%",
            Guard(
                Figure.SAMPLER_FAILURE,
                Statistic.MEAN,
                Comparison.AT_MOST,
                0.01,
                Reference.ABSOLUTE,
            ),
        ),
        (
            "selection_s.p95<=1.2x",
            Guard(Figure.SELECTION_S, Statistic.P95, Comparison.AT_MOST, 1.2, Reference.RATIO),
        ),
        (
            "answer_error <= +0.5%",
            Guard(
                Figure.ANSWER_ERROR,
                Statistic.MEAN,
                Comparison.AT_MOST,
                0.005,
                Reference.DIFFERENCE,
            ),
        ),
        (
            "dry:total_s.p99<=2500ms",
            Guard(Figure.TOTAL_S, Statistic.P99, Comparison.AT_MOST, 2.5, Reference.ABSOLUTE, True),
        ),
        (
            "feedback>=-5%",
            Guard(
                Figure.FEEDBACK, Statistic.MEAN, Comparison.AT_LEAST, -0.05, Reference.DIFFERENCE
            ),
        ),
    ],
)
def test_guards_are_read_as_operators_write_them(text: str, guard: Guard) -> None:
    assert parse_guard(text) == guard


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("selection_p95<=1.2x", "Did you mean `selection_s.p95<=1.2x`?"),
        ("sampler_failures<=1%", "Did you mean `sampler_failure<=1%`?"),
        ("latency.p95<=1.2x", "There are sampler_failure, "),
        ("selection_s.p90<=1.2x", "There are mean, p50, p95, p99"),
        ("fallback.p95<=1%", "Write `fallback<=1%`"),
        ("sampler_failure<1%", "Write `sampler_failure<=1%`"),
        ("sampler_failure>=1%", "less is better. Write `sampler_failure<=1%`"),
        ("feedback<=90%", "more is better. Write `feedback>=90%`"),
        ("sampler_failure<=1", "Write `1%`"),
        ("sampler_failure<=0%", "Write the least"),
        ("total_s<=+10%", "write `total_s<=1.1x`"),
        ("total_s<=-10%", "write `total_s<=0.9x`"),
        ("vision_tokens<=2000s", "has no unit, not `s`"),
        ("total_s<=5min", "has `s` or no unit or `ms`, not `min`"),
        ("feedback>=-200%", "100% or more"),
        ("total_s<=+1.2x", "a ratio is above 0 and has no sign"),
        ("total_s<=0x", "a ratio is above 0 and has no sign"),
        ("p95 under a second", "Write a figure, `<=` or `>=`, and a limit"),
        ("", "Write a figure"),
    ],
)
def test_a_mistake_is_answered_with_what_to_write(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=r"^`") as refused:
        parse_guard(text)
    assert says in str(refused.value)
