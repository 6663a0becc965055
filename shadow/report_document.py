"""A shadow report as a document: what JSON, the command line and the page are made from.

Imports nothing that calculates: the gateway and the command line hold documents only.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from pydantic import BaseModel, ConfigDict, Field

from shadow.records import ComparisonKind

MIN_USERS: Final = 5
"""Fewer give a mean no bounds: the means of two users cover half of what they should."""


@dataclass(frozen=True, slots=True)
class ReportScope:
    """What a report is about."""

    since_s: float
    until_s: float
    sampler: str | None = None
    """Only comparisons with this sampler in shadow; A/A of their controls stays."""
    max_comparisons: int = 20_000
    """The newest are taken."""
    num_worst: int = 6
    """Of each pair of samplers."""


class Unit(StrEnum):
    SHARE = "share"
    """0..1."""
    SHARE_DIFFERENCE = "share_difference"
    COSINE_DIFFERENCE = "cosine_difference"
    SECONDS = "seconds"
    SECONDS_DIFFERENCE = "seconds_difference"
    RATIO = "ratio"
    COUNT = "count"
    COUNT_DIFFERENCE = "count_difference"


class ReportPart(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Distribution(ReportPart):
    """Values of many comparisons, and their mean with bounds (the user is the unit)."""

    num_comparisons: int
    num_users: int
    mean: float = Field(description="Geometric for a ratio.")
    low: float | None = Field(description="Of the mean; null with too few users.")
    high: float | None
    p05: float
    p25: float
    p50: float
    p75: float
    p95: float


class Histogram(ReportPart):
    """Shares of the comparisons by bin; the outermost bins hold what lies beyond, too."""

    edges: list[float] = Field(description="One more than bins; evenly spaced, or by ratio.")
    shares: list[float]
    a_a_shares: list[float] | None


class MeasureReport(ReportPart):
    name: str
    label: str
    description: str
    unit: Unit
    no_difference: float = Field(description="Its value where both sides are the same.")
    values: Distribution | None = Field(description="Null where no comparison has a value.")
    a_a: Distribution | None = Field(
        description="The control against itself, the noise floor; null where it was not run."
    )
    is_beyond_noise: bool | None = Field(
        description="The bounds of both means do not overlap; null where either has none."
    )
    histogram: Histogram | None


class SideFailures(ReportPart):
    sampler_id: str
    num_failed: int
    by_kind: dict[str, int] = Field(description="raised, contract, deadline, dependency, …")
    num_users_hit: int
    users_share: float
    users_low: float = Field(description="Exact bounds of the share of users.")
    users_high: float


class CostFigures(ReportPart):
    mean: float
    p50: float
    p95: float
    p99: float


class CostReport(ReportPart):
    """Per answer, failed selections included, over comparisons where both sides are known."""

    name: str
    label: str
    unit: Unit
    num_comparisons: int
    control: CostFigures
    shadow: CostFigures
    difference: float = Field(description="Shadow less control, mean.")
    difference_unit: Unit
    low: float | None
    high: float | None


class GroupReport(ReportPart):
    """The comparisons of one pair of samplers, with all language models or with one."""

    llm_ids: list[str]
    num_comparisons: int
    num_users: int
    num_a_a: int
    measures: list[MeasureReport]
    control_failures: SideFailures
    shadow_failures: SideFailures
    costs: list[CostReport]


class ChosenFrame(ReportPart):
    index: int
    seconds: float
    is_shared: bool = Field(description="The other side chose the same frame.")


class DisagreementSide(ReportPart):
    sampler_id: str
    frames: list[ChosenFrame]
    relevance: float | None
    redundancy: float | None
    latency_s: float
    answer: str | None


class Disagreement(ReportPart):
    """One of the comparisons whose sides had least in common."""

    comparison_id: str
    answer_id: str
    video_id: str
    video_seconds: float
    created: datetime
    question: str
    llm_id: str
    overlap_exact: float
    overlap_within: float
    tolerance_s: float
    temporal_distance_s: float
    answers_agree: float | None
    num_alike: int = Field(description="Further comparisons of this question on this video.")
    control: DisagreementSide
    shadow: DisagreementSide


class SamplerFacts(ReportPart):
    id: str
    versions: list[str] = Field(description="All that were seen.")


class PairReport(ReportPart):
    """One sampler in the shadow of another; for `a_a`, of itself."""

    kind: ComparisonKind
    control: SamplerFacts
    shadow: SamplerFacts
    headline: str
    overall: GroupReport
    by_llm: list[GroupReport]
    worst: list[Disagreement]


class ShadowReport(ReportPart):
    since: datetime
    until: datetime
    sampler: str | None = Field(description="Only comparisons with this sampler in shadow.")
    confidence: float
    num_comparisons: int = Field(description="A/A not counted.")
    num_a_a: int
    num_users: int
    headline: str
    notes: list[str] = Field(description="What to know about, or to switch on.")
    pairs: list[PairReport] = Field(description="Most comparisons first.")
