"""The objects of one gateway, built from its settings: the composition root's larger half."""

from __future__ import annotations

import importlib.metadata
import logging
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from time import monotonic

from app.answer_generator import AnswerGenerator
from app.answer_load import AnswerLoad
from app.answers import AnswerRunner
from app.budget import BudgetRule
from app.compare_process import ComparisonDrawer
from app.compare_samplers import CompareParts, SamplerComparer
from app.compare_side import Comparisons
from app.decide import SamplerDecider
from app.decode import Decoder
from app.decoding.config import decode_config
from app.encode import StoredTokenEncoder
from app.encoders.client import HttpEncoderClient
from app.encoders.contract import EncoderClient
from app.generate.contract import LanguageModel
from app.generate.openai_client import LlmTimeouts, OpenAIChatModel
from app.generate.smollm2 import ModelMissingError, gguf_file, model_folder
from app.generate.token_counter import (
    TOKENIZER_FILE,
    ByteCounter,
    PromptCounter,
    TokenCounter,
)
from app.index import Indexer, IndexLimits, IndexParts
from app.intake import Intake, IntakeLimits
from app.ledger_record import SelectionRecorder
from app.ledger_side import LedgerSide, build_ledger_side
from app.reduce.contract import Reducer
from app.reduce.registry import build_reducer
from app.rollout_side import RolloutParts, RolloutSide, build_rollout_side
from app.rollout_surroundings import Deployment
from app.sampler_breaker import BreakerRule, SamplerBreaker
from app.sampler_pools import PoolSizes, SamplerPools
from app.sampler_table import SamplerTable, load_sampler_table
from app.scorer.spec import ScorerSpec, scorer_spec
from app.select_frames import FrameSelector, SelectionDeadlines
from app.selection_inputs import SelectionInputsGatherer
from app.settings import Settings, SettingsError, child_environment
from app.shadow_build import LedgerSink, ShadowNeeds, build_shadow
from app.shadow_side import ShadowSide
from app.stages import Stages
from app.stores.catalogue import Catalogue
from app.stores.eviction import Evictor
from app.stores.features import FeatureStore
from app.stores.layout import DataLayout
from app.stores.library import VideoLibrary
from app.stores.query_vectors import QueryVectors
from app.supervise.process_table import TABLE_NAME, read_service_rows
from flags.check import check_lacks
from flags.evaluate import Flags
from flags.kill_switch import FileKillSwitch
from flags.provider import DEFAULT_FLAGS_PATH, Alarm, FlagFile, FlagFileConfig, build_provider
from observability.logs import configure_logging, log_event
from observability.metrics import Metrics
from observability.names import ChildProcess, Event
from observability.repeats import AlarmLog, RepeatFilter, RepeatLimiter
from observability.setup import Telemetry, TelemetryConfig, configure_telemetry

logger = logging.getLogger(__name__)

OUR_MODEL = "smollm2-135m-instruct"
"""The model that `framegate serve` makes; its tokenizer counts the prompts."""
_CHILDREN = frozenset(ChildProcess)


@dataclass(frozen=True, slots=True)
class Base:
    """What everything else is built on."""

    settings: Settings
    telemetry: Telemetry
    metrics: Metrics
    layout: DataLayout
    table: SamplerTable
    encoder: EncoderClient
    llm: LanguageModel
    scorer: ScorerSpec | None
    """None: no sampler has a model to ask."""


@dataclass(frozen=True, slots=True)
class VideoSide:
    """Once per video: intake, decode, index and their stores."""

    catalogue: Catalogue
    features: FeatureStore
    evictor: Evictor
    decoder: Decoder
    intake: Intake
    indexer: Indexer


@dataclass(frozen=True, slots=True)
class QuestionSide:
    """Per question: flags, selection, the other stages, the record of answers, the shadow."""

    flag_file: FlagFile
    kill_switch: FileKillSwitch
    pools: SamplerPools
    stages: Stages
    runner: AnswerRunner
    shadow: ShadowSide


@dataclass(frozen=True, slots=True)
class Gateway:
    base: Base
    ledger: LedgerSide
    videos: VideoSide
    questions: QuestionSide
    rollouts: RolloutSide
    comparisons: Comparisons


def build_gateway(
    settings: Settings, encoder: EncoderClient | None = None, llm: LanguageModel | None = None
) -> Gateway:
    """`encoder` and `llm` replace the clients of the real processes.

    Raises `SettingsError`, `SamplerError` where samplers or their options are wrong, and OSError
    where the data folder cannot be written.
    """
    layout = DataLayout(settings.data_dir.resolve())
    layout.create()
    version = importlib.metadata.version("framegate")
    telemetry = configure_telemetry(
        TelemetryConfig(service_version=version, otlp_endpoint=settings.otlp_endpoint)
    )
    _configure_logging(settings, telemetry)
    scorer = scorer_spec(settings)
    table = load_sampler_table(
        settings.extra_sampler_targets, settings.sampler_options, has_scorer=scorer is not None
    )
    base = Base(
        settings=settings,
        telemetry=telemetry,
        metrics=Metrics(telemetry.meter_provider, sampler_ids=table.ids),
        layout=layout,
        table=table,
        encoder=encoder or HttpEncoderClient(layout.encoder_socket),
        llm=llm or _llm_client(settings),
        scorer=scorer,
    )
    ledger = build_ledger_side(settings, layout, base.metrics)
    videos = _video_side(base)
    questions = _question_side(base, ledger, videos)
    rollouts = _rollout_side(base, ledger, videos, questions)
    comparisons = _comparisons(base, videos, questions)
    return Gateway(base, ledger, videos, questions, rollouts, comparisons)


def _video_side(base: Base) -> VideoSide:
    settings, layout, metrics = base.settings, base.layout, base.metrics
    catalogue = Catalogue(layout.catalogue, max_answers=settings.answers_max_rows)
    features = FeatureStore(layout, settings.feature_cache_bytes)
    evictor = Evictor(layout, catalogue, settings.max_store_bytes, features.forget)
    decoder = Decoder(decode_config(settings), metrics.decode_worker_started)
    parts = IndexParts(layout, catalogue, decoder, base.encoder, features, evictor, metrics)
    return VideoSide(
        catalogue=catalogue,
        features=features,
        evictor=evictor,
        decoder=decoder,
        intake=Intake(layout, catalogue, IntakeLimits.of(settings), metrics.upload_received),
        indexer=Indexer(parts, IndexLimits.of(settings)),
    )


def _question_side(base: Base, ledger: LedgerSide, videos: VideoSide) -> QuestionSide:
    settings = base.settings
    kill_switch = FileKillSwitch(settings.kill_switch_path)
    flag_file = _flag_file(base)
    pools = SamplerPools(base.table, PoolSizes.of(settings), base.scorer)
    _observe_restarts(base, pools)
    salt = settings.user_hash_salt.get_secret_value()
    flags = Flags(flag_file, kill_switch)
    decider = SamplerDecider(flags, base.table.ids, base.metrics, salt)
    stages = _stages(base, videos, decider, pools)
    shadow = build_shadow(
        ShadowNeeds(settings, base.metrics, stages, AnswerLoad()),
        (LedgerSink(ledger.writer.put_comparison),),
    )
    runner = answer_runner(base, ledger, videos, stages, shadow)
    return QuestionSide(flag_file, kill_switch, pools, stages, runner, shadow)


def _rollout_side(
    base: Base, ledger: LedgerSide, videos: VideoSide, questions: QuestionSide
) -> RolloutSide:
    stages = questions.stages
    return build_rollout_side(
        RolloutParts(
            settings=base.settings,
            metrics=base.metrics,
            table=base.table,
            encoder=base.encoder,
            catalogue=videos.catalogue,
            indexer=videos.indexer,
            ledger=ledger.ledger,
            calls=ledger.calls,
            kill_switch=questions.kill_switch,
            flag_file=questions.flag_file,
            deployment=Deployment(stages.reducer.id, stages.profile, base.llm.llm_id),
        )
    )


def answer_runner(
    base: Base, ledger: LedgerSide, videos: VideoSide, stages: Stages, shadow: ShadowSide
) -> AnswerRunner:
    """Runs answers through `stages`, and tells the ledger and the shadow of each."""
    return AnswerRunner(
        stages,
        videos.catalogue,
        base.metrics,
        max_running=base.settings.max_concurrent_answers,
        load=shadow.load,
        on_ended=(
            SelectionRecorder(stages.decider.user_hash, ledger.writer),
            shadow.answer_ended,
        ),
    )


def _observe_restarts(base: Base, pools: SamplerPools) -> None:
    table_path = base.layout.run / TABLE_NAME

    def counts() -> dict[ChildProcess, int]:
        rows = read_service_rows(table_path)
        supervised = {
            ChildProcess(name): row.restarts for name, row in rows.items() if name in _CHILDREN
        }
        return supervised | {ChildProcess.SELECTION: pools.num_restarts}

    base.metrics.observe_process_restarts(counts)


def _stages(base: Base, videos: VideoSide, decider: SamplerDecider, pools: SamplerPools) -> Stages:
    settings = base.settings
    library = VideoLibrary(base.layout, videos.features, videos.decoder.config.decode_version)
    query_vectors = QueryVectors(base.encoder, settings.query_cache_entries)
    return Stages(
        indexer=videos.indexer,
        evictor=videos.evictor,
        library=library,
        encoder=base.encoder,
        decider=decider,
        budget_rule=BudgetRule(settings.min_frames, settings.max_frames, settings.target_fps),
        inputs=SelectionInputsGatherer(base.table, library, query_vectors),
        selector=_selector(base, pools),
        table=base.table,
        frame_encoder=StoredTokenEncoder(videos.features, base.encoder),
        reducer=_reducer(settings),
        generator=AnswerGenerator(
            base.llm, _prompt_counter(settings, base.layout), settings.llm_context_tokens
        ),
        profile=settings.profile,
        metrics=base.metrics,
    )


def _selector(base: Base, pools: SamplerPools) -> FrameSelector:
    """With a breaker of its own: what an operator tries out must not open that of the answers."""
    settings = base.settings
    return FrameSelector(
        base.table,
        pools.run_sampler,
        SamplerBreaker(BreakerRule(), monotonic),
        base.metrics,
        SelectionDeadlines(settings.selection_deadline_s, settings.model_selection_deadline_s),
    )


def _comparisons(base: Base, videos: VideoSide, questions: QuestionSide) -> Comparisons:
    stages = questions.stages
    parts = CompareParts(
        indexer=videos.indexer,
        evictor=videos.evictor,
        library=stages.library,
        features=videos.features,
        encoder=base.encoder,
        inputs=stages.inputs,
        selector=_selector(base, questions.pools),
        table=base.table,
        metrics=base.metrics,
    )
    drawer = ComparisonDrawer(
        base.layout, videos.decoder.config.decode_version, child_environment(base.settings, {})
    )
    return Comparisons(SamplerComparer(parts), drawer, monotonic)


def _reducer(settings: Settings) -> Reducer:
    options = {"keep_ratio": settings.merge_keep_ratio} if settings.reducer == "merge" else {}
    return build_reducer(settings.reducer, options)


def _configure_logging(settings: Settings, telemetry: Telemetry) -> None:
    configure_logging(
        settings.log_level,
        as_json=settings.log_format == "json",
        filters=[RepeatFilter("opentelemetry", RepeatLimiter())],
        handlers=[telemetry.log_handler] if telemetry.log_handler else [],
    )


def _llm_client(settings: Settings) -> OpenAIChatModel:
    if settings.llm_url is None:
        raise SettingsError(
            "FRAMEGATE_LLM_URL is not set: start the service with `framegate serve`, "
            "or name an OpenAI-compatible server."
        )
    timeouts = LlmTimeouts(first_token_s=settings.llm_first_token_timeout_s)
    return OpenAIChatModel(settings.llm_url, settings.llm_model, timeouts)


def _flag_file(base: Base) -> FlagFile:
    """The operator's flag file; the shipped one is put in its place at the first start."""
    path = base.settings.flags_path
    if base.settings.flags_file is None and not path.exists():
        temporary = path.with_name(f".{path.name}.new")
        shutil.copyfile(DEFAULT_FLAGS_PATH, temporary)
        temporary.replace(path)
    alarms = AlarmLog(logger, RepeatLimiter())

    def on_alarm(alarm: Alarm) -> None:
        base.metrics.flags_alarm_raised()
        alarms.raise_alarm(
            Event.FLAGS_ALARM,
            str(alarm.kind),
            f"The flag file is not obeyed: {alarm.detail}",
            path=alarm.path,
            is_serving_baseline=alarm.is_serving_baseline,
        )

    def on_adopted(content: bytes) -> None:
        for finding in check_lacks(content, base.table.why_unusable):
            log_event(logger, Event.FLAGS_UNSERVABLE, str(finding), level=logging.WARNING)

    return build_provider(FlagFileConfig(path, base.table.ids, on_alarm, on_adopted))


def _prompt_counter(settings: Settings, layout: DataLayout) -> Callable[[], PromptCounter]:
    """The tokenizer of our own model once it is made; bytes for a model that is not ours."""
    in_bytes = ByteCounter()
    if settings.llm_model != OUR_MODEL:
        return lambda: in_bytes
    try:
        folder = model_folder(layout.models, gguf_file())
    except ModelMissingError:
        return lambda: in_bytes

    @lru_cache(maxsize=1)
    def exact() -> TokenCounter:
        return TokenCounter(folder)

    return lambda: exact() if (folder / TOKENIZER_FILE).is_file() else in_bytes
