"""``diff``: see `trace_bench.cli.diff`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, Json, RunsDir


def diff(
    jobs: Annotated[list[str], Argument(metavar="JOB JOB", help="Of the latest run, or each as RUN/JOB.")],
    every: Annotated[bool, Option("--all", help="Show all of long diffs.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> None:
    """Show what differs between two jobs, and where first.

    Example: trace-bench diff latest 3ddb 5b37
    """
    from trace_bench.cli.diff import diff_command

    diff_command(jobs, runs_dir, every=every, as_json=as_json)
