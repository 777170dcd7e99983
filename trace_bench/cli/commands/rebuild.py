"""``rebuild``: see `trace_bench.cli.rebuild`."""

from __future__ import annotations

from typing import Annotated

from typer import Option

from trace_bench.cli.options import RUNS, Json, RunArgument, RunsDir


def rebuild(
    run: RunArgument,
    jobs: Annotated[bool, Option("--jobs", help="Derive the jobs' rows too, from what sandboxes left.")] = False,
    check: Annotated[bool, Option("--check", help="Write nothing; exit with 1 if anything differs.")] = False,
    every: Annotated[bool, Option("--all", help="Name the files that are as they should be, too.")] = False,
    runs_dir: RunsDir = RUNS,
    as_json: Json = False,
) -> int:
    """Derive a run's tables again from its jobs' files.

    Example: trace-bench rebuild latest --check
    """
    from trace_bench.cli.rebuild import rebuild_command

    return rebuild_command(run, runs_dir, jobs=jobs, check=check, every=every, as_json=as_json)
