"""What an operator reads about a rollout, at the width of the terminal."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from app import cli_rollout_output
from app.cli_rollout_output import show_history, show_status, show_step

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
    step["evidence"] = {}
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


def test_the_users_who_are_open_are_told_beside_those_who_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    document = rollout()
    document["report"]["candidate"] = {
        "users": 0,
        "answers": 0,
        "open_users": 24,
        "first_closes_s": 43_773.0,
    }
    text = shown(monkeypatch, document)
    assert (
        "bolt 0 users and 0 answers (24 users open, the first is counted by 12:09:33 UTC)" in text
    )
    assert "aks 3 users and 9 answers; of 200" in text


def step(kind: str, old: int, new: int, edit: dict[str, Any] | None) -> dict[str, Any]:
    made = {"sequence": 3, "kind": kind, "at": "2026-11-30T15:41:07.000Z", "who": "bo"}
    more = {"why": "so", "old_weight": old, "new_weight": new, "epoch": 2}
    return made | more | {"evidence": {"flags": {"edit": edit}}}


@pytest.mark.parametrize(
    ("old", "edit", "said"),
    [
        (10, None, "Resumed at 10 %.\n"),
        (10, {"weight": 10}, "Resumed at 10 %. The users were dealt anew: epoch 2, another salt."),
        (20, {"weight": 10}, "Resumed at 10 %. This replaced the 20 % that the flag file had."),
    ],
)
def test_a_resumption_says_what_it_replaced(
    monkeypatch: pytest.MonkeyPatch, old: int, edit: dict[str, Any] | None, said: str
) -> None:
    output = StringIO()
    console = Console(file=output, width=200, markup=False, emoji=False)
    monkeypatch.setattr(cli_rollout_output, "console", console)
    monkeypatch.setattr(cli_rollout_output, "say", console.print)
    show_step(rollout(epoch=2, last_step=step("resumed", old, 10, edit)))
    assert said in output.getvalue()


def test_the_history_says_where_a_rollback_went(monkeypatch: pytest.MonkeyPatch) -> None:
    output = StringIO()
    console = Console(file=output, width=200, markup=False, emoji=False)
    monkeypatch.setattr(cli_rollout_output, "console", console)
    show_history([step("rolled_back", 5, 0, {"everyone": "topk"}), step("rolled_back", 0, 0, None)])
    assert "rolled back to topk" in output.getvalue()
    assert "rolled back  " in output.getvalue()
