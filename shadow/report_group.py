"""The figures of a group of comparisons: distributions, noise floor, failures, costs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np

from shadow.records import ComparisonRecord, SideRecord
from shadow.report_document import (
    CostFigures,
    CostReport,
    Distribution,
    GroupReport,
    Histogram,
    MeasureReport,
    SideFailures,
    Unit,
)
from shadow.report_measures import COSTS, MEASURES, Measure, costs, measured
from shadow.report_statistics import Clusters, Estimate, Matrix, estimate_means, share_bounds

NUM_BINS: Final = 24

Records: TypeAlias = Sequence[ComparisonRecord]


def user_of(record: ComparisonRecord) -> str:
    """An answer without a user stands for itself."""
    return f"answer {record.answer_id}" if record.user_hash is None else record.user_hash


def _users(records: Records) -> Clusters:
    numbers = np.unique([user_of(record) for record in records], return_inverse=True)[1]
    return numbers.astype(np.int64)


def count_users(records: Records) -> int:
    return len({user_of(record) for record in records})


def group_report(records: Records, a_a: Records) -> GroupReport:
    """`records` of one pair of samplers beside `a_a`, the control against itself."""
    users = _users(records)
    values, floor = _scaled(measured(records)), _scaled(measured(a_a))
    control, shadow = (costs([getattr(r, side) for r in records]) for side in ("control", "shadow"))
    estimates = estimate_means(np.concatenate([values, shadow - control], axis=1), users)
    floors = estimate_means(floor, _users(a_a))
    measures = [
        _measure_report(
            measure,
            _distribution(measure, values[:, column], users, estimates[column]),
            _distribution(measure, floor[:, column], _users(a_a), floors[column]),
            _histogram(measure, values[:, column], floor[:, column]),
        )
        for column, measure in enumerate(MEASURES)
    ]
    return GroupReport(
        llm_ids=sorted({record.llm_id for record in records}),
        num_comparisons=len(records),
        num_users=count_users(records),
        num_a_a=len(a_a),
        measures=measures,
        control_failures=_failures(records, lambda record: record.control),
        shadow_failures=_failures(records, lambda record: record.shadow),
        costs=_cost_reports(control, shadow, estimates[len(MEASURES) :]),
    )


def _scaled(values: Matrix) -> Matrix:
    """Ratios as logarithms, so that twice and half as long weigh the same."""
    columns = [
        np.log(column) if measure.unit is Unit.RATIO else column
        for measure, column in zip(MEASURES, values.T, strict=True)
    ]
    return np.stack(columns, axis=1)


def _unscaled(measure: Measure, value: float) -> float:
    return float(np.exp(value)) if measure.unit is Unit.RATIO else float(value)


def _distribution(
    measure: Measure, column: Matrix, users: Clusters, estimate: Estimate | None
) -> Distribution | None:
    if estimate is None:
        return None
    is_there = ~np.isnan(column)
    quantiles = np.quantile(column[is_there], [0.05, 0.25, 0.5, 0.75, 0.95])
    p05, p25, p50, p75, p95 = (_unscaled(measure, q) for q in quantiles)
    return Distribution(
        num_comparisons=int(is_there.sum()),
        num_users=len(np.unique(users[is_there])),
        mean=_unscaled(measure, estimate.mean),
        low=None if estimate.low is None else _unscaled(measure, estimate.low),
        high=None if estimate.high is None else _unscaled(measure, estimate.high),
        p05=p05,
        p25=p25,
        p50=p50,
        p75=p75,
        p95=p95,
    )


def _measure_report(
    measure: Measure,
    values: Distribution | None,
    a_a: Distribution | None,
    histogram: Histogram | None,
) -> MeasureReport:
    return MeasureReport(
        name=measure.name,
        label=measure.label,
        description=measure.description,
        unit=measure.unit,
        no_difference=measure.no_difference,
        values=values,
        a_a=a_a,
        is_beyond_noise=_is_beyond(values, a_a),
        histogram=histogram,
    )


def _is_beyond(values: Distribution | None, a_a: Distribution | None) -> bool | None:
    if values is None or a_a is None:
        return None
    if values.low is None or values.high is None or a_a.low is None or a_a.high is None:
        return None
    return values.low > a_a.high or values.high < a_a.low


def _histogram(measure: Measure, column: Matrix, floor: Matrix) -> Histogram | None:
    values, floor = column[~np.isnan(column)], floor[~np.isnan(floor)]
    if not len(values):
        return None
    edges = _histogram_edges(measure, np.concatenate([values, floor]))
    return Histogram(
        edges=[_unscaled(measure, edge) for edge in edges],
        shares=_shares(values, edges),
        a_a_shares=_shares(floor, edges) if len(floor) else None,
    )


def _histogram_edges(measure: Measure, values: Matrix) -> Matrix:
    """Without the last half per cent on either side: one outlier would flatten all the rest.

    Where both signs are possible, no difference lies in the middle of a bin.
    """
    if measure.unit is Unit.SHARE:
        return np.linspace(0.0, 1.0, NUM_BINS + 1)
    neutral = 0.0 if measure.unit is Unit.RATIO else measure.no_difference
    low, high = np.quantile(values, [0.005, 0.995])
    low, high = min(float(low), neutral), max(float(high), neutral)
    width = (high - low) / (NUM_BINS - 1) or 0.01
    start = low
    if measure.unit is not Unit.SECONDS:
        start = neutral - width * (round((neutral - low) / width) + 0.5)
    return np.linspace(start, start + width * NUM_BINS, NUM_BINS + 1)


def _shares(values: Matrix, edges: Matrix) -> list[float]:
    counts = np.histogram(np.clip(values, edges[0], edges[-1]), edges)[0]
    return [float(share) for share in counts / len(values)]


def _failures(records: Records, side_of: Callable[[ComparisonRecord], SideRecord]) -> SideFailures:
    failed = [record for record in records if side_of(record).failure_kind is not None]
    num_hit, num_users = count_users(failed), count_users(records)
    low, high = share_bounds(num_hit, num_users)
    kinds = Counter(str(side_of(record).failure_kind) for record in failed)
    return SideFailures(
        sampler_id=side_of(records[0]).sampler_id,
        num_failed=len(failed),
        by_kind=dict(sorted(kinds.items())),
        num_users_hit=num_hit,
        users_share=num_hit / num_users,
        users_low=low,
        users_high=high,
    )


def _cost_reports(
    control: Matrix, shadow: Matrix, estimates: Sequence[Estimate | None]
) -> list[CostReport]:
    reports = []
    for column, (cost, estimate) in enumerate(zip(COSTS, estimates, strict=True)):
        is_there = ~np.isnan(control[:, column] + shadow[:, column])
        if estimate is not None:
            report = CostReport(
                name=cost.name,
                label=cost.label,
                unit=cost.unit,
                num_comparisons=int(is_there.sum()),
                control=_figures(control[is_there, column]),
                shadow=_figures(shadow[is_there, column]),
                difference=estimate.mean,
                difference_unit=cost.difference_unit,
                low=estimate.low,
                high=estimate.high,
            )
            reports.append(report)
    return reports


def _figures(column: Matrix) -> CostFigures:
    p50, p95, p99 = (float(q) for q in np.quantile(column, [0.5, 0.95, 0.99]))
    return CostFigures(mean=float(column.mean()), p50=p50, p95=p95, p99=p99)
