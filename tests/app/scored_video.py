"""A stored video whose pictures tell their row, and a model that answers by what it is shown."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

from app.scorer.backend import ScorerBackend
from app.scorer.breaker import CircuitRule
from app.scorer.frame_scorer import OpenAIFrameScorer, ScoredSelection
from app.scorer.spec import ScoreNamespace, ScorerSpec
from app.stores.frames import PackWriter
from app.stores.layout import DataLayout
from app.stores.library import StoredVideo
from app.stores.video_handle import StoredVideoHandle
from tests.app.stored_video import DECODE_VERSION, ENCODER_ID, VIDEO_ID, store_video
from tests.fakes import VlmReply, vlm_answer

QUERY = "When does it get light?"
NUM_FRAMES = 300
NUM_ROWS = 100
WIDTH, HEIGHT = 64, 48
MODEL = "tiny-vlm"


class ScoredWorld:
    """One video of 100 candidates; row r's picture has the brightness `2 r`."""

    def __init__(self, data_dir: Path) -> None:
        library = store_video(data_dir, num_frames=NUM_FRAMES)
        self.layout = DataLayout(data_dir)
        self.frames = self.layout.frames(VIDEO_ID, 8.0, DECODE_VERSION)
        with PackWriter(self.frames) as pack:
            for row in range(NUM_ROWS):
                pixels = np.full((HEIGHT, WIDTH, 3), 2 * row, dtype=np.uint8)
                pack.append(cv2.imencode(".jpg", pixels)[1].tobytes())
            pack.finish()
        self.library = library
        self.video: StoredVideo = library.open(VIDEO_ID)
        vectors = {(ENCODER_ID, QUERY): np.full(16, 0.25, dtype=np.float32)}
        self.handle: StoredVideoHandle = library.handle(
            self.video, {"default": ENCODER_ID}, vectors
        )

    def cache_file(self, namespace: ScoreNamespace = ScoreNamespace.ANSWERS) -> Path:
        return self.layout.model_scores(VIDEO_ID, str(namespace))

    def scorer(
        self,
        backend: ScorerBackend,
        deadline_s: float = 10.0,
        namespace: ScoreNamespace = ScoreNamespace.ANSWERS,
    ) -> OpenAIFrameScorer:
        """For one selection."""
        return OpenAIFrameScorer(backend, ScoredSelection(self.handle.spec, namespace, deadline_s))


def backend_of(url: str, rule: CircuitRule | None = None, **changes: Any) -> ScorerBackend:
    return ScorerBackend(ScorerSpec(url=url, model_id=MODEL, **changes), rule)


def pictures_of(body: dict[str, Any]) -> list[npt.NDArray[np.uint8]]:
    """The pixels `[H, W, 3]` of every picture in a request."""
    urls = [
        part["image_url"]["url"]
        for part in body["messages"][0]["content"]
        if part["type"] == "image_url"
    ]
    return [_pixels(url) for url in urls]


def _pixels(url: str) -> npt.NDArray[np.uint8]:
    head, _, data = url.partition(",")
    assert head == "data:image/jpeg;base64"
    pixels = cv2.imdecode(np.frombuffer(base64.b64decode(data), np.uint8), cv2.IMREAD_COLOR)
    assert pixels is not None
    return np.asarray(pixels, dtype=np.uint8)


def texts_of(body: dict[str, Any]) -> list[str]:
    parts = body["messages"][0]["content"]
    return [part["text"] for part in parts if part["type"] == "text"]


def by_brightness(body: dict[str, Any]) -> VlmReply:
    """p(yes) is the mean brightness of the pictures, 0..1, spread over spellings of yes and no."""
    light = float(np.mean([pixels.mean() for pixels in pictures_of(body)])) / 255
    yes, no = max(0.8 * light, 1e-9), max(0.8 * (1 - light), 1e-9)
    top = {"Yes": 0.75 * yes, " yes": 0.25 * yes, "No": no, "Maybe": 0.2}
    return vlm_answer("Yes" if yes > no else "No", top)
