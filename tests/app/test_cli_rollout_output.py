"""What an operator reads about a rollout, at the width of the terminal."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from app import cli_rollout_output
from app.cli_rollout_output import show_status

REASON = "Not enough yet: sampler_failure of 3 of 200 users in the candidate arm"


def arm(lower: float | None) -> dict[str, Any]:
    return {"users": 3, "estimate": 0.1, "lower": lower, "upper": 0.3}


def rollout(lower: float | None = 0.05, **changes: Any) -> dict[str, Any]:
    guard = {"guard": "sampler_failure<=1%", "verdict": "inconclusive", "reason": REASON}
    count = {"users": 3, "answers": 9}
    report = {
        "reason": "Hold.",
        "candidate": count,
        "control": count,
        "guards": [guard | {"candidate": arm(lower), "control": arm(0.01)}],
        "sample_ratio": {"is_mismatch": False, "reason": ""},
    }
    step = {"sequence": 2, "kind": "paused", "at": "2026-11-30T15:41:07.000Z", "who": "bo"}
    made = {
        "rollout_id": "5d0c7f3a91be",
        "candidate": "bolt",
        "control": "aks",
        "state": "paused",
        "stage": 2,
        "stages": [1, 50],
        "started": "2026-11-30T14:03:22.999Z",
        "started_by": "ana",
        "reason": "lunch",
        "flags": "The flag file deals.",
        "epoch": 1,
        "salt": "s",
        "min_users": 200,
        "min_answers": 500,
        "report": report,
        "last_step": step,
        "next": "Waits.",
        "next_at": None,
    }
    return made | changes


def shown(monkeypatch: pytest.MonkeyPatch, document: dict[str, Any], width: int = 200) -> str:
    output = StringIO()
    console = Console(file=output, width=width, markup=False, emoji=False)
    monkeypatch.setattr(cli_rollout_output, "console", console)
    show_status(document)
    return output.getvalue()


def test_who_began_it_and_who_stopped_it_are_named_with_their_times(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = shown(monkeypatch, rollout())
    assert "Begun:  2026-11-30 14:03:22 UTC by ana" in text
    assert "Latest: paused 2026-11-30 15:41:07 UTC by bo" in text
    assert "1 → [50] %" in text


@pytest.mark.parametrize("state", ["rolled_back", "completed"])
def test_no_stage_is_in_force_once_it_is_over(monkeypatch: pytest.MonkeyPatch, state: str) -> None:
    assert "1 → 50 %" in shown(monkeypatch, rollout(state=state, report=None))


def test_reasons_have_the_whole_width_of_a_narrow_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert f"- sampler_failure<=1%: {REASON}\n" in shown(monkeypatch, rollout(), width=80)
    wide = shown(monkeypatch, rollout(), width=200)
    assert wide.count(REASON) == 1
    assert f"- sampler_failure<=1%: {REASON}" not in wide


def test_a_bound_that_is_not_known_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "?: no bound yet" in shown(monkeypatch, rollout(lower=None))
    assert "?" not in shown(monkeypatch, rollout())
