"""What a metric is: its kind, unit, labels, buckets, and its name in /metrics."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """Kind of a metric."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Label:
    """A label and all the values it can take."""

    name: str
    values: tuple[str, ...]


_UNIT_SUFFIXES = {"s": "seconds", "By": "bytes"}


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric. `unit` is UCUM; `buckets` are the upper bounds of a histogram, in that unit."""

    name: str
    kind: Kind
    unit: str
    meaning: str
    labels: tuple[Label, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def prometheus_name(self) -> str:
        """Its name in /metrics, as OpenTelemetry's exporter makes it; a histogram's base name."""
        name = self.name.replace(".", "_")
        unit = _UNIT_SUFFIXES.get(self.unit, "")
        with_unit = name if not unit or name.endswith(f"_{unit}") else f"{name}_{unit}"
        return f"{with_unit}_total" if self.kind is Kind.COUNTER else with_unit


SECONDS_BUCKETS = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 900.0, 3600.0,
)  # fmt: skip
"""From a score-only selection (0.3 ms) to the decoding of an hour of video."""

TOKENS_BUCKETS = (
    1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0, 2048.0,
    4096.0, 8192.0, 16384.0, 32768.0, 65536.0,
)  # fmt: skip
"""From one token a frame (`demo`) to 64 frames of 729 patch tokens and beyond."""

UNKNOWN = "unknown"
"""Label value of everything outside a closed set."""

SAMPLER_LABEL = Label("sampler", (UNKNOWN,))
"""`Metrics` adds the ids of the registered samplers; any other id counts as `unknown`."""
