"""deploy/compose.yaml: every name in it leads somewhere, and no secret stands in it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from app.settings import ENV_PREFIX, Settings
from tests.architecture.source_tree import ROOT
from tests.deploy.deployed_files import COMPOSE, DEPLOY, PROMETHEUS, read_yaml

DOCUMENT: dict[str, Any] = read_yaml(COMPOSE)
SERVICES: dict[str, dict[str, Any]] = DOCUMENT["services"]
EVERY_SERVICE = pytest.mark.parametrize("name", SERVICES)
INTERPOLATED = re.compile(r"\$\{(\w+)(:[?-])?([^}]*)\}")
SECRET = re.compile(r"PASSWORD|KEY|SALT|TOKEN|SECRET")
SERVICE_KEYS = {
    "build", "command", "depends_on", "environment", "healthcheck", "image", "init", "logging",
    "mem_limit", "ports", "restart", "security_opt", "stop_grace_period", "volumes",
}  # fmt: skip
"""What this project uses of the compose specification; a misspelt key is none of these."""
NO_CHECK_OF_ITS_OWN = {"gateway": "the Dockerfile's", "collector": "scraped by Prometheus"}


def mounts(name: str) -> list[list[str]]:
    """`[source, target]` or `[source, target, mode]` of each volume of a service."""
    return [volume.split(":") for volume in SERVICES[name].get("volumes", [])]


def filled_in(text: str) -> str:
    """The text with its variables set: defaults where there are some, else a word."""
    return INTERPOLATED.sub(lambda m: m[3] if m[2] == ":-" else "secret0", text)


def test_the_services_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "operations.md").read_text()
    listed = set(re.findall(r"^\| `([a-z]+)` \|", page, re.MULTILINE))
    assert listed == set(SERVICES)
    assert {"gateway", "postgres", "collector", "prometheus", "grafana"} <= listed


@EVERY_SERVICE
def test_a_service_has_known_keys_restarts_and_bounds_its_logs(name: str) -> None:
    service = SERVICES[name]
    assert set(service) <= SERVICE_KEYS
    assert service["restart"] == "unless-stopped"
    assert {"max-size", "max-file"} <= set(service["logging"]["options"])


@EVERY_SERVICE
def test_an_image_is_built_here_or_pinned_to_a_release(name: str) -> None:
    service = SERVICES[name]
    if "build" in service:
        context = DEPLOY / service["build"]["context"]
        assert (context / service["build"]["dockerfile"]).is_file()
    else:
        assert re.fullmatch(r"[a-z./-]+:v?\d+\.\d+(\.\d+)?", service["image"])


@EVERY_SERVICE
def test_what_is_mounted_exists_and_cannot_be_written_unless_it_is_a_volume(name: str) -> None:
    for source, *rest in mounts(name):
        if source.startswith("."):
            assert (DEPLOY / source).exists(), source
            assert rest[1:] == ["ro"]
        else:
            assert source in DOCUMENT["volumes"]


def test_every_volume_is_used_by_one_service() -> None:
    used = [source for name in SERVICES for source, *_ in mounts(name) if source[0] != "."]
    assert sorted(used) == sorted(DOCUMENT["volumes"])


@EVERY_SERVICE
def test_a_service_is_checked_unless_there_is_a_reason(name: str) -> None:
    assert ("healthcheck" in SERVICES[name]) == (name not in NO_CHECK_OF_ITS_OWN)


def test_the_gateway_is_checked_by_its_image_and_the_collector_by_a_scrape() -> None:
    assert "\nHEALTHCHECK " in (ROOT / "Dockerfile").read_text()
    assert "framegate-collector" in [
        job["job_name"] for job in read_yaml(PROMETHEUS)["scrape_configs"]
    ]


@EVERY_SERVICE
def test_a_service_waits_for_services_that_exist_and_can_be_waited_for(name: str) -> None:
    for other, how in SERVICES[name].get("depends_on", {}).items():
        assert "healthcheck" in SERVICES[other] or how["condition"] == "service_started"


@EVERY_SERVICE
def test_a_port_is_published_on_this_machine_alone_by_default(name: str) -> None:
    for port in SERVICES[name].get("ports", []):
        assert filled_in(port).startswith("127.0.0.1:")


@EVERY_SERVICE
def test_no_secret_stands_in_the_file(name: str) -> None:
    for variable, value in SERVICES[name].get("environment", {}).items():
        password = urlsplit(filled_in(value)).password
        if SECRET.search(variable) or password:
            assert INTERPOLATED.search(value), variable
            assert password in {None, "secret0"}


def test_the_example_of_env_names_every_variable_and_gives_no_secret_away() -> None:
    lines = (DEPLOY / ".env.example").read_text().splitlines()
    required = {line[:-1] for line in lines if re.fullmatch(r"[A-Z_]+=", line)}
    defaults = dict(line[1:].split("=") for line in lines if re.match(r"#[A-Z_]+=", line))
    found = INTERPOLATED.findall(COMPOSE.read_text())
    assert required == {name for name, kind, _ in found if kind == ":?"}
    assert defaults == {name: value for name, kind, value in found if kind == ":-"}


def test_the_file_with_the_secrets_is_neither_committed_nor_part_of_the_image() -> None:
    assert ".env" in (ROOT / ".gitignore").read_text().splitlines()
    assert "**/.env" in (ROOT / ".dockerignore").read_text().splitlines()


def test_the_gateway_starts_with_the_settings_that_it_gets() -> None:
    given = {
        name.removeprefix(ENV_PREFIX).lower(): filled_in(value)
        for name, value in SERVICES["gateway"]["environment"].items()
    }
    settings = Settings.model_validate(given)
    assert settings.operator_key is not None
    assert urlsplit(settings.otlp_endpoint or "").hostname == "collector"


def test_the_data_folder_of_the_image_is_the_volume() -> None:
    ((_, target),) = mounts("gateway")
    assert f"FRAMEGATE_DATA_DIR={target}\n" in (ROOT / "Dockerfile").read_text()


def addresses() -> dict[str, str]:
    """Where each file of deploy/ expects another service: a name for it -> its address."""
    collector = read_yaml(DEPLOY / "collector.yaml")
    found = {
        "traces of the collector": collector["exporters"]["otlp_http/traces"]["endpoint"],
        "telemetry of the gateway": SERVICES["gateway"]["environment"]["FRAMEGATE_OTLP_ENDPOINT"],
    }
    for job in read_yaml(PROMETHEUS)["scrape_configs"]:
        found[f"scrape of {job['job_name']}"] = f"http://{job['static_configs'][0]['targets'][0]}"
    for source in read_yaml(DEPLOY / "grafana" / "datasources.yaml")["datasources"]:
        found[f"data source {source['name']}"] = source["url"]
    return found


PORTS = {
    ("gateway", 8000), ("prometheus", 9090), ("collector", 4318), ("collector", 8888),
    ("traces", 4318), ("traces", 16686),
}  # fmt: skip


@pytest.mark.parametrize(("who", "address"), addresses().items())
def test_every_address_leads_to_a_service_and_a_port_that_it_listens_on(
    who: str, address: str
) -> None:
    parts = urlsplit(address)
    assert parts.hostname in SERVICES
    assert (parts.hostname, parts.port) in PORTS


def test_the_collector_listens_where_the_gateway_and_prometheus_look() -> None:
    collector = read_yaml(DEPLOY / "collector.yaml")
    assert collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"] == "0.0.0.0:4318"
    (reader,) = collector["service"]["telemetry"]["metrics"]["readers"]
    assert reader["pull"]["exporter"]["prometheus"] == {"host": "0.0.0.0", "port": 8888}


def test_every_pipeline_of_the_collector_uses_parts_that_are_declared() -> None:
    collector = read_yaml(DEPLOY / "collector.yaml")
    assert set(collector["service"]["pipelines"]) == {"traces", "metrics", "logs"}
    for pipeline in collector["service"]["pipelines"].values():
        for kind, parts in pipeline.items():
            assert set(parts) <= set(collector[kind])


def test_grafana_finds_the_dashboards_and_its_first_page() -> None:
    provider = read_yaml(DEPLOY / "grafana" / "dashboards.yaml")["providers"][0]
    mounted = {target: DEPLOY / source for source, target, *_ in mounts("grafana")}
    folder = mounted[provider["options"]["path"]]
    assert folder.resolve() == ROOT / "observability" / "dashboards"
    variables = SERVICES["grafana"]["environment"]
    home = Path(variables["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == provider["options"]["path"]
    assert (folder / home.name).is_file()


def test_compose_itself_reads_the_file() -> None:
    docker = shutil.which("docker")
    if docker is None:
        pytest.skip("docker is not installed")
    if subprocess.run([docker, "compose", "version"], capture_output=True, check=False).returncode:
        pytest.skip("docker has no compose plug-in")
    required = {name: "secret0" for name, *_ in INTERPOLATED.findall(COMPOSE.read_text())}
    command = [docker, "compose", "-f", str(COMPOSE), "config", "--quiet"]
    env = os.environ | required | {"GATEWAY_ADDRESS": "127.0.0.1"}
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
