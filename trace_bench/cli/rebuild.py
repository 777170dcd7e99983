"""``rebuild``: a run's tables, derived again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from trace_bench.artifacts.jsonio import printable
from trace_bench.cli.output import emit, emit_json
from trace_bench.errors import ExitCode
from trace_bench.records.guard import held_for_reading, held_for_writing
from trace_bench.records.rebuild import Rebuilt, is_of_other_code, rebuild
from trace_bench.records.runs import find_run


def rebuild_command(run: str, runs_dir: Path, *, jobs: bool, check: bool, every: bool, as_json: bool) -> int:
    """Rebuild, or only check; returns the exit code, 1 if a check finds that anything differs.

    Raises:
        ConfigError: there is no such run, or somebody is at work in it. HarnessError: a file of it is damaged.
    """
    layout = find_run(run, runs_dir)
    with (held_for_reading if check else held_for_writing)(layout):
        other = is_of_other_code(layout)
        files = rebuild(layout, jobs=jobs, check=check)
    differing = [file for file in files if file.found != "same"]
    if as_json:
        emit_json({"run_id": layout.run_id, "checked": check, "files": len(files), "differing": len(differing),
                   "found": [asdict(file) for file in (files if every else differing)]})  # fmt: skip
    else:
        _print(layout.run_id, files if every else differing, len(files), len(differing), check=check, other=other)
    return int(ExitCode.JOB_FAILED if check and differing else ExitCode.OK)


def _print(run_id: str, shown: Sequence[Rebuilt], total: int, differing: int, *, check: bool, other: bool) -> None:
    for file in shown:
        emit(f"{file.found:<9}  {printable(file.path, 400)}")
    what = printable(run_id, 128)
    why = "; another version of the code wrote them, which may write the same in other ways" if other else ""
    if not differing:
        emit(f"{what}: all {total} derived files are what they follow from")
    elif check:
        emit(f"{what}: {differing} of {total} derived files are not what they follow from{why}")
    else:
        emit(f"{what}: {differing} of {total} derived files are new")
