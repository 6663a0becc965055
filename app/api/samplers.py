"""Which samplers this deployment has."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.sampler_table import SamplerTable
from app.sampler_variants import is_variant
from samplers.options import OptionField


class OptionDocument(BaseModel):
    name: str
    type: str
    default: object
    value: object = Field(description="In this deployment (FRAMEGATE_SAMPLER_OPTIONS).")
    choices: list[object]
    doc: str


class SamplerListing(BaseModel):
    id: str = Field(description="What a flag serves: a sampler, or a variant such as aks@t1=0.2.")
    base: str | None = Field(description="Of a variant: the sampler that it is, else null.")
    variants: list[str] = Field(description="Its ids with other options, in this deployment.")
    version: str = Field(description="Another one for other options.")
    doc: str
    is_builtin: bool
    fills_budget: bool = Field(description="Always returns as many frames as the budget says.")
    uses_query: bool
    uses_scorer: bool = Field(description="With these options it asks a vision-language model.")
    lacks: str | None = Field(description="What it needs and this deployment has not, else null.")
    options: list[OptionDocument]


class UnavailableSampler(BaseModel):
    id: str = Field(description="Entry point or module:Class that failed to load.")
    error: str


class SamplersDocument(BaseModel):
    samplers: list[SamplerListing]
    unavailable: list[UnavailableSampler]


def samplers_router(table: SamplerTable) -> APIRouter:
    router = APIRouter(prefix="/v1/samplers", tags=["samplers"])

    @router.get("", summary="The samplers, variants, options, and what failed to load")
    async def get_samplers() -> SamplersDocument:
        return samplers_document(table)

    return router


def samplers_document(table: SamplerTable) -> SamplersDocument:
    """Every sampler, followed by its variants."""
    return SamplersDocument(
        samplers=[_listing(table, sampler_id) for sampler_id in table.listed_ids],
        unavailable=[
            UnavailableSampler(id=name, error=error)
            for name, error in table.registry.unavailable.items()
        ],
    )


def _listing(table: SamplerTable, sampler_id: str) -> SamplerListing:
    entry, values = table.entry(sampler_id), table.options(sampler_id)
    return SamplerListing(
        id=sampler_id,
        base=entry.id if is_variant(sampler_id) else None,
        variants=list(table.variants(sampler_id)),
        version=table.version(sampler_id),
        doc=entry.doc,
        is_builtin=entry.is_builtin,
        fills_budget=entry.fills_budget,
        uses_query=entry.uses_query,
        uses_scorer=table.uses_scorer(sampler_id),
        lacks=table.why_unusable(sampler_id),
        options=[_option(option, values[option.name]) for option in entry.options],
    )


def _option(option: OptionField, value: object) -> OptionDocument:
    return OptionDocument(
        name=option.name,
        type=option.type_name,
        default=option.default,
        value=value,
        choices=list(option.choices),
        doc=option.doc,
    )
