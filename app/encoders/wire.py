"""What crosses the socket between the gateway and the encoder process.

Requests are small JSON documents. A result is one binary body: the header's length (4 bytes, little
endian), a JSON header, then the arrays' bytes one after the other.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from pydantic import BaseModel, ConfigDict, Field

from app.encoders.contract import EncoderInfo, PictureFeatures, QueryVector

MAX_ROWS = 4096
"""Pictures of one request: bounds the memory of its result."""

HEALTH = "/healthz"
INFO = "/info"
PICTURES = "/encode_pictures"
QUERY = "/encode_query"

JsonObject: TypeAlias = dict[str, object]
Array: TypeAlias = npt.NDArray[np.float16] | npt.NDArray[np.float32]


class PicturesRequest(BaseModel):
    """Rows `start <= row < stop` of the picture pack in a published folder of the frame store."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    folder: Path
    start: int = Field(ge=0)
    stop: int = Field(ge=0)


class QueryRequest(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    text: str


def info_to_json(info: EncoderInfo) -> JsonObject:
    return asdict(info)


def info_from_json(content: bytes) -> EncoderInfo:
    """Raises ValueError, KeyError or TypeError when it is no encoder's info."""
    fields = json.loads(content)
    labels = fields.pop("token_labels")
    return EncoderInfo(**fields, token_labels=None if labels is None else tuple(labels))


def pictures_to_bytes(features: PictureFeatures, encoder_id: str) -> bytes:
    header = {"encoder_id": encoder_id, "device_s": features.device_s}
    return _pack(header, [features.embeddings, features.tokens])


def pictures_from_bytes(body: bytes) -> tuple[str, PictureFeatures]:
    """The encoder_id and the features. Raises ValueError or KeyError when it is neither."""
    header, (embeddings, tokens) = _unpack(body)
    features = PictureFeatures(
        embeddings.astype(np.float16, copy=False),
        tokens.astype(np.float16, copy=False),
        float(header["device_s"]),
    )
    return str(header["encoder_id"]), features


def query_to_bytes(query: QueryVector, encoder_id: str) -> bytes:
    header = {
        "encoder_id": encoder_id,
        "device_s": query.device_s,
        "is_truncated": query.is_truncated,
    }
    return _pack(header, [query.vector])


def query_from_bytes(body: bytes) -> tuple[str, QueryVector]:
    """The encoder_id and the vector. Raises ValueError or KeyError when it is neither."""
    header, (vector,) = _unpack(body)
    query = QueryVector(
        vector.astype(np.float32, copy=False),
        bool(header["is_truncated"]),
        float(header["device_s"]),
    )
    return str(header["encoder_id"]), query


def _pack(header: JsonObject, arrays: Sequence[Array]) -> bytes:
    described = [[array.dtype.str, array.shape] for array in arrays]
    encoded = json.dumps(header | {"arrays": described}).encode()
    return b"".join(
        [len(encoded).to_bytes(4, "little"), encoded, *(array.tobytes() for array in arrays)]
    )


def _unpack(body: bytes) -> tuple[dict[str, float | str], list[Array]]:
    """The header and read-only arrays over `body`."""
    start = 4 + int.from_bytes(body[:4], "little")
    header = json.loads(body[4:start])
    arrays: list[Array] = []
    for dtype, shape in header.pop("arrays"):
        count = int(np.prod(shape))
        arrays.append(np.frombuffer(body, np.dtype(dtype), count, start).reshape(shape))
        start += arrays[-1].nbytes
    return header, arrays
