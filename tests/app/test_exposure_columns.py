"""Columns that grow at their end and forget their beginning."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from app.exposure_columns import MIN_ROWS, ExposureColumns


def test_rows_beyond_the_first_block_are_kept() -> None:
    columns = ExposureColumns(["x", "y"], max_rows=10 * MIN_ROWS)
    for number in range(3 * MIN_ROWS):
        columns.append(str(number), f"u{number % 50}", {"x": float(number)})
    assert np.array_equal(columns.column("x"), np.arange(3.0 * MIN_ROWS))
    assert np.isnan(columns.column("y")).all()
    assert np.array_equal(columns.users(), np.arange(3 * MIN_ROWS) % 50)


def test_a_late_value_reaches_its_row_and_no_other_and_no_array_handed_out() -> None:
    columns = ExposureColumns(["x"], max_rows=4)
    for number in range(6):
        columns.append(str(number), "u", {})
    before = columns.column("x")
    columns.set("0", "x", 9.0)
    columns.set("5", "x", 1.0)
    assert np.isnan(before).all()
    assert list(np.flatnonzero(columns.column("x") == 1.0)) == [len(before) - 1]
    assert not (columns.column("x") == 9.0).any()


@given(users=st.lists(st.integers(0, 5), min_size=1, max_size=60), max_rows=st.integers(2, 20))
def test_users_are_dense_codes_in_the_order_of_their_first_kept_rows(
    users: list[int], max_rows: int
) -> None:
    columns = ExposureColumns(["x"], max_rows)
    for number, user in enumerate(users):
        columns.append(str(number), str(user), {"x": float(user)})
    kept, codes = columns.column("x"), columns.users()

    assert len(kept) == len(codes) <= max_rows
    assert list(kept) == [float(user) for user in users[-len(kept) :]]
    assert list(dict.fromkeys(codes.tolist())) == list(range(len(set(kept.tolist()))))
    assert len(set(zip(kept.tolist(), codes.tolist(), strict=True))) == len(set(kept.tolist()))
