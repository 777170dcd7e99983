"""``validate``: whether a config would run, without training, scoring or asking a model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from typer import Option

from trace_bench.cli import collect_garbage
from trace_bench.cli.options import (
    BackendOption,
    ConfigArgument,
    ConfigOption,
    DataRoot,
    Json,
    NoBuild,
    Roots,
    Suites,
    given,
    one_config,
    whole_number,
)
from trace_bench.display.console import emit, emit_json, note
from trace_bench.errors import ConfigError, ExitCode

if TYPE_CHECKING:
    from trace_bench.config.models import RunConfig
    from trace_bench.execution.validate import ProblemCheck
    from trace_bench.planning.plan import RunPlan


def validate(
    config: ConfigArgument = None,
    config_option: ConfigOption = None,
    root: Roots = None,
    data_root: DataRoot = None,
    bench: Suites = None,
    strict: Annotated[
        bool, Option("--strict", help="Check trainable parameters too; print every job and write the manifest.")
    ] = False,
    runs_dir: Annotated[
        str | None, Option(metavar="FOLDER", help="With --strict, write the manifest to this folder.")
    ] = None,
    backend: BackendOption = None,
    no_build: NoBuild = False,
    max_workers: Annotated[
        int | None, Option(metavar="NUMBER", parser=whole_number, help="Build this many problems at a time.")
    ] = None,
    as_json: Json = False,
) -> int:
    """Check a config and build its problems, without training, scoring or asking a model.

    Example: trace-bench validate smoke.yaml --strict
    """
    from trace_bench.cli.listing import suites_of
    from trace_bench.cli.plan_page import print_plan
    from trace_bench.cli.run import check_runs_dir
    from trace_bench.config import load_config
    from trace_bench.config.resolve import resolve
    from trace_bench.config.selectors import catalog_of, select
    from trace_bench.execution.start import write_plan

    path = one_config(config, config_option)
    if path is None:
        raise ConfigError("no config is named; name one, such as trace-bench validate smoke.yaml")
    collect_garbage()
    suites, roots = suites_of(bench), root or []
    overrides = given(runs_dir=runs_dir, data_root=data_root, max_workers=max_workers, backend=backend)
    loaded = load_config(path, overrides)
    catalog = catalog_of(loaded, roots)
    whole = select(loaded, catalog)
    tasks = resolve(whole, catalog).tasks.values()
    if suites is not None and not any(task.suite.name in suites for task in tasks):
        note(f"note: no task of this config is in {', '.join(suites)}; nothing was built")
        if as_json:
            emit_json(_as_json(whole, []))
        return int(ExitCode.OK)
    if strict:
        check_runs_dir(whole)
    plan, checks = _build(whole, suites, roots, images=not no_build, strict=strict, quiet=as_json)
    if strict and not write_plan(plan):
        note(f"note: run {plan.run_id} is there already; its manifest is left as it is")
    if as_json:
        emit_json(_as_json(whole, checks, plan if strict else None))
    elif strict:
        layout = plan.layout
        print_plan(plan.jobs, {"run": layout.run_id, "folder": layout.root, "manifest": layout.manifest})
    return int(ExitCode.OK if all(check.failure is None for check in checks) else ExitCode.JOB_FAILED)


def _build(
    config: RunConfig, suites: Sequence[str] | None, roots: Sequence[Path], *, images: bool, strict: bool, quiet: bool
) -> tuple[RunPlan, list[ProblemCheck]]:
    """Build the problems of `config`, or of its `suites`, and print a line about each, unless `quiet`.

    Args:
        images: build images that are missing; False refuses.
        strict: a problem without trainable parameters fails, and nothing is built if a job cannot run here.
    """
    from trace_bench.cli.problem_checks import problem_text
    from trace_bench.cli.signals import stopping
    from trace_bench.execution.start import plan_config
    from trace_bench.execution.validate import check_problems

    checks: list[ProblemCheck] = []
    with stopping("stopping: the builds are ended and their sandboxes removed") as stop:
        plan = plan_config(config, suites=suites, roots=roots, build=images, say=note, require_all=strict)
        for warning in plan.warnings:
            note(f"warning: {warning}")
        if not quiet:
            for name in _trainers(config):
                emit(f"OK trainer {name}")
        several = _tasks_of_several_problems(plan)

        def found(check: ProblemCheck) -> None:
            checks.append(check.strictly() if strict else check)
            if not quiet:
                emit(problem_text(checks[-1], with_kwargs=check.task_id in several))

        check_problems(plan, found=found, stop=stop)
    return plan, checks


def _trainers(config: RunConfig) -> list[str]:
    return list(dict.fromkeys(trainer.id for trainer in config.trainers))


def _tasks_of_several_problems(plan: RunPlan) -> set[str]:
    from trace_bench.execution.validate import first_of_each_problem

    counts = Counter(planned.task_id for planned in first_of_each_problem(plan.jobs))
    return {task_id for task_id, count in counts.items() if count > 1}


def _as_json(config: RunConfig, checks: Sequence[ProblemCheck], plan: RunPlan | None = None) -> dict[str, Any]:
    """The whole outcome. With ``--strict`` there is a `plan`."""
    from trace_bench.cli.json_events import job_fields
    from trace_bench.cli.problem_checks import check_fields

    document: dict[str, Any] = {
        "ok": all(check.failure is None for check in checks),
        "trainers": [{"id": name, "ok": True} for name in _trainers(config)],
        "tasks": [check_fields(check) for check in checks],
    }
    if plan is not None:
        document["run_id"] = plan.run_id
        document["manifest"] = str(plan.layout.manifest)
        document["jobs"] = [job_fields(job) for job in plan.jobs]
    return document
