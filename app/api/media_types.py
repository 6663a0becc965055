"""Which media type a caller prefers, by the header `Accept` (RFC 9110, 12.5.1)."""

from __future__ import annotations

import re
from collections.abc import Sequence


def preferred(accepted: str, offered: Sequence[str]) -> str:
    """The offered media type of the highest quality; among equals the first."""
    return max(offered, key=lambda media_type: _quality_of(accepted, media_type))


def _quality_of(accepted: str, media_type: str) -> float:
    """What the header gives a media type; the closest range counts."""
    ranges = {media_type: 2, f"{media_type.partition('/')[0]}/*": 1, "*/*": 0}
    best = (-1, 0.0)
    for part in accepted.split(","):
        name, *parameters = (piece.strip().lower() for piece in part.split(";"))
        if name in ranges:
            best = max(best, (ranges[name], _quality(parameters)))
    return best[1]


def _quality(parameters: list[str]) -> float:
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name == "q" and re.fullmatch(r"[01](\.\d{0,3})?", value):
            return float(value)
    return 1.0
