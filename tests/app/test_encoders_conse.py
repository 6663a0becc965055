"""The real ConSE encoder, on real pictures."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from app.encoders.conse import ConseEncoder, ConseWeights
from app.encoders.contract import Picture
from app.encoders.efficientnet import SHORT_SIDE_PX, prepared
from samplers.contract import FloatArray
from tests.app.pictures import clip_frames, noise_picture

DECODE_VERSION = "d1-test"


@pytest.fixture(scope="module")
def cache_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("labels")


@pytest.fixture(scope="module")
def encoder(cache_dir: Path) -> ConseEncoder:
    torch.set_num_threads(1)
    return ConseEncoder(ConseWeights.installed(), DECODE_VERSION, cache_dir)


@pytest.fixture(scope="module")
def bikes() -> list[Picture]:
    return clip_frames("bikes.mp4", [30, 60, 90])


@pytest.fixture(scope="module")
def bunny() -> list[Picture]:
    return clip_frames("bigbuckbunny.mp4", [10, 60, 110])


def embedding(encoder: ConseEncoder, picture: Picture) -> FloatArray:
    features = encoder.encode_pictures([picture])
    vector: FloatArray = np.asarray(features.embeddings[0], dtype=np.float32)
    return vector


def test_features_have_the_shapes_that_info_names(
    encoder: ConseEncoder, bikes: list[Picture]
) -> None:
    info, features = encoder.info, encoder.encode_pictures(bikes)
    assert features.embeddings.shape == (3, info.embedding_dim)
    assert features.tokens.shape == (3, info.tokens_per_picture, info.token_dim)
    assert info.token_labels is not None
    assert len(info.token_labels) == info.token_dim
    assert features.device_s > 0


@pytest.mark.parametrize(
    "picture",
    [
        np.zeros((240, 320, 3), np.uint8),
        np.full((240, 320, 3), 255, np.uint8),
        noise_picture(1),
        noise_picture(2, height=400, width=32),
        noise_picture(3, height=16, width=640),
    ],
    ids=["black", "white", "noise", "tall", "wide"],
)
def test_every_picture_gets_a_finite_unit_vector_and_distributions(
    encoder: ConseEncoder, picture: Picture
) -> None:
    features = encoder.encode_pictures([picture])
    assert np.linalg.norm(features.embeddings.astype(np.float32)) == pytest.approx(1, abs=2e-3)
    assert features.tokens.astype(np.float32).sum(axis=2) == pytest.approx(1, abs=2e-2)


def test_the_same_picture_has_the_same_features_in_every_batch(
    encoder: ConseEncoder, bikes: list[Picture], bunny: list[Picture]
) -> None:
    alone = encoder.encode_pictures([bunny[1]])
    among = encoder.encode_pictures([bikes[0], bunny[1], bikes[1]])
    assert np.array_equal(alone.embeddings[0], among.embeddings[1])
    assert np.array_equal(alone.tokens[0], among.tokens[1])


def test_a_bicycle_is_found_on_pictures_of_bicycles(
    encoder: ConseEncoder, bikes: list[Picture], bunny: list[Picture]
) -> None:
    query = encoder.encode_query("bicycle").vector
    on_bikes = [float(embedding(encoder, picture) @ query) for picture in bikes]
    on_bunny = [float(embedding(encoder, picture) @ query) for picture in bunny]
    assert min(on_bikes) > max(on_bunny) + 0.1


def test_both_sides_of_a_wide_picture_count(encoder: ConseEncoder, bikes: list[Picture]) -> None:
    grey = np.full_like(bikes[1], 127)
    left, right = np.hstack([bikes[1], grey]), np.hstack([grey, bikes[1]])
    assert prepared(left).shape == (1, 3, SHORT_SIDE_PX, 2 * SHORT_SIDE_PX)
    tokens = encoder.encode_pictures([left, right]).tokens.astype(np.float32)
    grey_cells = encoder.encode_pictures([np.hstack([grey, grey])]).tokens.astype(np.float32)
    moved = np.abs(tokens - grey_cells).sum(axis=2)
    assert moved[0, [0, 2]].min() > 0.5
    assert moved[1, [1, 3]].min() > 0.5


def test_a_query_has_the_vector_of_the_published_model(encoder: ConseEncoder) -> None:
    query = encoder.encode_query("What colour is the motorcycle in the garage?")
    # Made by sentence-transformers 6.2 from the same weights.
    published = [-0.02748195, 0.12912771, -0.06117975, -0.01209738, 0.01972389]
    assert query.vector[:5] == pytest.approx(published, abs=1e-5)
    assert np.linalg.norm(query.vector) == pytest.approx(1, abs=1e-5)
    assert not query.is_truncated
    assert not query.vector.flags.writeable


def test_a_query_that_the_text_tower_cuts_off_is_reported(encoder: ConseEncoder) -> None:
    long = encoder.encode_query("a dog " * 300)
    assert long.is_truncated
    assert np.linalg.norm(long.vector) == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("text", ["", "\n", "🚲", "x" * 5000])
def test_any_text_has_a_finite_vector(encoder: ConseEncoder, text: str) -> None:
    assert np.linalg.norm(encoder.encode_query(text).vector) == pytest.approx(1, abs=1e-5)


def test_the_encoder_id_changes_with_what_shapes_a_row() -> None:
    weights = ConseWeights.installed()
    other = replace(weights, labels=("tench", *weights.labels[1:-1], "mop"))
    digests = {weights.digest("d1"), weights.digest("d2"), other.digest("d1")}
    assert len(digests) == 3
    assert weights.digest("d1") in digests


def test_label_embeddings_are_stored_once_and_mended_when_damaged(
    encoder: ConseEncoder, cache_dir: Path, bikes: list[Picture]
) -> None:
    [stored] = cache_dir.iterdir()
    assert stored.name == f"labels-{encoder.info.encoder_id}.npy"
    whole = stored.read_bytes()
    stored.write_bytes(whole[:1000])
    again = ConseEncoder(ConseWeights.installed(), DECODE_VERSION, cache_dir)
    assert [*cache_dir.iterdir()] == [stored]
    assert stored.read_bytes() == whole
    assert np.array_equal(embedding(again, bikes[0]), embedding(encoder, bikes[0]))


def test_torchvision_can_be_imported_beside_this_torch() -> None:
    code = (
        "from app.encoders.torchvision_ops import define_missing_torchvision_ops as define\n"
        "define(); define()\n"
        "import torchvision.transforms\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
