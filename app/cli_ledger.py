"""`framegate feedback` and `framegate delete-user`: a word on one answer, and forgetting a user."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from app.cli_client import CliError
from app.cli_options import Server, connect
from app.cli_output import console
from app.stores.ledger_rows import FeedbackVerdict


def feedback(
    answer_id: Annotated[str, typer.Argument(help="As the answer's document says.")],
    verdict: Annotated[FeedbackVerdict, typer.Argument(help="Was the answer good or bad.")],
    reason: Annotated[str, typer.Option(help="Why.")] = "",
    server: Server = None,
) -> None:
    """Say whether an answer was good; guards of a rollout can watch it. The last word counts."""
    body = {"verdict": verdict.value, "reason": reason}
    with connect(server) as client:
        client.post(f"/v1/answers/{quote(answer_id, safe='')}/feedback", body)
    console.print(f"Recorded: {verdict.value}. A later word on the same answer replaces it.")


def delete_user(
    user_id: Annotated[str, typer.Argument(help="As it was sent in `user_id`.")],
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    server: Server = None,
) -> None:
    """Delete what is kept of a user: answers, ledger rows, feedback (operators)."""
    if not yes and not typer.confirm(f"Delete everything that is kept of user {user_id}?"):
        raise CliError("Nothing was deleted.")
    with connect(server) as client:
        deleted = client.delete(f"/v1/users/{quote(user_id, safe='')}/records")
    counts = ", ".join(f"{count} {name}" for name, count in deleted.items())
    console.print(f"Deleted: {counts}.", highlight=False)
    console.print("Answers that were still running are not recorded either.")
