"""The picture of a comparison: its pixels, its texts, and what it does with awkward input."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from itertools import pairwise

import cv2
import numpy as np
import numpy.typing as npt
import pytest

from app.answer_documents import SceneDocument
from app.compare_documents import (
    ComparedFrameDocument,
    ComparedSamplerDocument,
    ComparisonDocument,
    ComparisonFailureDocument,
    SimilarityDocument,
)
from app.compare_job import PictureFormat
from app.compare_layout import LABEL_HEIGHT, WIDTH, Box, TimeAxis
from app.compare_picture import draw_comparison

Pixels = npt.NDArray[np.uint8]

DURATION_S = 100.0
SVG = "{http://www.w3.org/2000/svg}"


def colour_of(index: int) -> tuple[int, int, int]:
    """Of a frame's picture: saturated, and another one for each frame."""
    return 255, 40 + 37 * index % 200, 0


def thumbnail(index: int) -> Pixels | None:
    return np.full((72, 128, 3), colour_of(index), dtype=np.uint8)


def failed(message: str) -> ComparisonFailureDocument:
    return ComparisonFailureDocument(kind="raised", message=message)


def sampler(
    name: str, indices: list[int], *, note: str | None = None, failure: str | None = None
) -> ComparedSamplerDocument:
    return ComparedSamplerDocument(
        id=name,
        version="1",
        options={},
        frames=[
            ComparedFrameDocument(index=i, seconds=float(i), cosine=0.2, picture="")
            for i in indices
        ],
        relevance=0.25,
        redundancy=0.5,
        scene_coverage=0.75,
        distance_s=1.5,
        overlap=0.5,
        latency_s=0.0032,
        scorer=None,
        note=note,
        failure=None if failure is None else failed(failure),
    )


def comparison(
    *samplers: ComparedSamplerDocument, question: str = "What happens?", num_points: int = 101
) -> ComparisonDocument:
    seconds = np.linspace(0, DURATION_S, num_points)
    edges_s = [0.0, 30.0, 60.0, DURATION_S]
    return ComparisonDocument(
        video_id="ab" * 32,
        question=question,
        budget=max((len(one.frames) for one in samplers), default=1) or 1,
        encoder="tiny@00000000",
        duration_s=DURATION_S,
        width=1280,
        height=720,
        num_candidates=num_points,
        scenes=[SceneDocument(start_s=a, end_s=b) for a, b in pairwise(edges_s)],
        similarity=SimilarityDocument(
            seconds=seconds.tolist(),
            cosines=np.sin(seconds / 9).tolist(),
            lowest=None,
            highest=None,
        ),
        samplers=list(samplers),
        warnings=[],
    )


def png(compared: ComparisonDocument) -> Pixels:
    content = draw_comparison(compared, thumbnail, PictureFormat.PNG)
    pixels = cv2.imdecode(np.frombuffer(content, dtype=np.uint8), cv2.IMREAD_COLOR_RGB)
    assert pixels is not None
    return np.asarray(pixels, dtype=np.uint8)


def svg_texts(compared: ComparisonDocument) -> list[str]:
    content = draw_comparison(compared, thumbnail, PictureFormat.SVG)
    return ["".join(node.itertext()) for node in ET.fromstring(content).iter(f"{SVG}text")]


def blocks_of(pixels: Pixels, index: int) -> list[Box]:
    """Every area in the colour of a frame's picture."""
    is_it = (np.abs(pixels.astype(int) - colour_of(index)) <= 2).all(axis=2)
    mask = np.asarray(is_it, dtype=np.uint8)
    stats = np.asarray(cv2.connectedComponentsWithStats(mask)[2])
    return [Box(*row[:4].tolist()) for row in stats[1:] if row[4] > 200]


def test_every_picture_stands_at_its_time_with_its_pixels() -> None:
    pixels = png(comparison(sampler("one", [10, 50, 90])))
    axis = TimeAxis(DURATION_S)
    assert pixels.shape[1] == WIDTH
    for index in (10, 50, 90):
        [block] = blocks_of(pixels, index)
        assert block.left + block.width / 2 == pytest.approx(axis.x(index), abs=2)
        assert block.width == pytest.approx(176, abs=3)
        assert block.height == pytest.approx(99, abs=3)


def test_pictures_of_one_moment_are_all_there_in_order() -> None:
    pixels = png(comparison(sampler("one", [50, 51, 52, 53, 54])))
    lefts = [block.left for index in range(50, 55) for block in blocks_of(pixels, index)]
    assert len(lefts) == 5
    assert all(later - earlier >= 176 for earlier, later in pairwise(lefts))


def test_each_sampler_has_a_row_of_its_own() -> None:
    pixels = png(comparison(sampler("one", [20]), sampler("two", [20]), sampler("three", [20])))
    tops = sorted(block.top for block in blocks_of(pixels, 20))
    assert len(tops) == 3
    assert all(later - earlier > 99 + LABEL_HEIGHT for earlier, later in pairwise(tops))


def test_the_same_comparison_gives_the_same_bytes() -> None:
    compared = comparison(sampler("one", [1, 2, 3]))
    for picture_format in PictureFormat:
        first, second = (draw_comparison(compared, thumbnail, picture_format) for _ in range(2))
        assert first == second


def test_the_texts_say_question_measures_and_times() -> None:
    texts = svg_texts(
        comparison(sampler("one", [10]), sampler("aks@t1=0.2", [64], note="routed: one moment"))
    )
    for expected in ("What happens?", "one", "aks@t1=0.2", "routed: one moment", "1:04.0", "0:30"):
        assert expected in texts
    [first, second] = [text for text in texts if text.startswith("1 frame ")]
    assert "relevance 0.250" in first
    assert "3.2 ms" in first
    assert "from one" not in first
    assert "1.50 s from one" in second


def test_a_failure_says_what_happened_and_who_would_stand_in() -> None:
    texts = svg_texts(comparison(sampler("one", [10]), sampler("two", [], failure="no memory")))
    assert "failed" in texts
    assert "raised: no memory. In an answer, uniform would stand in." in texts


@pytest.mark.parametrize(
    "question",
    [
        "$x^2$ and $\\frac{1}{0}$",
        '<script>alert(1)</script> & "quotes" ]]>',
        "自転車に乗っている人は誰ですか?" * 40,
        "من يركب الدراجة؟ מי רוכב? 🚲👨‍👩‍👧",
        "line\nbreaks\tand \x1b[31mcolours\x00 \u202eturned\u202c",
        "x" * 5000,
        "\ud7ff\uffff\U0010ffff",
    ],
)
def test_whatever_is_asked_can_be_drawn(question: str) -> None:
    compared = comparison(sampler("one", [10]), question=question)
    assert png(compared).shape[1] == WIDTH
    assert svg_texts(compared)


def test_what_a_question_says_is_text_in_an_svg_and_nothing_else() -> None:
    question = "<script>alert(1)</script>"
    content = draw_comparison(
        comparison(sampler("one", [10]), question=question), thumbnail, PictureFormat.SVG
    )
    assert b"<script" not in content
    assert question in svg_texts(comparison(sampler("one", [10]), question=question))


def test_a_long_question_takes_three_lines_at_most() -> None:
    texts = svg_texts(comparison(sampler("one", [10]), question="why and how " * 200))
    lines = [text for text in texts if text.startswith("why") or "how" in text]
    assert len(lines) == 3
    assert lines[-1].endswith("…")


def test_nothing_but_texts_and_pictures_is_loaded_by_an_svg() -> None:
    content = draw_comparison(
        comparison(sampler("one", [10])), thumbnail, PictureFormat.SVG
    ).decode()
    assert 'href="http' not in content
    assert "<metadata" not in content
    assert content.count("<image") == content.count("data:image/png;base64") == 1


@pytest.mark.parametrize(
    "changes",
    [
        {"similarity": None, "warnings": ["The question has no query vector: away"]},
        {"scenes": []},
        {"width": 100, "height": 4000},
        {"width": 4000, "height": 100},
        {"duration_s": 0.0},
        {"similarity": SimilarityDocument(seconds=[0.0], cosines=[0.3], lowest=None, highest=None)},
        {
            "similarity": SimilarityDocument(
                seconds=[0.0, 50.0], cosines=[0.1, 0.1], lowest=[0.0, 0.1], highest=[0.2, 0.9]
            )
        },
    ],
)
def test_awkward_videos_are_drawn(changes: dict[str, object]) -> None:
    compared = comparison(sampler("one", [10, 11]), sampler("two", [], failure="no"))
    assert png(compared.model_copy(update=changes)).shape[1] == WIDTH


def test_a_frame_without_a_picture_says_so() -> None:
    content = draw_comparison(comparison(sampler("one", [10])), lambda _: None, PictureFormat.SVG)
    assert b"no picture" in content
