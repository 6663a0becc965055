from __future__ import annotations

import asyncio

import pytest

from app.encoders.contract import QueryVector
from app.errors import EncoderUnavailableError
from app.stores.query_vectors import FoundQuery, QueryVectors
from tests.fakes import FakeEncoderClient

pytestmark = pytest.mark.anyio


class CountingEncoder(FakeEncoderClient):
    """Counts what it encodes, waits for `gate`, and fails as often as told."""

    def __init__(self, num_failures: int = 0) -> None:
        super().__init__()
        self.texts: list[str] = []
        self._num_failures = num_failures

    async def encode_query(self, text: str) -> QueryVector:
        self.texts.append(text)
        await self.gate.wait()
        if self._num_failures > 0:
            self._num_failures -= 1
            raise EncoderUnavailableError
        return await super().encode_query(text)


def start(vectors: QueryVectors, query: str) -> asyncio.Task[FoundQuery]:
    return asyncio.create_task(vectors.get(query))


async def test_a_second_question_is_a_hit() -> None:
    encoder = CountingEncoder()
    vectors = QueryVectors(encoder, 10)
    first, second = await vectors.get("a dog"), await vectors.get("a dog")
    assert (first.is_hit, second.is_hit) == (False, True)
    assert second.vector is first.vector
    assert encoder.texts == ["a dog"]


async def test_simultaneous_askers_share_one_call() -> None:
    encoder = CountingEncoder()
    encoder.gate.clear()
    vectors = QueryVectors(encoder, 10)
    asking = [start(vectors, "a dog") for _ in range(100)]
    await asyncio.sleep(0)
    encoder.gate.set()
    found = await asyncio.gather(*asking)
    assert encoder.texts == ["a dog"]
    assert [answer.is_hit for answer in found].count(False) == 1


async def test_an_asker_who_leaves_takes_nothing_from_the_others() -> None:
    encoder = CountingEncoder()
    encoder.gate.clear()
    vectors = QueryVectors(encoder, 10)
    leaver, stayer = start(vectors, "a dog"), start(vectors, "a dog")
    await asyncio.sleep(0.01)
    leaver.cancel()
    encoder.gate.set()
    assert (await stayer).vector.vector.shape == (8,)
    assert encoder.texts == ["a dog"]


async def test_a_failure_reaches_every_asker_and_is_not_kept() -> None:
    encoder = CountingEncoder(num_failures=1)
    vectors = QueryVectors(encoder, 10)
    failed = await asyncio.gather(*(vectors.get("a dog") for _ in range(3)), return_exceptions=True)
    assert [type(error) for error in failed] == [EncoderUnavailableError] * 3
    assert not (await vectors.get("a dog")).is_hit
    assert encoder.texts == ["a dog", "a dog"]


async def test_the_least_recently_asked_query_is_dropped() -> None:
    vectors = QueryVectors(CountingEncoder(), 2)
    for query in ("a", "b", "a", "c"):
        await vectors.get(query)
    assert len(vectors) == 2
    assert (await vectors.get("a")).is_hit
    assert not (await vectors.get("b")).is_hit


async def test_another_encoder_gets_vectors_of_its_own() -> None:
    encoder = CountingEncoder()
    vectors = QueryVectors(encoder, 10)
    await vectors.get("a dog")
    encoder.encoder_id = "fake@00000002"
    assert not (await vectors.get("a dog")).is_hit
