"""Who takes part in the needle benchmark: every sampler that needs no model, some with options."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType

import numpy as np

from benchmarks.needle_pictures import seed_of
from benchmarks.needle_videos import ENCODER, NeedleVideo
from samplers.contract import IndexArray, InvalidOptionsError
from samplers.registry import Registry
from samplers.selection import finalise, uniform_rows

BASELINE = "uniform"
RANDOM = "random (floor)"
ORACLE = "oracle (ceiling)"

OPTION_SETS: Mapping[str, tuple[Mapping[str, object], ...]] = MappingProxyType(
    {
        "uniform": ({"mode": "endpoints"},),
        "shot": ({"weight": "importance"}, {"pick": "centre"}),
        "aks": (
            {"scene_hints": False},
            {"t1": 0.2},
            {"t1": 0.2, "all_depth": 3},
            {"all_depth": 3},
        ),
        "bolt": ({"scene_hints": False}, {"power": 1.0}, {"power": 6.0}, {"power": 12.0}),
        "topk": ({"gap_share": 0.0}, {"gap_share": 0.25}, {"max_gap_s": 16.0}),
        "q-frame": ({"tau": 0.8},),
        "adard-key": ({"lambda_max": 0.6}, {"gate": "off"}),
        "mdp3": ({"segment_size": -1},),
        "wfs": ({"redundancy": "time"},),
        "auto": ({"one_moment": "gift"},),
    }
)
"""Beside each sampler's defaults, which always take part."""
WITHOUT_SHOTS = ("fused", "aks", "shot")
"""Take part a second time without being told the shots, which are exact in these videos."""

Select = Callable[[NeedleVideo, str, int], list[int]]


@dataclass(frozen=True, slots=True)
class Contender:
    """One row of the tables."""

    label: str
    sampler_id: str
    options: Mapping[str, object] = field(default_factory=dict)
    is_told_shots: bool = True


def contenders(registry: Registry) -> tuple[list[Contender], list[str]]:
    """Who takes part, and a line for each that is left out."""
    taking_part, left_out = [], []
    for sampler_id in registry.ids:
        for options in ({}, *OPTION_SETS.get(sampler_id, ())):
            contender = Contender(_label(sampler_id, options), sampler_id, options)
            reason = _reason_to_leave_out(registry, contender)
            if reason is None:
                taking_part.append(contender)
            else:
                left_out.append(f"{contender.label}: {reason}")
    taking_part += [
        Contender(f"{sampler_id} (no shots)", sampler_id, is_told_shots=False)
        for sampler_id in WITHOUT_SHOTS
    ]
    unknown = sorted(OPTION_SETS.keys() - set(registry.ids))
    return taking_part, left_out + [f"{sampler_id}: no such sampler" for sampler_id in unknown]


def selects(registry: Registry, taking_part: list[Contender]) -> dict[str, Select]:
    """Label -> how it selects frames; the ceiling and the floor too."""
    chosen: dict[str, Select] = {ORACLE: _oracle, RANDOM: _random}
    for contender in taking_part:
        sampler = registry.build(contender.sampler_id, contender.options, encoder=ENCODER)
        chosen[contender.label] = partial(_selected, sampler.select, contender.is_told_shots)
    return chosen


def _label(sampler_id: str, options: Mapping[str, object]) -> str:
    """The id under which a deployment would serve it as a variant."""
    texts = [
        f"{name}={value if isinstance(value, str) else json.dumps(value)}"
        for name, value in options.items()
    ]
    return f"{sampler_id}@{','.join(texts)}" if texts else sampler_id


def _reason_to_leave_out(registry: Registry, contender: Contender) -> str | None:
    try:
        options = registry.get(contender.sampler_id).parse_options(contender.options)
    except InvalidOptionsError as exc:
        return str(exc)
    return "it asks a model, and there is none here" if options.uses_scorer else None


def _selected(
    select: Callable[..., list[int]],
    is_told_shots: bool,
    video: NeedleVideo,
    question: str,
    budget: int,
) -> list[int]:
    return select(video, question, budget, list(video.scenes) if is_told_shots else None)


def _random(video: NeedleVideo, question: str, budget: int) -> list[int]:
    del question
    rng = np.random.default_rng(seed_of("random", video.video_id, budget))
    return finalise(rng.permutation(len(video.candidates))[:budget], video, budget)


def _oracle(video: NeedleVideo, question: str, budget: int) -> list[int]:
    """Every moment once, then again, until the budget or the evidence is used up; then evenly."""
    del question
    deepest = max(len(moment) for moment in video.moments)
    evidence = [
        int(moment[depth])
        for depth in range(deepest)
        for moment in video.moments
        if depth < len(moment)
    ]
    return finalise(_filled(evidence[:budget], video, budget), video, budget)


def _filled(rows: list[int], video: NeedleVideo, budget: int) -> IndexArray:
    rest = np.setdiff1d(np.arange(len(video.candidates)), rows)
    return np.concatenate(
        [np.array(rows, dtype=np.int64), rest[uniform_rows(len(rest), budget - len(rows))]]
    )
