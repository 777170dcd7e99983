"""``validate``: whether a config would run, without training, scoring or asking a model."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trace_bench.artifacts.jsonio import dumps, printable
from trace_bench.artifacts.outputs import BuildReport
from trace_bench.cli.events import job_fields
from trace_bench.cli.listing import suites_of
from trace_bench.cli.outcome import print_plan
from trace_bench.cli.output import emit, emit_json, note
from trace_bench.cli.progress import alert
from trace_bench.cli.run import check_runs_dir
from trace_bench.cli.signals import RunInterrupted, StopOnSignals
from trace_bench.config import load_config
from trace_bench.config.models import RunConfig
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import select
from trace_bench.errors import ExitCode, Interrupted
from trace_bench.execution.start import write_plan
from trace_bench.execution.validate import (
    ProblemCheck,
    check_problems,
    first_of_each_problem,
    plan_validation,
)
from trace_bench.planning.plan import RunPlan

STOPPING = "stopping: the builds are ended and their sandboxes removed"
SPLITS = ("train", "validate", "test")


def validate_command(
    path: Path,
    overrides: Mapping[str, Any],
    *,
    roots: Sequence[Path],
    bench: str | None,
    strict: bool,
    build: bool,
    as_json: bool,
) -> int:
    """Check the config at `path`; returns the exit code.

    Raises:
        TraceBenchError: with its own exit code.
    """
    gc.freeze()  # as in `run`
    gc.enable()
    suites = suites_of(bench)
    config = select(load_config(path, overrides), roots)
    tasks = resolve(config, roots).tasks.values()
    if suites is not None and not any(task.suite.name in suites for task in tasks):
        note(f"note: no task of this config is in {', '.join(suites)}; nothing was built")
        if as_json:
            emit_json(_as_json(config, []))
        return int(ExitCode.OK)
    if strict:
        check_runs_dir(config)
    checks: list[ProblemCheck] = []
    try:
        with StopOnSignals(lambda _: alert(STOPPING)) as stop:
            plan = plan_validation(config, suites, roots=roots, build=build, say=note)
            for warning in plan.warnings:
                note(f"warning: {printable(warning, 2000)}")
            if not as_json:
                for name in _trainers(config):
                    emit(f"OK trainer {printable(name)}")
            several = _tasks_of_several_problems(plan)

            def found(check: ProblemCheck) -> None:
                checks.append(check.strictly() if strict else check)
                if not as_json:
                    emit(_problem_text(checks[-1], with_kwargs=check.task_id in several))

            check_problems(plan, found=found, stop_wanted=stop.wanted)
    except Interrupted as error:
        raise RunInterrupted(str(error)) from error
    if strict and not write_plan(plan):
        note(f"note: run {plan.run_id} is there already; its manifest is left as it is")
    if as_json:
        emit_json(_as_json(config, checks, plan if strict else None))
    elif strict:
        layout = plan.layout
        print_plan(plan.jobs, {"run": layout.run_id, "folder": layout.root, "manifest": layout.manifest})
    return int(ExitCode.OK if all(check.failure is None for check in checks) else ExitCode.JOB_FAILED)


def _trainers(config: RunConfig) -> list[str]:
    return list(dict.fromkeys(trainer.id for trainer in config.trainers))


def _tasks_of_several_problems(plan: RunPlan) -> set[str]:
    counts = Counter(planned.task_id for planned in first_of_each_problem(plan.jobs))
    return {task_id for task_id, count in counts.items() if count > 1}


def _problem_text(check: ProblemCheck, *, with_kwargs: bool) -> str:
    name = printable(check.task_id) + (f" {printable(dumps(check.eval_kwargs), 300)}" if with_kwargs else "")
    if check.failure is not None:
        failure = check.failure
        return f"FAIL task {name}: {failure.boundary}: {printable(failure.kind)}: {printable(failure.message, 2000)}"
    assert check.report is not None
    if (warning := _warning(check)) is not None:
        return f"WARN task {name}: {warning}  ({_report_text(check.report)})"
    return f"OK task {name}  ({_report_text(check.report)})"


def _warning(check: ProblemCheck) -> str | None:
    """What is to be said of a problem that builds."""
    if check.report is None or any(parameter.trainable for parameter in check.report.parameters):
        return None
    return "it has no trainable parameter, and every run of it will fail"


def _report_text(report: BuildReport) -> str:
    """``2 parameters, 1 trainable, 3 train / 2 validate / 0 test examples, maximize``."""
    number, trainable = len(report.parameters), sum(p.trainable for p in report.parameters)
    parts = [f"{number} parameter{'' if number == 1 else 's'}"]
    if trainable < number or not number:
        parts.append(f"{trainable or 'none'} trainable")
    sizes = {str(split): size for split, size in report.examples.items()}
    parts.append(" / ".join(f"{sizes.get(split, 0)} {split}" for split in SPLITS) + " examples")
    return ", ".join([*parts, report.direction])


def _as_json(
    config: RunConfig,
    checks: Sequence[ProblemCheck],
    plan: RunPlan | None = None,
) -> dict[str, Any]:
    """The whole outcome. With ``--strict`` there is a `plan`."""
    document: dict[str, Any] = {
        "ok": all(check.failure is None for check in checks),
        "trainers": [{"id": name, "ok": True} for name in _trainers(config)],
        "tasks": [_check_fields(check) for check in checks],
    }
    if plan is not None:
        document["run_id"] = plan.run_id
        document["manifest"] = str(plan.layout.manifest)
        document["jobs"] = [job_fields(job) for job in plan.jobs]
    return document


def _check_fields(check: ProblemCheck) -> dict[str, Any]:
    report = check.report.model_dump(mode="json") if check.report is not None else {}
    return {
        "id": check.task_id,
        "eval_kwargs": dict(check.eval_kwargs),
        "ok": check.failure is None,
        "failure": check.failure.model_dump(mode="json") if check.failure is not None else None,
        "warning": _warning(check) if check.failure is None else None,
        **{key: report.get(key) for key in ("direction", "parameters", "examples")},
    }
