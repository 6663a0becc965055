"""The one reader of the environment: every setting is `FRAMEGATE_<NAME>` (docs/settings.md)."""

from __future__ import annotations

import difflib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import Field, SecretStr, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

MIB = 1024 * 1024
ENV_PREFIX = "FRAMEGATE_"


class SettingsError(Exception):
    """The environment holds a FRAMEGATE_ name that does not exist, or a value out of range."""


class Settings(BaseSettings):
    """Frozen; unknown `FRAMEGATE_*` names are refused by `load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, frozen=True, extra="forbid", allow_inf_nan=False
    )

    # Service
    host: str = Field("127.0.0.1", description="Address the gateway listens on.")
    port: int = Field(8000, ge=0, le=65535, description="Port; 0 picks a free one.")
    data_dir: Path = Field(
        Path(".framegate"), description="Videos, derived data, catalogue, models."
    )
    profile: Literal["demo"] = Field("demo", description="The fixed stack: encoder, tokens, LLM.")
    operator_key: SecretStr | None = Field(
        None, description="Bearer key of operators' calls; unset, they work from loopback only."
    )
    tenant: str = Field(
        "default", description="Owner of what is uploaded; part of the targeting key."
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        "info", description="Log level."
    )
    log_format: Literal["json", "text"] = Field("json", description="Log lines as JSON or as text.")
    shutdown_grace_s: float = Field(
        10.0, gt=0, description="Seconds that running answers get to finish at shutdown."
    )

    # Intake
    max_upload_bytes: int = Field(
        512 * MIB, gt=0, description="Largest upload, enforced while receiving."
    )
    upload_idle_timeout_s: float = Field(
        30.0, gt=0, description="An upload that sends less than 64 KiB in so long is dropped (408)."
    )
    max_concurrent_uploads: int = Field(8, gt=0, description="Further uploads get 429.")
    min_free_disk_bytes: int = Field(
        512 * MIB, ge=0, description="Uploads are refused (507) below this much free disk."
    )
    max_store_bytes: int = Field(
        50 * 1024 * MIB,
        gt=0,
        description="Total size of derived data; least recently asked videos are evicted above it.",
    )

    # Decode
    max_frame_pixels: int = Field(
        4096 * 4096 // 2, gt=0, description="Largest frame (coded width x height)."
    )
    max_total_pixels: int = Field(
        2_000_000_000_000,
        gt=0,
        description="Decoded pixels in one video: 10 h of 720p at 60 fps.",
    )
    decode_timeout_s: float = Field(
        3600.0, gt=0, description="Wall time of one decode worker before it is killed."
    )
    decode_memory_bytes: int = Field(
        1536 * MIB, gt=0, description="Memory one decode worker may map beyond its code."
    )
    decode_threads: int = Field(2, gt=0, description="Threads of one decode worker.")
    max_decode_workers: int = Field(1, gt=0, description="Videos decoded at the same time.")
    max_index_queue: int = Field(
        256, gt=0, description="Videos waiting to be indexed; further uploads get 429."
    )
    picture_side_px: int = Field(
        512, ge=64, description="Longest side of a stored candidate picture."
    )
    picture_quality: int = Field(85, ge=30, le=100, description="JPEG quality of stored pictures.")
    candidate_fps_max: float = Field(8.0, gt=0, description="The sampling grid starts here ...")
    candidate_fps_min: float = Field(1.0, gt=0, description="... and is halved down to this ...")
    candidate_target: int = Field(
        128, gt=0, description="... each time there are more candidates than this."
    )

    # Encoder process
    encoder_threads: int = Field(
        1,
        gt=0,
        description="Torch threads of one forward pass; more pays only on cores that are idle.",
    )
    encoder_batch: int = Field(
        8, gt=0, description="Pictures in one call of the index; questions wait for one picture."
    )
    encoder_patience_s: float = Field(
        120.0, gt=0, description="How long indexing waits for an encoder process that is away."
    )
    query_cache_entries: int = Field(10_000, gt=0, description="Query vectors kept in memory.")
    feature_cache_bytes: int = Field(
        256 * MIB, gt=0, description="Embeddings kept in memory as float32."
    )

    # Samplers and flags
    flags_file: Path | None = Field(
        None, description="flagd-format file; default <data_dir>/flags.json, created when missing."
    )
    kill_switch_file: Path | None = Field(
        None, description="State of the kill switch; default <data_dir>/kill-switch.json."
    )
    extra_samplers: str = Field("", description="Outside samplers, comma separated `module:Class`.")
    sampler_options: Annotated[dict[str, dict[str, object]], NoDecode] = Field(
        default_factory=dict,
        description="Options by sampler and by variant, JSON: "
        '{"aks": {"all_depth": 4}, "aks@t1=0.2": {}}.',
    )
    user_hash_salt: SecretStr = Field(
        SecretStr("framegate"), description="Salt of hashed user ids in logs and ledger."
    )
    selection_deadline_s: float = Field(1.0, gt=0, description="Deadline of one selection.")
    selection_threads: int = Field(2, gt=0, description="Threads for built-in samplers.")
    selection_processes: int = Field(1, gt=0, description="Processes for outside samplers.")

    # Scoring model, see docs/model-backed-samplers.md
    scorer_url: str | None = Field(
        None,
        description="OpenAI-compatible server of a vision-language model that scores frames; "
        "unset, samplers that need one are not available.",
    )
    scorer_model: str | None = Field(None, description="Model name sent to that server.")
    scorer_api_key: SecretStr | None = Field(None, description="Bearer key of that server.")
    scorer_timeout_s: float = Field(10.0, gt=0, description="Longest call to that server.")
    scorer_concurrency: int = Field(
        8, gt=0, le=256, description="Calls in flight of one selection process."
    )
    scorer_picture_px: int = Field(
        448, ge=28, description="Longest side of a picture of which a score is asked."
    )
    scorer_range_picture_px: int = Field(
        224, ge=28, description="The same where one call shows up to 256 pictures."
    )
    scorer_cache_bytes: int = Field(
        2 * MIB, ge=64 * 1024, description="Model scores kept of one video."
    )
    model_selection_deadline_s: float = Field(
        20.0, gt=0, description="Deadline of one selection by a sampler that asks that model."
    )
    model_selection_processes: int = Field(
        2, gt=0, description="Processes for samplers that ask that model."
    )

    # Shadow, see docs/shadow.md
    shadow_deadline_s: float = Field(
        2.0, gt=0, description="Deadline of one selection in the shadow's process."
    )
    shadow_queue: int = Field(
        64, gt=0, description="Comparisons that may wait; further ones are not made."
    )
    shadow_max_running_answers: int = Field(
        32, ge=0, description="Nothing is compared while more answers than this run."
    )
    shadow_tenant_per_minute: int = Field(
        600, gt=0, description="Comparisons of one tenant in a minute, at most."
    )
    shadow_aa_share: float = Field(
        0.05, ge=0, le=1, description="Share of the comparisons that are control against itself."
    )
    shadow_tolerance_s: float = Field(
        1.0, ge=0, description="Frames this close in time count as the same in `overlap_within`."
    )
    shadow_answer_max_running: int = Field(
        4, ge=0, description="No answer is made in shadow while more answers than this run."
    )
    shadow_answer_wait_s: float = Field(
        5.0,
        ge=0,
        description="An answer in shadow waits so long for a quiet moment, then is dropped.",
    )
    shadow_answer_timeout_s: float = Field(60.0, gt=0, description="Longest answer in shadow.")
    shadow_log_file: Path | None = Field(
        None, description="File for one JSON line a comparison, without texts; unset, none."
    )
    shadow_log_max_bytes: int = Field(
        64 * MIB, gt=0, description="Size at which that file becomes the older one, <name>.1."
    )

    # Budget (frames): docs/http.md
    min_frames: int = Field(4, gt=0, description="Lower bound of the budget.")
    max_frames: int = Field(16, gt=0, description="Upper bound of the budget.")
    target_fps: float = Field(0.5, gt=0, description="Frames of budget per second of video.")

    # Reducer
    reducer: Literal["none", "merge"] = Field("merge", description="Token reducer.")
    merge_keep_ratio: float = Field(
        0.5, gt=0, le=1, description="Share of the tokens that `merge` keeps."
    )

    # Answers
    max_concurrent_answers: int = Field(
        64, gt=0, description="Answers in flight; further ones get 429."
    )
    max_wait_s: float = Field(300.0, gt=0, description="Largest wait_s of a request.")
    answers_max_rows: int = Field(
        100_000, gt=0, description="Finished answers kept; the oldest are dropped above it."
    )
    max_question_chars: int = Field(2000, gt=0, description="Longest question.")
    max_tokens_default: int = Field(96, gt=0, description="Answer length when not asked for.")
    max_tokens_limit: int = Field(512, gt=0, description="Largest max_tokens of a request.")

    # Ledger
    ledger_url: SecretStr | None = Field(
        None,
        description="PostgreSQL of the ledger, postgresql://user:password@host/database; "
        "unset, a SQLite file in the data folder.",
    )
    ledger_retention_days: float = Field(
        90.0, gt=0, description="Selections, comparisons and feedback older than this are deleted."
    )
    ledger_queue_rows: int = Field(
        10_000, gt=0, description="Rows that wait while the ledger's database is away."
    )

    # LLM
    llm_url: str | None = Field(
        None,
        description="OpenAI-compatible server to use; unset, `framegate serve` starts vLLM itself.",
    )
    llm_model: str = Field(
        "smollm2-135m-instruct", description="Model name sent to the LLM server."
    )
    llm_context_tokens: int = Field(2048, ge=512, description="Context length of the LLM.")
    llm_kv_cache_gib: int = Field(1, gt=0, description="vLLM's CPU key-value cache, GiB.")
    llm_first_token_timeout_s: float = Field(
        120.0, gt=0, description="Longest wait for the first token."
    )
    llm_start_timeout_s: float = Field(
        900.0,
        gt=0,
        description="Longest start of the LLM server, the making of its model included.",
    )

    # Rollouts
    rollout_tick_s: float = Field(
        1.0, gt=0, le=60, description="Seconds from one look at a rollout's guards to the next."
    )
    rollout_lease_s: float = Field(
        15.0,
        gt=0,
        description="When the gateway that looks after rollouts dies, another does after so long.",
    )

    # Telemetry
    otlp_endpoint: str | None = Field(
        None, description="OTLP/HTTP base address of a collector, such as http://127.0.0.1:4318."
    )

    @field_validator("sampler_options", mode="before")
    @classmethod
    def _read_json(cls, value: object) -> object:
        """Our own reading, because pydantic's takes the last of a key's values without a word."""
        if not isinstance(value, str):
            return value
        try:
            return json.loads(value, object_pairs_hook=_without_duplicates)
        except (ValueError, RecursionError) as exc:
            raise ValueError(f"not valid JSON ({exc})") from exc

    @model_validator(mode="after")
    def _check_bounds(self) -> Self:
        pairs = (
            ("candidate_fps_min", "candidate_fps_max"),
            ("min_frames", "max_frames"),
            ("max_tokens_default", "max_tokens_limit"),
            ("max_tokens_limit", "llm_context_tokens"),
            ("rollout_tick_s", "rollout_lease_s"),
        )
        for lower, upper in pairs:
            if getattr(self, lower) > getattr(self, upper):
                names = f"{ENV_PREFIX}{lower.upper()} is above {ENV_PREFIX}{upper.upper()}"
                raise ValueError(names)
        if (self.scorer_url is None) != (self.scorer_model is None):
            raise ValueError(
                f"{ENV_PREFIX}SCORER_URL and {ENV_PREFIX}SCORER_MODEL belong together: set both"
            )
        return self

    @property
    def flags_path(self) -> Path:
        return self.flags_file or self.data_dir / "flags.json"

    @property
    def kill_switch_path(self) -> Path:
        return self.kill_switch_file or self.data_dir / "kill-switch.json"

    @property
    def extra_sampler_targets(self) -> tuple[str, ...]:
        """`module:Class` of each outside sampler that the operator names."""
        return tuple(part.strip() for part in self.extra_samplers.split(",") if part.strip())

    @property
    def local_url(self) -> str:
        """Where a client on this machine finds the gateway."""
        host = "127.0.0.1" if self.host in {"0.0.0.0", "::"} else self.host
        return f"http://{host}:{self.port}"


def _without_duplicates(pairs: list[tuple[str, object]]) -> dict[str, object]:
    values: dict[str, object] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"the key {name!r} is given twice")
        values[name] = value
    return values


def load_settings() -> Settings:
    """Settings from the environment. Raises `SettingsError` with every bad name and value."""
    known = {ENV_PREFIX + name.upper() for name in Settings.model_fields}
    given = [name for name in os.environ if name.upper().startswith(ENV_PREFIX)]
    unknown = [name for name in given if name.upper() not in known]
    if unknown:
        raise SettingsError("; ".join(_unknown_text(name, known) for name in sorted(unknown)))
    try:
        return Settings()
    except ValidationError as exc:
        raise SettingsError(_error_text(exc)) from exc


def changed_settings(settings: Settings, changes: Mapping[str, object]) -> Settings:
    """`settings` with other values, checked. Raises `SettingsError`."""
    try:
        return Settings.model_validate(settings.model_dump() | dict(changes))
    except ValidationError as exc:
        raise SettingsError(_error_text(exc)) from exc


def child_environment(settings: Settings, added: Mapping[str, str]) -> dict[str, str]:
    """Environment of a child process: ours, with `settings` as they are here, and `added`."""
    fields = {name: getattr(settings, name) for name in type(settings).model_fields}
    texts = {
        ENV_PREFIX + name.upper(): _environment_text(value)
        for name, value in fields.items()
        if value is not None
    }
    inherited = {k: v for k, v in os.environ.items() if not k.upper().startswith(ENV_PREFIX)}
    return inherited | texts | dict(added)


def _environment_text(value: object) -> str:
    if isinstance(value, SecretStr):
        return value.get_secret_value()
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _error_text(error: ValidationError) -> str:
    texts = []
    for item in error.errors():
        name = f"{ENV_PREFIX}{str(item['loc'][0]).upper()}: " if item["loc"] else ""
        texts.append(name + item["msg"].removeprefix("Value error, "))
    return "; ".join(texts)


def _unknown_text(name: str, known: set[str]) -> str:
    # Without the prefix, which makes everything alike.
    bare = [known_name.removeprefix(ENV_PREFIX) for known_name in sorted(known)]
    close = difflib.get_close_matches(name[len(ENV_PREFIX) :].upper(), bare, n=1)
    hint = f" (did you mean {ENV_PREFIX}{close[0]}?)" if close else ""
    return f"{name} is no setting{hint}; docs/settings.md lists them"
