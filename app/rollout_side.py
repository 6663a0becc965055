"""The rollouts of one gateway: controller, runner, and what both ask about."""

from __future__ import annotations

import os
import socket
import time
import uuid
from dataclasses import dataclass

from app.encoders.contract import EncoderClient
from app.index import Indexer
from app.ledger_calls import LedgerCalls
from app.rollout_outcomes import LedgerOutcomes
from app.rollout_runner import RolloutRunner, RunnerParts, RunnerTimes
from app.rollout_surroundings import Deployment, LiveFacts, MeasuredFigures, StoredFeatures
from app.rollout_telemetry import RolloutTelemetry
from app.sampler_table import SamplerTable
from app.settings import Settings
from app.stores.catalogue import Catalogue
from app.stores.ledger import Ledger
from flags.flag_file_editor import FlagFileEditor
from flags.guard_report import GuardReport
from flags.guards import evaluate_guards
from flags.kill_switch import KillSwitch
from flags.outcomes import Outcomes
from flags.provider import FlagFile
from flags.rollout import RolloutController
from flags.rollout_needs import RolloutNeeds
from flags.rollout_plan import Rollout
from observability.metrics import Metrics


@dataclass(frozen=True, slots=True)
class RolloutParts:
    """What the gateway has and rollouts need."""

    settings: Settings
    metrics: Metrics
    table: SamplerTable
    encoder: EncoderClient
    catalogue: Catalogue
    indexer: Indexer
    ledger: Ledger
    calls: LedgerCalls
    kill_switch: KillSwitch
    flag_file: FlagFile
    deployment: Deployment


@dataclass(frozen=True, slots=True)
class RolloutSide:
    """`controller` blocks: call it by `calls`, or in a thread."""

    controller: RolloutController
    runner: RolloutRunner
    telemetry: RolloutTelemetry
    facts: LiveFacts
    ledger: Ledger
    calls: LedgerCalls
    editor: FlagFileEditor
    kill_switch: KillSwitch
    flag_file: FlagFile
    table: SamplerTable


def build_rollout_side(parts: RolloutParts) -> RolloutSide:
    settings, ledger = parts.settings, parts.ledger
    telemetry = RolloutTelemetry(parts.metrics)
    facts = LiveFacts(parts.table, parts.encoder, parts.deployment)
    editor = FlagFileEditor(settings.flags_path)

    def evaluate(rollout: Rollout, outcomes: Outcomes, now_s: float) -> GuardReport:
        report = evaluate_guards(rollout, outcomes, now_s)
        telemetry.judged(rollout, report)
        return report

    controller = RolloutController(
        RolloutNeeds(
            store=ledger,
            editor=editor,
            outcomes=LedgerOutcomes(ledger, time.time),
            facts=facts,
            features=StoredFeatures(parts.catalogue, parts.indexer.is_stored, facts),
            figures=MeasuredFigures(editor, ledger, facts),
            kill_switch=parts.kill_switch,
            evaluate=evaluate,
            clock=time.time,
            new_id=lambda: uuid.uuid4().hex[:12],
            known_samplers=parts.table.ids,
            why_unusable=parts.table.why_unusable,
        )
    )
    holder = f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:8]}"
    runner = RolloutRunner(
        RunnerParts(controller, ledger, facts, telemetry, holder),
        RunnerTimes(settings.rollout_tick_s, settings.rollout_lease_s),
    )
    return RolloutSide(
        controller,
        runner,
        telemetry,
        facts,
        ledger,
        parts.calls,
        editor,
        parts.kill_switch,
        parts.flag_file,
        parts.table,
    )
