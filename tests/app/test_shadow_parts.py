"""The shadow's small parts: its tenants' counts, its own vectors, the rows that it reads."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from app.shadow_tenants import WINDOW_S, TenantCounts
from app.shadow_vectors import ShadowVectors
from app.stores.features import FeatureKey, FeatureStore
from app.stores.layout import DataLayout
from app.stores.query_vectors import QueryVectors
from tests.app.stored_video import ENCODER_ID, VIDEO_ID, store_video
from tests.fakes import FakeEncoderClient

KEY = FeatureKey(VIDEO_ID, 8.0, ENCODER_ID)


def test_a_tenant_is_counted_alone_and_for_a_minute() -> None:
    now = [0.0]
    counts = TenantCounts(lambda: now[0])
    for _ in range(3):
        counts.count("acme")
    assert (counts.this_minute("acme"), counts.this_minute("initech")) == (3, 0)
    now[0] = WINDOW_S - 0.1
    assert counts.this_minute("acme") == 3
    now[0] = WINDOW_S
    assert counts.this_minute("acme") == 0


@pytest.mark.anyio
async def test_a_vector_of_the_answers_is_used_without_counting_as_a_use() -> None:
    encoder = FakeEncoderClient()
    of_answers = QueryVectors(encoder, max_entries=2)
    await of_answers.get("first")
    await of_answers.get("second")
    found = await ShadowVectors(encoder, of_answers).get("first")
    assert found is not None
    assert found.is_hit
    await of_answers.get("third")
    assert of_answers.peek(encoder.encoder_id, "first") is None
    assert of_answers.peek(encoder.encoder_id, "second") is not None


@pytest.mark.anyio
async def test_a_vector_of_the_shadow_s_own_is_asked_for_once_and_never_stored_for_answers() -> (
    None
):
    encoder = FakeEncoderClient()
    of_answers = QueryVectors(encoder, max_entries=2)
    vectors = ShadowVectors(encoder, of_answers)
    first, second = await vectors.get("first"), await vectors.get("first")
    assert first is not None
    assert second is not None
    assert (first.is_hit, second.is_hit) == (False, True)
    assert encoder.queries == ["first"]
    assert len(of_answers) == 0
    encoder.is_away = True
    assert await vectors.get("another") is None


def test_single_rows_are_those_of_the_whole_and_leave_the_cache_alone(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    store_video(tmp_path)
    features = FeatureStore(layout, 1 << 20)
    rows = features.rows(KEY, [3, 1])
    assert features.cached_bytes == 0
    assert np.array_equal(rows, features.embeddings(KEY)[[3, 1]])


def test_a_video_fits_the_cache_that_is_large_enough(tmp_path: Path) -> None:
    layout = DataLayout(tmp_path)
    store_video(tmp_path)
    assert FeatureStore(layout, 1 << 20).fits_cache(KEY)
    assert not FeatureStore(layout, 16).fits_cache(KEY)
