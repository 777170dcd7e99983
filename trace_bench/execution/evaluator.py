"""Evaluate single states of one task in a sandbox, for programs that bring a search of their own.

An evaluator is one job that no run has: its sandbox stays, and evaluates the states that it is handed, one at a time.
They are evaluated as in training, by the very same code, on examples that the job's seed alone decides. The sandbox
asks for them (`trace_bench.worker.on_demand`); between two of its questions the caller decides.
"""

from __future__ import annotations

import contextlib
import logging
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.contract import Budget, Direction, TrainerRef
from trace_bench.artifacts.jsonio import JsonError
from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.outputs import ExampleScore
from trace_bench.artifacts.records import Results
from trace_bench.config import parse_config
from trace_bench.display.markup import html
from trace_bench.display.table import Column, Table, number
from trace_bench.errors import Boundary, ConfigError, Interrupted, SandboxError, TraceBenchError
from trace_bench.execution.answers import RequestHandler, ServesAttempts
from trace_bench.execution.aside import runner_aside
from trace_bench.execution.attempt import AttemptRunner
from trace_bench.execution.providers import providers_of
from trace_bench.execution.service_host import services_of
from trace_bench.execution.start import plan_config
from trace_bench.gateway.base import LlmRequest, LlmResponse, NotRecorded, Refusal
from trace_bench.gateway.replies import encode, refused
from trace_bench.gateway.server import Gateway, Scope
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.prepare import PreparedJob, scoring_only
from trace_bench.records.reading import last_result, read_meta
from trace_bench.worker.llm_calls import SERVICES
from trace_bench.worker.on_demand import ENTRY, SERVICE

_LOG = logging.getLogger(__name__)
SPLITS: Mapping[str, str] = {"train": "train", "validation": "validate", "validate": "validate", "test": "test"}
"""Names of splits, as users may write them."""
PATH = SERVICES + SERVICE
Values = Mapping[str, Any]


class EvaluationFailed(TraceBenchError):
    """The job of an evaluator has ended: its task is at fault, a provider, or the sandbox. `boundary` says which."""

    def __init__(self, boundary: Boundary, message: str) -> None:
        super().__init__(message)
        self.boundary = boundary


@dataclass(frozen=True)
class ExampleEvaluation:
    """A state on one example: `score` and `metrics` in natural units. `failed`: the candidate raised, ran out of time,
    or gave no answer that counts; `feedback` says why."""

    id: str
    score: float
    feedback: str
    failed: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Evaluation:
    """A state on all examples of one split.

    Attributes:
        score: the mean over examples, natural units; `direction` says which way it is better.
        metrics: means over examples; empty for a task that declares none.
        feedback: the guide's words, of the first example that failed, else of the first one.
    """

    task_id: str
    split: str
    score: float
    direction: Direction
    feedback: str
    metrics: Mapping[str, float]
    examples: tuple[ExampleEvaluation, ...]

    @classmethod
    def of(cls, task_id: str, split: str, direction: Direction, examples: Sequence[ExampleEvaluation]) -> Evaluation:
        """The means of one or more `examples`."""
        names = set.intersection(*(set(example.metrics) for example in examples))
        means = {name: _mean([example.metrics[name] for example in examples]) for name in sorted(names)}
        told = next((example for example in examples if example.failed), examples[0])
        score = _mean([example.score for example in examples])
        return cls(task_id, split, score, direction, told.feedback, means, tuple(examples))

    @property
    def failed(self) -> int:
        """Examples on which the candidate failed."""
        return sum(example.failed for example in self.examples)

    def table(self) -> Table:
        """A line for each example."""
        names = [name for name in self.metrics if name != "score"]
        columns = [Column("example"), Column("score", True, number), *(Column(name, True, number) for name in names)]
        rows = [
            (each.id, each.score, *(each.metrics.get(name) for name in names), "failed" if each.failed else None,
             " ".join(each.feedback.split()))
            for each in self.examples
        ]  # fmt: skip
        return Table.of([*columns, Column("failed"), Column("feedback", limit=200)], rows, shrink={"feedback": 20})

    def _repr_html_(self) -> str:
        return html(self.table())


def _mean(values: Sequence[float]) -> float:
    return sum(value / len(values) for value in values)


class _Rollout(BaseModel):
    """What a sandbox says of one example."""

    example_id: str
    score: float = Field(allow_inf_nan=False)
    feedback: str
    failed: bool
    metrics: dict[str, float]


class _Ready(BaseModel):
    """What a sandbox says of its problem."""

    parameters: dict[str, dict[str, Any]]
    direction: Direction


class _Said(BaseModel):
    """A message of the sandbox: once that the problem is built, then for each state what it comes to."""

    ready: _Ready | None = None
    refused: str | None = None
    rollouts: list[_Rollout] = []


class Evaluator:
    """Evaluates states in one sandbox, from one thread. Use as a context manager.

    Attributes:
        parameters: of the task, by name: kind, initial value, whether it is trainable, description.
        direction: of the score.
    """

    def __init__(self, task_id: str, exchange: _Exchange, ready: _Ready) -> None:
        self.task_id = task_id
        self.parameters: Mapping[str, Mapping[str, Any]] = ready.parameters
        self.direction: Direction = ready.direction
        self._exchange = exchange

    @property
    def initial(self) -> dict[str, Any]:
        """The values that every search begins with."""
        return {name: each["value"] for name, each in self.parameters.items() if each["trainable"]}

    def __call__(self, state: Values | str | None = None, *, split: str = "validation") -> Evaluation:
        """Evaluate `state` on all examples of `split`, anew each time.

        Args:
            state: values by name, in place of initial ones; a text is that of the only trainable parameter; None is the
                initial state.
            split: ``train`` or ``validation``. Held-out data are for `trace_bench.evaluate` alone.

        Raises:
            ConfigError: no such parameter or split, or a value is not of its kind. The evaluator goes on.
            EvaluationFailed: the task, a provider or the sandbox has failed. The evaluator has ended.
        """
        name = SPLITS.get(split)
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
            ConfigError: it is a text, and the task has not one trainable parameter.
        """
        if not isinstance(state, str):
            return dict(state or {})
        if len(self.initial) != 1:
            names = ", ".join(self.initial) or "none"
            raise ConfigError(f"{self.task_id} has the trainable parameters {names}; give values by name")
        return {next(iter(self.initial)): state}


def evaluate(
    task: str, state: Values | str | None = None, *, split: str = "validation", seed: int = 123, **options: Any
) -> Evaluation:
    """See `trace_bench.api.evaluate`."""
    plan = _plan(task, seed, **options)
    with evaluator(plan) as made:
        found = made(state, split="validation" if split == "test" else split)
        values = {**made.initial, **made.values(state)}
    return found if split != "test" else score_held_out(plan, values)  # of values that are right, as was seen


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
    roots: Sequence[Path] = (),
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
    }
    given = {"model": [model] if model is not None else [], "backend": backend}
    loaded = parse_config(whole, {name: value for name, value in given.items() if value}, file="evaluate")
    plan = plan_config(loaded, roots=roots, build=build, say=say)
    if len({planned.task_id for planned in plan.jobs}) > 1:
        raise ConfigError(f"{task!r} selects {len(plan.jobs)} tasks; name one")
    return plan


@contextmanager
def evaluator(plan: RunPlan) -> Iterator[Evaluator]:
    """Evaluate states of the first job of `plan` until the block ends.

    Raises:
        TraceBenchError: the job cannot run here, or its sandbox does not start. EvaluationFailed: its problem does not
            build.
    """
    planned, exchange = _first(plan), _Exchange()
    with _runner(plan, exchange, exchange.stop_wanted) as runner:
        prepared = _on_demand(plan.prepare(planned), runner.layout.run_id)
        thread = threading.Thread(target=exchange.run, args=(runner, prepared), name="evaluator")
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


def score_held_out(plan: RunPlan, values: Values) -> Evaluation:
    """Score `values` on held-out examples of the first job of `plan`, as a run scores its best state: in a process that
    training has not touched.

    Raises:
        TraceBenchError: as `evaluator`.
    """
    planned = _first(plan)
    with _runner(plan, None, lambda: None) as runner:
        prepared = plan.prepare(planned)
        states: Any = {"best": dict(values)}
        row = runner.run(scoring_only(prepared, runner.layout.run_id, states))
        job = runner.layout.job(planned.job_id)
        meta = read_meta(job)
        result = last_result(job, meta) if meta is not None else None
        _raise_failure(row)
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
def _runner(plan: RunPlan, exchange: _Exchange | None, stop: Callable[[], str | None]) -> Iterator[AttemptRunner]:
    with (
        providers_of(plan.config, plan.lock.prices) as providers,
        contextlib.closing(services_of(plan)) as services,
        runner_aside(
            plan,
            "evaluate",
            Gateway(providers),
            lambda _: stop(),
            services=services if exchange is None else exchange.before(services),
        ) as runner,
    ):
        yield runner


def _on_demand(prepared: PreparedJob, run: str) -> PreparedJob:
    """`prepared` as a job of `run` that evaluates what it is handed. Nothing is remembered: who asks twice wants to
    know twice."""
    trainer = TrainerRef(id=prepared.spec.trainer.id, entry=ENTRY, params={})
    spec = prepared.spec.model_copy(update={"run_id": run, "trainer": trainer, "budget": Budget(), "memo": False})
    return replace(prepared, spec=spec, meta=prepared.meta.model_copy(update={"run_id": run, "budget": Budget()}))


def _raise_failure(row: Results) -> None:
    if row.failure_boundary is not None:
        raise EvaluationFailed(row.failure_boundary, f"{row.task_id}: {row.feedback or row.failure_kind}")


class _Exchange:
    """Between the caller's thread, which has states, and the job's, whose sandbox asks for them."""

    def __init__(self) -> None:
        self._services: ServesAttempts | None = None
        self._states: queue.SimpleQueue[Mapping[str, Any]] = queue.SimpleQueue()
        self._said: queue.SimpleQueue[_Said | BaseException] = queue.SimpleQueue()
        self._ended: BaseException | None = None
        self._closing = threading.Event()

    # -- of the caller -----------------------------------------------------------------------------------------------

    def ask(self, wanted: Mapping[str, Any]) -> _Said:
        """Hand over a state, and wait for what it comes to."""
        if self._ended is not None:
            raise self._ended
        self._states.put(wanted)
        return self.answer()

    def answer(self) -> _Said:
        """The next message of the sandbox."""
        said = self._said.get()
        if isinstance(said, BaseException):
            self._ended = said
            raise said
        return said

    def close(self) -> None:
        """End the job: nothing of it is needed any more."""
        self._closing.set()
        self.release()

    def before(self, services: ServesAttempts) -> _Exchange:
        """Stand before the `services` of the task."""
        self._services = services
        return self

    def stop_wanted(self) -> str | None:
        return "kill" if self._closing.is_set() else None

    # -- of the job's threads ----------------------------------------------------------------------------------------

    def run(self, runner: AttemptRunner, prepared: PreparedJob) -> None:
        """Run the job, and tell the caller how it ended."""
        ended: BaseException = SandboxError("the evaluator is closed")
        try:
            _raise_failure(runner.run(prepared))
            ended = EvaluationFailed(Boundary.SANDBOX, f"{prepared.spec.task.id}: the evaluator's job has ended")
        except Interrupted:
            pass
        except BaseException as error:
            ended = error
        self._said.put(ended)

    @contextmanager
    def serving(self, prepared: PreparedJob, job: JobLayout, scope: Scope, attempt: int) -> Iterator[_Asked]:
        """As of `ServiceHost`: the handler of the sandbox's requests."""
        assert self._services is not None
        with self._services.serving(prepared, job, scope, attempt) as others:
            yield _Asked(self, others)

    def release(self) -> None:
        """Let a question that waits for a state go."""
        self._states.put({})

    def next_state(self, said: _Said) -> Mapping[str, Any]:
        """Take what the sandbox says, and wait for a state."""
        self._said.put(said)
        return self._states.get()


class _Asked:
    """Answers what the sandbox of an evaluator asks: for states, or what any job may ask for."""

    quick = False

    def __init__(self, exchange: _Exchange, others: RequestHandler) -> None:
        self.job_id = others.job_id
        self._exchange, self._others = exchange, others
        self._given: dict[str, LlmResponse] = {}
        self.provider_failures = others.provider_failures

    def handle(self, request: LlmRequest) -> LlmResponse:
        """See `RequestHandler.handle`. A question that is sent again, over a new connection, has the same answer."""
        if request.path != PATH:
            return self._others.handle(request)
        if request.id not in self._given:
            try:
                said = _Said.model_validate(jsonio.loads(request.body, max_depth=jsonio.MAX_DEPTH_INSIDE))
            except (JsonError, ValidationError) as error:
                return refused(Refusal(400, "bad_request", f"this is no message of an evaluator: {error}"))
            self._given = {request.id: LlmResponse(200, encode(self._exchange.next_state(said)))}
        return self._given[request.id]

    def refuse_new_calls(self) -> None:
        """The session is over: nothing waits for a state any more."""
        self._exchange.release()
        self._others.refuse_new_calls()

    def not_recorded(self) -> NotRecorded | None:
        return self._others.not_recorded()
