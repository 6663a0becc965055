from __future__ import annotations

import json
import logging
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from prometheus_client.parser import text_string_to_metric_families

from observability.logs import configure_logging, log_event
from observability.metrics import Metrics
from observability.names import Event, Stage
from observability.setup import Telemetry, TelemetryConfig, configure_telemetry
from observability.stages import current_trace_id, stage
from tests.observability.conftest import World

ROOT = Path(__file__).resolve().parents[2]


class Collector(ThreadingHTTPServer):
    """An OTLP/HTTP collector that keeps the bodies it is sent, by path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _CollectorHandler)
        self.bodies: dict[str, bytes] = {}

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _CollectorHandler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.bodies[self.path] = self.server.bodies.get(self.path, b"") + body
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base's name
        """Quiet."""


@pytest.fixture
def collector() -> Iterator[Collector]:
    with Collector() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@contextmanager
def _silent_listener() -> Iterator[str]:
    """The address of a collector that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def _refusing_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def _work(telemetry: Telemetry) -> str:
    Metrics(telemetry.meter_provider, sampler_ids=["uniform"]).upload_received(5)
    with telemetry.activated(), stage(Stage.DECODE):
        record = logging.LogRecord("app.decode", logging.WARNING, "f", 1, "hello", None, None)
        if telemetry.log_handler is not None:
            telemetry.log_handler.handle(record)
        return current_trace_id()


def test_metrics_text_is_what_prometheus_parses(world: World) -> None:
    _work(world.telemetry)
    text = world.telemetry.metrics_text().decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert families["framegate_uploads_bytes"].type == "counter"
    assert families["framegate_stage_duration_seconds"].type == "histogram"
    assert families["framegate_kill_switch_on"].type == "gauge"
    assert families["framegate_stage_duration_seconds"].documentation == "Time spent in one stage."
    assert "process_resident_memory_bytes" in families
    assert world.telemetry.metrics_content_type.startswith("text/plain")


def test_the_service_says_its_name_and_version(world: World) -> None:
    _work(world.telemetry)
    labels = dict(next(key[1] for key in world.samples() if key[0] == "target_info"))
    assert labels["service_name"] == "framegate"
    assert labels["service_version"] == "9.9"


def test_scrapes_from_several_threads_are_each_whole(world: World) -> None:
    _work(world.telemetry)
    world.telemetry.metrics_text()
    texts: list[bytes] = []
    threads = [
        threading.Thread(target=lambda: texts.append(world.telemetry.metrics_text()))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [text.count(b"\nframegate_uploads_bytes_total 5.0") for text in texts] == [1] * 8


def test_nothing_is_exported_unless_an_endpoint_is_set(world: World) -> None:
    assert world.telemetry.log_handler is None
    before = threading.active_count()
    telemetry = configure_telemetry(TelemetryConfig(service_version="1"))
    assert threading.active_count() == before
    assert telemetry.shutdown() is True


def test_spans_metrics_and_logs_reach_a_collector(collector: Collector) -> None:
    config = TelemetryConfig(service_version="1", otlp_endpoint=collector.address + "/")
    telemetry = configure_telemetry(config)
    trace_id = _work(telemetry)
    assert telemetry.shutdown() is True

    spans = ExportTraceServiceRequest.FromString(collector.bodies["/v1/traces"])
    sent = spans.resource_spans[0].scope_spans[0].spans[0]
    assert (sent.name, sent.trace_id.hex()) == ("decode", trace_id)
    logs = ExportLogsServiceRequest.FromString(collector.bodies["/v1/logs"])
    line = logs.resource_logs[0].scope_logs[0].log_records[0]
    assert (line.body.string_value, line.trace_id.hex()) == ("hello", trace_id)
    assert (line.event_name, line.severity_text) == ("log", "WARNING")
    found = ExportMetricsServiceRequest.FromString(collector.bodies["/v1/metrics"])
    exported = {m.name for m in found.resource_metrics[0].scope_metrics[0].metrics}
    assert {"framegate.uploads.bytes", "framegate.stage.duration"} <= exported


def test_log_events_reach_a_collector_with_their_fields(collector: Collector) -> None:
    telemetry = configure_telemetry(
        TelemetryConfig(service_version="1", otlp_endpoint=collector.address)
    )
    assert telemetry.log_handler is not None
    logger = logging.getLogger("tests.otlp")
    logger.addHandler(telemetry.log_handler)
    log_event(logger, Event.PROCESS_DIED, level=logging.ERROR, process="llm", exit_code=0)
    logging.getLogger("opentelemetry.tests").addHandler(telemetry.log_handler)
    logging.getLogger("opentelemetry.tests").error("an export failed")
    telemetry.shutdown()
    logger.removeHandler(telemetry.log_handler)
    logging.getLogger("opentelemetry.tests").removeHandler(telemetry.log_handler)

    logs = ExportLogsServiceRequest.FromString(collector.bodies["/v1/logs"])
    records = logs.resource_logs[0].scope_logs[0].log_records
    assert [record.event_name for record in records] == ["process.died"]
    fields = {entry.key: entry.value for entry in records[0].attributes}
    assert fields["process"].string_value == "llm"
    assert fields["exit_code"].int_value == 0


@pytest.mark.parametrize("is_silent", [True, False], ids=["silent", "refusing"])
def test_an_absent_collector_does_not_hold_the_shutdown(*, is_silent: bool) -> None:
    before = set(threading.enumerate())
    with _silent_listener() as silent:
        config = TelemetryConfig(
            service_version="1",
            otlp_endpoint=silent if is_silent else _refusing_address(),
            shutdown_timeout_s=0.5,
        )
        telemetry = configure_telemetry(config)
        _work(telemetry)
        start_s = time.monotonic()
        is_flushed = telemetry.shutdown()
        # The bound is ours (0.5 s); the margin is for a busy machine, far below the SDK's 30 s.
        assert time.monotonic() - start_s < config.shutdown_timeout_s + 4.0
        assert is_flushed is False
    for thread in set(threading.enumerate()) - before:
        thread.join(timeout=20)


EXIT = """
import sys, time
from observability.names import Stage
from observability.setup import TelemetryConfig, configure_telemetry
from observability.stages import stage
config = TelemetryConfig(service_version="1", otlp_endpoint=sys.argv[1], shutdown_timeout_s=0.5)
telemetry = configure_telemetry(config)
telemetry.install()
with stage(Stage.INTAKE):
    pass
assert b'framegate_stage_duration_seconds_count{outcome="ok",stage="intake"} 1.0' \\
    in telemetry.metrics_text()
telemetry.shutdown()
"""


def test_an_absent_collector_does_not_hold_the_exit_of_the_process() -> None:
    with _silent_listener() as address:
        done = subprocess.run(
            [sys.executable, "-c", EXIT, address],
            capture_output=True,
            check=False,
            cwd=ROOT,
            text=True,
            timeout=25,
        )
    assert done.returncode == 0, done.stderr


def test_a_second_shutdown_does_nothing(world: World) -> None:
    assert world.telemetry.shutdown() is True
    assert world.telemetry.shutdown() is True


def test_log_lines_go_to_stderr_and_to_the_collector(
    collector: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    telemetry = configure_telemetry(
        TelemetryConfig(service_version="1", otlp_endpoint=collector.address)
    )
    assert telemetry.log_handler is not None
    root = logging.getLogger()
    before, level = [*root.handlers], root.level
    try:
        configure_logging("info", handlers=[telemetry.log_handler])
        log_event(logging.getLogger("app"), Event.SERVICE_STARTED, port=8000)
    finally:
        root.handlers[:] = before
        root.setLevel(level)
    telemetry.shutdown()
    assert json.loads(capsys.readouterr().err)["port"] == 8000
    assert b"service.started" in collector.bodies["/v1/logs"]
