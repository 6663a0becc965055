"""What a rollout asks of the gateway: what answers are made with, which videos have features, and
which guards' figures can be measured."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from app.encoders.contract import EncoderClient
from app.errors import EncoderUnavailableError
from app.offline_scores import OfflineScores
from app.sampler_table import SamplerTable
from app.sampler_variants import base_id
from app.stores.catalogue import Catalogue
from app.stores.ledger import Ledger
from app.stores.rows import VideoRow, VideoStatus
from flags.check import RefusedFlagsError, parse_flag_text
from flags.flag_edit import UneditableFlagsError
from flags.keys import BASELINE, OFF, SHADOW, SHADOW_ANSWER_RATE, SHADOW_RATE
from flags.rollout_needs import Coverage, FlagEditor
from flags.rollout_plan import EpochFacts, Figure, Guard
from flags.targeting import Json

RECENT_VIDEOS = 500
"""The videos that were asked about last stand for those that will be."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """What does not change while the gateway runs."""

    reducer_id: str
    profile: str
    llm_id: str


class LiveFacts:
    """A `FactsSource`. The encoder is another process, which may be replaced: `refresh` asks it."""

    def __init__(self, table: SamplerTable, encoder: EncoderClient, deployment: Deployment) -> None:
        self._table = table
        self._encoder = encoder
        self._deployment = deployment
        self._encoder_id: str | None = None

    @property
    def encoder_id(self) -> str | None:
        """As of the last `refresh`; None while the encoder process is away."""
        return self._encoder_id

    async def refresh(self) -> None:
        """Never raises."""
        try:
            self._encoder_id = (await self._encoder.ask_info()).encoder_id
        except EncoderUnavailableError:
            self._encoder_id = None

    def asks_model(self, sampler_id: str) -> bool:
        return self._table.uses_scorer(sampler_id)

    def version(self, sampler_id: str) -> str | None:
        """None for a sampler that is not there."""
        return self._table.version(sampler_id) if sampler_id in self._table.ids else None

    def facts(self, candidate: str, control: str) -> EpochFacts | None:
        """None also for a sampler that is not there."""
        encoder_id = self._encoder_id
        if encoder_id is None or not {candidate, control} <= self._table.ids:
            return None
        return EpochFacts(
            candidate_version=self._table.version(candidate),
            control_version=self._table.version(control),
            encoder_id=encoder_id,
            reducer_id=self._deployment.reducer_id,
            profile=self._deployment.profile,
            llm_id=self._deployment.llm_id,
        )


class StoredFeatures:
    """A `FeatureCoverage`: looks into the stores for what indexing makes.

    Every sampler but the baseline may read all of it; none says beforehand which part.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        is_indexed: Callable[[VideoRow, str], bool],
        facts: LiveFacts,
    ) -> None:
        self._catalogue = catalogue
        self._is_indexed = is_indexed
        self._facts = facts

    def coverage(self, sampler_id: str) -> Coverage:
        """Of the ready videos that were asked about last, at most `RECENT_VIDEOS`."""
        encoder_id = self._facts.encoder_id
        num_videos = num_covered = 0
        for video_id in reversed(self._catalogue.videos_by_use()):
            video = self._catalogue.find_video(video_id)
            if video is None or video.status is not VideoStatus.READY:
                continue
            num_videos += 1
            num_covered += base_id(sampler_id) == BASELINE or (
                encoder_id is not None and self._is_indexed(video, encoder_id)
            )
            if num_videos == RECENT_VIDEOS:
                break
        return Coverage(num_videos, num_covered)


class MeasuredFigures:
    """A `FigureSource`: what this deployment measures, by its flags, its samplers, its ledger."""

    def __init__(self, editor: FlagEditor, ledger: Ledger, facts: LiveFacts) -> None:
        self._editor = editor
        self._facts = facts
        self._scores = OfflineScores(ledger, facts)

    def why_unmeasurable(self, guard: Guard, candidate: str, control: str) -> str | None:
        if guard.figure is Figure.MODEL_CALLS:
            return self._why_no_calls(candidate, control)
        if guard.figure in (Figure.SHADOW_RELEVANCE, Figure.ANSWER_AGREEMENT):
            return self._why_no_shadow(guard.figure)
        if guard.figure is Figure.OFFLINE_SCORE:
            return self._scores.why_unusable(guard, candidate, control)
        return None

    def _why_no_calls(self, candidate: str, control: str) -> str | None:
        if self._facts.asks_model(candidate) or self._facts.asks_model(control):
            return None
        return (
            f"`{Figure.MODEL_CALLS}` would always be 0: neither `{candidate}` nor `{control}` asks "
            "a scoring model. Leave the guard out."
        )

    def _why_no_shadow(self, figure: Figure) -> str | None:
        flags = self._flags()
        missing = [key for key in (SHADOW, SHADOW_RATE) if not can_be_on(flags.get(key))]
        if figure is Figure.ANSWER_AGREEMENT and not can_be_on(flags.get(SHADOW_ANSWER_RATE)):
            missing.append(SHADOW_ANSWER_RATE)
        if not missing:
            return None
        names = ", ".join(f"`{key}`" for key in missing)
        return (
            f"`{figure}` comes from shadow comparisons, which {names} of the flag file "
            f"{'keep' if len(missing) > 1 else 'keeps'} off. Turn them on (docs/shadow.md), or "
            "leave the guard out."
        )

    def _flags(self) -> dict[str, Json]:
        try:
            flags = parse_flag_text(self._editor.read()).get("flags", {})
        except (RefusedFlagsError, UneditableFlagsError):
            return {}
        return flags if isinstance(flags, dict) else {}


def can_be_on(flag: Json) -> bool:
    """Whether a flag of the shadow may give somebody something else than `off` or 0."""
    match flag:
        case {"state": "ENABLED", "variants": {**variants}, "defaultVariant": default}:
            served = variants.values() if flag.get("targeting") else [variants.get(default)]
            return any(value not in (OFF, 0, None) for value in served)
    return False
