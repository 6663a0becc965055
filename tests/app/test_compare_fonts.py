"""Fonts in the picture of a comparison."""

from __future__ import annotations

from pathlib import Path

from app.compare_fonts import FONT, _signs, font_families


def test_the_shipped_font_is_asked_first_and_alone_where_it_has_all_signs() -> None:
    assert font_families("Où est le vélo? Где? 2 × 3") == [FONT]
    assert font_families("自転車")[0] == FONT


def test_a_font_that_is_gone_or_damaged_has_no_signs(tmp_path: Path) -> None:
    (tmp_path / "damaged.ttf").write_bytes(b"no font")
    for name in ("damaged.ttf", "gone.ttf"):
        assert _signs(str(tmp_path / name)) == frozenset()
