"""Declares the commands on Harbor; `trace_bench.cli.app` takes them in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_bench.cli.usage import help_without_command

harbor_app = typer.Typer(
    add_completion=False,
    rich_markup_mode=None,
    short_help="Install Harbor, which runs the trials of terminal_bench.",
    help="Harbor, which runs the trials of the suite terminal_bench on this machine.",
    epilog="Example: trace-bench harbor install",
)


@harbor_app.callback(invoke_without_command=True)
def _harbor(ctx: typer.Context) -> None:
    help_without_command(ctx)


@harbor_app.command("install", epilog="Example: trace-bench harbor install --python python3.12")
def harbor_install(
    python: Annotated[
        Path | None, typer.Option("--python", metavar="PROGRAM", help="A Python, 3.12 or later, with venv.")
    ] = None,
) -> None:
    """Install Harbor in an environment of its own, with pinned packages."""
    from trace_bench.cli.harbor import harbor_install_command

    harbor_install_command(python)
