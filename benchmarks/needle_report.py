"""Tables and picture of the needle benchmark, and where they stand in the documentation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.needle_metrics import NUM_DRAWS, Estimate, Outcomes
from benchmarks.needle_samplers import BASELINE, ORACLE, RANDOM
from benchmarks.needle_videos import Scenario
from benchmarks.report import machine

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "samplers.md"
PLOT = DOCS / "images" / "needles.png"
BEGIN, END = "<!-- needles: begin -->", "<!-- needles: end -->"
VISIBLE = 0.9
"""A needle is visible to the encoder from this area under the ROC curve on."""

Keep = Callable[[Scenario], bool]


def report_lines(outcomes: Outcomes, left_out: Sequence[str]) -> list[str]:
    """Markdown."""
    order = ranked(outcomes)
    middle = outcomes.budgets[len(outcomes.budgets) // 2]
    return [
        *_setting_lines(outcomes, left_out),
        "**Moments found, by budget** (per cent of the moments that hold at least one of the "
        "selected frames; 95 % interval in brackets):",
        "",
        *_budget_table(outcomes, order),
        "",
        f"**Moments found with {middle} frames**, by the number of moments, the video's length and "
        "how well the encoder sees the needle:",
        "",
        *_split_table(outcomes, order, middle),
        "",
        f"**More about {middle} frames**, and in how many of the {len(_cells(outcomes))} "
        "combinations of length, number of moments and budget a sampler finds more or fewer "
        f"moments than `{BASELINE}`:",
        "",
        *_detail_table(outcomes, order, middle),
        "",
    ]


def publish(lines: Sequence[str], outcomes: Outcomes) -> None:
    """Print the lines, put them between the page's two markers, draw the picture."""
    figure = f"![Moments found beyond uniform, by sampler](images/{PLOT.name})"
    section = "\n".join([*lines, figure])
    print(section)
    page = PAGE.read_text(encoding="utf-8")
    before, found, rest = page.partition(BEGIN)
    _, found_end, after = rest.partition(END)
    if not (found and found_end):
        raise SystemExit(f"{PAGE.name} lacks the markers {BEGIN} and {END}")
    PAGE.write_text(f"{before}{BEGIN}\n\n{section}\n\n{END}{after}", encoding="utf-8")
    draw(outcomes, PLOT)


def ranked(outcomes: Outcomes) -> list[str]:
    """Labels: the ceiling, then the best first, the floor last."""
    means = outcomes.estimates("moments", outcomes.budgets)
    others = [label for label in outcomes.labels if label not in (ORACLE, RANDOM)]
    return [ORACLE, *sorted(others, key=lambda label: -means[label].mean), RANDOM]


def _setting_lines(outcomes: Outcomes, left_out: Sequence[str]) -> list[str]:
    scenarios = outcomes.scenarios
    seeds = len({scenario.seed for scenario in scenarios})
    needles = {scenario.needle_id for scenario in scenarios}
    minutes = _listed({scenario.minutes for scenario in scenarios})
    moments = _listed({scenario.num_moments for scenario in scenarios})
    seen = ", ".join(f"{name} {auc:.2f}" for name, auc in outcomes.needle_visibility().items())
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, `python -m benchmarks.needles`, {machine()}. "
        f"{len(scenarios)} videos ({len(needles)} needles × {minutes} minutes × {moments} moments "
        f"× {seeds} seeds), each with {len(outcomes.budgets)} budgets: "
        f"{len(scenarios) * len(outcomes.budgets):,} selections a sampler. Intervals: "
        f"{NUM_DRAWS:,} bootstrap draws of needles, then of seeds within a needle. ▲ and ▼: the "
        f"95 % interval of the difference from `{BASELINE}` in the same videos leaves out 0.",
        "",
        "How well the encoder tells a needle from everything else (area under the ROC curve of the "
        f"scores, 0.5 is chance): {seen}.",
        "",
    ]
    return lines + ([f"Left out: {'; '.join(left_out)}.", ""] if left_out else [])


def _listed(numbers: set[int]) -> str:
    return "/".join(str(number) for number in sorted(numbers))


def _budget_table(outcomes: Outcomes, order: Sequence[str]) -> list[str]:
    columns: dict[str, tuple[Sequence[int], Keep]] = {
        str(budget): ([budget], _where()) for budget in outcomes.budgets
    }
    columns["all"] = (outcomes.budgets, _where())
    return _table(outcomes, order, "moments", columns, with_interval=True)


def _split_table(outcomes: Outcomes, order: Sequence[str], budget: int) -> list[str]:
    columns: dict[str, tuple[Sequence[int], Keep]] = {}
    for count in sorted({scenario.num_moments for scenario in outcomes.scenarios}):
        name = f"{count} moment{'s' if count > 1 else ''}"
        columns[name] = ([budget], _where(num_moments=count))
    for minutes in sorted({scenario.minutes for scenario in outcomes.scenarios}):
        columns[f"{minutes} min"] = ([budget], _where(minutes=minutes))
    visible = {name for name, auc in outcomes.needle_visibility().items() if auc >= VISIBLE}
    hidden = {scenario.needle_id for scenario in outcomes.scenarios} - visible
    for name, group in (("well seen", visible), ("badly seen", hidden)):
        if group:
            title = f"{name} ({len(group)} needles)"
            columns[title] = ([budget], _where(needle_ids=group))
    return _table(outcomes, order, "moments", columns)


def _detail_table(outcomes: Outcomes, order: Sequence[str], budget: int) -> list[str]:
    metrics = {"every moment found": "complete", "picks in evidence": "precision"}
    metrics["evidence picked"] = "frames"
    columns = [_column(outcomes, metric, [budget], _where()) for metric in metrics.values()]
    more, fewer = _cell_counts(outcomes)
    lines = [_row(["sampler", *metrics, "more", "fewer"]), _row(["---"] * (len(metrics) + 3))]
    for label in order:
        cells = [column[label] for column in columns]
        lines.append(_row([_named(label), *cells, str(more[label]), str(fewer[label])]))
    return lines


def _table(
    outcomes: Outcomes,
    order: Sequence[str],
    metric: str,
    columns: dict[str, tuple[Sequence[int], Keep]],
    *,
    with_interval: bool = False,
) -> list[str]:
    made = [
        _column(outcomes, metric, budgets, keep, with_interval=with_interval)
        for budgets, keep in columns.values()
    ]
    lines = [_row(["sampler", *columns]), _row(["---"] * (len(columns) + 1))]
    return lines + [_row([_named(label), *(column[label] for column in made)]) for label in order]


def _column(
    outcomes: Outcomes,
    metric: str,
    budgets: Sequence[int],
    keep: Keep,
    *,
    with_interval: bool = False,
) -> dict[str, str]:
    means = outcomes.estimates(metric, budgets, keep)
    gains = outcomes.gains(metric, budgets, BASELINE, keep)
    return {
        label: _percent(mean, with_interval=with_interval) + _mark(label, gains[label])
        for label, mean in means.items()
    }


def _percent(estimate: Estimate, *, with_interval: bool) -> str:
    mean = f"{100 * estimate.mean:.0f}"
    return f"{mean} ({100 * estimate.low:.0f}–{100 * estimate.high:.0f})" if with_interval else mean


def _mark(label: str, gain: Estimate) -> str:
    if label == ORACLE:
        return ""
    return " ▲" if gain.low > 0 else " ▼" if gain.high < 0 else ""


def _cells(outcomes: Outcomes) -> list[tuple[int, Keep]]:
    kinds = sorted({(s.minutes, s.num_moments) for s in outcomes.scenarios})
    return [
        (budget, _where(minutes=minutes, num_moments=num_moments))
        for minutes, num_moments in kinds
        for budget in outcomes.budgets
    ]


def _cell_counts(outcomes: Outcomes) -> tuple[dict[str, int], dict[str, int]]:
    more, fewer = dict.fromkeys(outcomes.labels, 0), dict.fromkeys(outcomes.labels, 0)
    for budget, keep in _cells(outcomes):
        for label, gain in outcomes.gains("moments", [budget], BASELINE, keep).items():
            more[label] += gain.low > 0
            fewer[label] += gain.high < 0
    return more, fewer


def _where(
    minutes: int | None = None,
    num_moments: int | None = None,
    needle_ids: Collection[str] | None = None,
) -> Keep:
    def keep(scenario: Scenario) -> bool:
        return (
            minutes in (None, scenario.minutes)
            and num_moments in (None, scenario.num_moments)
            and (needle_ids is None or scenario.needle_id in needle_ids)
        )

    return keep


def _named(label: str) -> str:
    return label if label in (ORACLE, RANDOM) else f"`{label}`"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def draw(outcomes: Outcomes, path: Path) -> None:
    """Two heat maps, PNG: gain over the baseline by moments and budget, by length and budget."""
    order = [label for label in ranked(outcomes) if label not in (ORACLE, RANDOM, BASELINE)]
    by_moments = {
        f"{count} moment{'s' if count > 1 else ''}": _where(num_moments=count)
        for count in sorted({scenario.num_moments for scenario in outcomes.scenarios})
    }
    by_minutes = {
        f"{minutes} min": _where(minutes=minutes)
        for minutes in sorted({scenario.minutes for scenario in outcomes.scenarios})
    }
    ratios = [len(by_moments), len(by_minutes)]
    figure = Figure(figsize=(1.7 * sum(ratios) + 3, 0.27 * len(order) + 1.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=ratios)
    _heat_map(left, outcomes, order, by_moments)
    _heat_map(right, outcomes, order, by_minutes)
    figure.suptitle(f"Moments found beyond {BASELINE}, in percentage points, by budget")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=90)


def _heat_map(
    axes: Axes, outcomes: Outcomes, order: Sequence[str], groups: dict[str, Keep]
) -> None:
    gains = np.array(
        [
            [
                100 * outcomes.gains("moments", [budget], BASELINE, keep)[label].mean
                for keep in groups.values()
                for budget in outcomes.budgets
            ]
            for label in order
        ]
    )
    axes.imshow(gains, cmap="RdBu", vmin=-60, vmax=60, aspect="auto")
    for (row, column), gain in np.ndenumerate(gains):
        colour = "white" if abs(gain) > 40 else "black"
        axes.text(column, row, f"{gain:+.0f}", ha="center", va="center", fontsize=7, color=colour)
    per_group = len(outcomes.budgets)
    axes.set_xticks(range(gains.shape[1]), [str(b) for b in outcomes.budgets] * len(groups))
    axes.set_yticks(range(len(order)), order)
    axes.tick_params(labelsize=8, length=0)
    for index, name in enumerate(groups):
        axes.text(per_group * (index + 0.5) - 0.5, -0.8, name, ha="center", fontsize=9)
        axes.axvline(per_group * index - 0.5, color="white", linewidth=3)
