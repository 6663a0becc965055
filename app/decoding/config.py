"""How this deployment decodes, from its settings."""

from __future__ import annotations

from app.decoding.job import DecodeConfig
from app.settings import Settings


def decode_config(settings: Settings) -> DecodeConfig:
    return DecodeConfig(
        max_frame_pixels=settings.max_frame_pixels,
        max_total_pixels=settings.max_total_pixels,
        timeout_s=settings.decode_timeout_s,
        memory_bytes=settings.decode_memory_bytes,
        threads=settings.decode_threads,
        picture_side_px=settings.picture_side_px,
        picture_quality=settings.picture_quality,
        fps_max=settings.candidate_fps_max,
        fps_min=settings.candidate_fps_min,
        candidate_target=settings.candidate_target,
    )
