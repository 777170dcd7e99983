"""``cancel``: see `trace_bench.cli.cancel`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, HostsOf, Json, RunArgument, RunsDir


def cancel(
    run: RunArgument,
    jobs: Annotated[list[str] | None, Argument(metavar="JOB", help="Only these jobs, by id or its beginning.")] = None,
    runs_dir: RunsDir = RUNS,
    config: HostsOf = None,
    kill: Annotated[bool, Option("--kill", help="Kill the jobs at once; do not let them end in order.")] = False,
    no_wait: Annotated[bool, Option("--no-wait", help="Ask, and return.")] = False,
    as_json: Json = False,
) -> None:
    """End a run, or some of its jobs. What has finished is kept, and the run can be continued.

    Example: trace-bench cancel latest
    """
    from trace_bench.cli.cancel import cancel_run

    cancel_run(run, jobs or [], runs_dir, config, kill=kill, wait=not no_wait, as_json=as_json)
