"""The command line's HTTP client of a running Framegate."""

from __future__ import annotations

import json
import mimetypes
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import httpx

from app.settings import Settings

Document = dict[str, Any]

CHUNK_BYTES = 256 * 1024
POLL_S = 0.25


OPTIONS: Final = {
    "candidate": "CANDIDATE",
    "dwell_s": "--dwell",
    "guards": "--guard",
    "min_answers": "--min-exposures",
    "num_questions": "--questions",
    "question": "QUESTION",
    "score": "SCORE",
    "user_id": "--user",
    "user_window_s": "--user-window",
    "video_id": "VIDEO",
}
"""What the command line calls a field of a request where it does not call it `--field`."""


class CliError(Exception):
    """Something the user of the command line can read and act on."""


class NoAnswerError(CliError):
    """No service answers at that address."""


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One server-sent event of a streamed answer."""

    name: str
    data: Document


class FramegateClient:
    """Blocking client for one server. Every failure is a `CliError` with the server's own words."""

    def __init__(self, base_url: str, operator_key: str | None) -> None:
        headers = {"Authorization": f"Bearer {operator_key}"} if operator_key else {}
        timeout = httpx.Timeout(30.0, read=600.0)
        self._http = httpx.Client(base_url=base_url, headers=headers, timeout=timeout)
        self._base_url = base_url

    @classmethod
    def of(cls, settings: Settings, base_url: str) -> FramegateClient:
        """With the operator's key, where one is set."""
        key = settings.operator_key
        return cls(base_url, key.get_secret_value() if key else None)

    def __enter__(self) -> FramegateClient:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def get(self, path: str, **params: str | int) -> Document:
        return self._call("GET", path, params=params)

    def get_text(self, path: str, **params: str | int) -> str:
        """The body of a reply that is no JSON document."""
        return self._reply("GET", path, params=params).text

    def get_bytes(self, path: str, **params: str | int) -> bytes:
        return self._reply("GET", path, params=params).content

    def post(self, path: str, body: Document) -> Document:
        return self._call("POST", path, json=body)

    def put(self, path: str, body: Document) -> Document:
        return self._call("PUT", path, json=body)

    def delete(self, path: str) -> Document:
        return self._call("DELETE", path)

    def _call(self, method: str, path: str, **arguments: Any) -> Document:
        response = self._reply(method, path, **arguments)
        return cast("Document", response.json()) if response.content else {}

    def _reply(self, method: str, path: str, **arguments: Any) -> httpx.Response:
        try:
            response = self._http.request(method, path, **arguments)
        except httpx.HTTPError as exc:
            raise self._unreachable(exc) from exc
        except httpx.InvalidURL as exc:
            raise CliError(f"That is too much for one call: {exc}. Shorten it.") from exc
        _raise_for_problem(response)
        return response

    def is_alive(self) -> bool:
        try:
            return self._http.get("/healthz", timeout=2.0).status_code == 200
        except httpx.HTTPError:
            return False

    def readiness(self) -> Document | None:
        """The document of /readyz whatever its status; None while nothing answers."""
        try:
            return cast("Document", self._http.get("/readyz", timeout=5.0).json())
        except (httpx.HTTPError, ValueError):
            return None

    def upload(self, path: Path, on_bytes: Callable[[int], None]) -> Document:
        """Send a file as the raw body; `on_bytes` gets the bytes sent so far."""
        media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"

        def chunks() -> Iterator[bytes]:
            sent = 0
            with path.open("rb") as file:
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk
                    sent += len(chunk)
                    on_bytes(sent)

        headers = {"Content-Type": media_type, "Content-Length": str(path.stat().st_size)}
        return self._call("POST", "/v1/videos", content=chunks(), headers=headers)

    def wait_until_indexed(self, video_id: str, on_progress: Callable[[float], None]) -> Document:
        """The video's document once it is ready; raises `CliError` when indexing failed."""
        while True:
            video = self.get(f"/v1/videos/{video_id}")
            on_progress(float(video.get("progress") or 0.0))
            if video["status"] == "ready":
                return video
            if video["status"] == "failed":
                raise CliError(_problem_text(video.get("problem") or {}))
            time.sleep(POLL_S)

    def ask(self, body: Document) -> Iterator[ServerEvent]:
        """The events of one streamed answer, in the order of docs/http.md."""
        try:
            with self._http.stream("POST", "/v1/answers", json=body | {"stream": True}) as response:
                if response.status_code >= 400:
                    response.read()
                    _raise_for_problem(response)
                yield from _events(response.iter_lines())
        except httpx.HTTPError as exc:
            raise self._unreachable(exc) from exc

    def _unreachable(self, exc: httpx.HTTPError) -> NoAnswerError:
        return NoAnswerError(
            f"No answer from {self._base_url} ({exc}). Start the service with `framegate serve`, "
            "or name another address with --server."
        )


def _events(lines: Iterator[str]) -> Iterator[ServerEvent]:
    name = "message"
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield ServerEvent(name, json.loads(line.removeprefix("data: ")))


def _raise_for_problem(response: httpx.Response) -> None:
    if response.status_code < 400:
        return
    try:
        problem = response.json()
    except ValueError:
        problem = {}
    raise CliError(_problem_text(problem) or f"HTTP {response.status_code}")


def _problem_text(problem: Document) -> str:
    title = problem.get("title")
    reasons = problem.get("reasons") or [
        f"{_option(e['field'])}: {e['message']}" for e in problem.get("errors", [])
    ]
    if reasons:
        return "\n".join([f"{title}:", *(f"- {sentence(reason)}" for reason in reasons)])
    parts = [title, problem.get("detail"), problem.get("action")]
    distinct = dict.fromkeys(str(part) for part in parts if part)
    return " ".join(map(sentence, distinct))


def sentence(text: str) -> str:
    """`text` with a full stop, unless it has an end already."""
    return text if text.endswith((".", "?", "!")) else f"{text}."


def _option(field: str) -> str:
    """`--min-exposures` of `body.min_answers`; what is not of the body stays as it is."""
    place, _, name = field.partition(".")
    if place != "body" or not name:
        return field
    name = name.partition(".")[0]
    return OPTIONS.get(name, f"--{name.replace('_', '-')}")
