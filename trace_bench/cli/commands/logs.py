"""``logs``: see `trace_bench.cli.logs`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from trace_bench.cli.options import RUNS, JobArgument, Json, RunArgument, RunsDir, whole_number


def logs(
    run: RunArgument,
    job: JobArgument = None,
    runs_dir: RunsDir = RUNS,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on until the run, or the job, has ended.")] = False,
    lines: Annotated[
        int | None,
        Option("--lines", "-n", metavar="NUMBER", parser=whole_number, help="Begin with the last lines only."),
    ] = None,
    events: Annotated[bool, Option("--events", help="Print the job's events instead of its output.")] = False,
    as_json: Json = False,
) -> None:
    """Print the journal of a run, or the output of one of its jobs.

    Example: trace-bench logs latest --follow
    """
    from trace_bench.cli.logs import print_log

    print_log(run, job, runs_dir, follow=follow, lines=lines, events=events, as_json=as_json)
