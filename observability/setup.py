"""Builds the telemetry of one service: spans, metrics for Prometheus and, when configured, OTLP."""

from __future__ import annotations

import logging
import threading
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass

from opentelemetry import metrics, trace
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.exporter.prometheus import PrometheusMetricReader
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
from opentelemetry.sdk.metrics.export import MetricReader, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExplicitBucketHistogramAggregation, View
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, ParentBased
from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from observability.logs import OtlpLogHandler
from observability.metric import Kind, Metric
from observability.names import ALL_METRICS, SCOPE
from observability.stages import StageRecorder


@dataclass(frozen=True, slots=True, kw_only=True)
class TelemetryConfig:
    """`otlp_endpoint` is the base address of an OTLP/HTTP collector; `None` exports nothing."""

    service_version: str
    service_name: str = "framegate"
    otlp_endpoint: str | None = None
    otlp_timeout_s: float = 2.0
    """Longest export of one batch, retries included; what does not get through is dropped."""
    otlp_metrics_interval_s: float = 15.0
    shutdown_timeout_s: float = 3.0
    """Longest `Telemetry.shutdown`, whatever the collector does."""


class Telemetry:
    """What `configure_telemetry` built. Independent of other instances in the same process."""

    metrics_content_type = CONTENT_TYPE_LATEST

    def __init__(
        self,
        tracer_provider: TracerProvider,
        meter_provider: MeterProvider,
        logger_provider: LoggerProvider | None,
        registry: CollectorRegistry,
        shutdown_timeout_s: float,
    ) -> None:
        self.tracer_provider = tracer_provider
        self.meter_provider = meter_provider
        self.log_handler: logging.Handler | None = (
            OtlpLogHandler(logger_provider.get_logger(SCOPE)) if logger_provider else None
        )
        self._logger_provider = logger_provider
        self._registry = registry
        self._shutdown_timeout_s = shutdown_timeout_s
        self._recorder = StageRecorder.of(tracer_provider, meter_provider)
        self._scrape_lock = threading.Lock()
        self._is_shut_down = threading.Event()

    def activated(self) -> AbstractContextManager[None]:
        """Record the stages of this context, and of tasks and threads that inherit it, here.

        For the HTTP middleware and for background work: a process may hold several services.
        """
        return self._recorder.activated()

    def install(self) -> None:
        """Become OpenTelemetry's process-wide default (once a process): for `framegate serve`."""
        trace.set_tracer_provider(self.tracer_provider)
        metrics.set_meter_provider(self.meter_provider)

    def metrics_text(self) -> bytes:
        """The body of /metrics, in the format `metrics_content_type` names. A few milliseconds."""
        # Two scrapes at once would share one queue inside the reader and mix their results.
        with self._scrape_lock:
            return generate_latest(self._registry)

    def shutdown(self) -> bool:
        """Send what is waiting, or give it up; later calls do nothing. Blocks.

        False: `shutdown_timeout_s` ended the attempt. True says nothing about delivery.
        """
        if self._is_shut_down.is_set():
            return True
        self._is_shut_down.set()
        stops = [self.tracer_provider.shutdown, self.meter_provider.shutdown]
        if self._logger_provider is not None:
            stops.append(self._logger_provider.shutdown)
        # The SDK's own shutdown waits up to 30 s a signal; daemon threads cannot hold the exit.
        threads = [threading.Thread(target=stop, daemon=True) for stop in stops]
        deadline_s = time.monotonic() + self._shutdown_timeout_s
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))
        return not any(thread.is_alive() for thread in threads)


def _view(metric: Metric) -> View:
    """Buckets of the metric, and its labels alone: any other attribute is dropped."""
    is_histogram = metric.kind is Kind.HISTOGRAM
    return View(
        instrument_name=metric.name,
        attribute_keys={label.name for label in metric.labels},
        aggregation=ExplicitBucketHistogramAggregation(metric.buckets) if is_histogram else None,
    )


def configure_telemetry(config: TelemetryConfig) -> Telemetry:
    """Build the providers; sets nothing process-wide and reads no setting.

    OpenTelemetry's SDK itself honours its `OTEL_*` variables, such as `OTEL_RESOURCE_ATTRIBUTES`
    and `OTEL_EXPORTER_OTLP_HEADERS`.
    """
    resource = Resource.create(
        {SERVICE_NAME: config.service_name, SERVICE_VERSION: config.service_version}
    )
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return Telemetry(
        _tracer_provider(config, resource),
        _meter_provider(config, resource, registry),
        _logger_provider(config, resource),
        registry,
        config.shutdown_timeout_s,
    )


def _signal_address(base: str, signal: str) -> str:
    return f"{base.rstrip('/')}/v1/{signal}"


def _tracer_provider(config: TelemetryConfig, resource: Resource) -> TracerProvider:
    """Every answer has a span, exported or not: its trace id is part of the answer."""
    provider = TracerProvider(
        sampler=ParentBased(ALWAYS_ON),
        resource=resource,
        shutdown_on_exit=False,
        span_limits=SpanLimits(max_attribute_length=8192, max_events=32),
    )
    if config.otlp_endpoint is not None:
        address = _signal_address(config.otlp_endpoint, "traces")
        exporter = OTLPSpanExporter(endpoint=address, timeout=config.otlp_timeout_s)
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _meter_provider(
    config: TelemetryConfig, resource: Resource, registry: CollectorRegistry
) -> MeterProvider:
    readers: list[MetricReader] = [
        PrometheusMetricReader(registry=registry, scope_info_enabled=False)
    ]
    if config.otlp_endpoint is not None:
        address = _signal_address(config.otlp_endpoint, "metrics")
        exporter = OTLPMetricExporter(endpoint=address, timeout=config.otlp_timeout_s)
        readers.append(
            PeriodicExportingMetricReader(exporter, config.otlp_metrics_interval_s * 1000)
        )
    return MeterProvider(
        readers,
        resource,
        # Prometheus' text format has no exemplars; only a collector reads them.
        exemplar_filter=None if config.otlp_endpoint else AlwaysOffExemplarFilter(),
        shutdown_on_exit=False,
        views=[_view(metric) for metric in ALL_METRICS],
    )


def _logger_provider(config: TelemetryConfig, resource: Resource) -> LoggerProvider | None:
    if config.otlp_endpoint is None:
        return None
    address = _signal_address(config.otlp_endpoint, "logs")
    exporter = OTLPLogExporter(endpoint=address, timeout=config.otlp_timeout_s)
    provider = LoggerProvider(resource, shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    return provider
