"""Stand-ins for tests of something else. None of them is ever a feature's only proof."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from app.encoders.contract import EncoderInfo, PictureFeatures, QueryVector
from app.errors import EncoderUnavailableError, FramegateError
from app.generate.contract import ChatMessage, GenerationOptions, TextDelta, Usage
from app.stores.frames import PicturePack
from flags.rollout_plan import IntentRecord, Rollout, RolloutState, RolloutStep

ACTIVE_STATES = (RolloutState.RUNNING, RolloutState.PAUSED)
LABELS = ("cat", "dog", "street", "kitchen table")


class FakeEncoderClient:
    """An encoder without weights: a picture's features are drawn from the hash of its bytes.

    `failures` maps a row to how many calls that hold it find the process away; `gate` holds every
    call back until it is set.
    """

    def __init__(self, failures: dict[int, int] | None = None) -> None:
        self.encoder_id = "fake@00000001"
        self.rows: list[int] = []
        """Rows of all calls that succeeded, in order."""
        self.queries: list[str] = []
        self.is_away = False
        """True: no query gets its vector."""
        self.gate = asyncio.Event()
        self.gate.set()
        self._failures = dict(failures or {})

    async def info(self) -> EncoderInfo:
        return EncoderInfo("fake", self.encoder_id, 8, 2, 4, LABELS)

    async def ask_info(self) -> EncoderInfo:
        if self.is_away:
            raise EncoderUnavailableError
        return await self.info()

    async def encode_pictures(self, pictures: Path, rows: range) -> PictureFeatures:
        await self.gate.wait()
        for row in rows:
            if self._failures.get(row, 0) > 0:
                self._failures[row] -= 1
                raise EncoderUnavailableError
        pack = PicturePack(pictures)
        drawn = [np.random.default_rng(_seed(pack.jpeg(row))) for row in rows]
        embeddings = np.stack([rng.standard_normal(8) for rng in drawn])
        embeddings /= np.linalg.norm(embeddings, axis=1, keepdims=True)
        tokens = np.stack([rng.random((2, 4)) for rng in drawn])
        self.rows += rows
        return PictureFeatures(embeddings.astype(np.float16), tokens.astype(np.float16), 0.001)

    async def encode_query(self, text: str) -> QueryVector:
        self.queries.append(text)
        if self.is_away:
            raise EncoderUnavailableError
        vector = np.random.default_rng(_seed(text.encode())).standard_normal(8)
        return QueryVector((vector / np.linalg.norm(vector)).astype(np.float32), False, 0.001)

    async def aclose(self) -> None:
        """Nothing is open."""


class FakeLanguageModel:
    """A language model that says what it was told to.

    `hold` makes calls wait before word number `held_at` until `release`; `error` is raised before
    word number `error_at`.
    """

    llm_id = "fake-llm"

    def __init__(self, *words: str) -> None:
        self.words = words or ("two", " cats")
        self.prompts: list[list[ChatMessage]] = []
        """One a call."""
        self.options: list[GenerationOptions] = []
        self.started = asyncio.Event()
        self.held_at = 0
        self.error: FramegateError | None = None
        self.error_at = 0
        self.is_away = False
        """What `is_healthy` denies."""
        self.num_stopped = 0
        """Calls whose stream was closed before its end."""
        self._gate = asyncio.Event()
        self._gate.set()
        self._loop: asyncio.AbstractEventLoop | None = None

    def hold(self) -> None:
        """Before the first call."""
        self._gate.clear()

    def release(self) -> None:
        """From any thread."""
        if self._loop is None:
            self._gate.set()
        else:
            self._loop.call_soon_threadsafe(self._gate.set)

    async def stream(
        self, messages: list[ChatMessage], options: GenerationOptions
    ) -> AsyncGenerator[TextDelta | Usage, None]:
        self._loop = asyncio.get_running_loop()
        self.prompts.append(messages)
        self.options.append(options)
        self.started.set()
        is_complete = False
        try:
            for number, word in enumerate(self.words):
                if number == self.held_at:
                    await self._gate.wait()
                self._fail_at(number)
                yield TextDelta(word)
            self._fail_at(len(self.words))
            yield Usage(7, len(self.words), "stop")
            is_complete = True
        finally:
            self.num_stopped += not is_complete

    def _fail_at(self, number: int) -> None:
        if self.error is not None and number == self.error_at:
            raise self.error

    async def is_healthy(self) -> bool:
        return not self.is_away

    async def aclose(self) -> None:
        """Nothing is open."""


def _seed(content: bytes) -> int:
    return int.from_bytes(hashlib.sha256(content).digest()[:8], "big")


@dataclass(frozen=True, slots=True)
class LlmReply:
    """What `FakeLlmServer` sends: a status and the lines of its body, `pause_s` before each."""

    status: int = 200
    lines: tuple[str, ...] = ()
    pause_s: float = 0.0


def llm_answer(*pieces: str, pause_s: float = 0.0) -> LlmReply:
    """A complete streamed chat answer, as vLLM sends it."""
    chunks: list[dict[str, Any]] = [
        {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]},
        *({"choices": [{"index": 0, "delta": {"content": piece}}]} for piece in pieces),
        {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": len(pieces)}},
    ]
    lines = (*(f"data: {json.dumps(chunk)}" for chunk in chunks), "data: [DONE]")
    return LlmReply(lines=lines, pause_s=pause_s)


class FakeLlmServer:
    """An OpenAI-compatible server on the loopback interface, in a thread. Use as `with`."""

    def __init__(self, reply: LlmReply | None = None) -> None:
        self.reply = reply or llm_answer("two", " cats")
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.client_left = threading.Event()
        """Set when a client closed its stream before the end."""
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler_class())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> FakeLlmServer:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200 if self.path in {"/health", "/v1/models"} else 404)
                self.end_headers()

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                fake.requests.append(json.loads(self.rfile.read(length)))
                fake.headers.append({k.lower(): v for k, v in self.headers.items()})
                fake.send(self)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """The tests' output is not the place for an access log."""

        return Handler

    def send(self, handler: BaseHTTPRequestHandler) -> None:
        """Send the reply; notice when nobody reads it any more."""
        handler.send_response(self.reply.status)
        handler.send_header("Content-Type", "text/event-stream")
        handler.end_headers()
        try:
            for line in self.reply.lines:
                time.sleep(self.reply.pause_s)
                handler.wfile.write(f"{line}\n\n".encode())
                handler.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            self.client_left.set()


VlmReply: TypeAlias = tuple[int, object]
"""A status and the JSON document of the body."""


def vlm_answer(text: str, top: Mapping[str, float] | None = None) -> VlmReply:
    """A chat completion, as vLLM sends it; `top` are probabilities of the first token."""
    tokens = [{"token": token, "logprob": math.log(p)} for token, p in (top or {}).items()]
    first = {"token": text, "logprob": -0.1, "top_logprobs": tokens}
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "logprobs": {"content": [first]} if tokens else None,
        "finish_reason": "length",
    }
    usage = {"prompt_tokens": 100, "completion_tokens": 1, "total_tokens": 101}
    return 200, {"object": "chat.completion", "choices": [choice], "usage": usage}


class FakeVlmServer:
    """An OpenAI-compatible server of a vision-language model on the loopback interface.

    `answer` makes each reply from the request's body; what it does while it runs is up to it. Use
    as `with`.
    """

    def __init__(self, answer: Callable[[dict[str, Any]], VlmReply], port: int = 0) -> None:
        self.answer = answer
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.max_running = 0
        self._num_running = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler_class())
        self._server.daemon_threads = True

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> FakeVlmServer:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _handler_class(self) -> type[BaseHTTPRequestHandler]:
        fake = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status, document = fake.reply(self.path, body, headers)
                content = json.dumps(document).encode()
                with suppress(BrokenPipeError, ConnectionResetError):
                    self.send_response(status)
                    self.send_header("Content-Type", "application/json")
                    self.send_header("Content-Length", str(len(content)))
                    self.end_headers()
                    self.wfile.write(content)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """The tests' output is not the place for an access log."""

        return Handler

    def reply(self, path: str, body: dict[str, Any], headers: dict[str, str]) -> VlmReply:
        if path != "/v1/chat/completions":
            return 404, {"detail": "Not Found"}
        with self._lock:
            self.requests.append(body)
            self.headers.append(headers)
            self._num_running += 1
            self.max_running = max(self.max_running, self._num_running)
        try:
            return self.answer(body)
        finally:
            with self._lock:
                self._num_running -= 1


class FakeRolloutStore:
    """The ledger's part for rollouts, in memory: what a crash of the process leaves behind."""

    def __init__(self) -> None:
        self.rollouts: dict[str, Rollout] = {}
        self.steps: dict[str, list[RolloutStep]] = {}
        self.intent: IntentRecord | None = None

    def active_rollout(self) -> Rollout | None:
        active = [one for one in self.rollouts.values() if one.state in ACTIVE_STATES]
        assert len(active) <= 1
        return active[0] if active else None

    def find_rollout(self, rollout_id: str) -> Rollout | None:
        return self.rollouts.get(rollout_id)

    def list_rollouts(self) -> list[Rollout]:
        return list(self.rollouts.values())[::-1]

    def rollout_steps(self, rollout_id: str) -> list[RolloutStep]:
        return list(self.steps.get(rollout_id, []))

    def save_rollout(self, rollout: Rollout, step: RolloutStep) -> None:
        steps = self.steps.setdefault(rollout.rollout_id, [])
        assert step.sequence == len(steps) + 1, "each step once, in order"
        json.dumps(step.evidence)
        steps.append(step)
        self.rollouts[rollout.rollout_id] = rollout

    def put_intent(self, intent: IntentRecord) -> None:
        assert self.intent is None, "one intent at a time"
        self.intent = intent

    def open_intent(self) -> IntentRecord | None:
        return self.intent

    def close_intent(self) -> None:
        self.intent = None
