"""Lines and JSON of problems that were built, for ``validate`` and ``check-task``."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from trace_bench.artifacts.jsonio import dumps
from trace_bench.artifacts.outputs import BuildReport, ProgramReport
from trace_bench.config.reader import value_of
from trace_bench.errors import ConfigError
from trace_bench.execution.validate import ProblemCheck
from trace_bench.records.gaps import gap
from trace_bench.records.rows import GAP
from trace_bench.suites.lint import lint
from trace_bench.suites.spec import Task

SPLITS = ("train", "validate", "test")


# ------------------------------------------------------------------------------------------------------- validate


def problem_text(check: ProblemCheck, *, with_kwargs: bool) -> str:
    """``OK``, ``WARN`` or ``FAIL``, and what was built or why not. `with_kwargs`: the task has several problems."""
    name = check.task_id + (f" {dumps(check.eval_kwargs)}" if with_kwargs else "")
    if check.failure is not None:
        failure = check.failure
        return f"FAIL task {name}: {failure.boundary}: {failure.kind}: {failure.message}"
    assert check.report is not None
    if (warning := _warning(check)) is not None:
        return f"WARN task {name}: {warning}  ({report_text(check.report)})"
    return f"OK task {name}  ({report_text(check.report)})"


def _warning(check: ProblemCheck) -> str | None:
    """The warning about a problem that builds."""
    if (expected := check.expected_failure) is None:
        return None
    jobs = "those jobs" if expected.kind == "no_program" else "every run of it"
    return f"it {expected.message}, and {jobs} will fail"


def report_text(report: BuildReport) -> str:
    """``2 parameters, 1 trainable, 3 train / 2 validate / 0 test examples, maximize``."""
    number, trainable = len(report.parameters), sum(p.trainable for p in report.parameters)
    parts = [f"{number} parameter{'' if number == 1 else 's'}"]
    if trainable < number or not number:
        parts.append(f"{trainable or 'none'} trainable")
    sizes = {str(split): size for split, size in report.examples.items()}
    parts.append(" / ".join(f"{sizes.get(split, 0)} {split}" for split in SPLITS) + " examples")
    return ", ".join([*parts, report.direction])


def check_fields(check: ProblemCheck) -> dict[str, Any]:
    """A problem as ``validate --json`` has it."""
    report = check.report.model_dump(mode="json") if check.report is not None else {}
    return {
        "id": check.task_id,
        "eval_kwargs": dict(check.eval_kwargs),
        "ok": check.failure is None,
        "failure": check.failure.model_dump(mode="json") if check.failure is not None else None,
        "warning": _warning(check) if check.failure is None else None,
        **{key: report.get(key) for key in ("direction", "parameters", "examples")},
    }


# ----------------------------------------------------------------------------------------------------- check-task


def programs_of(files: Sequence[Path]) -> dict[str, str]:
    """The programs of a user, by the names of their files.

    Raises:
        ConfigError: one cannot be read, or two have one name.
    """
    found: dict[str, str] = {}
    for path in files:
        if path.name in found:
            raise ConfigError(f"--program {path}: another program is called {path.name}, too; rename one of them")
        try:
            found[path.name] = path.read_text(encoding="utf-8")
        except UnicodeDecodeError as error:
            raise ConfigError(f"--program {path}: is not UTF-8 (byte {error.start}); save it as UTF-8") from None
        except OSError as error:
            raise ConfigError(f"--program {path}: cannot be read: {error.strerror or error}") from None
    return found


def arguments_of(words: Sequence[str], option: str = "--set") -> dict[str, Any]:
    """The arguments of tasks in ``NAME=VALUE`` of `option`, each value as a config would read it.

    >>> arguments_of(["n_items=5000", "size=large"])
    {'n_items': 5000, 'size': 'large'}

    Raises:
        ConfigError: a word has no name or no value, its value is no YAML, or a name is there twice.
    """
    found: dict[str, Any] = {}
    for word in words:
        name, _, value = (part.strip() for part in word.partition("="))
        if not (name and value):
            raise ConfigError(f"{option} {word}: is no argument; write NAME=VALUE, such as {option} n_items=5000")
        if name in found:
            raise ConfigError(f"{option} {word}: {name!r} is given twice; give it once")
        try:
            found[name] = value_of(value)
        except ConfigError as error:
            raise ConfigError(f"{option} {word}: {error}") from None
    return found


def programs_fields(check: ProblemCheck, task: Task) -> dict[str, Any]:
    """A task and what its programs score, as ``check-task --json`` has it."""
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
        "programs": [program.model_dump(mode="json") for program in with_gaps(report)] if report is not None else [],
    }


def with_gaps(report: BuildReport) -> list[ProgramReport]:
    """The programs of `report` with the metric ``gap``, by the same instances: 0 is the template, 1 the best known
    score where all of these have one, else the reference program. Unchanged where the task lacks either."""
    score_of = {program.role: program.score for program in report.programs if not program.failed}
    template = score_of.get("template")
    best = report.best_known if report.best_known is not None else score_of.get("reference")
    if template is None or best is None:
        return list(report.programs)
    gaps = [gap([program.score], [template], [best], report.direction) for program in report.programs]
    return [
        program if value is None else program.model_copy(update={"metrics": {**program.metrics, GAP: value}})
        for program, value in zip(report.programs, gaps, strict=True)
    ]


def misfits(report: BuildReport) -> list[str]:
    """A sentence for each program that does not do what its role says."""
    found: list[str] = []
    start = next((program for program in report.programs if program.role == "template"), None)
    for program in report.programs:
        fails = f"fails on {program.failed} of {program.examples} instances"
        if program.role == "broken":
            if program.failed < program.examples:
                found.append(f"{program.name} is to fail, and {fails}")
        elif program.failed and program.role != "alternatives":
            found.append(f"{program.name} {fails}: {program.feedback}")
        elif start is not None and not start.failed:
            if program.role in ("reference", "stateless") and not _better(report, program.score, start.score):
                found.append(f"{program.name} ({program.score:g}) is no better than the template ({start.score:g})")
            if program.role == "level" and _better(report, start.score, program.score):
                found.append(f"{program.name} ({program.score:g}) is worse than the template ({start.score:g})")
            if program.role == "worse" and not _better(report, start.score, program.score):
                found.append(f"{program.name} ({program.score:g}) is no worse than the template ({start.score:g})")
    climb = [program for program in report.programs if program.role in ("level", "reference") and not program.failed]
    for below, above in pairwise(climb if any(program.role == "level" for program in climb) else ()):
        if not _better(report, above.score, below.score):
            found.append(f"{above.name} ({above.score:g}) is no better than {below.name} ({below.score:g})")
    return found


def _better(report: BuildReport, a: float, b: float) -> bool:
    return a > b if report.direction == "maximize" else a < b


def program_text(program: ProgramReport) -> str:
    """The score of a program of a task as text."""
    label = program.name if program.role in ("given", "level") else program.role
    parts = [f"{label:12s} {program.score:<12.6g}"]
    parts += [f"{name} {program.metrics[name]:.3f}" for name in (GAP, "normalised") if name in program.metrics]
    parts.append(f"{program.seconds:.2f} s")
    if program.failed:
        parts.append(f"fails on {program.failed} of {program.examples}: {program.feedback[:200]}")
    return "  ".join(parts)
