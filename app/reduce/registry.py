"""The reducers: a table `id -> "module:Class"`. A new reducer is one file and one line here."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module

from app.reduce.contract import InvalidReducerOptionsError, Reducer

REDUCERS: dict[str, str] = {
    "none": "app.reduce.none:NoneReducer",
    "merge": "app.reduce.merge:MergeReducer",
}


def build_reducer(reducer_id: str, options: Mapping[str, object]) -> Reducer:
    """The reducer with these options. Raises KeyError for an unknown id, which settings refuse,
    and `InvalidReducerOptionsError` for an option that it does not know or refuses."""
    module, name = REDUCERS[reducer_id].split(":")
    cls = getattr(import_module(module), name)
    try:
        built = cls.Options(**options)
    except TypeError as exc:
        raise InvalidReducerOptionsError(f"{reducer_id}: {exc}") from exc
    reducer: Reducer = cls(built)
    return reducer
