"""Query vectors for the shadow, where the control had no need of one."""

from __future__ import annotations

import asyncio

from app.encoders.contract import EncoderClient
from app.errors import EncoderUnavailableError
from app.stores.query_vectors import FoundQuery, QueryVectors

MAX_ENTRIES = 1000


class ShadowVectors:
    """Looks into the answers' cache without leaving a trace there; has a small one of its own.

    One call of the encoder process at a time: questions go first there, and a user's question waits
    for one of ours at most.
    """

    def __init__(self, encoder: EncoderClient, of_answers: QueryVectors) -> None:
        self._encoder = encoder
        self._of_answers = of_answers
        self._own = QueryVectors(encoder, MAX_ENTRIES)
        self._turn = asyncio.Lock()

    async def get(self, text: str) -> FoundQuery | None:
        """None where the encoder process is away."""
        try:
            encoder_id = (await self._encoder.info()).encoder_id
            stored = self._of_answers.peek(encoder_id, text)
            if stored is not None:
                return FoundQuery(stored, is_hit=True)
            async with self._turn:
                return await self._own.get(text)
        except EncoderUnavailableError:
            return None
