"""`framegate samplers`: which samplers there are, and what they can be told."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from app.api.samplers import samplers_document
from app.cli_client import CliError
from app.cli_compare import compare
from app.cli_new_sampler import new
from app.cli_options import AsJson, Server, connect
from app.cli_output import Document, console, show_sampler, show_samplers
from app.sampler_table import load_sampler_table
from app.settings import load_settings
from flags.check import unknown_sampler_fix

samplers_app = typer.Typer(help="The samplers.", invoke_without_command=True)
samplers_app.command("new")(new)
samplers_app.command("compare")(compare)


@samplers_app.callback()
def samplers(context: typer.Context, as_json: AsJson = False, server: Server = None) -> None:
    """The samplers; without a command, they are listed."""
    if context.invoked_subcommand is None:
        list_samplers(as_json=as_json, server=server)


@samplers_app.command("show")
def show(
    sampler_id: Annotated[str, typer.Argument(help="Such as aks, or aks@t1=0.2.")],
    as_json: AsJson = False,
    server: Annotated[
        str | None, typer.Option(help="Ask the service at this address instead.")
    ] = None,
) -> None:
    """One sampler and its options: types, defaults, values here, what they do; its variants.

    From what is installed and set here; no service need run.
    """
    document = _document_here() if server is None else _document_of(server)
    found = [one for one in document["samplers"] if one["id"] == sampler_id]
    if not found:
        raise CliError(_missing_text(document, sampler_id))
    if as_json:
        console.print_json(json.dumps(found[0]))
    else:
        show_sampler(found[0])


def _document_here() -> Document:
    settings = load_settings()
    table = load_sampler_table(
        settings.extra_sampler_targets,
        settings.sampler_options,
        has_scorer=settings.scorer_url is not None,
    )
    return samplers_document(table).model_dump(mode="json")


def _document_of(server: str) -> Document:
    with connect(server) as client:
        return client.get("/v1/samplers")


def _missing_text(document: Document, sampler_id: str) -> str:
    for unavailable in document["unavailable"]:
        if unavailable["id"] == sampler_id:
            return f"{sampler_id} failed to load: {unavailable['error']}"
    known = frozenset(sampler["id"] for sampler in document["samplers"])
    # Of a `module:Class` that failed to load nobody knows the id: it may be this one.
    failed = [
        f" Failed to load: {one['id']}: {one['error']}."
        for one in document["unavailable"]
        if ":" in one["id"]
    ]
    fix = unknown_sampler_fix(sampler_id, known)
    return f"There is no sampler {sampler_id!r}. {fix}.{''.join(failed)}"


@samplers_app.command("list")
def list_samplers(as_json: AsJson = False, server: Server = None) -> None:
    """List the samplers of the running service, their options, and those that failed to load."""
    with connect(server) as client:
        document = client.get("/v1/samplers")
    if as_json:
        console.print_json(json.dumps(document))
    else:
        show_samplers(document)
