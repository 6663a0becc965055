"""Columns in memory that grow at their end and forget their beginning: one row an exposure."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]

MIN_ROWS = 1024


class ExposureColumns:
    """Rows of float64 by name, NaN where nothing was set, and who was exposed.

    Not locked. What is handed out are copies or views that later rows do not change.
    """

    def __init__(self, names: Sequence[str], max_rows: int) -> None:
        self._position = {name: index for index, name in enumerate(names)}
        self._max_rows = max_rows
        self._values: Floats = np.full((len(names), MIN_ROWS), np.nan)
        self._users: Integers = np.zeros(MIN_ROWS, dtype=np.int64)
        self._code_of_user: dict[str, int] = {}
        self._num_codes = 0
        self._row_of_answer: dict[str, int] = {}
        self._num_rows = 0
        self._num_forgotten = 0

    def append(self, answer_id: str, user: str, values: dict[str, float]) -> None:
        """Beyond `max_rows`, the oldest half is forgotten."""
        if self._num_rows == self._max_rows:
            self.forget_first(self._max_rows // 2)
        if self._num_rows == self._values.shape[1]:
            self._grow()
        row = self._num_rows
        for name, value in values.items():
            self._values[self._position[name], row] = value
        self._users[row] = self._code_of(user)
        self._row_of_answer[answer_id] = row + self._num_forgotten
        self._num_rows += 1

    def set(self, answer_id: str, name: str, value: float) -> None:
        """A figure that comes after the answer; nothing where the answer is not, or no more, kept.

        Arrays handed out before are not touched.
        """
        row = self._row_of_answer.get(answer_id)
        if row is not None:
            self._values[self._position[name], row - self._num_forgotten] = value

    def column(self, name: str) -> Floats:
        """float64 `[A]`, a copy."""
        return self._values[self._position[name], : self._num_rows].copy()

    def users(self) -> Integers:
        """int64 `[A]`: dense codes 0, 1, ... in the order of first exposures; a copy."""
        users = self._users[: self._num_rows]
        if self._num_forgotten == 0:
            return users.copy()
        _, first, code = np.unique(users, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first)] = np.arange(len(first))
        return rank[code]

    def forget_first(self, num_rows: int) -> None:
        left = self._num_rows - num_rows
        self._values[:, :left] = self._values[:, num_rows : self._num_rows].copy()
        self._values[:, left:] = np.nan
        self._users[:left] = self._users[num_rows : self._num_rows].copy()
        self._num_rows = left
        self._num_forgotten += num_rows
        kept = set(np.unique(self._users[:left]).tolist())
        self._code_of_user = {u: code for u, code in self._code_of_user.items() if code in kept}
        self._row_of_answer = {
            answer_id: row
            for answer_id, row in self._row_of_answer.items()
            if row >= self._num_forgotten
        }

    def _code_of(self, user: str) -> int:
        code = self._code_of_user.get(user)
        if code is None:
            code = self._code_of_user[user] = self._num_codes
            self._num_codes += 1
        return code

    def _grow(self) -> None:
        more = self._values.shape[1]
        empty = np.full((len(self._values), more), np.nan)
        self._values = np.concatenate([self._values, empty], axis=1)
        self._users = np.concatenate([self._users, np.zeros(more, dtype=np.int64)])
