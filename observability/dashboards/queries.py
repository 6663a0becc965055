"""PromQL out of metrics: a query names a `Metric`, never a text, so that it cannot go stale."""

from __future__ import annotations

from dataclasses import dataclass

from observability.metric import Kind, Metric

TARGET = 'job=~"$job",instance=~"$instance"'
"""The gateways that the dashboard's variables choose."""

PERCENTILES = (0.5, 0.95, 0.99)


@dataclass(frozen=True, slots=True)
class Query:
    """One expression of a panel, and what the legend says of each of its series."""

    expression: str
    legend: str = ""


def series(metric: Metric | str, where: str = "", suffix: str = "") -> str:
    """The selector of a metric; a text is the name of a metric that is not ours."""
    name = metric if isinstance(metric, str) else metric.prometheus_name
    return f"{name}{suffix}{{{f'{TARGET},{where}' if where else TARGET}}}"


def per_second(metric: Metric, *, by: str = "", where: str = "", of: str = "") -> Query:
    """How fast a counter counts. Of a histogram `of` says what: observations, if empty."""
    suffix = of or ("_count" if metric.kind is Kind.HISTOGRAM else "")
    return Query(_sum_of_rates(metric, by, where, suffix), _legend(by) or metric.name)


def increase(metric: Metric, interval: str, *, by: str = "", where: str = "") -> str:
    """What a counter counted in the last `interval`."""
    return f"sum{_grouped(by)} (increase({series(metric, where)}[{interval}]))"


def in_five_minutes(metric: Metric, *, by: str = "", where: str = "") -> Query:
    """The same over five minutes, in whole events: for rare ones."""
    return Query(f"round({increase(metric, '5m', by=by, where=where)})", _legend(by) or metric.name)


def percentile(metric: Metric, share: float, *, by: str = "", where: str = "") -> Query:
    """A percentile of a histogram's observations."""
    buckets = _sum_of_rates(metric, f"{by}, le" if by else "le", where, "_bucket")
    name = f"p{share * 100:g}"
    return Query(f"histogram_quantile({share:g}, {buckets})", f"{_legend(by)} {name}".strip())


def percentiles(metric: Metric, *, by: str = "", where: str = "") -> tuple[Query, ...]:
    return tuple(percentile(metric, share, by=by, where=where) for share in PERCENTILES)


def mean(metric: Metric, *, by: str = "", where: str = "") -> Query:
    """The mean of a histogram's observations."""
    total, count = (_sum_of_rates(metric, by, where, suffix) for suffix in ("_sum", "_count"))
    return Query(f"{total} / {count}", _legend(by) or "mean")


def share(part: Query, *whole: Query, legend: str) -> Query:
    """`part` of `whole`, 0 to 1; nothing while there is no `whole`."""
    total = " + ".join(query.expression for query in whole)
    return Query(f"{part.expression} / ({total} > 0)", legend)


def gauge(metric: Metric | str, *, by: str = "", of: str = "max") -> Query:
    """A gauge over the chosen gateways; `of` is the aggregation: max, min or sum."""
    name = metric if isinstance(metric, str) else metric.name
    return Query(f"{of}{_grouped(by)} ({series(metric)})", _legend(by) or name)


def _sum_of_rates(metric: Metric, by: str, where: str, suffix: str) -> str:
    return f"sum{_grouped(by)} (rate({series(metric, where, suffix)}[$__rate_interval]))"


def _grouped(by: str) -> str:
    return f" by ({by})" if by else ""


def _legend(by: str) -> str:
    return " ".join(f"{{{{{label.strip()}}}}}" for label in by.split(",") if by)
