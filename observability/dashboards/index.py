"""Do videos become ready, and what does that cost?"""

from __future__ import annotations

from observability import names
from observability.dashboards.grafana import Dashboard, Row, Unit, graph, stacked
from observability.dashboards.queries import in_five_minutes, per_second, percentile, share
from observability.dashboards.shared import MARKS

VIDEOS = Row(
    "Videos",
    (
        graph(
            "Videos whose indexing ended",
            "In the last five minutes. `failed` is mostly files that are no readable video.",
            Unit.COUNT,
            in_five_minutes(names.VIDEOS, by="status"),
        ),
        graph(
            "Uploads",
            "Bytes received, refused uploads included.",
            Unit.BYTES_PER_SECOND,
            per_second(names.UPLOADS_BYTES),
        ),
        graph(
            "Decode and index time",
            "p95 of the decoding of a video and of its embedding.",
            Unit.SECONDS,
            percentile(names.STAGE_DURATION, 0.95, by="stage", where='stage=~"decode|index"'),
        ),
        graph(
            "Decode workers started",
            "In the last five minutes. One a video; a question never starts one.",
            Unit.COUNT,
            in_five_minutes(names.DECODE_WORKERS_STARTED),
            width=12,
        ),
        graph(
            "Damaged packets",
            "Skipped while decoding, in the last five minutes.",
            Unit.COUNT,
            in_five_minutes(names.DECODE_DAMAGED_PACKETS),
            width=12,
        ),
    ),
)

ENCODER = Row(
    "Encoder",
    (
        stacked(
            "Device busy",
            "Device-seconds a second, by what it worked for; 100 % is one device fully used.",
            Unit.SHARE,
            per_second(names.ENCODER_DEVICE_SECONDS, by="work"),
        ),
        graph(
            "Pictures encoded",
            "Candidates of new videos that went through the image encoder.",
            Unit.PER_SECOND,
            per_second(names.ENCODER_PICTURES_ENCODED),
        ),
        graph(
            "Queries encoded",
            "Questions whose vector was not stored yet.",
            Unit.PER_SECOND,
            per_second(names.ENCODER_QUERIES_ENCODED),
        ),
    ),
)

STORES = Row(
    "Stores",
    (
        graph(
            "Cache hits",
            "Share of the reads of each store that found what they looked for.",
            Unit.SHARE,
            share(
                per_second(names.CACHE_LOOKUPS, by="cache", where='result="hit"'),
                per_second(names.CACHE_LOOKUPS, by="cache"),
                legend="{{cache}}",
            ),
            width=12,
        ),
        graph(
            "Cache misses",
            "Each waited for the index, or for the text encoder (`query_vectors`).",
            Unit.PER_SECOND,
            per_second(names.CACHE_LOOKUPS, by="cache", where='result="miss"'),
            width=12,
        ),
    ),
)

INDEX = Dashboard(
    "framegate-index",
    "Framegate / Index and encoder",
    "Do videos become ready, and what does that cost?",
    (VIDEOS, ENCODER, STORES),
    marks=MARKS,
)
