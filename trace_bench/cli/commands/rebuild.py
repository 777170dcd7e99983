"""``rebuild``: derives a run's tables again."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from typer import Option

from trace_bench.cli.options import RUNS, Json, RunArgument, RunsDir
from trace_bench.display.console import emit, emit_json
from trace_bench.errors import ExitCode


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
    from trace_bench.artifacts.folder_lock import held_for_reading, held_for_writing
    from trace_bench.records import rebuild as records
    from trace_bench.records.runs import find_run

    layout = find_run(run, runs_dir)
    with (held_for_reading if check else held_for_writing)(layout):
        other = records.is_of_other_code(layout)
        files = records.rebuild(layout, jobs=jobs, check=check)
    differing = [file for file in files if file.found != "same"]
    shown = files if every else differing
    code = int(ExitCode.JOB_FAILED if check and differing else ExitCode.OK)
    if as_json:
        emit_json({"run_id": layout.run_id, "checked": check, "files": len(files), "differing": len(differing),
                   "found": [asdict(file) for file in shown]})  # fmt: skip
        return code
    for file in shown:
        emit(f"{file.found:<9}  {file.path}")
    if not differing:
        emit(f"{layout.run_id}: all {len(files)} derived files are what they follow from")
    elif check:
        why = "; another version of the code wrote them, which may write the same in other ways" if other else ""
        emit(f"{layout.run_id}: {len(differing)} of {len(files)} derived files are not what they follow from{why}")
    else:
        emit(f"{layout.run_id}: {len(differing)} of {len(files)} derived files are new")
    return code
