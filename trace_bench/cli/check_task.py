"""``check-task``: what the programs of a task score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trace_bench.artifacts.jsonio import printable
from trace_bench.artifacts.outputs import BuildReport, ProgramReport
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.cli.progress import alert
from trace_bench.cli.signals import RunInterrupted, StopOnSignals
from trace_bench.config import parse_config
from trace_bench.config.resolve import Resolved, resolve
from trace_bench.config.selectors import select
from trace_bench.errors import ExitCode, Interrupted
from trace_bench.execution.start import plan_config
from trace_bench.execution.validate import ProblemCheck, check_problems
from trace_bench.suites.lint import lint

_STOPPING = "stopping: the checks are ended and their sandboxes removed"


def check_tasks(
    tasks: Sequence[str], overrides: Mapping[str, Any], *, roots: Sequence[Path], build: bool, as_json: bool
) -> int:
    """Build the problem of each task in a sandbox, run its programs there, and say what they score.

    Returns:
        The exit code: 1 if a task does not build, or its programs do not do what their roles say.

    Raises:
        TraceBenchError: with its own exit code.
    """
    given = {key: value for key, value in overrides.items() if value is not None}
    config = select(parse_config({"tasks": list(tasks), "trainers": ["NoOp"], **given}, file="check-task"), roots)
    resolved = resolve(config, roots)
    rows: list[dict[str, Any]] = []

    def found(check: ProblemCheck) -> None:
        rows.append(_row(check, resolved))
        if not as_json:
            _show(rows[-1])

    try:
        with StopOnSignals(lambda _: alert(_STOPPING)) as stop:
            plan = plan_config(config, roots=roots, build=build, say=note)
            check_problems(plan, found=found, stop_wanted=stop.wanted, until="programs")
    except Interrupted as error:
        raise RunInterrupted(str(error)) from error
    if as_json:
        emit_json({"ok": not any(row["problems"] for row in rows), "tasks": rows})
    return int(ExitCode.JOB_FAILED if any(row["problems"] for row in rows) else ExitCode.OK)


def _row(check: ProblemCheck, resolved: Resolved) -> dict[str, Any]:
    task = resolved.tasks[check.task_id]
    report = check.report
    problems = []
    if check.failure is not None:
        problems.append(f"{check.failure.boundary}: {check.failure.kind}: {check.failure.message}")
    if report is not None:
        problems += misfits(report)
    return {
        "id": check.task_id,
        "problems": problems,
        "remarks": lint(task.folder, task.spec),
        "content_hash": task.content_hash,
        "direction": report.direction if report is not None else None,
        "bound": report.bound if report is not None else None,
        "programs": [program.model_dump(mode="json") for program in report.programs] if report is not None else [],
    }


def misfits(report: BuildReport) -> list[str]:
    """A sentence for each program that does not do what its role says."""
    found: list[str] = []
    start = next((program for program in report.programs if program.role == "template"), None)
    for program in report.programs:
        if program.role == "broken":
            if program.failed < program.examples:
                found.append(
                    f"{program.name} is to fail, and fails on {program.failed} of {program.examples} instances"
                )
        elif program.failed and program.role != "alternatives":
            found.append(
                f"{program.name} fails on {program.failed} of {program.examples} instances: {program.feedback}"
            )
        elif start is not None and not start.failed:
            if program.role == "reference" and not _better(report, program.score, start.score):
                found.append(f"{program.name} ({program.score:g}) is no better than the template ({start.score:g})")
            if program.role == "worse" and not _better(report, start.score, program.score):
                found.append(f"{program.name} ({program.score:g}) is no worse than the template ({start.score:g})")
    return found


def _better(report: BuildReport, a: float, b: float) -> bool:
    return a > b if report.direction == "maximize" else a < b


def _show(row: Mapping[str, Any]) -> None:
    emit(f"{'FAIL' if row['problems'] else 'OK'} task {printable(row['id'])}")
    for program in row["programs"]:
        emit(f"    {_program_text(ProgramReport.model_validate(program))}")
    if not row["programs"] and not row["problems"]:
        emit("    it has no programs to run")
    for problem in row["problems"]:
        emit(f"    problem: {printable(problem, 1000)}")
    for remark in row["remarks"]:
        emit(f"    missing: {printable(remark)}")


def _program_text(program: ProgramReport) -> str:
    share = program.metrics.get("normalised")
    parts = [f"{program.role:12s} {program.score:<12.6g}"]
    if share is not None:
        parts.append(f"normalised {share:.3f}")
    parts.append(f"{program.seconds:.2f} s")
    if program.failed:
        parts.append(f"fails on {program.failed} of {program.examples}: {printable(program.feedback, 200)}")
    return "  ".join(parts)
