"""deploy/prometheus/: valid for Prometheus, true to the metrics, explained in the runbook."""

from __future__ import annotations

import re
import shlex
import subprocess

import pytest
import typer.main
from typer.core import TyperGroup

from app.cli import app as command_line
from observability.metric import Kind
from observability.names import ALL_METRICS
from tests.architecture.source_tree import ROOT
from tests.deploy.deployed_files import (
    ALERTS,
    PROMETHEUS,
    RUNBOOK,
    Alert,
    alerts,
    program,
    read_yaml,
)

UNIT_TESTS = ROOT / "tests" / "deploy" / "alerts.promtool.yaml"
NOT_OURS = {"up", "process_open_fds", "process_max_fds"}
EVERY_ALERT = pytest.mark.parametrize("alert", alerts(), ids=lambda alert: alert.name)


def promtool(*arguments: object) -> None:
    done = subprocess.run(
        [program("promtool"), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_configuration_and_the_rules_are_valid() -> None:
    promtool("check", "config", PROMETHEUS)
    promtool("check", "rules", ALERTS)


def test_every_alert_fires_on_its_cause_and_is_silent_beside_it() -> None:
    promtool("test", "rules", UNIT_TESTS)


@EVERY_ALERT
def test_an_alert_is_tested_to_fire_and_to_be_silent(alert: Alert) -> None:
    cases = [
        bool(case["exp_alerts"])
        for test in read_yaml(UNIT_TESTS)["tests"]
        for case in test["alert_rule_test"]
        if case["alertname"] == alert.name
    ]
    assert {True, False} <= set(cases)


@EVERY_ALERT
def test_every_metric_of_an_alert_exists(alert: Alert) -> None:
    exported = {
        metric.prometheus_name + suffix
        for metric in ALL_METRICS
        for suffix in (("_bucket", "_count") if metric.kind is Kind.HISTOGRAM else ("",))
    }
    named = set(re.findall(r"\b(framegate_\w+|up|process_\w+)(?=[\[{)\s])", alert.expression))
    assert named
    assert named - NOT_OURS <= exported


@EVERY_ALERT
def test_every_label_of_an_alert_exists_with_that_value(alert: Alert) -> None:
    metrics = {metric.prometheus_name: metric for metric in ALL_METRICS}
    for name, matchers in re.findall(r"(framegate_\w+)\{([^}]*)\}", alert.expression):
        labels = {label.name: set(map(str, label.values)) for label in metrics[name].labels}
        for label, values in re.findall(r'(\w+)[!=~]+"([^"]*)"', matchers):
            assert set(values.split("|")) <= labels[label]


@EVERY_ALERT
def test_an_alert_says_how_urgent_it_is_and_what_to_read(alert: Alert) -> None:
    assert alert.labels["severity"] in {"critical", "warning"}
    assert set(alert.annotations) == {"summary", "description", "runbook_url"}
    assert alert.annotations["description"].endswith(".")
    assert alert.annotations["runbook_url"] == f"docs/runbook.md#{alert.name.lower()}"


def test_the_runbook_explains_every_alert_and_no_other() -> None:
    sections = re.findall(r"^## (Framegate\w+)$", RUNBOOK.read_text(), re.MULTILINE)
    assert sections == [alert.name for alert in alerts()]


@EVERY_ALERT
def test_a_section_of_the_runbook_has_its_four_parts(alert: Alert) -> None:
    section = RUNBOOK.read_text().partition(f"\n## {alert.name}\n")[2].partition("\n## ")[0]
    parts = re.findall(r"^\*\*(\w+)\*\*", section, re.MULTILINE)
    assert parts == ["Means", "Confirm", "Answer", "Escalate"]
    assert f"`{alert.labels['severity']}`" in section.splitlines()[1]


def commands_of_the_runbook() -> list[str]:
    spans = re.findall(r"`(framegate [^`]+)`", RUNBOOK.read_text())
    return sorted({part for span in spans for part in span.split(" && ")})


@pytest.mark.parametrize("text", commands_of_the_runbook())
def test_a_command_of_the_runbook_can_be_typed_like_that(text: str) -> None:
    _, *words = shlex.split(text)
    command = typer.main.get_command(command_line)
    while isinstance(command, TyperGroup):
        name = words.pop(0)
        assert name in command.commands, f"{text}: there is no {name}"
        command = command.commands[name]
    # Raises a usage error for an option that does not exist or is missing.
    command.make_context(text, words)


def test_the_runbook_asks_no_endpoint_that_does_not_exist() -> None:
    http = (ROOT / "docs" / "http.md").read_text()
    named = re.findall(r"`(?:GET|PUT|POST) (/[a-z0-9/{}_-]+)`", RUNBOOK.read_text())
    assert named
    for path in named:
        assert f" {path}\n" in http, path
