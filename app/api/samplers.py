"""Which samplers this deployment has."""

from __future__ import annotations

from fastapi import APIRouter
from pydantic import BaseModel, Field

from app.sampler_table import SamplerTable
from samplers.options import OptionField


class OptionDocument(BaseModel):
    name: str
    type: str
    default: object
    value: object = Field(description="In this deployment (FRAMEGATE_SAMPLER_OPTIONS).")
    choices: list[object]
    doc: str


class SamplerListing(BaseModel):
    id: str
    version: str
    doc: str
    is_builtin: bool
    fills_budget: bool = Field(description="Always returns as many frames as the budget says.")
    uses_query: bool
    options: list[OptionDocument]


class UnavailableSampler(BaseModel):
    id: str = Field(description="Entry point or module:Class that failed to load.")
    error: str


class SamplersDocument(BaseModel):
    samplers: list[SamplerListing]
    unavailable: list[UnavailableSampler]


def samplers_router(table: SamplerTable) -> APIRouter:
    router = APIRouter(prefix="/v1/samplers", tags=["samplers"])

    @router.get("", summary="The samplers, their options, and those that failed to load")
    async def get_samplers() -> SamplersDocument:
        registry = table.registry
        return SamplersDocument(
            samplers=[_listing(table, sampler_id) for sampler_id in registry.ids],
            unavailable=[
                UnavailableSampler(id=name, error=error)
                for name, error in registry.unavailable.items()
            ],
        )

    return router


def _listing(table: SamplerTable, sampler_id: str) -> SamplerListing:
    entry, values = table.entry(sampler_id), table.options(sampler_id)
    return SamplerListing(
        id=entry.id,
        version=entry.version,
        doc=entry.doc,
        is_builtin=entry.is_builtin,
        fills_budget=entry.fills_budget,
        uses_query=entry.uses_query,
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
