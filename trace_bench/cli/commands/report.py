"""``report``: see `trace_bench.cli.report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, Json, RunsDir


def report(
    runs: Annotated[list[str], Argument(metavar="RUN...", help="Folders or ids of runs, or latest.")],
    output: Annotated[
        Path | None, Option("--output", "-o", metavar="FILE", help="Write this .html or .md; default: report-RUN.html.")
    ] = None,
    no_audit: Annotated[bool, Option("--no-audit", help="Leave the audit's verdict out.")] = False,
    force: Annotated[bool, Option("--force", help="Write over a file that is no report.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Write a page with the pictures, tables and diffs of runs.

    Example: trace-bench report latest -o report.html
    """
    from trace_bench.cli.report import report_command

    report_command(runs, output, runs_dir, audited=not no_audit, force=force, as_json=as_json)
