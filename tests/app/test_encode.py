from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from app.encode import StoredTokenEncoder
from app.stores.features import FeatureStore
from app.stores.layout import DataLayout
from samplers.contract import FeaturesMissingError
from tests.app.stored_video import ENCODER_ID, SHAPE, VIDEO_ID, store_video
from tests.fakes import FakeEncoderClient

pytestmark = pytest.mark.anyio


async def test_chosen_frames_have_the_tokens_that_were_stored_for_them(tmp_path: Path) -> None:
    video = store_video(tmp_path, stride=3).open(VIDEO_ID)
    features = FeatureStore(DataLayout(tmp_path), 1 << 20)
    client = FakeEncoderClient()
    client.encoder_id = ENCODER_ID
    tokens = await StoredTokenEncoder(features, client).encode(video, [0, 6, 297])
    assert tokens.shape == (3, SHAPE.tokens_per_picture, SHAPE.token_dim)
    assert tokens.dtype == np.float32
    assert np.array_equal(tokens, features.tokens(video.feature_key(ENCODER_ID), [0, 2, 99]))
    assert client.rows == []


async def test_tokens_of_another_encoder_are_missing(tmp_path: Path) -> None:
    video = store_video(tmp_path).open(VIDEO_ID)
    encoder = StoredTokenEncoder(FeatureStore(DataLayout(tmp_path), 1 << 20), FakeEncoderClient())
    with pytest.raises(FeaturesMissingError):
        await encoder.encode(replace(video), [0])
