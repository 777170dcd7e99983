"""Print the LLM calls of a run as its cassettes have them, or work with the response cache.

Example: trace-bench llm ls latest
"""

from __future__ import annotations

from typing import Annotated

from typer import Argument, Option

from trace_bench.cli.options import RUNS, JobArgument, Json, RunArgument, RunsDir, whole_number
from trace_bench.display.console import emit, emit_json, emit_table, note
from trace_bench.display.table import megabytes
from trace_bench.errors import ConfigError

PHASES = ("build", "train", "score")


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
    from trace_bench.artifacts.usage import usage_of
    from trace_bench.cli.llm_calls import calls_table, totals_sentence, without_texts
    from trace_bench.cli.lookup import jobs_named, manifest_of
    from trace_bench.records.calls import read_calls
    from trace_bench.records.runs import find_run

    if phase is not None and phase not in PHASES:
        raise ConfigError(f"--phase: there is no phase {phase!r}; known are {', '.join(PHASES)}")
    layout = find_run(run, runs_dir)
    calls = [
        (entry.job_id, call)
        for entry in (manifest_of(layout).jobs if job is None else jobs_named(layout, [job]))
        for call in read_calls(layout.job(entry.job_id).cassette)
        if (phase is None or call.phase == phase) and not (failed and call.status == 200)
    ]
    usage = usage_of(call for _, call in calls)
    if as_json:
        emit_json({
            "run_id": layout.run_id,
            "calls": [{"job_id": job_id, **without_texts(call)} for job_id, call in calls],
            "totals": usage.model_dump(exclude={"refused"}),
        })  # fmt: skip
        return
    if calls:
        emit_table(calls_table(calls))
        emit()
    emit(totals_sentence(len(calls), usage))


def show(
    run: RunArgument,
    job: Annotated[str, Argument(metavar="JOB", help="A job's id or the beginning of it.")],
    n: Annotated[
        int | None,
        Argument(metavar="N", parser=whole_number, help="Number of the call in the job; all calls without it."),
    ] = None,
    runs_dir: RunsDir = RUNS,
    full: Annotated[bool, Option("--full", help="Print all of every text.")] = False,
    as_json: Json = False,
) -> None:
    """Print the questions and answers of a job's calls.

    Example: trace-bench llm show latest 0123 7 --full
    """
    from trace_bench.cli.llm_calls import print_call, with_texts
    from trace_bench.cli.lookup import jobs_named
    from trace_bench.records.calls import read_calls
    from trace_bench.records.runs import find_run

    layout = find_run(run, runs_dir)
    (entry,) = jobs_named(layout, [job])
    calls = list(read_calls(layout.job(entry.job_id).cassette))
    if n is not None and not 1 <= n <= len(calls):
        known = f"its calls are 1 to {len(calls)}" if calls else "it has made no call"
        raise ConfigError(f"job {entry.job_id} has no call {n}; {known}")
    chosen = calls if n is None else [calls[n - 1]]
    if as_json:
        emit_json([with_texts(call, calls) for call in chosen])
        return
    if not chosen:
        note(f"job {entry.job_id} has made no call")
    for place, call in enumerate(chosen):
        if place:
            emit()
        print_call(entry.job_id, call, calls, full=full)


def cache(clear: Annotated[bool, Option("--clear", help="Remove them all.")] = False, as_json: Json = False) -> None:
    """Print the number of cached answers, or remove them.

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
        emit(f"removed {removed} answers ({megabytes(size)}) from {folder}")
    else:
        emit(f"{len(files)} answers ({megabytes(size)}) in {folder}")


COMMANDS = (ls, show, cache)
