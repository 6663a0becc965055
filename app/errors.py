"""Every error that a caller can see, and the one mapping to HTTP (RFC 9457 problem JSON).

FramegateError
├── RequestError                     the caller can mend it (4xx)
│   ├── NotFoundError                404 not-found              (no such address)
│   ├── MethodNotAllowedError        405 method-not-allowed
│   ├── InvalidRequestError          422 invalid-request
│   ├── RequestTooLargeError         413 request-too-large
│   ├── RequestTimeoutError          408 request-timeout
│   ├── EmptyUploadError             400 empty-upload
│   ├── VideoTooLargeError           413 video-too-large
│   ├── UploadTimeoutError           408 upload-timeout
│   ├── VideoUrlNotSupportedError    422 video-url-not-supported
│   ├── VideoNotFoundError           404 video-not-found
│   ├── AnswerNotFoundError          404 answer-not-found
│   ├── FrameNotFoundError           404 frame-not-found
│   ├── UnknownSamplerError          422 unknown-sampler
│   ├── QuestionTooLongError         422 question-too-long
│   ├── OperatorKeyError             403 operator-key-required
│   ├── RolloutNotFoundError         404 rollout-not-found
│   ├── RolloutNotPossibleError      409 rollout-refused
│   ├── FlagFileUnusableError        409 flag-file-unusable
│   ├── VideoNotReadyError           409 video-not-ready        (Retry-After)
│   ├── VideoBusyError               409 video-busy             (Retry-After)
│   └── UnreadableVideoError         422 the video is `failed`; `type` says why
│       ├── NotAVideoError               not-a-video
│       ├── NoVideoStreamError           no-video-stream
│       ├── NoFramesError                no-frames
│       ├── UnsupportedCodecError        unsupported-codec
│       ├── FrameTooLargeError           frame-too-large
│       ├── VideoTooLongError            video-too-long
│       ├── DecodeTimeoutError           decode-timeout
│       └── DecodeMemoryError            decode-memory
├── BusyError                        429 too-many-requests      (Retry-After)
└── UnavailableError                 a part of the service is away (503, Retry-After)
    ├── LlmUnavailableError          503 llm-unavailable
    ├── EncoderUnavailableError      503 encoder-unavailable
    ├── IndexFailedError             503 index-failed
    ├── LedgerUnavailableError       503 ledger-unavailable
    └── StorageFullError             507 storage-full
"""

from __future__ import annotations

from typing import ClassVar

PROBLEM_URN = "urn:framegate:problem:"


class FramegateError(Exception):
    """Base of all errors a caller can see.

    `detail` says what happened to this request; `action` says what the caller can do next.
    """

    status: ClassVar[int] = 500
    code: ClassVar[str] = "internal-error"
    title: ClassVar[str] = "Something went wrong inside Framegate"
    action: ClassVar[str] = "Retry; if it happens again, report the trace id."
    retry_after_s: float | None = None
    instance: str | None = None
    """Address of the record of what failed, where there is one; else the request's path stands."""

    def __init__(self, detail: str = "", *, retry_after_s: float | None = None) -> None:
        super().__init__(detail or self.title)
        self.detail = detail or self.title
        if retry_after_s is not None:
            self.retry_after_s = retry_after_s

    @property
    def type(self) -> str:
        """The stable problem type: clients switch on this, never on the text."""
        return PROBLEM_URN + self.code

    def problem(self) -> dict[str, object]:
        """The RFC 9457 members of this error (without `instance` and `trace_id`)."""
        return {
            "type": self.type,
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "action": self.action,
        }


class RequestError(FramegateError):
    status = 400
    code = "bad-request"
    title = "The request cannot be served as it is"
    action = "Mend the request and send it again."


class InvalidRequestError(RequestError):
    status = 422
    code = "invalid-request"
    title = "A field of the request is missing, unknown or out of range"
    action = "Mend what `detail` and `errors` name; docs/http.md has the format."


class RequestTooLargeError(RequestError):
    status = 413
    code = "request-too-large"
    title = "The request's body is larger than this service reads"
    action = "Send a shorter body; a video goes to POST /v1/videos."


class RequestTimeoutError(RequestError):
    status = 408
    code = "request-timeout"
    title = "The request's body did not arrive in time"
    action = "Send the whole body at once, over a steadier connection."


class NotFoundError(RequestError):
    status = 404
    code = "not-found"
    title = "There is nothing at this address"
    action = "GET /openapi.json or docs/http.md lists the addresses."


class MethodNotAllowedError(RequestError):
    status = 405
    code = "method-not-allowed"
    title = "This address does not take this method"
    action = "Use a method that the `Allow` header names."


class EmptyUploadError(RequestError):
    code = "empty-upload"
    title = "The upload holds no bytes"
    action = "Send the video as the raw body, or as the multipart field `file`."


class VideoTooLargeError(RequestError):
    status = 413
    code = "video-too-large"
    title = "The upload is larger than this service accepts"
    action = "Send a shorter or more strongly compressed video (FRAMEGATE_MAX_UPLOAD_BYTES)."


class UploadTimeoutError(RequestError):
    status = 408
    code = "upload-timeout"
    title = "The upload came too slowly"
    action = "Upload again over a steadier connection (FRAMEGATE_UPLOAD_IDLE_TIMEOUT_S)."


class VideoUrlNotSupportedError(RequestError):
    status = 422
    code = "video-url-not-supported"
    title = "Videos are not fetched from a URL yet"
    action = "Download the video and POST its bytes to /v1/videos."


class VideoNotFoundError(RequestError):
    status = 404
    code = "video-not-found"
    title = "No such video"
    action = "POST the video to /v1/videos first; video_id is the hex sha256 of its bytes."


class AnswerNotFoundError(RequestError):
    status = 404
    code = "answer-not-found"
    title = "No such answer"
    action = "Use the `answer_id` that POST /v1/answers returned."


class FrameNotFoundError(RequestError):
    status = 404
    code = "frame-not-found"
    title = "No picture is stored for this frame"
    action = "Only candidate frames have pictures: use the links that an answer returns."


class UnknownSamplerError(RequestError):
    status = 422
    code = "unknown-sampler"
    title = "No such sampler"
    action = "GET /v1/samplers lists the ids."


class QuestionTooLongError(RequestError):
    status = 422
    code = "question-too-long"
    title = "The question leaves no room for the video"
    action = "Ask a shorter question or lower max_tokens."


class OperatorKeyError(RequestError):
    status = 403
    code = "operator-key-required"
    title = "This call is for operators"
    action = (
        "Send the operator's key as `Authorization: Bearer …` (FRAMEGATE_OPERATOR_KEY); "
        "while no key is set, call from the machine itself."
    )


class RolloutNotFoundError(RequestError):
    status = 404
    code = "rollout-not-found"
    title = "No such rollout"
    action = "GET /v1/rollouts lists the ids."


class RolloutNotPossibleError(RequestError):
    status = 409
    code = "rollout-refused"
    title = "The rollout cannot do this now"
    action = "Each of `reasons` says what is in the way, and the way on."

    def __init__(self, *reasons: str) -> None:
        super().__init__(" ".join(reasons))
        self.reasons = reasons

    def problem(self) -> dict[str, object]:
        return {**super().problem(), "reasons": list(self.reasons)}


class FlagFileUnusableError(RequestError):
    status = 409
    code = "flag-file-unusable"
    title = "The flag file cannot be edited"
    action = (
        "Mend the flag file (docs/flags.md). To stop a candidate at once, whatever the file is "
        "like: `framegate kill-switch on`."
    )


class VideoNotReadyError(RequestError):
    status = 409
    code = "video-not-ready"
    title = "The video is still being indexed"
    action = "Ask again after `Retry-After` seconds, or raise wait_s."
    retry_after_s = 2.0


class VideoBusyError(RequestError):
    status = 409
    code = "video-busy"
    title = "The video is in use"
    action = "Try again when its answers have finished."
    retry_after_s = 2.0


class UnreadableVideoError(RequestError):
    """The bytes were received but cannot be indexed: the video's status is `failed`."""

    status = 422
    code = "unreadable-video"
    title = "The video cannot be read"
    action = "Play the file on your side, re-encode it (H.264 in MP4 is safe) and upload it again."


class NotAVideoError(UnreadableVideoError):
    code = "not-a-video"
    title = "The upload is not a video file that this service reads"


class NoVideoStreamError(UnreadableVideoError):
    code = "no-video-stream"
    title = "The file holds no video stream"


class NoFramesError(UnreadableVideoError):
    code = "no-frames"
    title = "No frame of the video can be decoded"


class UnsupportedCodecError(UnreadableVideoError):
    code = "unsupported-codec"
    title = "The video's codec is not supported"


class FrameTooLargeError(UnreadableVideoError):
    code = "frame-too-large"
    title = "The video's frames have more pixels than this service accepts"
    action = "Scale the video down and upload it again."


class VideoTooLongError(UnreadableVideoError):
    code = "video-too-long"
    title = "The video holds more pixels in total than this service decodes"
    action = "Cut or scale the video down and upload it again."


class DecodeTimeoutError(UnreadableVideoError):
    code = "decode-timeout"
    title = "Decoding the video took longer than this service allows"
    action = "Re-encode the video with a simpler codec, or cut it."


class DecodeMemoryError(UnreadableVideoError):
    code = "decode-memory"
    title = "Decoding the video needed more memory than this service allows"
    action = "Scale the video down or re-encode it."


class BusyError(FramegateError):
    status = 429
    code = "too-many-requests"
    title = "The service has as much work as it can hold"
    action = "Retry after `Retry-After` seconds."
    retry_after_s = 2.0


class UnavailableError(FramegateError):
    status = 503
    code = "unavailable"
    title = "A part of the service is away"
    action = "Retry after `Retry-After` seconds; /readyz says which part."
    retry_after_s = 5.0


class LlmUnavailableError(UnavailableError):
    code = "llm-unavailable"
    title = "The language model is not answering"


class EncoderUnavailableError(UnavailableError):
    code = "encoder-unavailable"
    title = "The encoder process is not answering"


class IndexFailedError(UnavailableError):
    code = "index-failed"
    title = "Indexing the video failed on the service's side"
    action = "Upload the same file again to retry; if it happens again, report the trace id."


class LedgerUnavailableError(UnavailableError):
    code = "ledger-unavailable"
    title = "The ledger's database is not answering"
    action = "Retry after `Retry-After` seconds; answers go on meanwhile."


class StorageFullError(UnavailableError):
    status = 507
    code = "storage-full"
    title = "The service has no room to store the video"


def all_errors() -> list[type[FramegateError]]:
    """Every class of the tree, base first: the documentation test and OpenAPI read it."""
    found: list[type[FramegateError]] = [FramegateError]
    for cls in found:
        found.extend(sub for sub in cls.__subclasses__() if sub not in found)
    return found


def error_from_code(code: str, detail: str) -> FramegateError:
    """The error whose stored `code` this is (a failed video remembers its reason by code)."""
    for cls in all_errors():
        if cls.code == code:
            return cls(detail)
    return UnreadableVideoError(detail)
