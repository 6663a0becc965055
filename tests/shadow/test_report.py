"""shadow/report.py, report_group.py: exact figures by hand, and what holds of any records."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shadow.records import ComparisonKind, ComparisonRecord
from shadow.report import MAX_PAIRS, build_report
from shadow.report_document import Distribution, GroupReport, MeasureReport, ReportScope
from tests.shadow.report_records import NOW_S, comparison, failed_side, many, side

SCOPE = ReportScope(NOW_S - 10, NOW_S + 100_000)
CONTROL = side("uniform", [0, 100, 200, 290], latency_s=0.002)


def aks(indices: list[int], **changes: float) -> ComparisonRecord:
    """Number 0: `aks` beside the control."""
    return comparison(0, CONTROL, side("aks", indices, **changes))


def by_hand() -> list[ComparisonRecord]:
    """Three users; one asked twice. One shadow failed, one answer was compared."""
    same = replace(aks([0, 100, 200, 290], latency_s=0.004), user_hash="ann")
    half = replace(aks([0, 100, 201, 280], latency_s=0.008, relevance=0.35), user_hash="ann")
    none = replace(
        aks([5, 105, 205, 295], latency_s=0.002, relevance=0.15),
        user_hash="bob",
        answers_agree=0.5,
    )
    failed = replace(comparison(0, CONTROL, failed_side("aks", "deadline")), user_hash="eve")
    records = [same, half, none, failed]
    return [replace(r, comparison_id=f"c{n}", answer_id=f"a{n}") for n, r in enumerate(records)]


def measure(group: GroupReport, name: str) -> MeasureReport:
    return next(found for found in group.measures if found.name == name)


def values(group: GroupReport, name: str) -> Distribution:
    found = measure(group, name).values
    assert found is not None
    return found


def test_the_figures_of_a_small_list_are_exact() -> None:
    report = build_report(by_hand(), SCOPE)
    [pair] = report.pairs
    group = pair.overall
    overlap = values(group, "overlap_exact")

    assert (report.num_comparisons, report.num_a_a, report.num_users) == (4, 0, 3)
    assert (pair.control.id, pair.shadow.id, pair.kind) == (
        "uniform",
        "aks",
        ComparisonKind.SAMPLER,
    )
    assert (overlap.num_comparisons, overlap.num_users, overlap.mean) == (3, 2, 0.5)
    assert (overlap.p05, overlap.p50, overlap.p95) == pytest.approx((0.05, 0.5, 0.95))
    # Within a second: all of `same`; of `half` all, 280 is exactly 1 s from 290; of `none` all.
    assert values(group, "overlap_within").mean == 1.0
    # 0 s; (0 + 0 + 0.1 + 1) / 4 s; 0.5 s.
    assert values(group, "temporal_distance_s").mean == pytest.approx((0 + 0.275 + 0.5) / 3)
    assert values(group, "relevance_difference").mean == pytest.approx(0.0)
    # Geometric: 2, 4 and 1 times as long.
    assert values(group, "latency_ratio").mean == pytest.approx(2.0)
    assert values(group, "latency_difference_s").mean == pytest.approx(0.008 / 3)
    assert values(group, "answers_agreement").num_comparisons == 1


def test_failures_are_counted_by_side_kind_and_user() -> None:
    group = build_report(by_hand(), SCOPE).pairs[0].overall

    assert (group.control_failures.num_failed, group.control_failures.by_kind) == (0, {})
    assert (group.shadow_failures.num_failed, group.shadow_failures.num_users_hit) == (1, 1)
    assert group.shadow_failures.by_kind == {"deadline": 1}
    assert group.shadow_failures.users_share == pytest.approx(1 / 3)
    assert group.control_failures.users_high > 0.5  # three users say little


def test_costs_hold_failed_selections_too() -> None:
    group = build_report(by_hand(), SCOPE).pairs[0].overall
    costs = {cost.name: cost for cost in group.costs}

    assert costs["selection_s"].num_comparisons == 4
    assert costs["selection_s"].shadow.mean == pytest.approx((0.004 + 0.008 + 0.002 + 1.0) / 4)
    assert costs["selection_s"].difference == pytest.approx((0.014 + 1.0) / 4 - 0.002)
    assert costs["vision_tokens"].num_comparisons == 3
    assert costs["vision_tokens"].control.p95 == 8
    assert "output_tokens" not in costs  # nobody said


def test_too_few_users_give_no_bounds_and_a_note() -> None:
    report = build_report(by_hand(), SCOPE)
    overlap = values(report.pairs[0].overall, "overlap_exact")

    assert (overlap.low, overlap.high) == (None, None)
    assert "Bounds need at least 5 users." in report.notes


def test_the_order_of_the_records_does_not_matter() -> None:
    records = many(120)
    shuffled = random.Random(3).sample(records, len(records))
    assert build_report(shuffled, SCOPE) == build_report(records, SCOPE)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), num_records=st.integers(0, 60), num_users=st.integers(1, 30))
def test_bounds_hold_the_mean_and_quantiles_ascend(
    seed: int, num_records: int, num_users: int
) -> None:
    report = build_report(many(num_records, seed=seed, num_users=num_users), SCOPE)
    groups = [group for pair in report.pairs for group in (pair.overall, *pair.by_llm)]
    for found in (m for group in groups for m in group.measures):
        for part in (found.values, found.a_a):
            if part is not None:
                assert part.low is None or part.low <= part.mean <= (part.high or 0.0)
                assert part.p05 <= part.p25 <= part.p50 <= part.p75 <= part.p95
        if found.histogram is not None:
            assert sum(found.histogram.shares) == pytest.approx(1.0)
            assert len(found.histogram.edges) == len(found.histogram.shares) + 1
            assert found.histogram.edges == sorted(found.histogram.edges)


def test_a_deterministic_sampler_does_not_differ_from_itself() -> None:
    records = [comparison(number, CONTROL, CONTROL) for number in range(40)]
    report = build_report(records, SCOPE)
    [pair] = report.pairs
    exact = {found.name: found.no_difference for found in pair.overall.measures if found.values}

    assert pair.kind is ComparisonKind.A_A
    assert pair.worst == []
    assert {name: values(pair.overall, name).mean for name in exact} == exact
    assert {name: values(pair.overall, name).p95 for name in exact} == exact
    assert report.num_comparisons == 0
    assert report.notes[0].startswith("Only A/A. To compare a sampler")


def test_a_a_of_the_control_is_the_noise_floor_of_its_pair() -> None:
    pair = build_report(many(400), SCOPE).pairs[0]
    relevance, coverage = (
        measure(pair.overall, name)
        for name in ("relevance_difference", "scene_coverage_difference")
    )

    assert pair.overall.num_a_a == 40
    assert relevance.a_a is not None
    assert (relevance.a_a.mean, relevance.a_a.low, relevance.a_a.high) == (0.0, 0.0, 0.0)
    assert relevance.is_beyond_noise is True
    assert coverage.is_beyond_noise is False


def test_a_side_that_never_failed_and_never_differed_has_bounds_all_the_same() -> None:
    pair = build_report(many(400), SCOPE).pairs[0]
    failures = pair.overall.control_failures
    assert (failures.num_failed, failures.users_low) == (0, 0.0)
    assert 0.0 < failures.users_high < 0.15


def test_pairs_and_language_models_are_told_apart() -> None:
    bolt = [
        replace(r, shadow=replace(r.shadow, sampler_id="bolt"), comparison_id=f"b{n}")
        for n, r in enumerate(many(60))
        if r.kind is ComparisonKind.SAMPLER
    ]
    report = build_report([*many(400), *bolt], SCOPE)
    first, second = report.pairs

    assert (first.shadow.id, second.shadow.id) == ("aks", "bolt")
    assert [group.llm_ids for group in first.by_llm] == [["llm-0"], ["llm-1"]]
    assert sum(group.num_comparisons for group in first.by_llm) == first.overall.num_comparisons
    assert report.headline == first.headline


def test_a_named_sampler_stands_alone_with_the_a_a_line_of_its_control() -> None:
    other = replace(aks([1, 2, 3, 4]), shadow=side("bolt", [1, 2, 3, 4]), comparison_id="b")
    report = build_report([*many(100), other], replace(SCOPE, sampler="bolt"))

    assert [(pair.control.id, pair.shadow.id) for pair in report.pairs] == [("uniform", "bolt")]
    assert (report.num_comparisons, report.pairs[0].overall.num_a_a) == (1, 10)


def test_only_the_newest_comparisons_are_taken_and_the_report_says_so() -> None:
    report = build_report(many(101), replace(SCOPE, max_comparisons=100))
    assert report.num_comparisons + report.num_a_a == 100
    assert report.notes[0] == "Only the newest 100 comparisons are in the report."


def test_many_pairs_are_cut_and_the_report_says_so() -> None:
    records = [
        replace(aks([1]), shadow=side(f"s{number}", [1]), comparison_id=f"c{number}")
        for number in range(MAX_PAIRS + 2)
    ]
    report = build_report(records, SCOPE)
    assert len(report.pairs) == MAX_PAIRS
    assert report.notes[0] == "2 pairs of samplers left out."


def test_answers_without_a_user_stand_for_themselves_and_the_report_says_so() -> None:
    records = [replace(record, user_hash=None) for record in by_hand()]
    report = build_report(records, SCOPE)
    assert report.num_users == 4
    assert report.notes[0].startswith("4 comparisons came without a `user_id`")


def test_without_records_the_report_says_what_to_switch_on() -> None:
    report = build_report([], SCOPE)
    assert report.headline == "No comparison was made in this time."
    assert "video.sampler.shadow_rate" in report.notes[0]
    assert report.pairs == []


def test_values_that_are_no_numbers_are_left_out() -> None:
    broken = aks([1, 2], relevance=float("nan"), redundancy=float("inf"))
    group = build_report([broken, *by_hand()], SCOPE).pairs[0].overall
    assert values(group, "relevance_difference").num_comparisons == 3
    assert values(group, "redundancy_difference").num_comparisons == 3
