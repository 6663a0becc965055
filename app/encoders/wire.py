"""What crosses the socket between the gateway and the encoder process.

Requests are small JSON documents. A result is one binary body: the header's length (4 bytes, little
endian), a JSON header, then the arrays' bytes one after the other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Literal, TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from app.encoders.contract import EncoderInfo, PictureFeatures, QueryVector

MAX_ROWS = 4096
"""Pictures of one request: bounds the memory of its result."""

HEALTH = "/healthz"
INFO = "/info"
PICTURES = "/encode_pictures"
QUERY = "/encode_query"

Array: TypeAlias = npt.NDArray[np.float16] | npt.NDArray[np.float32]

_INFO = TypeAdapter(EncoderInfo)


class PicturesRequest(BaseModel):
    """Rows `start <= row < stop` of the picture pack in a published folder of the frame store."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    folder: Path
    start: int = Field(ge=0)
    stop: int = Field(ge=0)


class QueryRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str


class ArrayHeader(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    dtype: Literal["<f2", "<f4"]
    shape: tuple[int, ...]


class ResultHeader(BaseModel):
    """In front of a result's arrays."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    encoder_id: str
    device_s: float
    is_truncated: bool = False
    arrays: tuple[ArrayHeader, ...]


def info_to_json(info: EncoderInfo) -> bytes:
    return _INFO.dump_json(info)


def info_from_json(content: bytes) -> EncoderInfo:
    """Raises ValueError when it is no encoder's info."""
    return _INFO.validate_json(content)


def pictures_to_bytes(features: PictureFeatures, encoder_id: str) -> bytes:
    return _pack(encoder_id, features.device_s, [features.embeddings, features.tokens])


def pictures_from_bytes(body: bytes) -> tuple[str, PictureFeatures]:
    """The encoder_id and the features. Raises ValueError when it is neither."""
    header, (embeddings, tokens) = _unpack(body)
    features = PictureFeatures(
        embeddings.astype(np.float16, copy=False),
        tokens.astype(np.float16, copy=False),
        header.device_s,
    )
    return header.encoder_id, features


def query_to_bytes(query: QueryVector, encoder_id: str) -> bytes:
    return _pack(encoder_id, query.device_s, [query.vector], is_truncated=query.is_truncated)


def query_from_bytes(body: bytes) -> tuple[str, QueryVector]:
    """The encoder_id and the vector. Raises ValueError when it is neither."""
    header, (vector,) = _unpack(body)
    query = QueryVector(vector.astype(np.float32, copy=False), header.is_truncated, header.device_s)
    return header.encoder_id, query


def _pack(
    encoder_id: str, device_s: float, arrays: Sequence[Array], *, is_truncated: bool = False
) -> bytes:
    described = [{"dtype": array.dtype.str, "shape": array.shape} for array in arrays]
    header = {
        "encoder_id": encoder_id,
        "device_s": device_s,
        "is_truncated": is_truncated,
        "arrays": described,
    }
    encoded = json.dumps(header).encode()
    return b"".join(
        [len(encoded).to_bytes(4, "little"), encoded, *(array.tobytes() for array in arrays)]
    )


def _unpack(body: bytes) -> tuple[ResultHeader, list[Array]]:
    """The header and read-only arrays over `body`."""
    start = 4 + int.from_bytes(body[:4], "little")
    header = ResultHeader.model_validate_json(body[4:start])
    arrays: list[Array] = []
    for described in header.arrays:
        count = math.prod(described.shape)
        array: Array = np.frombuffer(body, np.dtype(described.dtype), count, start)
        arrays.append(array.reshape(described.shape))
        start += array.nbytes
    return header, arrays
