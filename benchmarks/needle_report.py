"""Tables and picture of the needle benchmark, and where they stand in the documentation."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime
from io import BytesIO
from itertools import product
from pathlib import Path
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from PIL import Image

from benchmarks.needle_metrics import NUM_DRAWS, Estimate, Outcomes
from benchmarks.needle_samplers import BASELINE, ORACLE, RANDOM
from benchmarks.needle_videos import Scenario
from benchmarks.report import machine

DOCS = Path(__file__).resolve().parents[1] / "docs"
PAGE = DOCS / "samplers.md"
PLOT = DOCS / "images" / "needles.png"
FLAGS = DOCS.parent / "flags" / "default.flagd.json"
BEGIN, END = "<!-- needles: begin -->", "<!-- needles: end -->"
VISIBLE = 0.9
"""A needle is visible to the encoder from this area under the ROC curve on."""

Keep: TypeAlias = Callable[[Scenario], bool]
Kind: TypeAlias = tuple[int, int]
"""Number of moments, number of things."""
Cell: TypeAlias = tuple[int, Kind, int]
"""Minutes, kind, budget."""


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
        f"**Moments found with {middle} frames**, by what is shown, by the video's length and, for "
        "one thing, by how well the encoder sees it:",
        "",
        *_split_table(outcomes, order, middle),
        "",
        f"**More about {middle} frames**, and in how many of the {len(_cells(outcomes))} "
        "combinations of length, kind and budget a sampler finds more or fewer moments than "
        f"`{BASELINE}` (of every hundred, two or three either way are chance):",
        "",
        *_detail_table(outcomes, order, middle),
        "",
        *_loss_lines(outcomes, order),
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
    means = outcomes.means("moments", outcomes.budgets)
    others = [label for label in outcomes.labels if label not in (ORACLE, RANDOM)]
    return [ORACLE, *sorted(others, key=lambda label: -means[label]), RANDOM]


def _setting_lines(outcomes: Outcomes, left_out: Sequence[str]) -> list[str]:
    scenarios = outcomes.scenarios
    seeds = len({scenario.seed for scenario in scenarios})
    needles = {scenario.needle_id for scenario in scenarios}
    minutes = _listed({scenario.minutes for scenario in scenarios})
    seen = ", ".join(f"{name} {auc:.2f}" for name, auc in outcomes.needle_visibility().items())
    lines = [
        f"{datetime.now(UTC):%Y-%m-%d}, `python -m benchmarks.needles`, {machine()}. "
        f"{len(scenarios):,} videos ({len(needles)} needles × {minutes} minutes × "
        f"{len(_kinds(outcomes))} kinds × {seeds} seeds), each with {len(outcomes.budgets)} "
        f"budgets: {len(scenarios) * len(outcomes.budgets):,} selections a sampler. Intervals: "
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


def recommended() -> str:
    """The sampler that the shipped flag file serves."""
    flag = json.loads(FLAGS.read_text(encoding="utf-8"))["flags"]["video.sampler"]
    return str(flag["variants"][flag["defaultVariant"]])


def _budget_table(outcomes: Outcomes, order: Sequence[str]) -> list[str]:
    columns = {
        str(budget): _column(outcomes, "moments", [budget], _where(), with_interval=True)
        for budget in outcomes.budgets
    }
    columns["all"] = _column(outcomes, "moments", outcomes.budgets, _where(), with_interval=True)
    served = recommended()
    if served in outcomes.labels:
        gains = outcomes.gains("moments", outcomes.budgets, served)
        columns[f"all, beyond `{served}`"] = {
            label: f"{_points(gain.mean)} ({_points(gain.low)} to {_points(gain.high)})"
            for label, gain in gains.items()
        }
    return _table(order, columns)


def _points(share: float) -> str:
    return f"{round(100 * share):+d}"


def _split_table(outcomes: Outcomes, order: Sequence[str], budget: int) -> list[str]:
    groups = _by_kind(outcomes) | _by_minutes(outcomes)
    visible = {name for name, auc in outcomes.needle_visibility().items() if auc >= VISIBLE}
    hidden = {scenario.needle_id for scenario in outcomes.scenarios} - visible
    for name, group in (("well seen", visible), ("badly seen", hidden)):
        if group:
            groups[f"{name} ({len(group)} things)"] = _where(needle_ids=group)
    return _table(
        order,
        {name: _column(outcomes, "moments", [budget], keep) for name, keep in groups.items()},
    )


def _detail_table(outcomes: Outcomes, order: Sequence[str], budget: int) -> list[str]:
    metrics = {"every moment found": "complete", "picks in evidence": "precision"}
    metrics["evidence picked"] = "frames"
    columns = {
        name: _column(outcomes, metric, [budget], _where()) for name, metric in metrics.items()
    }
    better, worse = _cells_that_differ(outcomes)
    columns["more"] = {label: str(len(cells)) for label, cells in better.items()}
    columns["fewer"] = {label: str(len(cells)) for label, cells in worse.items()}
    return _table(order, columns)


def _loss_lines(outcomes: Outcomes, order: Sequence[str]) -> list[str]:
    """Where samplers find fewer moments than the baseline; the floor's losses say nothing."""
    _, worse = _cells_that_differ(outcomes)
    texts = []
    for label in order:
        if worse[label] and label != RANDOM:
            budgets: dict[tuple[int, Kind], list[str]] = {}
            for minutes, kind, budget in worse[label]:
                budgets.setdefault((minutes, kind), []).append(str(budget))
            where = "; ".join(
                f"{minutes} min, {_kind_name(kind)}: {', '.join(of_them)}"
                for (minutes, kind), of_them in budgets.items()
            )
            texts.append(f"- {_named(label)} ({where})")
    if not texts:
        return []
    title = f"Where samplers find fewer than <code>{BASELINE}</code> (length, shown: budgets)"
    return [f"<details><summary>{title}</summary>", "", *texts, "", "</details>", ""]


def _table(order: Sequence[str], columns: dict[str, dict[str, str]]) -> list[str]:
    lines = [_row(["sampler", *columns]), _row(["---"] * (len(columns) + 1))]
    return lines + [
        _row([_named(label), *(column[label] for column in columns.values())]) for label in order
    ]


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


def _cells(outcomes: Outcomes) -> list[Cell]:
    """Every one that was tried."""
    lengths = sorted({scenario.minutes for scenario in outcomes.scenarios})
    return list(product(lengths, _kinds(outcomes), outcomes.budgets))


def _cells_that_differ(outcomes: Outcomes) -> tuple[dict[str, list[Cell]], dict[str, list[Cell]]]:
    """Label -> cells in which it finds more moments than the baseline; the same for fewer."""
    better: dict[str, list[Cell]] = {label: [] for label in outcomes.labels}
    worse: dict[str, list[Cell]] = {label: [] for label in outcomes.labels}
    for cell in _cells(outcomes):
        minutes, kind, budget = cell
        gains = outcomes.gains("moments", [budget], BASELINE, _where(minutes, kind))
        for label, gain in gains.items():
            if gain.low > 0:
                better[label].append(cell)
            if gain.high < 0:
                worse[label].append(cell)
    return better, worse


def _kinds(outcomes: Outcomes) -> list[Kind]:
    """One thing first, then several."""
    kinds = {(scenario.num_moments, scenario.num_things) for scenario in outcomes.scenarios}
    return sorted(kinds, key=lambda kind: (kind[1] > 1, kind))


def _kind_name(kind: Kind) -> str:
    num_moments, num_things = kind
    if num_things > 1:
        return f"{num_things} things"
    return f"{num_moments} moments" if num_moments > 1 else "1 moment"


def _by_kind(outcomes: Outcomes) -> dict[str, Keep]:
    return {_kind_name(kind): _where(kind=kind) for kind in _kinds(outcomes)}


def _by_minutes(outcomes: Outcomes) -> dict[str, Keep]:
    lengths = sorted({scenario.minutes for scenario in outcomes.scenarios})
    return {f"{minutes} min": _where(minutes=minutes) for minutes in lengths}


def _where(
    minutes: int | None = None,
    kind: Kind | None = None,
    needle_ids: Collection[str] | None = None,
) -> Keep:
    """`needle_ids` keeps what asks for one of them alone."""

    def keep(scenario: Scenario) -> bool:
        return (
            minutes in (None, scenario.minutes)
            and kind in (None, (scenario.num_moments, scenario.num_things))
            and (
                needle_ids is None
                or (scenario.num_things == 1 and scenario.needle_id in needle_ids)
            )
        )

    return keep


def _named(label: str) -> str:
    return label if label in (ORACLE, RANDOM) else f"`{label}`"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def draw(outcomes: Outcomes, path: Path) -> None:
    """Two heat maps, PNG: gain over the baseline by kind and budget, by length and budget."""
    order = [label for label in ranked(outcomes) if label not in (ORACLE, RANDOM, BASELINE)]
    by_kind, by_minutes = _by_kind(outcomes), _by_minutes(outcomes)
    ratios = [len(by_kind), len(by_minutes)]
    figure = Figure(figsize=(1.7 * sum(ratios) + 3, 0.27 * len(order) + 1.6), layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=ratios)
    _heat_map(left, outcomes, order, by_kind)
    _heat_map(right, outcomes, order, by_minutes)
    figure.suptitle(f"Moments found beyond {BASELINE}, in percentage points, by number of frames")
    path.parent.mkdir(parents=True, exist_ok=True)
    drawn = BytesIO()
    figure.savefig(drawn, dpi=90)
    # A page's picture: a few colours are enough, and a quarter of the bytes.
    Image.open(drawn).convert("RGB").quantize(128).save(path, optimize=True)


def _heat_map(
    axes: Axes, outcomes: Outcomes, order: Sequence[str], groups: dict[str, Keep]
) -> None:
    columns = []
    for keep, budget in product(groups.values(), outcomes.budgets):
        means = outcomes.means("moments", [budget], keep)
        columns.append([100 * (means[label] - means[BASELINE]) for label in order])
    gains = np.array(columns).T
    axes.imshow(gains, cmap="RdBu", vmin=-60, vmax=60, aspect="auto")
    for (row, column), gain in np.ndenumerate(gains):
        colour = "white" if abs(gain) > 40 else "black"
        axes.text(
            column, row, f"{round(gain):+d}", ha="center", va="center", fontsize=7, color=colour
        )
    per_group = len(outcomes.budgets)
    axes.set_xticks(range(gains.shape[1]), [str(b) for b in outcomes.budgets] * len(groups))
    axes.set_yticks(range(len(order)), order)
    axes.tick_params(labelsize=8, length=0)
    for index, name in enumerate(groups):
        axes.text(per_group * (index + 0.5) - 0.5, -0.8, name, ha="center", fontsize=9)
        axes.axvline(per_group * index - 0.5, color="white", linewidth=3)
