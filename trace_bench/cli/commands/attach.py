"""``attach``: see `trace_bench.cli.attach`."""

from __future__ import annotations

from trace_bench.cli.options import RUNS, JsonLines, Quiet, RunArgument, RunsDir, Verbose


def attach(
    run: RunArgument, runs_dir: RunsDir = RUNS, as_json: JsonLines = False, quiet: Quiet = False, verbose: Verbose = 0
) -> int:
    """Watch a run of another terminal until it has ended. Ctrl-C leaves it alone.

    Example: trace-bench attach latest
    """
    from trace_bench.cli.attach import attach_command
    from trace_bench.cli.run import DisplayOptions

    return attach_command(run, runs_dir, DisplayOptions(as_json, quiet, verbose))
