"""The documentation is tested: whatever a user can set, call or read stands on its page."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.core import TyperGroup

from app.api.sse import StreamEvent
from app.budget import BudgetLimit
from app.cli import app as command_line
from app.errors import all_errors
from app.main import build_app
from app.settings import ENV_PREFIX, Settings
from tests.fakes import FakeEncoderClient, FakeLanguageModel

DOCS = Path(__file__).resolve().parents[2] / "docs"


def page(name: str) -> str:
    return (DOCS / name).read_text(encoding="utf-8")


@pytest.mark.parametrize("name", sorted(Settings.model_fields))
def test_every_setting_stands_on_its_page_with_its_default(name: str) -> None:
    row = next(
        (
            line
            for line in page("settings.md").splitlines()
            if line.startswith(f"| `{ENV_PREFIX}{name.upper()}` |")
        ),
        None,
    )
    assert row is not None
    field = Settings.model_fields[name]
    assert field.description
    assert field.description in row
    default = field.get_default(call_default_factory=True, validated_data={})
    if isinstance(default, int | float) and not isinstance(default, bool):
        assert f"`{default}`" in row


def commands(command: object, prefix: str = "framegate") -> list[str]:
    if isinstance(command, TyperGroup):
        return [
            name
            for sub_name, sub in command.commands.items()
            for name in commands(sub, f"{prefix} {sub_name}")
        ]
    return [prefix]


def test_every_command_stands_on_its_page_and_has_a_help_text() -> None:
    text = page("cli.md")
    root = typer.main.get_command(command_line)
    names = commands(root)
    assert len(names) >= 9
    for name in names:
        assert f"`{name}" in text, name


@pytest.mark.parametrize("code", sorted({error.code for error in all_errors()}))
def test_every_problem_type_stands_in_the_http_reference(code: str) -> None:
    assert f"`{code}`" in page("http.md")


@pytest.fixture(scope="module")
def openapi(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    settings = Settings(data_dir=tmp_path_factory.mktemp("docs"), llm_model="fake-llm")
    app = build_app(settings, encoder=FakeEncoderClient(), llm=FakeLanguageModel())
    return app.openapi()


def test_every_endpoint_stands_in_the_http_reference(openapi: dict[str, Any]) -> None:
    text = page("http.md")
    calls = [
        f"{method.upper()} {path}" for path, item in openapi["paths"].items() for method in item
    ]
    assert len(calls) >= 13
    for call in calls:
        assert call in text, call


def test_the_http_reference_names_no_endpoint_that_does_not_exist(openapi: dict[str, Any]) -> None:
    named = re.findall(r"^### (GET|POST|PUT|DELETE) (\S+)", page("http.md"), re.MULTILINE)
    for method, path in named:
        assert method.lower() in openapi["paths"][path], path


@pytest.mark.parametrize("event", StreamEvent)
def test_every_event_of_a_stream_stands_in_the_http_reference(event: StreamEvent) -> None:
    assert f"| `{event}` |" in page("http.md")
    assert f"\nevent: {event}\ndata: " in page("http.md")


def test_the_http_reference_lists_the_events_in_their_order() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", page("http.md").partition("### Events")[2], re.MULTILINE)
    assert rows[: len(StreamEvent)] == [str(event) for event in StreamEvent]


@pytest.mark.parametrize(
    "schema",
    [
        "AskRequest",
        "AnswerDocument",
        "EvidenceDocument",
        "SamplerDocument",
        "FallbackDocument",
        "FrameDocument",
        "SceneDocument",
        "ScorerDocument",
        "BudgetDocument",
        "TokensDocument",
        "UsageDocument",
        "ReadinessDocument",
        "KillSwitchDocument",
        "SamplerListing",
        "OptionDocument",
        "StartBody",
        "RollbackBody",
        "RolloutDocument",
        "RolloutSummary",
        "FactsDocument",
        "ReportDocument",
        "GuardDocument",
        "ArmDocument",
        "SampleRatioDocument",
        "StepDocument",
        "ScoreBody",
        "ScoreDocument",
        "ComparisonDocument",
        "ComparedSamplerDocument",
        "ComparedFrameDocument",
        "ComparisonFailureDocument",
        "SimilarityDocument",
    ],
)
def test_every_field_stands_in_the_http_reference(openapi: dict[str, Any], schema: str) -> None:
    text = page("http.md")
    for name in openapi["components"]["schemas"][schema]["properties"]:
        assert f"`{name}`" in text or f'"{name}":' in text, name


@pytest.mark.parametrize("limit", BudgetLimit)
def test_every_term_of_the_budget_stands_in_the_http_reference(limit: BudgetLimit) -> None:
    assert f"`{limit}`" in page("http.md")


def test_every_link_between_pages_leads_somewhere() -> None:
    for path in DOCS.rglob("*.md"):
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text(encoding="utf-8")):
            assert (path.parent / target).exists(), f"{path.name} links to {target}"


def test_the_walkthrough_follows_a_request_in_the_order_of_its_stages() -> None:
    files = re.findall(r"\]\(\.\./(\S+?)\)", page("walkthrough.md"))
    path_of_a_request = [
        "app/api/videos.py",
        "app/intake.py",
        "app/decode.py",
        "app/api/answers.py",
        "app/pipeline.py",
        "app/select_frames.py",
        "samplers/contract.py",
        "app/encode.py",
        "app/reduce/contract.py",
        "app/generate/__init__.py",
    ]
    assert [file for file in files if file in path_of_a_request] == path_of_a_request
