"""What a task builds inside the sandbox: trainable parameters, a guide, data, and maybe an agent.

A *problem* is built afresh, from the same seed and arguments, in each phase (build, train, score). Task code is
trusted; candidates are not. Task code never executes a candidate: it asks `BuildContext.programs` to, and gets back
plain data (see `trace_bench.worker.candidates`).

Standard library only: this module is imported inside images that hold nothing else.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, Protocol

from trace_bench.errors import SandboxError
from trace_bench.worker.objective import (
    Metric,
    Objective,
    Vector,
    metrics_of,
    objective_of,
    statement_of,
    sum_of_ranges,
)
from trace_bench.worker.sentences import sentence

MOST_FILES = 4
"""Files that a program is given."""
Direction = Literal["maximize", "minimize"]
ParameterKind = Literal["code", "text", "int", "float"]
Value = str | int | float


class ProblemError(Exception):
    """A task's problem cannot be built as asked (bad ``eval_kwargs``, missing data). The job fails at ``task``."""


class CandidateError(Exception):
    """A candidate's own failure. It is scored and explained to the optimizer, never retried.

    Attributes:
        phase: ``compile`` | ``call`` | ``timeout`` | ``memory`` | ``output`` | ``died`` | ``score``.
        message: one sentence for the optimizer, with the exception's type and text where there is one; control
            characters are made visible, memory addresses and this machine's folders masked.
        line: 1-based line of the candidate's own source, if known.
        lines: (argument) the message may have several lines, as what a compiler says has.
        score: what this failure is worth, natural units; None: `Problem.failure_score`. A guide sets it whose examples
            differ in what a failure costs.
        metrics: the same of metrics, by name; those left out have the failure values that ``task.toml`` declares.
    """

    score: float | None = None
    metrics: Mapping[str, float] | None = None

    def __init__(self, phase: str, message: str | None = None, *, line: int | None = None, lines: bool = False) -> None:
        if message is None:  # says how to call it, in place of Python's sentence about a missing argument
            raise TypeError(
                'CandidateError takes a phase and a message, as in CandidateError("output", "the answer is not a list")'
            )
        self.phase = phase
        self.message = sentence(message, lines=lines)
        super().__init__(self.message)
        self.line = line

    def __str__(self) -> str:
        where = f" at line {self.line}" if self.line is not None else ""
        return f"{self.phase} failed{where}: {self.message}"


class DeviceLost(SandboxError):
    """A GPU of the sandbox cannot be used any more. The job is tried again on another one."""


class ScoreError(CandidateError):
    """A guide gave an answer a score that is none. It is the answer's failure: most likely it overflowed something."""

    def __init__(self, message: str) -> None:
        super().__init__("score", message)

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class Limits:
    """What one candidate process may use."""

    wall_seconds: float = 30.0
    """For one call, measured by the caller."""
    cpu_seconds: float = 30.0
    """For the whole life of the process (RLIMIT_CPU, rounded up)."""
    memory_bytes: int = 1 << 30
    """Address space beyond what the process starts with."""
    output_bytes: int = 16 << 20
    """Of one encoded result."""
    processes: int = 32
    """Threads of the process; with `needs` of processes, processes and threads of the candidate's uid."""
    needs: frozenset[str] = frozenset()
    """What the program needs beyond computing: ``files`` (to read), ``processes`` (to fork), ``machine_code`` (to make
    memory executable, as libraries with a compiler of their own do; with ``files``, to load libraries), ``gpu`` (to
    use the driver of one), ``compiler`` (to run one, in a folder of its own). The result names it."""
    file_bytes: int = 0
    """Of a file that it writes, which only a compiler may."""
    shared_bytes: int = 0
    """Memory that the process shares with its caller, for `Program.timed`. It counts as the caller's."""

    @property
    def life_seconds(self) -> float:
        """Wall time for all calls of one process together: one that sleeps through thousands of calls uses no CPU time,
        and would have the whole job run out of time. Five times its CPU time, for machines that are busy."""
        return self.wall_seconds + 5 * self.cpu_seconds


@dataclass(frozen=True)
class Parameter:
    """One value that a trainer may change.

    Attributes:
        name: a Python identifier, unique in the problem; it keys states, histories and the optimizer's answers.
        value: where the search starts.
        kind: ``code`` is Python source that defines `entry`; ``text`` is free text.
        bounds: inclusive, for numbers.
        alternatives: other admissible values. They feed the stub model; real models do not see them.
        ladder: values from bad to good, the start among them: a stub model moves to the next or the one before.
        entry: name of the function that source must define (``code`` only).
        signature: its header and docstring, shown to the optimizer as the constraint (``code`` only).
    """

    name: str
    value: Value
    kind: ParameterKind
    description: str = ""
    trainable: bool = True
    bounds: tuple[float, float] | None = None
    alternatives: tuple[Value, ...] = ()
    ladder: tuple[Value, ...] = ()
    entry: str | None = None
    signature: str = ""


@dataclass(frozen=True)
class Example:
    """One item of a dataset: what the agent sees (`query`) and what only the guide sees (`reference`)."""

    id: str
    query: Any = None
    reference: Any = None


class Guide(Protocol):
    """Scores one response and explains why.

    Returns:
        ``(score, feedback)``: the score in the problem's natural units and direction; feedback for the optimizer. Or
        ``(score, feedback, metrics)``: beside the task's own score, the value of each metric that ``task.toml``
        declares, by name.

    Raises:
        CandidateError: the response itself is at fault; the trainer then records `Problem.failure_score`.
    """

    def __call__(self, query: Any, response: Any, reference: Any) -> tuple[float, str] | tuple[float, str, Vector]: ...


class Ops(Protocol):
    """How an agent computes, so that one piece of agent code serves with and without a graph.

    With a graph (training under a graph optimizer) values are graph nodes; without one they are plain data.
    """

    def param(self, name: str) -> Any:
        """The current value of the parameter `name`."""

    def apply(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Apply a fixed, trusted function of the task to plain data or nodes. `fn` needs a name and a docstring."""

    def call(self, name: str, *args: Any) -> Any:
        """Call the trainable operator held in the ``code`` parameter `name`, in the candidate runner."""


Agent = Callable[[Ops, Any], Any]
"""``agent(ops, query) -> response``."""


class Program(Protocol):
    """A candidate program in a disposable process. Use as a context manager; closing kills it and sweeps its uid."""

    def __call__(self, *args: Any) -> Any:
        """Call the entry point with plain data (None, bool, int, float, str, bytes, list, tuple, dict, ndarray).

        Raises:
            CandidateError: compile, call, timeout, memory, output or death of the candidate.
        """

    def timed(
        self, fill: Callable[[memoryview], None], *args: Any, settle: Callable[[], None] | None = None
    ) -> tuple[Any, float]:
        """Call the entry point, and measure the call from outside. For a program with `Limits.shared_bytes`.

        The process is stopped while `fill` writes to the shared memory, and again once it has answered; seconds are
        counted from one moment to the other, so that it computes nothing outside of them. It stays stopped until it is
        called again: what it left in the shared memory (`shared`) cannot change meanwhile.

        Args:
            settle: called once the process is stopped again, while seconds are still counted. It waits for work that
                the process left to a device.

        Returns:
            The answer, and the seconds.

        Raises:
            CandidateError: as for a call.
        """

    def metered(self, *args: Any) -> tuple[Any, float]:
        """Call the entry point, and measure the CPU time of the call from outside.

        The spawner reads the kernel's clock of the process before the call and after the answer. All threads count.
        Starting the process and loading the source do not, nor does a call of `__call__`.

        Returns:
            The answer, and the CPU seconds, user and system time together.

        Raises:
            CandidateError: as for a call.
            ProblemError: the program may fork (`Limits.needs`), or the kernel has no such clock.
        """

    @property
    def cpu_seconds(self) -> float:
        """CPU seconds that the process had used when it ended; 0 before."""

    @property
    def shared(self) -> memoryview:
        """The shared memory; empty without `Limits.shared_bytes`. The process finds it as `shared_memory`."""

    def __enter__(self) -> Program: ...

    def __exit__(self, *exc: object) -> None: ...


class Programs(Protocol):
    """Opens candidate programs."""

    def open(
        self,
        source: str,
        entry: str,
        limits: Limits | None = None,
        support: str = "",
        files: Mapping[str, bytes | int] = MappingProxyType({}),
    ) -> Program:
        """Start a process for `source`. Compilation errors surface at the first call or at once, as CandidateError.

        Args:
            support: a task's own source, which is run before it in the same module and may define `entry`.
            files: at most `MOST_FILES` files that the program may open, by the name of the variable that holds the
                path: content, which becomes a sealed file in memory, or an open descriptor.
        """


class AsksServices(Protocol):
    """See `trace_bench.worker.services.Services`."""

    def ask(self, name: str, request: Mapping[str, Any]) -> dict[str, Any]: ...


class AsksModel(Protocol):
    """See `trace_bench.worker.agent_model.AgentModel`."""

    reader: int
    """Version of the rules by which its answers are read."""

    def ask(self, messages: Sequence[Mapping[str, str]], place: str, in_stub: str = "") -> Any: ...


@dataclass(frozen=True)
class BuildContext:
    """What a builder may use.

    Attributes:
        task_dir: the task's own files, read-only.
        spec: its ``task.toml`` as a dict.
        eval_kwargs: the config's arguments, already checked against ``[eval_kwargs]`` of the spec, defaults filled in.
        seed: of the job; everything random about train and validation data comes from it.
        programs: opens candidate programs.
        test_seed: of held-out data; None except in the score phase once training is over.
        services: asks the services that the task's suite declares; None where there are none.
        model: the job's model, for the agent of the task; None where there is none.
    """

    task_dir: Path
    spec: Mapping[str, Any]
    eval_kwargs: Mapping[str, Any]
    seed: int
    programs: Programs
    test_seed: int | None = None
    services: AsksServices | None = None
    model: AsksModel | None = None


def _ignored(message: str) -> None:
    """The default of `Problem.warn`: warnings are not recorded."""


@dataclass(frozen=True)
class Problem:
    """The live object that trainers search over and the scorer scores.

    Attributes:
        objective: the statement given to the optimizer: what to change, how it is judged, in words.
        failure_score: what a candidate that fails on an example gets for it, in natural units; finite, and no better
            than the worst honest score.
        agent: None means that the response is the value of the only trainable parameter.
        test: empty unless `BuildContext.test_seed` was given and the task has held-out data.
        score_range: (worst, best) in natural units, as far as known; exploration bounds are clipped to it.
        metrics: what the guide measures, the task's own score (``score``) among it; empty for a task that declares
            nothing but a score. Set by the worker, from ``task.toml`` and the run's objective.
        comparison: what states are compared by. Set by the worker, together with `direction`, `failure_score` and
            `score_range` of the number that results.
        at_once: examples that are evaluated at one time, where the agent waits for a model.
        warn: records a warning of the job; set by the worker.
    """

    parameters: tuple[Parameter, ...]
    guide: Guide
    train: tuple[Example, ...]
    objective: str
    direction: Direction
    failure_score: float
    validate: tuple[Example, ...] = ()
    test: tuple[Example, ...] = ()
    agent: Agent | None = None
    score_range: tuple[float, float] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    metrics: Mapping[str, Metric] = field(default_factory=dict)
    comparison: Objective = field(default_factory=Objective)
    at_once: int = 1
    warn: Callable[[str], None] = field(default=_ignored, compare=False, repr=False)

    @property
    def trainable(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters if p.trainable)

    def initial_state(self) -> dict[str, Value]:
        """``{name: value}`` of all trainable parameters: the unit in which states are saved and proposed."""
        return {p.name: p.value for p in self.trainable}

    def better(self, a: float, b: float) -> bool:
        """True if score `a` is strictly better than score `b`."""
        return a > b if self.direction == "maximize" else a < b

    @property
    def score_metric(self) -> Metric:
        """The task's own score as a metric."""
        return Metric(self.direction, self.failure_score, range=self.score_range)


def with_objective(problem: Problem, given: Mapping[str, Any]) -> Problem:
    """`problem`, compared by the ``objective`` of a ``job.json``; unchanged for a task that declares no metrics.

    Direction, failure score and score range become those of the number that states are compared by, and the statement
    says what it is.
    """
    if not given.get("metrics"):
        return problem
    metrics = metrics_of(problem.score_metric, given["metrics"])
    objective = objective_of(given)
    key = metrics[objective.score_key]
    failures = {name: metric.failure for name, metric in metrics.items()}
    return replace(
        problem,
        metrics=metrics,
        comparison=objective,
        direction=key.direction if objective.mode == "scalar" else "maximize",
        failure_score=objective.scalar(failures, metrics),
        score_range=key.range if objective.mode == "scalar" else sum_of_ranges(objective.weights, metrics),
        objective="\n\n".join(filter(None, (problem.objective.rstrip(), statement_of(objective, metrics)))),
    )


def checked_score(value: object, what: str = "the score") -> float:
    """`value`, which a guide returned as `what`, as a finite float. Scalars of NumPy are numbers, and a bool is none.

    Raises:
        ScoreError: it is not a real number, or not finite.
    """
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise ScoreError(f"{what} of this answer is of type {type(value).__name__}, which is no number")
    try:
        score = float(value)
    except OverflowError:
        raise ScoreError(f"{what} of this answer is a number too large to count with") from None
    if not math.isfinite(score):
        raise ScoreError(f"{what} of this answer is {score}, which is no finite number")
    return score


Builder = Callable[[BuildContext], Problem]


def examples(ids: Sequence[str]) -> tuple[Example, ...]:
    """Examples that carry nothing but an id, for problems whose guide knows the data."""
    return tuple(Example(id=i) for i in ids)
