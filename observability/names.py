"""Every name that leaves the process as telemetry: stages, spans, metrics, labels, log events.

The only file with such names, but for the metrics of the shadow (`shadow_names`), of the ledger
(`ledger_names`), of rollouts (`rollout_names`) and of the scoring model (`scorer_names`);
docs/metrics.md explains each, and a test compares the two. Label values are closed sets, so that
the number of series is known: never a user id or a video id (OpenTelemetry folds everything past
2000 series of one metric into `otel.metric.overflow`).
"""

from __future__ import annotations

from enum import StrEnum

from observability.ledger_names import LEDGER_METRICS
from observability.metric import (
    SAMPLER_LABEL,
    SECONDS_BUCKETS,
    TOKENS_BUCKETS,
    Kind,
    Label,
    Metric,
)
from observability.rollout_names import ROLLOUT_METRICS
from observability.scorer_names import SCORER_METRICS
from observability.shadow_names import SHADOW_METRICS

SCOPE = "framegate"
"""Instrumentation scope of our spans, metrics and log records."""

ATTRIBUTE_PREFIX = "framegate."
"""Put before the name of every attribute of ours on a span."""


class Stage(StrEnum):
    """The stages of DESIGN section 1: value = file = function = span = metric label."""

    INTAKE = "intake"
    DECODE = "decode"
    INDEX = "index"
    SELECT_FRAMES = "select_frames"
    ENCODE = "encode"
    REDUCE = "reduce"
    GENERATE = "generate"


class Span(StrEnum):
    """Spans that are no stage."""

    REQUEST = "request"
    """One HTTP call below `/v1`: the root of its trace, unless the caller brought one."""
    ANSWER_QUESTION = "answer_question"
    """One answer; the stages are its children."""
    ENCODE_PICTURES = "encode_pictures"
    """In the encoder process: stored pictures to features."""
    ENCODE_QUERY = "encode_query"
    """In the encoder process: a question's text to its vector."""


class Outcome(StrEnum):
    """How a stage or an answer ended. A client that left is no error of the service."""

    OK = "ok"
    ERROR = "error"
    CANCELLED = "cancelled"


class SamplerFailure(StrEnum):
    """Why a sampler's selection was not used."""

    RAISED = "raised"
    CONTRACT = "contract"
    DEADLINE = "deadline"
    DEPENDENCY = "dependency"
    UNKNOWN = "unknown"
    BREAKER_OPEN = "breaker_open"


class Cache(StrEnum):
    """The stores of derived data that an answer reads through."""

    FRAME_TABLE = "frame_table"
    PICTURES = "pictures"
    SCENES = "scenes"
    FEATURES = "features"
    LABEL_DISTRIBUTIONS = "label_distributions"
    PATCH_TOKENS = "patch_tokens"
    QUERY_VECTORS = "query_vectors"
    MODEL_SCORES = "model_scores"


class EncoderWork(StrEnum):
    """What the encoder process worked for."""

    INDEX = "index"
    QUERY = "query"
    ANSWER = "answer"


class VideoStatus(StrEnum):
    """Where a video's indexing ended."""

    READY = "ready"
    FAILED = "failed"


class ChildProcess(StrEnum):
    """Processes that the supervisor starts again when they die."""

    LLM = "llm"
    ENCODER = "encoder"
    SELECTION = "selection"


class FlagReason(StrEnum):
    """Why a flag had its value: OpenFeature's reasons in lower case, then the gateway's own."""

    STATIC = "static"
    DEFAULT = "default"
    TARGETING_MATCH = "targeting_match"
    SPLIT = "split"
    CACHED = "cached"
    DISABLED = "disabled"
    STALE = "stale"
    ERROR = "error"
    OVERRIDE = "override"
    KILL_SWITCH = "kill_switch"
    UNKNOWN = "unknown"


class Event(StrEnum):
    """The `event` field of a log line."""

    LOG = "log"
    """A line that a library wrote."""
    SERVICE_STARTED = "service.started"
    SERVICE_STOPPED = "service.stopped"
    REQUEST_FAILED = "request.failed"
    VIDEO_FINISHED = "video.finished"
    DERIVED_DATA_DAMAGED = "video.derived_data_damaged"
    ANSWER_SELECTED = "answer.selected"
    ANSWER_FINISHED = "answer.finished"
    SAMPLER_FAILED = "sampler.failed"
    FLAG_EVALUATION = "feature_flag.evaluation"
    FLAGS_ALARM = "flags.alarm"
    FLAGS_UNSERVABLE = "flags.unservable"
    KILL_SWITCH_CHANGED = "kill_switch.changed"
    SHADOW_COMPARED = "shadow.compared"
    SHADOW_FAILED = "shadow.failed"
    PROCESS_STARTED = "process.started"
    PROCESS_DIED = "process.died"
    LEDGER_UNAVAILABLE = "ledger.unavailable"
    LEDGER_ROW_REFUSED = "ledger.row_refused"
    LEDGER_PRUNED = "ledger.pruned"
    RECORDS_DELETED = "records.deleted"
    ROLLOUT_STEP = "rollout.step"
    ROLLOUT_LOOK_FAILED = "rollout.look_failed"


class FeatureFlagAttribute(StrEnum):
    """OpenTelemetry semantic conventions of the log event `feature_flag.evaluation`."""

    KEY = "feature_flag.key"
    VARIANT = "feature_flag.result.variant"
    REASON = "feature_flag.result.reason"
    VALUE = "feature_flag.result.value"
    PROVIDER = "feature_flag.provider.name"
    CONTEXT_ID = "feature_flag.context.id"
    VERSION = "feature_flag.version"
    SET_ID = "feature_flag.set.id"
    ERROR = "feature_flag.error.message"


class GenAiAttribute(StrEnum):
    """OpenTelemetry GenAI conventions (development status), on the `generate` span."""

    OPERATION = "gen_ai.operation.name"
    PROVIDER = "gen_ai.provider.name"
    REQUEST_MODEL = "gen_ai.request.model"
    REQUEST_MAX_TOKENS = "gen_ai.request.max_tokens"
    REQUEST_TEMPERATURE = "gen_ai.request.temperature"
    REQUEST_SEED = "gen_ai.request.seed"
    FINISH_REASONS = "gen_ai.response.finish_reasons"
    TIME_TO_FIRST_CHUNK = "gen_ai.response.time_to_first_chunk"
    INPUT_TOKENS = "gen_ai.usage.input_tokens"
    OUTPUT_TOKENS = "gen_ai.usage.output_tokens"


STAGE_DURATION = Metric(
    "framegate.stage.duration",
    Kind.HISTOGRAM,
    "s",
    "Time spent in one stage.",
    (Label("stage", tuple(Stage)), Label("outcome", tuple(Outcome))),
    SECONDS_BUCKETS,
)
ANSWERS = Metric(
    "framegate.answers",
    Kind.COUNTER,
    "{answer}",
    "Answers that ended.",
    (Label("outcome", tuple(Outcome)),),
)
ANSWER_DURATION = Metric(
    "framegate.answer.duration",
    Kind.HISTOGRAM,
    "s",
    "From the request to the last token.",
    (Label("outcome", tuple(Outcome)),),
    SECONDS_BUCKETS,
)
ANSWER_VISION_TOKENS = Metric(
    "framegate.answer.vision_tokens",
    Kind.HISTOGRAM,
    "{token}",
    "Vision tokens of one answer, before and after reduction.",
    (Label("when", ("before", "after")),),
    TOKENS_BUCKETS,
)
ANSWER_ENCODER_DEVICE_SECONDS = Metric(
    "framegate.answer.encoder_device_seconds",
    Kind.HISTOGRAM,
    "s",
    "Time the encoder's device worked for one answer; 0 when all it needed was stored.",
    (),
    (0.0, *SECONDS_BUCKETS),
)
ANSWER_TIME_TO_FIRST_TOKEN = Metric(
    "framegate.answer.time_to_first_token",
    Kind.HISTOGRAM,
    "s",
    "From the request to the first token of the answer.",
    (),
    SECONDS_BUCKETS,
)
SAMPLER_SELECTIONS = Metric(
    "framegate.sampler.selections",
    Kind.COUNTER,
    "{selection}",
    "Selections made by a sampler and used.",
    (SAMPLER_LABEL,),
)
SAMPLER_FAILURES = Metric(
    "framegate.sampler.failures",
    Kind.COUNTER,
    "{failure}",
    "Selections of a sampler that could not be used.",
    (SAMPLER_LABEL, Label("kind", tuple(SamplerFailure))),
)
SAMPLER_FALLBACKS = Metric(
    "framegate.sampler.fallbacks",
    Kind.COUNTER,
    "{selection}",
    "Selections where `uniform` stood in for this sampler.",
    (SAMPLER_LABEL,),
)
SAMPLER_DURATION = Metric(
    "framegate.sampler.duration",
    Kind.HISTOGRAM,
    "s",
    "Time of one selection, queueing included.",
    (SAMPLER_LABEL,),
    SECONDS_BUCKETS,
)
CACHE_LOOKUPS = Metric(
    "framegate.cache.lookups",
    Kind.COUNTER,
    "{lookup}",
    "Reads of a store of derived data.",
    (Label("cache", tuple(Cache)), Label("result", ("hit", "miss"))),
)
DECODE_WORKERS_STARTED = Metric(
    "framegate.decode.workers_started",
    Kind.COUNTER,
    "{process}",
    "Decode worker processes started; one a video, none a question.",
)
DECODE_DAMAGED_PACKETS = Metric(
    "framegate.decode.damaged_packets",
    Kind.COUNTER,
    "{packet}",
    "Damaged packets that decoding skipped.",
)
ENCODER_PICTURES_ENCODED = Metric(
    "framegate.encoder.pictures_encoded",
    Kind.COUNTER,
    "{picture}",
    "Pictures that went through the image encoder.",
)
ENCODER_QUERIES_ENCODED = Metric(
    "framegate.encoder.queries_encoded",
    Kind.COUNTER,
    "{query}",
    "Queries that went through the text encoder.",
)
ENCODER_DEVICE_SECONDS = Metric(
    "framegate.encoder.device_seconds",
    Kind.COUNTER,
    "s",
    "Time the encoder's device worked.",
    (Label("work", tuple(EncoderWork)),),
)
VIDEOS = Metric(
    "framegate.videos",
    Kind.COUNTER,
    "{video}",
    "Videos whose indexing ended.",
    (Label("status", tuple(VideoStatus)),),
)
UPLOADS_BYTES = Metric(
    "framegate.uploads.bytes",
    Kind.COUNTER,
    "By",
    "Bytes received as uploads, refused ones included.",
)
FLAGS_EVALUATIONS = Metric(
    "framegate.flags.evaluations",
    Kind.COUNTER,
    "{evaluation}",
    "Sampler decisions by reason.",
    (Label("reason", tuple(FlagReason)),),
)
FLAGS_ALARMS = Metric(
    "framegate.flags.alarms",
    Kind.COUNTER,
    "{alarm}",
    "Flag content that was refused (the last good flags stay) and reads that failed.",
)
FLAGS_REFUSED = Metric(
    "framegate.flags.refused",
    Kind.GAUGE,
    "1",
    "1 while the flag file is not obeyed (the last good flags stay), else 0.",
)
KILL_SWITCH_ON = Metric(
    "framegate.kill_switch.on", Kind.GAUGE, "1", "1 while the kill switch forces `uniform`, else 0."
)
LLM_UNAVAILABLE = Metric(
    "framegate.llm.unavailable",
    Kind.COUNTER,
    "{call}",
    "Calls that found no language model answering.",
)
LLM_TOKENS = Metric(
    "framegate.llm.tokens",
    Kind.COUNTER,
    "{token}",
    "Tokens read and written by the language model.",
    (Label("kind", ("input", "output")),),
)
GENERATIONS_CANCELLED = Metric(
    "framegate.generations_cancelled",
    Kind.COUNTER,
    "{generation}",
    "Generations stopped because the client left.",
)
PROCESS_RESTARTS = Metric(
    "framegate.process.restarts",
    Kind.COUNTER,
    "{restart}",
    "Child processes started again after they died.",
    (Label("process", tuple(ChildProcess)),),
)
SHADOW_FAILURES = Metric(
    "framegate.shadow.failures",
    Kind.COUNTER,
    "{failure}",
    "Selections in shadow that failed.",
    (SAMPLER_LABEL, Label("kind", tuple(SamplerFailure))),
)

ALL_METRICS = (
    *(value for value in [*globals().values()] if isinstance(value, Metric)),
    *SHADOW_METRICS,
    *LEDGER_METRICS,
    *ROLLOUT_METRICS,
    *SCORER_METRICS,
)
"""Every metric: `Metrics` builds them, the SDK's views bound their labels."""
