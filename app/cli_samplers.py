"""`framegate samplers`: which samplers there are, and what they can be told."""

from __future__ import annotations

import json

import typer

from app.cli_new_sampler import new
from app.cli_options import AsJson, Server, connect
from app.cli_output import console, show_samplers

samplers_app = typer.Typer(help="The samplers.", invoke_without_command=True)
samplers_app.command("new")(new)


@samplers_app.callback()
def samplers(context: typer.Context, as_json: AsJson = False, server: Server = None) -> None:
    """The samplers; without a command, they are listed."""
    if context.invoked_subcommand is None:
        list_samplers(as_json=as_json, server=server)


@samplers_app.command("list")
def list_samplers(as_json: AsJson = False, server: Server = None) -> None:
    """List the samplers of the running service, their options, and those that failed to load."""
    with connect(server) as client:
        document = client.get("/v1/samplers")
    if as_json:
        console.print_json(json.dumps(document))
    else:
        show_samplers(document)
