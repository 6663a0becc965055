"""Query vectors: encoded once, kept in memory, bounded; askers of the same query share one call."""

from __future__ import annotations

import asyncio
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from typing import Protocol

from samplers.contract import FloatArray

TEMPLATE_VERSION = "raw1"
"""The text of the query goes to the encoder as it is. A template would get a version of its own."""


class EncodedQuery(Protocol):
    """`app.encoders.contract.QueryVector`, as this store sees it."""

    @property
    def vector(self) -> FloatArray: ...
    @property
    def is_truncated(self) -> bool: ...
    @property
    def device_s(self) -> float: ...


class EmbeddingSpace(Protocol):
    """`app.encoders.contract.EncoderInfo`, as this store sees it."""

    @property
    def encoder_id(self) -> str: ...


class QueryEncoder(Protocol):
    """`app.encoders.contract.EncoderClient`, as this store sees it."""

    async def info(self) -> EmbeddingSpace: ...
    async def encode_query(self, text: str) -> EncodedQuery: ...


@dataclass(frozen=True, slots=True)
class FoundQuery:
    vector: EncodedQuery
    is_hit: bool
    """No work of the encoder's was spent on this lookup: stored, or shared with another asker."""


class QueryVectors:
    """An LRU cache of query vectors in front of the encoder. Used from one event loop."""

    def __init__(self, encoder: QueryEncoder, max_entries: int) -> None:
        self._encoder = encoder
        self._max_entries = max_entries
        self._stored: OrderedDict[str, EncodedQuery] = OrderedDict()
        self._pending: dict[str, asyncio.Task[EncodedQuery]] = {}

    def __len__(self) -> int:
        return len(self._stored)

    def peek(self, encoder_id: str, query: str) -> EncodedQuery | None:
        """What is stored, without counting as a use of it."""
        return self._stored.get(_key(encoder_id, query))

    async def get(self, query: str) -> FoundQuery:
        """The query's vector in the current embedding space. Raises `EncoderUnavailableError`."""
        key = _key((await self._encoder.info()).encoder_id, query)
        stored = self._stored.get(key)
        if stored is not None:
            self._stored.move_to_end(key)
            return FoundQuery(stored, is_hit=True)
        is_first = key not in self._pending
        if is_first:
            self._pending[key] = asyncio.create_task(self._encode(key, query))
        # Shielded: an asker who leaves must not take the vector away from the others.
        return FoundQuery(await asyncio.shield(self._pending[key]), is_hit=not is_first)

    async def _encode(self, key: str, query: str) -> EncodedQuery:
        try:
            vector = await self._encoder.encode_query(query)
        finally:
            del self._pending[key]
        self._stored[key] = vector
        while len(self._stored) > self._max_entries:
            self._stored.popitem(last=False)
        return vector


def _key(encoder_id: str, query: str) -> str:
    return f"{encoder_id}:{TEMPLATE_VERSION}:{hashlib.sha256(query.encode()).hexdigest()}"
