from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.stores import features as features_module
from app.stores.features import (
    FeatureKey,
    FeatureShape,
    FeatureStore,
    FeatureWriter,
    FeatureWriterBusyError,
    InvalidFeaturesError,
)
from app.stores.layout import DataLayout
from samplers.contract import FeaturesMissingError, FloatArray

SHAPE = FeatureShape(embedding_dim=8, tokens_per_picture=2, token_dim=3)
ROW_BYTES = SHAPE.embedding_dim * 4
Half = npt.NDArray[np.float16]


def key(letter: str = "a", encoder_id: str = "tiny@00000000") -> FeatureKey:
    return FeatureKey(letter * 64, 2.0, encoder_id)


def rows(num_rows: int, seed: int = 0, dim: int = 8) -> tuple[Half, Half]:
    rng = np.random.default_rng(seed)
    embeddings = rng.standard_normal((num_rows, dim))
    embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
    tokens = rng.random((num_rows, SHAPE.tokens_per_picture, SHAPE.token_dim))
    return embeddings.astype(np.float16), tokens.astype(np.float16)


def query(seed: int = 9) -> FloatArray:
    vector = np.random.default_rng(seed).standard_normal(SHAPE.embedding_dim).astype(np.float32)
    unit: FloatArray = vector / np.linalg.norm(vector)
    return unit


def fill(store: FeatureStore, of: FeatureKey, num_rows: int, seed: int = 0) -> tuple[Half, Half]:
    made = rows(num_rows, seed)
    with store.writer(of, num_rows, SHAPE) as writer:
        writer.append(*made)
        writer.commit()
    return made


@pytest.fixture
def layout(tmp_path: Path) -> DataLayout:
    return DataLayout(tmp_path)


@pytest.fixture
def store(layout: DataLayout) -> FeatureStore:
    return FeatureStore(layout, 1 << 20)


def test_what_was_written_is_read_back(store: FeatureStore) -> None:
    embeddings, tokens = fill(store, key(), 10)
    read = store.embeddings(key())
    assert read.dtype == np.float32
    assert read == pytest.approx(embeddings.astype(np.float32), abs=1e-3)
    assert np.linalg.norm(read, axis=1) == pytest.approx(1, abs=1e-6)
    assert not read.flags.writeable
    assert np.array_equal(store.tokens(key(), [7, 0, 7]), tokens[[7, 0, 7]].astype(np.float32))


@given(batches=st.lists(st.integers(0, 5), min_size=1, max_size=6).filter(sum))
@settings(max_examples=25)
def test_batches_of_any_size_give_the_same_file(
    tmp_path_factory: pytest.TempPathFactory, batches: list[int]
) -> None:
    layout = DataLayout(tmp_path_factory.mktemp("data"))
    store = FeatureStore(layout, 1 << 20)
    embeddings, tokens = rows(sum(batches))
    with store.writer(key(), sum(batches), SHAPE) as writer:
        for size in batches:
            start = writer.next_row
            writer.append(embeddings[start : start + size], tokens[start : start + size])
        writer.commit()
    path = layout.embeddings(key().video_id, key().fps, key().encoder_id)
    assert np.array_equal(np.load(path), embeddings)


def test_rows_are_invisible_until_all_are_committed(
    store: FeatureStore, layout: DataLayout
) -> None:
    embeddings, tokens = rows(4)
    with store.writer(key(), 4, SHAPE) as writer:
        writer.append(embeddings[:3], tokens[:3])
        with pytest.raises(InvalidFeaturesError, match="3 of 4"):
            writer.commit()
        assert not store.has(key())
        with pytest.raises(FeaturesMissingError):
            store.embeddings(key())
        writer.append(embeddings[3:], tokens[3:])
        writer.commit()
    assert store.has(key())
    assert list(layout.temporary.iterdir()) == []


def test_the_next_writer_goes_on_where_the_last_one_stopped(store: FeatureStore) -> None:
    embeddings, tokens = rows(6)
    with store.writer(key(), 6, SHAPE) as writer:
        writer.append(embeddings[:4], tokens[:4])
    with store.writer(key(), 6, SHAPE) as writer:
        assert writer.next_row == 4
        writer.append(embeddings[4:], tokens[4:])
        writer.commit()
    assert np.array_equal(store.tokens(key(), range(6)), tokens.astype(np.float32))


@given(
    cut_embeddings=st.integers(0, 6 * SHAPE.embedding_dim * 2 + 128),
    cut_tokens=st.integers(0, 6 * 12 + 128),
)
@settings(max_examples=40)
def test_a_writer_killed_anywhere_leaves_only_whole_rows(
    tmp_path_factory: pytest.TempPathFactory, cut_embeddings: int, cut_tokens: int
) -> None:
    layout = DataLayout(tmp_path_factory.mktemp("data"))
    store = FeatureStore(layout, 1 << 20)
    embeddings, tokens = rows(6)
    with store.writer(key(), 6, SHAPE) as writer:
        writer.append(embeddings, tokens)
    for part, cut in zip(
        sorted(layout.temporary.iterdir()), (cut_embeddings, cut_tokens), strict=True
    ):
        content = part.read_bytes()
        part.write_bytes(content[: max(0, len(content) - cut)])
    assert not store.has(key())
    with store.writer(key(), 6, SHAPE) as writer:
        start = writer.next_row
        writer.append(embeddings[start:], tokens[start:])
        writer.commit()
    assert np.array_equal(store.tokens(key(), range(6)), tokens.astype(np.float32))
    assert store.embeddings(key()) == pytest.approx(embeddings.astype(np.float32), abs=1e-3)


def test_a_part_of_another_shape_is_started_afresh(store: FeatureStore) -> None:
    embeddings, tokens = rows(4)
    with store.writer(key(), 4, SHAPE) as writer:
        writer.append(embeddings, tokens)
    with store.writer(key(), 5, SHAPE) as writer:
        assert writer.next_row == 0


def test_a_key_has_one_writer(store: FeatureStore) -> None:
    with (
        store.writer(key("a"), 4, SHAPE),
        store.writer(key("b"), 4, SHAPE),
        pytest.raises(FeatureWriterBusyError),
    ):
        store.writer(key("a"), 4, SHAPE)


def test_a_finished_file_is_never_touched_by_the_next_writer(store: FeatureStore) -> None:
    embeddings, _ = fill(store, key(), 4)
    seen = store.embeddings(key()).copy()
    with store.writer(key(), 4, SHAPE) as writer:
        assert writer.next_row == 0
    store.forget(key().video_id)
    assert np.array_equal(store.embeddings(key()), seen)
    assert len(embeddings) == 4


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda e, t: (e * np.float16(2), t), "normalised"),
        (lambda e, t: (np.full_like(e, np.nan), t), "finite"),
        (lambda e, t: (e, np.full_like(t, np.inf)), "finite"),
        (lambda e, t: (np.zeros_like(e), t), "normalised"),
        (lambda e, t: (e[:, :4], t), "shape"),
        (lambda e, t: (e, t[1:]), "shape"),
        (lambda e, t: (np.tile(e, (3, 1)), np.tile(t, (3, 1, 1))), "more than"),
    ],
    ids=["long", "nan", "infinite", "zero", "narrow", "uneven", "too many"],
)
def test_bad_rows_are_refused_and_leave_no_trace(
    store: FeatureStore, spoil: object, reason: str
) -> None:
    assert callable(spoil)
    good = rows(2)
    with store.writer(key(), 4, SHAPE) as writer:
        with pytest.raises(InvalidFeaturesError, match=reason):
            writer.append(*spoil(*good))
        assert writer.next_row == 0
        writer.append(*good)
        assert writer.next_row == 2


def test_two_encoders_never_share_rows(store: FeatureStore) -> None:
    fill(store, key(), 3)
    assert not store.has(key(encoder_id="tiny@00000001"))
    with pytest.raises(FeaturesMissingError):
        store.tokens(key(encoder_id="tiny@00000001"), [0])


@pytest.mark.parametrize("content", [b"", b"\x93NUMPY\x01\x00", b"no array"])
def test_a_damaged_file_counts_as_missing(
    store: FeatureStore, layout: DataLayout, content: bytes
) -> None:
    path = layout.embeddings(key().video_id, key().fps, key().encoder_id)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    with pytest.raises(FeaturesMissingError):
        store.embeddings(key())


@given(sizes=st.lists(st.integers(1, 12), min_size=1, max_size=8), capacity=st.integers(0, 30))
@settings(max_examples=25)
def test_the_cache_never_exceeds_its_bound(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], capacity: int
) -> None:
    store = FeatureStore(DataLayout(tmp_path_factory.mktemp("data")), capacity * ROW_BYTES)
    for number, size in enumerate(sizes):
        fill(store, key(f"{number:x}"), size)
        store.embeddings(key(f"{number:x}"))
        assert store.cached_bytes <= capacity * ROW_BYTES


def test_the_least_recently_used_video_leaves_the_cache(layout: DataLayout) -> None:
    store = FeatureStore(layout, 8 * ROW_BYTES)
    for letter in "abc":
        fill(store, key(letter), 4)
    first, second = store.embeddings(key("a")), store.embeddings(key("b"))
    assert store.embeddings(key("a")) is first
    store.embeddings(key("c"))
    assert store.embeddings(key("a")) is first
    assert store.embeddings(key("b")) is not second


def test_forgotten_videos_leave_the_cache(store: FeatureStore) -> None:
    fill(store, key(), 4)
    store.embeddings(key())
    store.forget(key("b").video_id)
    assert store.cached_bytes == 4 * ROW_BYTES
    store.forget(key().video_id)
    assert store.cached_bytes == 0


def test_scores_are_cosines(store: FeatureStore) -> None:
    fill(store, key(), 20)
    scores = store.scores(key(), query())
    assert scores.dtype == np.float32
    assert scores == pytest.approx(store.embeddings(key()) @ query(), abs=1e-6)
    assert not scores.flags.writeable


@pytest.mark.parametrize("block_rows", [1, 7, 1000])
def test_scores_in_blocks_are_the_same_and_fill_no_cache(
    layout: DataLayout, monkeypatch: pytest.MonkeyPatch, block_rows: int
) -> None:
    roomy, tiny = FeatureStore(layout, 1 << 20), FeatureStore(layout, 19 * ROW_BYTES)
    fill(roomy, key(), 20)
    monkeypatch.setattr(features_module, "BLOCK_BYTES", block_rows * ROW_BYTES)
    assert tiny.scores(key(), query()) == pytest.approx(roomy.scores(key(), query()), abs=1e-6)
    assert tiny.cached_bytes == 0


def test_a_writer_that_cannot_start_holds_nothing(layout: DataLayout, store: FeatureStore) -> None:
    name = f"{key().video_id}@2fps@{key().encoder_id}.tokens.part"
    (layout.temporary / name).mkdir(parents=True)
    with pytest.raises(OSError, match=name):
        FeatureWriter(layout, key(), 4, SHAPE)
    (layout.temporary / name).rmdir()
    store.writer(key(), 4, SHAPE).close()
