"""Flag files for tests, and the objects that read them."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from flags.evaluate import Decision, Flags, RequestContext, User
from flags.kill_switch import FileKillSwitch
from flags.provider import Alarm, FlagFile, FlagFileConfig, build_provider

KNOWN = frozenset({"uniform", "aks", "bolt", "shot"})


def split(
    weight: Any, *, candidate: str = "bolt", control: str = "uniform", salt: str | None = "s1/"
) -> dict[str, Any]:
    """A rule that deals `weight` of 100 users to the candidate."""
    bucketing = [] if salt is None else [{"cat": [salt, {"var": "targetingKey"}]}]
    rest = 100 - weight if isinstance(weight, int) else 50
    return {"fractional": [*bucketing, [candidate, weight], [control, rest]]}


def flag(*values: Any, default: str | None = None, rule: Any = None) -> dict[str, Any]:
    """A flag whose variants are named after their values; the last one is the default."""
    made: dict[str, Any] = {
        "state": "ENABLED",
        "variants": {str(value): value for value in values},
        "defaultVariant": default or str(values[-1]),
    }
    return made if rule is None else made | {"targeting": rule}


def document(
    sampler: dict[str, Any] | None = None,
    shadow: dict[str, Any] | None = None,
    shadow_rate: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """A whole flag file, good unless a part is bad."""
    return {
        "metadata": {"version": "7", "flagSetId": "test"},
        "flags": {
            "video.sampler": sampler or flag("uniform"),
            "video.sampler.shadow": shadow or flag("off"),
            "video.sampler.shadow_rate": shadow_rate or flag(0),
        },
    }


def rollout(weight: Any, **parts: Any) -> dict[str, Any]:
    """`bolt` for `weight` of 100 users, `uniform` for the others."""
    return document(flag("bolt", "uniform", rule=split(weight, **parts)))


def serving(sampler_id: str) -> dict[str, Any]:
    """Everyone gets this sampler."""
    return document(flag(sampler_id))


def put(path: Path, content: dict[str, Any] | str | bytes) -> None:
    """Replace the file the way operators should: write beside it, then rename."""
    text = json.dumps(content) if isinstance(content, dict) else content
    beside = path.with_suffix(".new")
    beside.write_bytes(text if isinstance(text, bytes) else text.encode())
    beside.replace(path)


@dataclass
class FlagWorld:
    """A folder with a flag file and a kill switch, and what reads them."""

    folder: Path
    alarms: list[Alarm] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.path = self.folder / "flags.json"
        self.kill_switch = FileKillSwitch(self.folder / "kill-switch.json")

    def open(
        self, content: dict[str, Any] | str | bytes | None = None, *, ahead_ns: int = 0
    ) -> Flags:
        """Start on a file with this content, or on none. A clock that runs ahead takes every file
        for an old one, which is looked at but not read at each decision."""
        if content is not None:
            put(self.path, content)
        config = FlagFileConfig(
            self.path, KNOWN, self.alarms.append, clock_ns=lambda: time.time_ns() + ahead_ns
        )
        self.file: FlagFile = build_provider(config)
        return Flags(self.file, self.kill_switch)


def decide(
    flags: Flags, user_id: str | None = "ann", *, override: str | None = None, tenant: str = "acme"
) -> Decision:
    """The decision for one user of a tenant."""
    return flags.sampler_for(User(tenant, user_id), RequestContext(KNOWN, override))
