"""Build every problem of a plan in a sandbox of its own. Nothing is trained, scored or paid for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

from trace_bench.artifacts.contract import ModelRef
from trace_bench.artifacts.jsonio import JsonError, dumps, read_model
from trace_bench.artifacts.outputs import BuildReport, Failure
from trace_bench.cancellation import Cancellation
from trace_bench.display.text import clean_line
from trace_bench.errors import Boundary, Interrupted, TraceBenchError
from trace_bench.execution.aside import resources_aside
from trace_bench.execution.attempt import Attempt, RunResources
from trace_bench.execution.session import Listener
from trace_bench.gateway.server import Gateway
from trace_bench.gateway.stub import StubProvider
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.prepare import PreparedJob
from trace_bench.planning.requirements import MemoryPool
from trace_bench.trainers.registry import load_trainer

_STUB = ModelRef(id="stub")


@dataclass(frozen=True)
class ProblemCheck:
    """One task with one set of arguments: the report of its problem, or the failure to build it.

    Attributes:
        report: None if the problem did not build.
        for_programs: trainers of the plan that need a single trainable program.
    """

    task_id: str
    eval_kwargs: Mapping[str, Any]
    report: BuildReport | None = None
    failure: Failure | None = None
    for_programs: tuple[str, ...] = ()

    def strictly(self) -> ProblemCheck:
        """The same, where a problem that no job can search is a failure."""
        if (expected := self.expected_failure) is None:
            return self
        message = f"{self.task_id} {expected.message}"
        return replace(self, failure=expected.model_copy(update={"message": message}))

    @property
    def expected_failure(self) -> Failure | None:
        """The failure of jobs on a problem that builds; its message continues a sentence about the task."""
        if self.report is None:
            return None
        trainable = [p for p in self.report.parameters if p.trainable]
        kind = message = ""
        if not trainable:
            kind, message = "no_trainable_parameters", "has no trainable parameter"
        elif self.for_programs and [p.kind for p in trainable] != ["code"]:
            found, who = ", ".join(f"{p.name} ({p.kind})" for p in trainable), ", ".join(self.for_programs)
            kind = "no_program"
            message = f"cannot be searched by {who}: expected a single trainable parameter of kind code, found {found}"
        return Failure(boundary=Boundary.TASK, kind=kind, message=message) if kind else None


def check_problems(
    plan: RunPlan,
    *,
    found: Callable[[ProblemCheck], None],
    stop: Cancellation | None = None,
    until: Literal["build", "programs"] = "build",
    programs: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> None:
    """Build the problem of every task and set of arguments of `plan` once, with the first seed.

    Up to ``max_workers`` at a time, one per core of the engine at most. Nothing is written below ``runs_dir``, and what
    `plan` decided about the jobs makes no difference.

    Args:
        found: called with each outcome, in the order of the plan.
        stop: ends the checks.
        until: ``programs`` runs the programs that come with the tasks, too.
        programs: sources by name, by task id: with ``programs``, they are run as well.

    Raises:
        Interrupted: it was asked to stop. All sandboxes are gone.
        EnvironmentUnavailable, SandboxError: the machine lacks something that all sandboxes need; likewise.
    """
    chosen = first_of_each_problem(plan.jobs)
    stop = stop or Cancellation()
    of_checks = stop.child()
    with resources_aside(plan, "validate", Gateway({"stub": StubProvider()})) as resources:

        def check(planned: PlannedJob) -> ProblemCheck | None:
            if of_checks.cancelled:
                return None
            if (unmet := plan.unmet.get(planned.job_id)) is not None:
                return _unbuilt(planned, unmet)
            given = programs.get(planned.task_id, {})
            prepared = ending_early(plan.prepare(planned), resources.layout.run_id, until, given)
            return _check(resources, prepared, of_checks)

        done = 0
        with ThreadPoolExecutor(workers_for(plan, chosen), thread_name_prefix="build") as pool:
            try:
                for outcome in [pool.submit(check, planned) for planned in chosen]:
                    result = outcome.result()
                    if stop.cancelled or result is None:
                        raise Interrupted(f"interrupted; {done} of {len(chosen)} problems had been looked at")
                    found(replace(result, for_programs=_for_programs(plan, result.task_id)))
                    done += 1
            finally:
                of_checks.cancel()


def _for_programs(plan: RunPlan, task_id: str) -> tuple[str, ...]:
    trainers = dict.fromkeys(planned.job.trainer_id for planned in plan.jobs if planned.task_id == task_id)
    return tuple(name for name in trainers if getattr(load_trainer(name), "only_programs", False))


def first_of_each_problem(jobs: Iterable[PlannedJob]) -> list[PlannedJob]:
    """The first of the jobs that share a task and its arguments."""
    first: dict[tuple[str, int], PlannedJob] = {}
    for planned in jobs:
        # The jobs of a task entry share the very same arguments, and no two entries are equal (see `matrix.expand`).
        first.setdefault((planned.task_id, id(planned.job.eval_kwargs)), planned)
    return list(first.values())


def ending_early(
    prepared: PreparedJob,
    run: str,
    until: Literal["build", "programs"],
    programs: Mapping[str, str] = MappingProxyType({}),
) -> PreparedJob:
    """`prepared` as a job of `run` that ends when its problem is built, with the stub model and these programs."""
    changes = {"run_id": run, "until": until, "model": _STUB, "programs": dict(programs)}
    spec = prepared.spec.model_copy(update=changes)
    meta = prepared.meta.model_copy(update={"run_id": run, "model": _STUB})
    return replace(prepared, spec=spec, meta=meta)


def _unbuilt(planned: PlannedJob, unmet: TraceBenchError) -> ProblemCheck:
    """The outcome of a problem that cannot be built on this machine."""
    failure = Failure(boundary=Boundary.CONFIG, kind="cannot_run_here", message=clean_line(str(unmet), 600))
    return ProblemCheck(planned.task_id, planned.job.eval_kwargs, failure=failure)


def _check(resources: RunResources, prepared: PreparedJob, stop: Cancellation) -> ProblemCheck:
    listener = _BuildListener()
    row = Attempt(resources, prepared, stop, listener).run()
    task = prepared.spec.task
    failure = None
    if row.status != "ok":
        boundary = row.failure_boundary or Boundary.HARNESS
        failure = Failure(boundary=boundary, kind=row.failure_kind or "unknown", message=row.feedback)
    elif listener.report is None:
        message = listener.trouble or "the sandbox ended well, but did not report what it had built"
        failure = Failure(boundary=Boundary.SANDBOX, kind="bad_report", message=message)
    return ProblemCheck(task.id, task.eval_kwargs, listener.report if failure is None else None, failure)


class _BuildListener(Listener):
    """Keeps the report of the build phase; `trouble` says why it cannot be read."""

    def __init__(self) -> None:
        self.report: BuildReport | None = None
        self.trouble = ""

    def event(self, line: Mapping[str, Any]) -> None:
        if line.get("event") == "build.end":
            said = {key: value for key, value in line.items() if key not in ("t", "event")}
            try:
                self.report = read_model(BuildReport, dumps(said).encode("utf-8", "replace"))
            except (JsonError, ValueError) as error:
                self.trouble = f"the sandbox's report of the problem cannot be read: {error}"


def workers_for(plan: RunPlan, chosen: Sequence[PlannedJob]) -> int:
    """The number of sandboxes of `chosen` that may exist at a time, if each uses all of its cores."""
    host = plan.backend.describe()
    cores, memory = host.get("cpus"), host.get("memory_bytes")
    fit = (
        MemoryPool(memory).jobs_at_a_time(max(p.memory for p in chosen)) if isinstance(memory, int) and chosen else None
    )
    return max(1, min(plan.config.max_workers, int(cores or os.cpu_count() or 1), fit or len(chosen), len(chosen)))
