"""Evaluate single states of one task in a sandbox, for programs that bring a search of their own.

An evaluator is one job that no run has: its sandbox stays, and evaluates the states that it is handed, one at a time.
They are evaluated as in training, by the very same code, on examples that the job's seed alone decides. The sandbox
asks for them (`trace_bench.worker.on_demand`); between two of its questions the caller decides.
"""

from __future__ import annotations

import contextlib
import logging
import reprlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from trace_bench.artifacts.contract import Budget, Direction, TrainerRef
from trace_bench.artifacts.jsonio import finite_number
from trace_bench.artifacts.outputs import ExampleScore
from trace_bench.cancellation import Cancellation
from trace_bench.config import parse_config
from trace_bench.errors import Boundary, ConfigError
from trace_bench.execution.aside import resources_aside
from trace_bench.execution.attempt import Attempt, RunResources
from trace_bench.execution.evaluation import Evaluation, ExampleEvaluation
from trace_bench.execution.providers import providers_of
from trace_bench.execution.service_host import services_of
from trace_bench.execution.start import plan_to_run
from trace_bench.execution.state_exchange import EvaluationFailed, Ready, StateExchange, raise_failure
from trace_bench.gateway.server import Gateway
from trace_bench.planning.completion import complete_config
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.prepare import PreparedJob, scoring_only
from trace_bench.records.reading import last_result, read_meta
from trace_bench.worker.on_demand import ENTRY

_LOG = logging.getLogger(__name__)
SPLITS: Mapping[str, str] = {"train": "train", "validation": "validate", "validate": "validate", "test": "test"}
"""Names of splits, as users may write them."""
Values = Mapping[str, Any]


class Evaluator:
    """Evaluates states in one sandbox, one at a time. Use as a context manager.

    Attributes:
        parameters: of the task, by name: kind, initial value, whether it is trainable, description.
        direction: of the score.
    """

    def __init__(self, task_id: str, exchange: StateExchange, ready: Ready) -> None:
        self.task_id = task_id
        self.parameters: Mapping[str, Mapping[str, Any]] = ready.parameters
        self.direction: Direction = ready.direction
        self._exchange = exchange
        self._selection = "validation" if ready.examples.get("validate") else "train"

    @property
    def initial(self) -> dict[str, Any]:
        """The values that every search begins with."""
        return {name: each["value"] for name, each in self.parameters.items() if each["trainable"]}

    def __call__(self, state: Values | str | None = None, *, split: str | None = None) -> Evaluation:
        """Evaluate `state` on all examples of `split`, anew each time.

        Args:
            state: values by name, in place of initial ones; a text is that of the only trainable parameter; None is the
                initial state.
            split: ``train`` or ``validation``; None is validation, or training where the task has no such examples.
                Held-out data are for `trace_bench.evaluate` alone.

        Raises:
            ConfigError: no such parameter or split, or a value is not of its kind. The evaluator goes on.
            EvaluationFailed: the task, a provider or the sandbox has failed. The evaluator has ended.
        """
        split = split or self._selection
        name = SPLITS.get(split) if isinstance(split, str) else None
        if name is None or name == "test":
            raise ConfigError(f"split {split!r}: an evaluator has train and validation")
        said = self._exchange.ask({"state": self.values(state), "split": name})
        if said.refused is not None or not said.rollouts:
            raise ConfigError(f"{self.task_id}: {said.refused or 'nothing was evaluated'}")
        examples = [
            ExampleEvaluation(one.example_id, one.score, one.feedback, one.failed, one.metrics) for one in said.rollouts
        ]
        return Evaluation.of(self.task_id, split, self.direction, examples)

    def values(self, state: Values | str | None) -> Values:
        """`state` as values by name.

        Raises:
            ConfigError: it is a text, and the task has not one trainable parameter; or it holds what is neither text
                nor a finite number.
        """
        if state is None:
            return {}
        if not isinstance(state, str | Mapping):
            raise ConfigError(f"{self.task_id}: a state is values by name, or a text, not {type(state).__name__}")
        if isinstance(state, Mapping):
            return {self._value("the name of a parameter", str(name)): self._value(name, state[name]) for name in state}
        if len(self.initial) != 1:
            names = ", ".join(self.initial) or "none"
            raise ConfigError(f"{self.task_id} has the trainable parameters {names}; give values by name")
        (name,) = self.initial
        return {name: self._value(name, state)}

    def _value(self, name: object, value: object) -> Any:
        """`value` as a message can hold it. Numbers of NumPy are those of Python."""
        if isinstance(value, str) and not any("\ud800" <= letter <= "\udfff" for letter in value):
            return value
        if isinstance(value, bool):
            return value  # the sandbox names the kind that is wanted
        if isinstance(value, Real):
            plain = int(value) if isinstance(value, Integral) else float(value)
            if finite_number(plain) is not None:
                return plain
        raise ConfigError(f"{self.task_id}: {name} is {reprlib.repr(value)}; write text or a finite number")


def evaluate(
    task: str,
    state: Values | str | None = None,
    *,
    split: str = "validation",
    seed: int = 123,
    stop: Cancellation | None = None,
    **options: Any,
) -> Evaluation:
    """See `trace_bench.api.evaluate`.

    Args:
        stop: ends the evaluation.

    Raises:
        Interrupted: it was asked to stop. The sandbox is gone.
    """
    plan = _plan(task, seed, **options)
    with evaluator(plan, stop) as made:
        found = made(state, split=None if split in ("test", "validation") else split)
        values = {**made.initial, **made.values(state)}
    return found if split != "test" else score_held_out(plan, values, stop)  # of values that are right, as was seen


@contextmanager
def opened(task: str, *, seed: int = 123, **options: Any) -> Iterator[Evaluator]:
    """See `trace_bench.api.evaluator`."""
    with evaluator(_plan(task, seed, **options)) as made:
        yield made


def _plan(
    task: str,
    seed: int,
    *,
    arguments: Mapping[str, Any] | None = None,
    model: str | None = None,
    backend: str | None = None,
    roots: str | Path | Sequence[str | Path] = (),
    build: bool = True,
    config: Mapping[str, Any] | None = None,
    say: Callable[[str], None] = _LOG.info,
) -> RunPlan:
    whole = {
        **(config or {}),
        "tasks": [{"id": task, "eval_kwargs": dict(arguments or {})}],
        "trainers": ["NoOp"],
        "seeds": [seed],
        "job_timeout": None,
        "resume": "none",  # no salt of a run of the same config, whose held-out examples it would show
    }
    given = {"model": [model] if model is not None else [], "backend": backend}
    loaded = parse_config(whole, {name: value for name, value in given.items() if value}, file="evaluate")
    folders = [Path(root) for root in ([roots] if isinstance(roots, str | Path) else roots)]
    plan = plan_to_run(complete_config(loaded, folders), build=build, say=say)
    for warning in plan.warnings:
        say(f"warning: {warning}")
    if len({planned.task_id for planned in plan.jobs}) > 1:
        raise ConfigError(f"{task!r} selects {len(plan.jobs)} tasks; name one")
    return plan


@contextmanager
def evaluator(plan: RunPlan, stop: Cancellation | None = None) -> Iterator[Evaluator]:
    """Evaluate states of the first job of `plan` until the block ends. `stop`: as of `StateExchange`.

    Raises:
        TraceBenchError: the job cannot run here, or its sandbox does not start. EvaluationFailed: its problem does not
            build.
    """
    planned, exchange = _first(plan), StateExchange(stop)
    with _resources(plan, exchange) as resources:
        prepared = _on_demand(plan.prepare(planned), resources.layout.run_id)
        thread = threading.Thread(target=exchange.run, args=(resources, prepared), name="evaluator")
        thread.start()
        try:
            ready = exchange.answer().ready
            if ready is None:
                raise EvaluationFailed(
                    Boundary.SANDBOX, f"{planned.task_id}: its sandbox did not say what it has built"
                )
            yield Evaluator(planned.task_id, exchange, ready)
        finally:
            exchange.close()
            thread.join()


def score_held_out(plan: RunPlan, values: Values, stop: Cancellation | None = None) -> Evaluation:
    """Score `values` on held-out examples of the first job of `plan`, as a run scores its best state: in a process that
    training has not touched.

    Raises:
        TraceBenchError: as `evaluator`.
    """
    planned = _first(plan)
    at_once = Cancellation(lambda: "kill" if stop is not None and stop.cancelled else None)
    with _resources(plan, None) as resources:
        prepared = plan.prepare(planned)
        states: Any = {"best": dict(values)}
        row = Attempt(resources, scoring_only(prepared, resources.layout.run_id, states), at_once).run()
        job = resources.layout.job(planned.job_id)
        meta = read_meta(job)
        result = last_result(job, meta) if meta is not None else None
        raise_failure(row)
        best = result.scores.best if result is not None else None
        found = [_of_score(one) for one in (best.examples if best is not None else ()) if one.split == "test"]
        if not found:
            raise ConfigError(f"{planned.task_id} has no held-out examples; take validation")
        return Evaluation.of(planned.task_id, "test", prepared.meta.score_direction, found)


def _of_score(one: ExampleScore) -> ExampleEvaluation:
    return ExampleEvaluation(one.id, one.score, one.feedback, one.failed, dict(one.metrics))


def _first(plan: RunPlan) -> PlannedJob:
    planned = plan.jobs[0]
    if (unmet := plan.unmet.get(planned.job_id)) is not None:
        raise unmet
    return planned


@contextmanager
def _resources(plan: RunPlan, exchange: StateExchange | None) -> Iterator[RunResources]:
    with (
        providers_of(plan.config, plan.lock.prices) as providers,
        contextlib.closing(services_of(plan)) as services,
        resources_aside(
            plan,
            "evaluate",
            Gateway(providers),
            services=services if exchange is None else exchange.before(services),
        ) as resources,
    ):
        yield resources


def _on_demand(prepared: PreparedJob, run: str) -> PreparedJob:
    """`prepared` as a job of `run` that evaluates what it is handed. Nothing is remembered: who asks twice wants to
    know twice."""
    trainer = TrainerRef(id=prepared.spec.trainer.id, entry=ENTRY, params={})
    spec = prepared.spec.model_copy(update={"run_id": run, "trainer": trainer, "budget": Budget(), "memo": False})
    return replace(prepared, spec=spec, meta=prepared.meta.model_copy(update={"run_id": run, "budget": Budget()}))
