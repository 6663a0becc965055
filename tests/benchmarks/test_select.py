"""The benchmark of selection's time: who is measured, and what the table says."""

from __future__ import annotations

import pytest

from benchmarks.select import (
    BUDGET,
    ENCODER,
    QUERY,
    TOP_K,
    AskedVideo,
    Reading,
    allocated_mb,
    growth_lines,
    readings,
    table,
    top_k,
    verdict,
)
from samplers.contract import check_selection
from samplers.registry import load_registry


def reading(
    sampler_id: str, took_ms: float, num_candidates: int = 3_600, *, threads: int = 1
) -> Reading:
    return Reading(threads, sampler_id, num_candidates, took_ms, 2.0, asks_a_model=False)


def test_every_sampler_is_measured_beside_top_k(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.select.MOST_CALLS", 3)
    taken = list(readings(1, [200]))
    assert [r.sampler_id for r in taken] == [TOP_K, *load_registry().ids]
    assert all(r.took_ms > 0 for r in taken)
    assert {r.sampler_id for r in taken if r.asks_a_model} >= {"m-llm", "gens"}


def test_the_questions_vector_is_there_before_and_the_scores_are_not() -> None:
    video = AskedVideo.made(100)
    assert video.query_embedding(ENCODER, QUERY) is video.query_vector
    assert video.scores(ENCODER, QUERY) is not video.scores(ENCODER, QUERY)
    check_selection(top_k(video), video, BUDGET, fills_budget=True)


def test_an_aim_holds_or_is_missed_where_there_is_one() -> None:
    assert verdict(reading("aks", 9.9)) == "≤ 10 ms: holds"
    assert verdict(reading("aks", 10.1)) == "≤ 10 ms: **missed**"
    assert verdict(reading("gift", 149.0)) == "≤ 150 ms: holds"
    assert verdict(reading("aks", 61.0, 108_000)) == "≤ 60 ms: **missed**"
    assert verdict(reading("gift", 999.0, 108_000)) == ""
    assert verdict(reading(TOP_K, 999.0)) == ""
    assert verdict(Reading(1, "m-llm", 3_600, 999.0, 1.0, asks_a_model=True)) == ""


def test_a_row_holds_every_number_of_threads_and_its_ratio() -> None:
    taken = [reading(TOP_K, 2.0), reading("aks", 4.0)]
    taken += [reading(TOP_K, 1.0, threads=2), reading("aks", 3.0, threads=2)]
    lines = table(taken)
    assert lines[0].count("|") == lines[1].count("|")
    assert lines[3] == "| `aks` | 3,600 | 4.00 | 2.00 | 3.00 | 3.00 | 2 | ≤ 10 ms: holds |"


def test_growth_is_the_exponent_between_sizes() -> None:
    taken = [reading(TOP_K, 1.0, 100), reading(TOP_K, 100.0, 1_000)]
    assert growth_lines(taken)[0].endswith(f"{TOP_K} 2.0.")
    assert growth_lines(taken[:1]) == []


def test_allocations_are_counted_at_their_peak() -> None:
    assert 4.9 < allocated_mb(lambda: bytearray(5_000_000)) < 5.2
