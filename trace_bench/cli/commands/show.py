"""``show``: a run with its jobs and its leaderboard, or one job alone."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from trace_bench.cli.options import RUNS, JobArgument, Json, RunArgument, RunsDir
from trace_bench.errors import ConfigError


def show(
    run: RunArgument,
    job: JobArgument = None,
    runs_dir: RunsDir = RUNS,
    every: Annotated[bool, Option("--all", help="Show all jobs; of a job, all of its change.")] = False,
    status: Annotated[
        str | None, Option("--status", metavar="STATUS,...", help="Show only jobs in these states.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Print a run with its jobs and leaderboard, or all about one job.

    Example: trace-bench show latest --status failed
    """
    from trace_bench.cli.show_job import show_job
    from trace_bench.cli.show_run import show_run
    from trace_bench.records.runs import find_run

    layout = find_run(run, runs_dir)
    if job is None:
        show_run(layout, every=every, status=status, as_json=as_json)
    elif status is not None:
        raise ConfigError("--status chooses among the jobs of a run; leave it out, or the job")
    else:
        show_job(layout, job, every=every, as_json=as_json)
