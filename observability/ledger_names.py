"""The metrics of the ledger: its rows are written in batches, off the path of the answers."""

from __future__ import annotations

from enum import StrEnum

from observability.metric import Kind, Label, Metric


class LedgerTable(StrEnum):
    """Tables that are written in batches."""

    SELECTIONS = "selections"
    COMPARISONS = "comparisons"


class LedgerDrop(StrEnum):
    """Why a row was not written."""

    QUEUE_FULL = "queue_full"
    REFUSED = "refused"
    SHUTDOWN = "shutdown"


LEDGER_ROWS_WRITTEN = Metric(
    "framegate.ledger.rows_written",
    Kind.COUNTER,
    "{row}",
    "Rows that the ledger holds for sure.",
    (Label("table", tuple(LedgerTable)),),
)
LEDGER_ROWS_DROPPED = Metric(
    "framegate.ledger.rows_dropped",
    Kind.COUNTER,
    "{row}",
    "Rows that were given up: the queue was full, the database refused them, or the end came.",
    (Label("table", tuple(LedgerTable)), Label("reason", tuple(LedgerDrop))),
)
LEDGER_WRITE_FAILURES = Metric(
    "framegate.ledger.write_failures",
    Kind.COUNTER,
    "{attempt}",
    "Attempts to write a batch that found the database away; the batch is tried again.",
)
LEDGER_QUEUED_ROWS = Metric(
    "framegate.ledger.queued_rows", Kind.GAUGE, "{row}", "Rows that wait to be written."
)

LEDGER_METRICS = (
    LEDGER_ROWS_WRITTEN,
    LEDGER_ROWS_DROPPED,
    LEDGER_WRITE_FAILURES,
    LEDGER_QUEUED_ROWS,
)
