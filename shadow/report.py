"""From comparison records to a report: pure, the same whatever the order of the records."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, TypeAlias

from shadow.records import ComparisonKind, ComparisonRecord, SideRecord
from shadow.report_document import PairReport, ReportScope, SamplerFacts, ShadowReport
from shadow.report_group import Records, count_users, group_report
from shadow.report_statistics import CONFIDENCE
from shadow.report_text import count_text, notes_of, pair_headline, report_headline
from shadow.report_worst import worst_disagreements

MAX_PAIRS: Final = 8
MAX_LLMS: Final = 8

PairKey: TypeAlias = tuple[ComparisonKind, str, str]


def build_report(records: Records, scope: ReportScope) -> ShadowReport:
    """The report on the records of the scope's time. Deterministic: the bootstrap has a seed."""
    ordered = sorted(records, key=lambda r: (r.created_s, r.comparison_id))
    kept = ordered[-scope.max_comparisons :]
    by_pair = _by_pair(kept)
    keys = _pairs_to_show(by_pair, scope.sampler)
    pairs = [_pair(key, by_pair, scope.num_worst) for key in keys[:MAX_PAIRS]]
    shown = [record for key in keys for record in by_pair[key]]
    num_without_user = sum(record.user_hash is None for record in shown)
    notes = notes_of(pairs, num_without_user)
    if len(ordered) > len(kept):
        notes.insert(0, f"Only the newest {scope.max_comparisons:,} comparisons are in the report.")
    if len(keys) > MAX_PAIRS:
        notes.insert(0, f"{count_text(len(keys) - MAX_PAIRS, 'pair')} of samplers left out.")
    return ShadowReport(
        since=datetime.fromtimestamp(scope.since_s, UTC),
        until=datetime.fromtimestamp(scope.until_s, UTC),
        sampler=scope.sampler,
        confidence=CONFIDENCE,
        num_comparisons=sum(len(by_pair[k]) for k in keys if k[0] is ComparisonKind.SAMPLER),
        num_a_a=sum(record.kind is ComparisonKind.A_A for record in kept),
        num_users=count_users(shown),
        headline=report_headline(pairs),
        notes=notes,
        pairs=pairs,
    )


def _by_pair(records: Records) -> dict[PairKey, list[ComparisonRecord]]:
    groups: defaultdict[PairKey, list[ComparisonRecord]] = defaultdict(list)
    for record in records:
        key = (record.kind, record.control.sampler_id, record.shadow.sampler_id)
        groups[key].append(record)
    return groups


def _pairs_to_show(by_pair: Mapping[PairKey, Records], sampler: str | None) -> list[PairKey]:
    """Most comparisons first; A/A stands alone only where nothing has it as its noise floor."""
    wanted = [key for key in by_pair if sampler in {None, key[2]}]
    different = [key for key in wanted if key[0] is ComparisonKind.SAMPLER]
    floors = {control for _, control, _ in different}
    alone = [k for k in wanted if k[0] is ComparisonKind.A_A and k[1] not in floors]
    return [
        key
        for keys in (different, alone)
        for key in sorted(keys, key=lambda k: (-len(by_pair[k]), k))
    ]


def _pair(key: PairKey, by_pair: Mapping[PairKey, Records], num_worst: int) -> PairReport:
    kind, control, shadow = key
    records = by_pair[key]
    a_a: Records = []
    if kind is ComparisonKind.SAMPLER:
        a_a = by_pair.get((ComparisonKind.A_A, control, control), [])
    llm_ids = [llm for llm, _ in Counter(r.llm_id for r in records).most_common(MAX_LLMS)]
    overall = group_report(records, a_a)
    return PairReport(
        kind=kind,
        control=_facts(control, [record.control for record in records]),
        shadow=_facts(shadow, [record.shadow for record in records]),
        headline=pair_headline(kind, control, shadow, overall),
        overall=overall,
        by_llm=[
            group_report(
                [r for r in records if r.llm_id == llm], [r for r in a_a if r.llm_id == llm]
            )
            for llm in sorted(llm_ids)
        ],
        worst=worst_disagreements(records, num_worst),
    )


def _with_llm(records: Records, llm_id: str) -> Records:
    return [record for record in records if record.llm_id == llm_id]


def _facts(sampler_id: str, sides: Sequence[SideRecord]) -> SamplerFacts:
    return SamplerFacts(id=sampler_id, versions=sorted({side.sampler_version for side in sides}))
