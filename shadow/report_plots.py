"""Each measure's distribution as an SVG to stand inside a page.

Importing this file imports matplotlib (a second, 40 MB): only the process that draws does.
"""

from __future__ import annotations

import io
import re
import threading
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from shadow.report_document import Distribution, Histogram, MeasureReport, Unit

SHADOW_COLOUR: Final = "#b4470a"
A_A_COLOUR: Final = "#56606b"
NEUTRAL_COLOUR: Final = "#1a7f4b"
_AXIS_TEXTS: Final[Mapping[Unit, str]] = {
    Unit.SHARE: "per cent",
    Unit.SHARE_DIFFERENCE: "percentage points",
    Unit.COSINE_DIFFERENCE: "cosine",
    Unit.RATIO: "times as long",
    Unit.COUNT: "",
}
# Styles are global to matplotlib, and reports may be drawn in several threads.
_STYLE_LOCK: Final = threading.Lock()


def measure_svg(measure: MeasureReport) -> str:
    """Histogram of the comparisons beside A/A's, both means with their bounds above; "" if empty.

    Blocks for some 50 ms. Thread-safe.
    """
    if measure.values is None or measure.histogram is None:
        return ""
    with _STYLE_LOCK, _style():
        figure = Figure(figsize=(3.5, 2.1), layout="constrained")
        axes = figure.add_subplot()
        scale, text = _axis_of(measure, measure.histogram)
        _draw(axes, measure, measure.histogram, scale)
        axes.set_xlabel(text)
        buffer = io.StringIO()
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return _inline(buffer.getvalue(), measure)


def _style() -> AbstractContextManager[None]:
    return rc_context(
        {
            "svg.fonttype": "none",
            "svg.hashsalt": "framegate",
            "font.family": "sans-serif",
            "font.size": 9,
            "axes.spines.top": False,
            "axes.spines.right": False,
            "axes.edgecolor": "#8a949e",
            "axes.labelcolor": "#3b444d",
            "xtick.color": "#3b444d",
            "ytick.color": "#3b444d",
        }
    )


def _axis_of(measure: MeasureReport, histogram: Histogram) -> tuple[float, str]:
    """What values are multiplied by, and the words below the axis."""
    if measure.unit in {Unit.SECONDS, Unit.SECONDS_DIFFERENCE}:
        is_short = max(abs(histogram.edges[0]), abs(histogram.edges[-1])) < 1.5
        return (1000.0, "milliseconds") if is_short else (1.0, "seconds")
    is_share = measure.unit in {Unit.SHARE, Unit.SHARE_DIFFERENCE}
    return 100.0 if is_share else 1.0, _AXIS_TEXTS[measure.unit]


def _draw(axes: Axes, measure: MeasureReport, histogram: Histogram, scale: float) -> None:
    edges = [edge * scale for edge in histogram.edges]
    axes.stairs([100 * s for s in histogram.shares], edges, fill=True, color="#f0b78f")
    highest = max(histogram.shares)
    if histogram.a_a_shares is not None:
        floor = [100 * share for share in histogram.a_a_shares]
        axes.stairs(floor, edges, color=A_A_COLOUR, linewidth=1.4)
        # A/A of a deterministic sampler is one spike: it leaves the plot instead of flattening it.
        highest = max(highest, min(max(histogram.a_a_shares), 1.5 * highest))
    axes.axvline(measure.no_difference * scale, color=NEUTRAL_COLOUR, linewidth=1, linestyle=":")
    if measure.unit is Unit.RATIO:
        _use_ratio_axis(axes, edges)
    if measure.values is not None:
        _draw_mean(axes, measure.values, scale, 118 * highest, SHADOW_COLOUR)
    if measure.a_a is not None:
        _draw_mean(axes, measure.a_a, scale, 132 * highest, A_A_COLOUR)
    axes.set_ylim(0, 142 * highest)
    axes.set_xlim(edges[0], edges[-1])
    ticks = [tick for tick in axes.get_yticks() if tick <= 102 * highest]
    axes.set_yticks(ticks, [f"{tick:g} %" for tick in ticks])


def _use_ratio_axis(axes: Axes, edges: list[float]) -> None:
    axes.set_xscale("log")
    powers = [m * 10.0**p for p in range(-4, 6) for m in (1, 2, 5)]
    ticks = [tick for tick in powers if edges[0] <= tick <= edges[-1]][:: 1 + len(powers) // 40]
    while len(ticks) > 6:
        ticks = ticks[::2]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()


def _draw_mean(axes: Axes, values: Distribution, scale: float, height: float, colour: str) -> None:
    mean = values.mean * scale
    low = mean if values.low is None else values.low * scale
    high = mean if values.high is None else values.high * scale
    axes.plot([low, high], [height, height], color=colour, linewidth=3, clip_on=False)
    axes.plot([mean], [height], color=colour, marker="o", markersize=5, clip_on=False)


def _inline(svg: str, measure: MeasureReport) -> str:
    """Without prologue and metadata (they name foreign addresses); sized by the page."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r' (width|height)="[0-9.]+pt"', "", body, count=2)
    body = re.sub(r' xmlns(:xlink)?="[^"]*"', "", body)
    label = f"Distribution of: {measure.label}"
    return body.replace("<svg", f'<svg role="img" aria-label="{label}"', 1).replace(
        "xlink:href", "href"
    )
