"""The gateway's side of the encoder process: HTTP over its Unix domain socket."""

from __future__ import annotations

from pathlib import Path

import httpx
from pydantic import BaseModel

from app.encoders import wire
from app.encoders.contract import EncoderInfo, PictureFeatures, QueryVector
from app.errors import EncoderUnavailableError
from observability.stages import inject_context

CONNECT_TIMEOUT_S = 1.0
INFO_TIMEOUT_S = 2.0
QUERY_TIMEOUT_S = 10.0
"""A query waits for at most one picture, and for the queries before it."""
PICTURES_TIMEOUT_S = 300.0
KEEP_ALIVE_S = 60.0
"""Less than the server's, so that no request meets a connection that is just being closed."""
MAX_CONNECTIONS = 256


class HttpEncoderClient:
    """An `EncoderClient`. Whatever goes wrong is an `EncoderUnavailableError` with the reason."""

    def __init__(self, socket_path: Path) -> None:
        limits = httpx.Limits(max_connections=MAX_CONNECTIONS, keepalive_expiry=KEEP_ALIVE_S)
        transport = httpx.AsyncHTTPTransport(uds=str(socket_path), limits=limits)
        self._http = httpx.AsyncClient(
            transport=transport, base_url="http://encoder", trust_env=False
        )
        self._info: EncoderInfo | None = None

    async def aclose(self) -> None:
        await self._http.aclose()

    async def info(self) -> EncoderInfo:
        """Asked for once: afterwards it answers while the process is away, too."""
        return self._info or await self.ask_info()

    async def ask_info(self) -> EncoderInfo:
        content = await self._call("GET", wire.INFO, None, INFO_TIMEOUT_S)
        try:
            self._info = wire.info_from_json(content)
        except ValueError as exc:
            raise _unreadable(exc) from exc
        return self._info

    async def encode_pictures(self, pictures: Path, rows: range) -> PictureFeatures:
        asked = wire.PicturesRequest(folder=pictures, start=rows.start, stop=rows.stop)
        body = await self._call("POST", wire.PICTURES, asked, PICTURES_TIMEOUT_S)
        try:
            encoder_id, features = wire.pictures_from_bytes(body)
        except ValueError as exc:
            raise _unreadable(exc) from exc
        self._check_space(encoder_id)
        return features

    async def encode_query(self, text: str) -> QueryVector:
        asked = wire.QueryRequest(text=text)
        body = await self._call("POST", wire.QUERY, asked, QUERY_TIMEOUT_S)
        try:
            encoder_id, query = wire.query_from_bytes(body)
        except ValueError as exc:
            raise _unreadable(exc) from exc
        self._check_space(encoder_id)
        return query

    async def _call(
        self, method: str, path: str, content: BaseModel | None, timeout_s: float
    ) -> bytes:
        try:
            response = await self._http.request(
                method,
                path,
                content=None if content is None else content.model_dump_json(),
                headers=inject_context(),
                timeout=httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
            )
        except httpx.HTTPError as exc:
            raise EncoderUnavailableError(
                f"The encoder process is away ({type(exc).__name__})."
            ) from exc
        if response.status_code != 200:
            raise EncoderUnavailableError(
                f"The encoder process answered {response.status_code}: {response.text[:200]}"
            )
        return response.content

    def _check_space(self, encoder_id: str) -> None:
        """The process came back with other weights: rows of two spaces must never mix."""
        if self._info is not None and self._info.encoder_id != encoder_id:
            self._info = None
            raise EncoderUnavailableError(f"The encoder was replaced by {encoder_id}.")


def _unreadable(error: Exception) -> EncoderUnavailableError:
    return EncoderUnavailableError(f"The encoder process answered nonsense ({error}).")
