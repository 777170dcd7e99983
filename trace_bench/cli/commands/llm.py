"""Print the LLM calls of a run as its cassettes have them, or work with the response cache.

Example: trace-bench llm ls latest
"""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, JobArgument, Json, RunArgument, RunsDir, whole_number
from trace_bench.display.console import emit, emit_json


def ls(
    run: RunArgument,
    job: JobArgument = None,
    runs_dir: RunsDir = RUNS,
    phase: Annotated[
        str | None, Option("--phase", metavar="PHASE", help="Print only calls of this phase: train or score.")
    ] = None,
    failed: Annotated[bool, Option("--failed", help="Print only calls whose status is not 200.")] = False,
    as_json: Json = False,
) -> None:
    """Print the calls of a run or a job, and their totals.

    Example: trace-bench llm ls latest --failed
    """
    from trace_bench.cli.llm import list_calls

    list_calls(run, job, runs_dir, phase=phase, failed=failed, as_json=as_json)


def show(
    run: RunArgument,
    job: Annotated[str, Argument(metavar="JOB", help="A job's id or the beginning of it.")],
    n: Annotated[
        int | None,
        Argument(metavar="N", parser=whole_number, help="Number of the call in the job; all if none is given."),
    ] = None,
    runs_dir: RunsDir = RUNS,
    full: Annotated[bool, Option("--full", help="Print all of every text.")] = False,
    as_json: Json = False,
) -> None:
    """Print what was asked and answered in a job's calls.

    Example: trace-bench llm show latest 0123 7 --full
    """
    from trace_bench.cli.llm import show_calls

    show_calls(run, job, n, runs_dir, full=full, as_json=as_json)


def cache(clear: Annotated[bool, Option("--clear", help="Remove them all.")] = False, as_json: Json = False) -> None:
    """Say how many answers are kept beyond their runs.

    Example: trace-bench llm cache --clear
    """
    from trace_bench.execution.providers import cache_folder
    from trace_bench.gateway import response_cache

    folder = cache_folder()
    files = response_cache.entries(folder)
    size = sum(path.stat().st_size for path in files)
    removed = response_cache.clear(folder) if clear else 0
    if as_json:
        emit_json({"folder": str(folder), "answers": len(files) - removed, "bytes": 0 if clear else size,
                   "removed": removed})  # fmt: skip
    elif clear:
        emit(f"removed {removed} answers ({size / 2**20:.1f} MiB) from {folder}")
    else:
        emit(f"{len(files)} answers ({size / 2**20:.1f} MiB) in {folder}")


COMMANDS = (ls, show, cache)
