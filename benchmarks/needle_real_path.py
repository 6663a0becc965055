"""The needle benchmark's check on itself: one of its videos as a file, decoded and indexed.

The benchmark composes videos out of embeddings. Here the same pictures are written into an H.264
file, which goes through the service's own decoding and indexing; the rows must come out the same up
to the noise of video and JPEG compression.
"""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import av
import numpy as np
from opentelemetry.metrics import NoOpMeterProvider

from app.decode import Decoder
from app.decoding.config import decode_config
from app.encoders.conse import ConseEncoder
from app.encoders.contract import EncoderInfo, Picture, PictureFeatures, QueryVector
from app.index_pictures import EncodingLimits, PictureIndex
from app.settings import Settings
from app.stores.features import FeatureKey, FeatureStore
from app.stores.frames import FrameTable, PicturePack, read_scenes
from app.stores.layout import DataLayout
from app.stores.video_handle import StoredVideoHandle, VideoHandleSpec
from benchmarks.needle_encoders import DemoEncoder, SeenTakes
from benchmarks.needle_metrics import measured
from benchmarks.needle_pictures import TAKE_FPS
from benchmarks.needle_videos import ENCODER, NeedleVideo, Scenario, compose, pieces
from observability.metrics import Metrics
from samplers.contract import Scene
from samplers.registry import load_registry

FILE_FPS = 8
CACHE_BYTES = 64 * 2**20
BUDGET = 8
COMPARED_SAMPLERS = ("uniform", "aks", "bolt")


def real_path_lines(scenario: Scenario, cache: Path) -> list[str]:
    """Markdown: how near the composed video is to the file of the same pictures."""
    encoder = DemoEncoder(cache)
    seen = SeenTakes(cache, encoder.encoder_id)
    composed = compose(scenario, seen, encoder.question(scenario.question))
    with tempfile.TemporaryDirectory(prefix="framegate-needles-") as temporary:
        folder = Path(temporary)
        write_video(folder / "video.mp4", pictures_of(scenario), scenario.fps)
        stored, scenes = asyncio.run(_indexed(folder, encoder.conse, scenario.question))
    return _compared(scenario, composed, stored, scenes)


def pictures_of(scenario: Scenario) -> list[Picture]:
    """One for every candidate."""
    shown: list[Picture] = []
    for piece in pieces(scenario):
        taken = piece.take.pictures()[:: TAKE_FPS // scenario.fps]
        shown += taken[piece.first_row : piece.first_row + piece.num_rows]
    return shown


def write_video(path: Path, pictures: list[Picture], fps: int) -> None:
    """H.264 at 8 frames a second, each picture held for as long as a candidate lasts."""
    height, width = pictures[0].shape[:2]
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=FILE_FPS)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for picture in pictures:
            for _ in range(FILE_FPS // fps):
                container.mux(stream.encode(av.VideoFrame.from_ndarray(picture, format="rgb24")))
        container.mux(stream.encode())


@dataclass(frozen=True, slots=True)
class _LocalEncoder:
    """The encoder process's part, played in this one."""

    conse: ConseEncoder

    async def info(self) -> EncoderInfo:
        return self.conse.info

    async def ask_info(self) -> EncoderInfo:
        return self.conse.info

    async def encode_pictures(self, pictures: Path, rows: range) -> PictureFeatures:
        pack = PicturePack(pictures)
        return await asyncio.to_thread(self.conse.encode_pictures, [pack.rgb(row) for row in rows])

    async def encode_query(self, text: str) -> QueryVector:
        return self.conse.encode_query(text)

    async def aclose(self) -> None:
        """Nothing is open."""


async def _indexed(
    folder: Path, conse: ConseEncoder, question: str
) -> tuple[StoredVideoHandle, list[Scene]]:
    layout = DataLayout(folder / "data")
    source = folder / "video.mp4"
    video_id = sha256(source.read_bytes()).hexdigest()
    table = await Decoder(decode_config(Settings())).decode(
        video_id, source, layout, lambda _: None
    )
    features = FeatureStore(layout, CACHE_BYTES)
    metrics = Metrics(NoOpMeterProvider(), sampler_ids=())
    index = PictureIndex(layout, _LocalEncoder(conse), features, metrics, EncodingLimits(8, 10.0))
    await index.index(table, lambda _: None)
    scenes = read_scenes(layout.scenes(video_id, table.detector_version))
    return _handle(table, features, conse, question), scenes


def _handle(
    table: FrameTable, features: FeatureStore, conse: ConseEncoder, question: str
) -> StoredVideoHandle:
    encoder_id = conse.info.encoder_id
    spec = VideoHandleSpec(
        video_id=table.video_id,
        fps=table.fps,
        data_dir=Path(),
        decode_version=table.decode_version,
        encoder_ids={ENCODER: encoder_id},
        query_vectors={(encoder_id, question): conse.encode_query(question).vector},
    )
    # Into the cache now: the files go with the temporary folder.
    features.embeddings(FeatureKey(table.video_id, table.fps, encoder_id))
    return StoredVideoHandle(spec, table.timestamps_s, table.candidates, features)


def _compared(
    scenario: Scenario, composed: NeedleVideo, stored: StoredVideoHandle, scenes: list[Scene]
) -> list[str]:
    question = scenario.question
    rows = stored.image_embeddings(ENCODER)
    cosines = np.einsum("cd,cd->c", rows, composed.image_embeddings(ENCODER))
    correlation = np.corrcoef(stored.scores(ENCODER, question), composed.scores(ENCODER, question))[
        0, 1
    ]
    lines = [
        f"Check on a real file ({scenario.minutes} min, {len(rows)} candidates, H.264, decoded, "
        f"found {len(scenes)} shots where {len(composed.scenes)} were composed, indexed): cosine "
        f"of each row with the composed row {np.median(cosines):.3f} in the median and "
        f"{cosines.min():.3f} at least, correlation of the scores {correlation:.3f}; moments found "
        f"with {BUDGET} frames, file / composed: "
    ]
    registry = load_registry()
    found = []
    for sampler_id in COMPARED_SAMPLERS:
        sampler = registry.build(sampler_id, {}, encoder=ENCODER)
        in_file = sampler.select(stored, question, BUDGET, scenes)
        shown_rows = np.searchsorted(stored.candidates, in_file)
        in_composed = sampler.select(composed, question, BUDGET, list(composed.scenes))
        shares = (
            measured(composed.candidates[shown_rows].tolist(), composed)[0],
            measured(in_composed, composed)[0],
        )
        found.append(f"{sampler_id} {shares[0]:.0%} / {shares[1]:.0%}")
    return [lines[0] + ", ".join(found) + ".", ""]
