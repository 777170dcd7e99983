"""What commands on the results of runs are called, their arguments and help; `trace_bench.cli.app` takes them in."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from trace_bench.cli.options import RUNS, Json, RunsDir

results_commands = typer.Typer()

# ---------------------------------------------------------------------------------------------------------- results


# ---------------------------------------------------------------------------------------------------------- compare


# ----------------------------------------------------------------------------------------------------------- report


@results_commands.command(epilog="Example: trace-bench report latest -o report.html")
def report(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Folders or ids of runs, or latest.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="A .html or .md; report-RUN.html if left out.")
    ] = None,
    no_audit: Annotated[bool, typer.Option("--no-audit", help="Leave the audit's verdict out.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Write over a file that is no report.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Write a page with the pictures, tables and diffs of runs."""
    from trace_bench.cli.report import report_command

    report_command(runs, output, runs_dir, audited=not no_audit, force=force, as_json=as_json)


# ------------------------------------------------------------------------------------------------------------ audit


# -------------------------------------------------------------------------------------------------------- reproduce


# --------------------------------------------------------------------------------------------------- export, import


# ----------------------------------------------------------------------------------------------------------- mirror


# ------------------------------------------------------------------------------------------- rebuild, diff, rm, gc
