"""``rm``: see `trace_bench.cli.remove`."""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, HostsOf, Json, RunsDir


def rm(
    runs: Annotated[list[str], Argument(metavar="RUN", help="A run's folder, its id or the beginning of it.")],
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
    runs_dir: RunsDir = RUNS,
    config: HostsOf = None,
    as_json: Json = False,
) -> None:
    """Remove runs for good.

    Example: trace-bench rm 20260102-030405-3f9a0c11
    """
    from trace_bench.cli.remove import rm_command

    rm_command(runs, runs_dir, config, yes=yes, as_json=as_json)
