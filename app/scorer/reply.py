"""What the scoring server answers: one token's probabilities, or why there are none. Pure."""

from __future__ import annotations

import math

from pydantic import BaseModel

from samplers.contract import ScorerUnavailableError

MAX_DETAIL_CHARS = 200
_AROUND_A_WORD = " \t\r\n\u2581\u0120\"'`.,:;!*()"
"""Spaces (also as tokenizers write them), quotes and stops around a token's word."""


class ScorerOutageError(ScorerUnavailableError):
    """The server is away, too slow, overloaded or broken: it counts against it."""


class ScorerRefusalError(ScorerUnavailableError):
    """The server answered that it will not take this question; another may be taken."""


class _TopToken(BaseModel):
    token: str
    logprob: float


class _Token(_TopToken):
    top_logprobs: list[_TopToken] = []


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


class _Message(BaseModel):
    content: str | None = None


class _Choice(BaseModel):
    message: _Message
    logprobs: _Logprobs | None = None


class _UsageCounts(BaseModel):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class ChatReply(BaseModel):
    """A `chat.completion`; unknown fields are the server's own business."""

    choices: list[_Choice]
    usage: _UsageCounts | None = None

    @property
    def text(self) -> str:
        return (self.choices[0].message.content if self.choices else None) or ""


def yes_probability(reply: ChatReply) -> float:
    """p(yes) / (p(yes) + p(no)) of the first token, over all its spellings; NaN without either.

    Raises `ScorerRefusalError` where the server gives no probabilities at all.
    """
    logprobs = reply.choices[0].logprobs if reply.choices else None
    if logprobs is None or not logprobs.content:
        raise ScorerRefusalError(
            "The scoring server gives no probabilities of tokens (`logprobs`): it cannot score."
        )
    first = logprobs.content[0]
    tokens: list[_TopToken] = list(first.top_logprobs)
    if all(token.token != first.token for token in tokens):
        tokens.append(first)
    yes, no = _mass(tokens, "yes"), _mass(tokens, "no")
    return yes / (yes + no) if yes + no > 0.0 else math.nan


def _mass(tokens: list[_TopToken], word: str) -> float:
    matching = (t for t in tokens if t.token.strip(_AROUND_A_WORD).lower() == word)
    return math.fsum(math.exp(min(token.logprob, 0.0)) for token in matching)


def refusal(status: int, body: str, model_id: str) -> ScorerUnavailableError:
    """What an answer other than 200 means, and what to do about it."""
    detail = " ".join(body.split())[:MAX_DETAIL_CHARS]
    said = f"The scoring server answered {status}: {detail}"
    if status in {401, 403}:
        return ScorerOutageError(f"{said} Check FRAMEGATE_SCORER_API_KEY.")
    if status == 404:
        return ScorerOutageError(
            f"{said} Check FRAMEGATE_SCORER_URL and FRAMEGATE_SCORER_MODEL ({model_id})."
        )
    if status in {408, 425, 429} or status >= 500:
        return ScorerOutageError(said)
    if _is_about_size(detail.lower()) or status == 413:
        return ScorerRefusalError(
            "Too many or too large pictures for the scoring server: raise its limits "
            f"(docs/model-backed-samplers.md) or ask for fewer. It answered {status}: {detail}"
        )
    return ScorerRefusalError(said)


def _is_about_size(detail: str) -> bool:
    signs = ("at most", "too many", "too long", "context length", "maximum", "too large", "exceed")
    return any(sign in detail for sign in signs)
