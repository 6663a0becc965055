"""What the scoring model is asked. Pure; the wording is our own.

The question comes first: all calls about one question then share a prefix, which servers keep.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

PROMPT_VERSION = "1"
"""Part of every key of the score cache: raise it with any change of a text in here."""

MAX_RATED_FRAMES = 256
MAX_RATING_TOKENS = 256

ContentPart: TypeAlias = dict[str, object]

_MARK = re.compile(r"([<\[])(?=\S)")


def frame_prompt(query: str, picture: str) -> list[ContentPart]:
    """Does this frame help? `picture` is a data URL."""
    return [
        _text(f"{_asked(query)}\nLook at this one frame of the video."),
        _picture(picture),
        _text(
            "Does this frame show something that helps to answer the viewer's question? "
            "Reply with one word, yes or no."
        ),
    ]


def set_prompt(query: str, pictures: Sequence[str]) -> list[ContentPart]:
    """Do these frames suffice? `pictures` are data URLs in order of time."""
    return [
        _text(f"{_asked(query)}\nLook at these frames of the video, in order of time."),
        *(_picture(picture) for picture in pictures),
        _text(
            "Are these frames together enough to answer the viewer's question? "
            "Reply with one word, yes or no."
        ),
    ]


def range_prompt(query: str, pictures: Sequence[str]) -> list[ContentPart]:
    """Which of these frames help, and how much? Each one's number stands before it, from 1."""
    parts = [
        _text(
            f"{_asked(query)}\nLook at these frames of the video, in order of time. "
            "The number of each stands before it."
        )
    ]
    for number, picture in enumerate(pictures, start=1):
        parts += [_text(f"Frame {number}:"), _picture(picture)]
    parts.append(
        _text(
            "Which frames does somebody need to see to answer the viewer's question? Rate them "
            "from 1 (hardly helps) to 5 (shows the answer). Reply with one JSON object and "
            "nothing else. Its keys are frame numbers or ranges of them, its values the ratings, "
            'for example {"3-5": 4, "9": 2}. Leave out frames that do not help.'
        )
    )
    return parts


def _asked(query: str) -> str:
    return f"A viewer asks about a video: {plain(query)}"


def plain(query: str) -> str:
    """`query` without what chat templates and picture placeholders look like (`<|…`, `<image>`,
    `[IMG]`), and without what no JSON body can hold."""
    readable = query.encode("utf-8", "replace").decode("utf-8")
    return _MARK.sub(r"\1 ", readable)


def _text(text: str) -> ContentPart:
    return {"type": "text", "text": text}


def _picture(data_url: str) -> ContentPart:
    return {"type": "image_url", "image_url": {"url": data_url}}
