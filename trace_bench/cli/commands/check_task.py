"""``check-task``: what the programs of a task score."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from trace_bench.cli import complete
from trace_bench.cli.options import BackendOption, DataRoot, Json, NoBuild, Roots, given, whole_number
from trace_bench.display.console import emit, emit_json, note
from trace_bench.errors import ExitCode

if TYPE_CHECKING:
    from trace_bench.execution.validate import ProblemCheck

ProgramFiles = Annotated[
    list[Path] | None, Option("--program", metavar="FILE", help="Run this program of yours too; can be repeated.")
]
Arguments = Annotated[
    list[str] | None,
    Option("--set", metavar="NAME=VALUE", help="Give tasks that take it this argument; can be repeated."),
]


def check_task(
    tasks: Annotated[
        list[str],
        Argument(metavar="TASK...", help="Ids, patterns or tags, as in a config.", autocompletion=complete.tasks),
    ],
    root: Roots = None,
    data_root: DataRoot = None,
    backend: BackendOption = None,
    no_build: NoBuild = False,
    max_workers: Annotated[
        int | None, Option(metavar="NUMBER", parser=whole_number, help="Check this many tasks at a time.")
    ] = None,
    program: ProgramFiles = None,
    argument: Arguments = None,
    as_json: Json = False,
) -> int:
    """Run the programs that come with tasks, and yours; say what they score.

    Example: trace-bench check-task --root my-tasks llm4ad:my_task
    """
    from trace_bench.cli.problem_checks import arguments_of, programs_fields, programs_of
    from trace_bench.cli.signals import stopping
    from trace_bench.config import parse_config
    from trace_bench.config.resolve import resolve
    from trace_bench.config.selectors import catalog_of, select
    from trace_bench.execution.start import plan_config
    from trace_bench.execution.validate import check_problems

    sources = programs_of(program or [])
    overrides = given(data_root=data_root, backend=backend, max_workers=max_workers)
    if argument:
        overrides["eval_kwargs"] = arguments_of(argument)
    roots = root or []
    config = parse_config({"tasks": tasks, "trainers": ["NoOp"]}, overrides, file="check-task")
    catalog = catalog_of(config, roots)
    config = select(config, catalog)
    resolved = resolve(config, catalog)
    rows: list[dict[str, Any]] = []

    def found(check: ProblemCheck) -> None:
        rows.append(programs_fields(check, resolved.tasks[check.task_id]))
        if not as_json:
            _print(rows[-1])

    with stopping("stopping: the checks are ended and their sandboxes removed") as stop:
        plan = plan_config(config, roots=roots, build=not no_build, say=note)
        check_problems(
            plan,
            found=found,
            stop=stop,
            until="programs",
            programs=dict.fromkeys(resolved.tasks, sources),
        )
    failed = any(row["problems"] for row in rows)
    if as_json:
        emit_json({"ok": not failed, "tasks": rows})
    return int(ExitCode.JOB_FAILED if failed else ExitCode.OK)


def _print(row: Mapping[str, Any]) -> None:
    from trace_bench.artifacts.outputs import ProgramReport
    from trace_bench.cli.problem_checks import program_text

    emit(f"{'FAIL' if row['problems'] else 'OK'} task {row['id']}")
    for program in row["programs"]:
        emit(f"    {program_text(ProgramReport.model_validate(program))}")
    if not row["programs"] and not row["problems"]:
        emit("    it has no programs to run")
    for problem in row["problems"]:
        emit(f"    problem: {problem}")
    for remark in row["remarks"]:
        emit(f"    missing: {remark}")
