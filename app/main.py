"""The composition root: settings -> objects -> FastAPI."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.metadata
import logging
import time
from collections.abc import AsyncIterator
from functools import partial

from fastapi import FastAPI

from app.api.answers import AnswerRules, AnswerServices, answers_router
from app.api.compare import CompareRules, CompareServices, compare_router
from app.api.feedback import FeedbackServices, feedback_router
from app.api.health import Check, HealthServices, health_router
from app.api.kill_switch import kill_switch_router
from app.api.offline_scores import offline_scores_router
from app.api.operators import OperatorGate
from app.api.problems import install_problem_handlers
from app.api.rollouts import rollouts_router
from app.api.samplers import samplers_router
from app.api.shadow import ShadowServices, shadow_router
from app.api.telemetry import TelemetryMiddleware
from app.api.users import UserServices, users_router
from app.api.videos import VideoServices, videos_router
from app.encoders.contract import EncoderClient
from app.errors import LlmUnavailableError
from app.gateway import Gateway, build_gateway
from app.generate.contract import LanguageModel
from app.ledger_deletion import UserDeletion
from app.report_process import ShadowReportMaker
from app.settings import Settings, load_settings
from app.supervise.process_table import TABLE_NAME, read_service_rows
from app.switch_effect import switch_effect
from flags.watch import watch
from observability.log_events import hash_user_id
from observability.logs import log_event
from observability.names import Event

logger = logging.getLogger(__name__)


def create_app() -> FastAPI:
    """For uvicorn's `--factory`: settings from the environment."""
    return build_app(load_settings())


def build_app(
    settings: Settings, *, encoder: EncoderClient | None = None, llm: LanguageModel | None = None
) -> FastAPI:
    """The service; raises what `build_gateway` raises."""
    return app_of(build_gateway(settings, encoder, llm))


def app_of(gateway: Gateway) -> FastAPI:
    """The HTTP side of a built gateway."""
    app = FastAPI(
        title="Framegate",
        version=importlib.metadata.version("framegate"),
        summary="Answers questions about videos; flags choose which frames the model sees.",
        lifespan=lambda _: _lifespan(gateway),
    )
    _add_routes(app, gateway)
    install_problem_handlers(app)
    app.add_middleware(TelemetryMiddleware, telemetry=gateway.base.telemetry)
    return app


@contextlib.asynccontextmanager
async def _lifespan(gateway: Gateway) -> AsyncIterator[None]:
    """Resume what a former process left; at the end stop everything, newest first."""
    base, videos, questions = gateway.base, gateway.videos, gateway.questions
    await asyncio.to_thread(videos.intake.recover)
    await asyncio.to_thread(videos.catalogue.fail_interrupted_answers)
    watcher = asyncio.create_task(watch(questions.flag_file), name="flag file watcher")
    await videos.indexer.start()
    log_event(logger, Event.SERVICE_STARTED, samplers=sorted(base.table.ids))
    try:
        async with (
            gateway.ledger.running(),
            contextlib.aclosing(questions.shadow),
            gateway.rollouts.runner.running(),
        ):
            yield
    finally:
        watcher.cancel()
        await asyncio.gather(watcher, return_exceptions=True)
        await videos.indexer.close()
        await asyncio.to_thread(questions.pools.close)
        await base.llm.aclose()
        await base.encoder.aclose()
        videos.catalogue.close()
        log_event(logger, Event.SERVICE_STOPPED)
        await asyncio.to_thread(base.telemetry.shutdown)


def _add_routes(app: FastAPI, gateway: Gateway) -> None:
    base, questions = gateway.base, gateway.questions
    gate = OperatorGate(base.settings.operator_key)
    app.include_router(videos_router(_video_services(gateway, gate)))
    app.include_router(compare_router(_compare_services(gateway, gate)))
    app.include_router(answers_router(_answer_services(gateway, gate)))
    app.include_router(feedback_router(_feedback_services(gateway)))
    app.include_router(users_router(_user_services(gateway, gate)))
    app.include_router(samplers_router(base.table))
    app.include_router(rollouts_router(gateway.rollouts, gate))
    app.include_router(offline_scores_router(gateway.rollouts, gate))
    effect = partial(switch_effect, gateway.rollouts)
    app.include_router(kill_switch_router(questions.kill_switch, gate, base.metrics, effect))
    app.include_router(shadow_router(_shadow_services(gateway, gate)))
    app.include_router(health_router(_health_services(gateway)))


def _video_services(gateway: Gateway, gate: OperatorGate) -> VideoServices:
    base, videos = gateway.base, gateway.videos
    return VideoServices(
        tenant=base.settings.tenant,
        max_upload_bytes=base.settings.max_upload_bytes,
        catalogue=videos.catalogue,
        intake=videos.intake,
        indexer=videos.indexer,
        evictor=videos.evictor,
        layout=base.layout,
        decode_version=videos.decoder.config.decode_version,
        gate=gate,
        ledger=gateway.ledger.ledger,
        ledger_calls=gateway.ledger.calls,
    )


def _compare_services(gateway: Gateway, gate: OperatorGate) -> CompareServices:
    settings = gateway.base.settings
    rules = CompareRules(settings.tenant, settings.max_question_chars, settings.max_wait_s)
    return CompareServices(gateway.comparisons, gateway.base.table.listed_ids, gate, rules)


def _answer_services(gateway: Gateway, gate: OperatorGate) -> AnswerServices:
    settings = gateway.base.settings
    rules = AnswerRules(
        tenant=settings.tenant,
        max_question_chars=settings.max_question_chars,
        max_tokens_default=settings.max_tokens_default,
        max_tokens_limit=settings.max_tokens_limit,
        max_wait_s=settings.max_wait_s,
    )
    return AnswerServices(
        gateway.questions.runner,
        gateway.videos.catalogue,
        gate,
        gateway.base.table.ids,
        rules,
    )


def _feedback_services(gateway: Gateway) -> FeedbackServices:
    ledger = gateway.ledger
    return FeedbackServices(
        gateway.base.settings.tenant, gateway.videos.catalogue, ledger.ledger, ledger.calls
    )


def _user_services(gateway: Gateway, gate: OperatorGate) -> UserServices:
    settings, ledger = gateway.base.settings, gateway.ledger
    salt = settings.user_hash_salt.get_secret_value()
    deletion = UserDeletion(
        gateway.videos.catalogue, ledger.ledger, ledger.writer.flush, partial(hash_user_id, salt)
    )
    return UserServices(settings.tenant, deletion, ledger.calls, gate)


def _shadow_services(gateway: Gateway, gate: OperatorGate) -> ShadowServices:
    base, decode_version = gateway.base, gateway.videos.decoder.config.decode_version
    maker = ShadowReportMaker.of(base.settings, base.layout, decode_version)
    return ShadowServices(maker, base.table.ids, gate, time.time)


def _health_services(gateway: Gateway) -> HealthServices:
    base, questions = gateway.base, gateway.questions

    async def encoder_check() -> str:
        return (await base.encoder.ask_info()).encoder_id

    async def llm_check() -> str:
        if not await base.llm.is_healthy():
            raise LlmUnavailableError
        return base.llm.llm_id

    def process_texts() -> dict[str, str]:
        rows = read_service_rows(base.layout.run / TABLE_NAME)
        return {name: row.text for name, row in rows.items()}

    def metrics_text() -> bytes:
        # Others change these files while nobody asks: look at them when somebody looks here.
        base.metrics.kill_switch_is(on=questions.kill_switch.read().is_on)
        questions.flag_file.refresh()
        base.metrics.flags_are(refused=questions.flag_file.alarm is not None)
        return base.telemetry.metrics_text()

    checks: dict[str, Check] = {"encoder": encoder_check, "llm": llm_check}
    return HealthServices(
        checks, process_texts, questions.flag_file, questions.kill_switch, metrics_text
    )
