"""Fonts for what people write.

Importing this file imports matplotlib: only the process that draws does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Final

from matplotlib import font_manager

FONT: Final = "DejaVu Sans"
"""Comes with matplotlib."""
MAX_FONTS_LOOKED_INTO: Final = 80


def font_families(text: str) -> list[str]:
    """In the order in which they are asked for each sign.

    Looks into the machine's fonts only for signs that the shipped one lacks. What none of them has
    is drawn as a box that shows its script.
    """
    families = [FONT]
    missing = {sign for sign in text if not sign.isspace()} - _signs(_path_of(FONT))
    for name, path in _installed_fonts():
        if not missing:
            break
        found = missing & _signs(path)
        if found:
            families.append(name)
            missing -= found
    return families


def _path_of(family: str) -> str:
    return str(font_manager.findfont(family))


def _installed_fonts() -> list[tuple[str, str]]:
    """Name and file of one face a family: upright, regular."""
    faces: dict[str, str] = {}
    for entry in font_manager.fontManager.ttflist:
        is_plain = entry.style == "normal" and entry.weight in {400, "normal", "regular"}
        # It claims to have every sign: those boxes.
        if is_plain and not entry.name.startswith("Last Resort"):
            faces.setdefault(entry.name, entry.fname)
    return sorted(faces.items())[:MAX_FONTS_LOOKED_INTO]


@lru_cache(maxsize=128)
def _signs(path: str) -> frozenset[str]:
    try:
        return frozenset(map(chr, font_manager.get_font(path).get_charmap()))
    except (OSError, RuntimeError):  # Gone since matplotlib listed it, or damaged.
        return frozenset()
