"""The environment: names that do not exist, values that cannot be, and what children inherit."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import SecretStr

from app.settings import (
    ENV_PREFIX,
    Settings,
    SettingsError,
    changed_settings,
    child_environment,
    load_settings,
)


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.upper().startswith(ENV_PREFIX)]:
        monkeypatch.delenv(name)


def refusal() -> str:
    with pytest.raises(SettingsError) as caught:
        load_settings()
    return str(caught.value)


def test_every_setting_has_a_default() -> None:
    settings = load_settings()

    assert (settings.host, settings.port) == ("127.0.0.1", 8000)
    assert settings.flags_path == Path(".framegate/flags.json")
    assert settings.kill_switch_path == Path(".framegate/kill-switch.json")
    assert settings.extra_sampler_targets == ()
    assert settings.operator_key is None


def test_the_environment_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEGATE_PORT", "0")
    monkeypatch.setenv("FRAMEGATE_SAMPLER_OPTIONS", '{"aks": {"all_depth": 4}}')
    monkeypatch.setenv("FRAMEGATE_EXTRA_SAMPLERS", "a.b:C, d:E,")
    settings = load_settings()

    assert settings.port == 0
    assert settings.sampler_options == {"aks": {"all_depth": 4}}
    assert settings.extra_sampler_targets == ("a.b:C", "d:E")


@pytest.mark.parametrize("name", ["FRAMEGATE_MAX_FRAME", "framegate_max_frame"])
def test_a_name_that_does_not_exist_is_refused_with_a_hint(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "8")
    assert refusal().startswith(f"{name} is no setting (did you mean FRAMEGATE_MAX_FRAMES?)")


def test_every_bad_name_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEGATE_ZZZ", "1")
    monkeypatch.setenv("FRAMEGATE_HOTS", "1")
    assert "FRAMEGATE_ZZZ is no setting;" in refusal()
    assert "did you mean FRAMEGATE_HOST?" in refusal()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("PORT", "http"),
        ("PORT", "65536"),
        ("TARGET_FPS", "0"),
        ("TARGET_FPS", "nan"),
        ("DECODE_TIMEOUT_S", "inf"),
        ("PROFILE", "llava"),
        ("SAMPLER_OPTIONS", "aks"),
        ("SAMPLER_OPTIONS", "[1]"),
        ("MERGE_KEEP_RATIO", "1.5"),
    ],
)
def test_a_value_that_cannot_be_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(f"FRAMEGATE_{name}", value)
    assert name.lower() in refusal().lower()


@pytest.mark.parametrize(
    ("lower", "upper"),
    [
        ("MIN_FRAMES", "MAX_FRAMES"),
        ("CANDIDATE_FPS_MIN", "CANDIDATE_FPS_MAX"),
        ("MAX_TOKENS_DEFAULT", "MAX_TOKENS_LIMIT"),
        ("MAX_TOKENS_LIMIT", "LLM_CONTEXT_TOKENS"),
    ],
)
def test_bounds_that_cross_are_refused(
    monkeypatch: pytest.MonkeyPatch, lower: str, upper: str
) -> None:
    monkeypatch.setenv(f"FRAMEGATE_{lower}", "9000")
    assert refusal() == f"FRAMEGATE_{lower} is above FRAMEGATE_{upper}"


@pytest.mark.parametrize("name", ["SCORER_URL", "SCORER_MODEL"])
def test_a_scoring_model_has_an_address_and_a_name(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(f"FRAMEGATE_{name}", "http://scorer.example")
    assert refusal() == (
        "FRAMEGATE_SCORER_URL and FRAMEGATE_SCORER_MODEL belong together: set both"
    )


def test_a_secret_is_not_shown() -> None:
    settings = Settings(operator_key=SecretStr("s3cret"))
    assert "s3cret" not in repr(settings)


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="frozen"):
        setattr(Settings(), "port", 1)  # noqa: B010 - a plain assignment does not type-check


def test_changes_are_checked() -> None:
    assert changed_settings(Settings(), {"port": 9}).port == 9
    with pytest.raises(SettingsError, match="FRAMEGATE_PORT"):
        changed_settings(Settings(), {"port": 99_999})


@pytest.mark.parametrize(
    "text",
    [
        '{"aks": {"t1": 0.1, "t1": 0.2}}',
        '{"aks@t1=0.2": {}, "aks@t1=0.2": {}}',
        '{"aks": {}, "bolt": {}, "aks": {"t1": 0.2}}',
    ],
)
def test_a_key_given_twice_is_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv("FRAMEGATE_SAMPLER_OPTIONS", text)
    assert refusal().startswith("FRAMEGATE_SAMPLER_OPTIONS: not valid JSON (the key '")
    assert "is given twice" in refusal()


def test_options_nested_beyond_reason_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FRAMEGATE_SAMPLER_OPTIONS", "[" * 100_000)
    assert refusal().startswith("FRAMEGATE_SAMPLER_OPTIONS: not valid JSON")


def test_a_child_reads_the_same_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("framegate_host", "::1")
    settings = Settings.model_validate(
        {
            "data_dir": tmp_path,
            "operator_key": "s3cret",
            "sampler_options": {"aks": {"all_depth": 4, "scene_hints": False}},
            "otlp_endpoint": None,
            "target_fps": 0.25,
        }
    )
    environment = child_environment(settings, {"ADDED": "1"})
    monkeypatch.delenv("framegate_host")
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert load_settings() == settings
    assert environment["ADDED"] == "1"
    assert environment["PATH"] == os.environ["PATH"]
