"""What a trainer is, to the worker that runs it and to the host that lists it.

A trainer is a class with the attributes of `Trainer`. Its module is imported on the host (to list it and to check its
parameters) and inside the sandbox (to run it): at import it needs the standard library only; heavy imports belong in
`Trainer.train`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from trace_bench.worker.problem import Problem, Programs, Value

State = dict[str, Value]


@dataclass(frozen=True)
class Param:
    """One parameter of a trainer, as ``list-trainers --json`` and the docs show it."""

    name: str
    default: Any
    type: type
    doc: str
    minimum: float | None = None
    choices: tuple[Any, ...] | None = None
    aliases: tuple[str, ...] = ()


class StopTraining(Exception):
    """Raised out of `TrainContext` calls when the job must end in order (budget, timeout, interruption).

    A trainer lets it pass; what it has reported until then counts.
    """

    def __init__(self, reason: Literal["budget", "timeout", "interrupted"]) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True)
class Slot:
    """Names one LLM call by its place in the search, never by the order of calls: the key of stub, cassette, replay."""

    step: int
    candidate: str
    proposal: int = 0
    attempt: int = 0

    def __str__(self) -> str:
        return f"step={self.step};candidate={self.candidate};proposal={self.proposal};attempt={self.attempt}"


@dataclass(frozen=True)
class Rollout:
    """One candidate on one example. `score` is in natural units; a failed candidate has `failed` set."""

    example_id: str
    score: float
    feedback: str
    failed: bool = False


class Evaluate(Protocol):
    """Evaluates a state without a graph, counting evaluations and passing every stop request on."""

    def __call__(self, state: Mapping[str, Value], example_indices: Sequence[int], split: str) -> list[Rollout]: ...


class ChatModel(Protocol):
    """The gateway as a chat model (OpenAI's chat-completion request and response, as dicts)."""

    def __call__(
        self,
        messages: list[dict[str, str]],
        *,
        slot: Slot,
        variables: Sequence[Mapping[str, Any]] = (),
        **request: Any,
    ) -> dict[str, Any]: ...


class TrainContext(Protocol):
    """What the worker gives a trainer."""

    seed: int
    optimizer: str
    optimizer_kwargs: Mapping[str, Any]
    evaluate: Evaluate
    chat: ChatModel
    programs: Programs
    """For graphs whose operators are trainable: opens candidate programs."""
    extra_dir: Path
    """A folder for files of the trainer's own; what is in it is collected as ``artifacts/extra/``."""

    def count_evaluations(self, number: int) -> None:
        """Count `number` evaluations that the trainer made without `evaluate` (through a graph of its own)."""

    def check(self) -> None:
        """Raise `StopTraining` if a stop was asked for."""

    def step(
        self,
        *,
        step: int,
        candidate: str,
        parent: str | None,
        state: State,
        rollouts: Sequence[Rollout],
        split: str,
        **extra: Any,
    ) -> None:
        """Record one evaluated candidate: a line of ``state_history.jsonl``; updates best so far and the saved best
        state. ``extra`` holds JSON values (e.g. ``priority``)."""

    def event(self, kind: str, **fields: Any) -> None:
        """Add an event to ``events.jsonl``."""

    def warn(self, message: str) -> None:
        """A warning that is recorded with the run."""


class Trainer(Protocol):
    """The search algorithm around optimizer and guide."""

    name: str
    summary: str
    source: str
    """Paper or page that the algorithm follows."""
    params: tuple[Param, ...]
    uses_llm: bool
    uses_graph: bool

    def train(self, problem: Problem, params: Mapping[str, Any], context: TrainContext) -> State:
        """Search; return the final state (the best is tracked by `TrainContext.step`).

        Args:
            params: every name of `Trainer.params`, aliases resolved, defaults filled in, types checked on the host.
        """
