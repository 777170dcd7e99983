"""What commands on the results of runs are called, their arguments and help; `trace_bench.cli.app` takes them in."""

from __future__ import annotations

from typing import Annotated

import typer

from trace_bench.cli.options import RUNS, Json, RunArgument, RunsDir

results_commands = typer.Typer()

# ---------------------------------------------------------------------------------------------------------- results


# ---------------------------------------------------------------------------------------------------------- compare


# ----------------------------------------------------------------------------------------------------------- report


# ------------------------------------------------------------------------------------------------------------ audit


@results_commands.command(epilog="Example: trace-bench audit latest --json")
def audit(
    run: RunArgument,
    runs_dir: RunsDir = RUNS,
    expect: Annotated[
        str | None, typer.Option("--expect", metavar="DIGEST", help="The digest that the author published.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Check what a run claims: files, tables, scores, calls, identity, conduct."""
    from trace_bench.cli.audit import audit_command

    code = audit_command(run, runs_dir, expect=expect, as_json=as_json)
    if code:
        raise typer.Exit(code)


# -------------------------------------------------------------------------------------------------------- reproduce


# --------------------------------------------------------------------------------------------------- export, import


# ----------------------------------------------------------------------------------------------------------- mirror


# ------------------------------------------------------------------------------------------- rebuild, diff, rm, gc
