"""What a trainer is, to the worker that runs it and to the host that lists it.

A trainer is a class with the attributes of `Trainer`. Its module is imported on the host (to list it and to check its
parameters) and inside the sandbox (to run it): at import it needs the standard library only; heavy imports belong in
`Trainer.search`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from trace_bench.worker.answer_text import READER
from trace_bench.worker.problem import Problem, Programs, Value

State = dict[str, Value]
RESPONSE_CHARACTERS = 2000
"""Length of an agent's answer that a trainer sees, at most."""


class OtherThan(tuple[Any, ...]):
    """For `Param.when`: any value but these. ``OtherThan((0,))``: an effect with every number but 0."""

    def __contains__(self, value: object) -> bool:
        return not super().__contains__(value)


@dataclass(frozen=True)
class Param:
    """One parameter of a trainer or an optimizer, as ``list-trainers --json`` and the docs show it.

    Attributes:
        type: ``int``, ``float``, ``str``, ``bool``, ``list`` or ``dict``.
        minimum, maximum: inclusive, for numbers.
        when: other parameters, with the values at which this one has an effect: ``{"score_function": ("ucb",)}``. Given
            where it has none, it is refused.
        later: the trainer had jobs before it had this parameter. It is no part of a job's parameters where it has no
            effect, or, without `when`, while it has its default: ids of those jobs stay the same. `Search.params` has
            it in any case.
        formerly: defaults of earlier versions, which replays and audits of their runs take for the default.
        changes_results: False for what is known to change nothing but how long a search takes, or what it prints.
        endless: of a parameter that says how long a search goes on by itself: the value with which it does not end the
            search. If all such parameters have it, the search goes on until a budget ends (`Search.endless`). A config
            with a budget of the job that gives none of them has that value for all. None: any other parameter.
    """

    name: str
    default: Any
    type: type
    doc: str
    minimum: float | None = None
    choices: tuple[Any, ...] | None = None
    aliases: tuple[str, ...] = ()
    maximum: float | None = None
    when: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    changes_results: bool = True
    endless: Any = None
    later: bool = False
    formerly: tuple[Any, ...] = ()


def is_endless(known: Sequence[Param], params: Mapping[str, Any]) -> bool:
    """Whether none of the parameters that may end a search does: it goes on until a budget ends.

    Args:
        known: of the trainer. params: their values.
    """
    bounds = [p for p in known if p.endless is not None and all(params.get(n) in v for n, v in p.when.items())]
    return bool(bounds) and all(params.get(p.name) == p.endless for p in bounds)


@dataclass(frozen=True)
class Costs:
    """What a proposal of a trainer costs at least, for estimates before a run. Names are those of parameters.

    Attributes:
        batch: how many training examples are run for a proposal; empty: none. `runs`: how often, as where the proposal
            is compared with its parent there.
        judged_on: how many examples it is scored on; empty, 0, or more than there are: the whole selection split.
        calls: to the model.
        first_step: their product is the number of proposals of the first step; of a list, its length counts.
    """

    batch: str = ""
    judged_on: str = ""
    calls: int = 1
    first_step: tuple[str, ...] = ()
    runs: int = 1


class StopTraining(Exception):
    """Raised out of `TrainContext` calls when the job must end in order (budget, timeout, interruption).

    A trainer lets it pass; what it has reported until then counts.
    """

    def __init__(self, reason: Literal["budget", "timeout", "interrupted", "completed"]) -> None:
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
    """One candidate on one example. `score` is what states are compared by (the task's own, or what the run's objective
    makes of the metrics); a failed candidate has `failed` set, and `transient` where the failure may not happen again:
    it took too long, needed too much memory, or its process died. `metrics` are in natural units, the task's own score
    among them as ``score``; empty for a task that declares none. `response` is what the task's agent answered, as text;
    None if it failed, is no text or number, has more than `RESPONSE_CHARACTERS`, or the task has no agent."""

    example_id: str
    score: float
    feedback: str
    failed: bool = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    transient: bool = False
    response: str | None = None


@dataclass(frozen=True)
class Step:
    """One evaluated candidate, as a trainer yields it; it becomes a line of ``state_history.jsonl``.

    Attributes:
        step: number of the search's step (iteration) that it belongs to; 0 is the start's.
        candidate: its id, unique in the search: ``s3.c0.p1`` is step 3, explored candidate 0, proposal 1.
        parents: ids of the candidates it was made from; more than one where candidates were merged.
        rollouts: at least one, on examples of `split`.
        accepted: whether the search goes on with it; None where it keeps every candidate.
        reason: why it was accepted or not, in a few words.
        extra: JSON values (e.g. ``priority``).
    """

    step: int
    candidate: str
    parents: tuple[str, ...]
    state: State
    rollouts: tuple[Rollout, ...]
    split: str
    accepted: bool | None = None
    reason: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Budget:
    """What the job may spend; None is no limit. `StopTraining` stops a trainer that has spent it, so a trainer need
    not look: it may, in order to plan."""

    evaluations: int | None = None
    calls: int | None = None
    tokens: int | None = None
    usd: float | None = None
    seconds: float | None = None


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


class EmbeddingModel(Protocol):
    """The gateway as a model that turns texts into vectors."""

    def __call__(self, texts: Sequence[str], *, slot: Slot, model: str = "") -> list[list[float]]: ...


class Log(Protocol):
    """The log of a trainer: events and warnings."""

    def event(self, kind: str, /, **fields: Any) -> None:
        """Add an event to ``events.jsonl``; `fields` are JSON values."""

    def warn(self, message: str) -> None:
        """A warning that is recorded with the run."""


@dataclass(frozen=True)
class Search:
    """The input of a trainer. It needs no file, no clock, no gateway and nothing of the process.

    Attributes:
        params: every name of `Trainer.params`, aliases resolved, defaults filled in, types checked on the host.
        start: step 0: the initial state on all examples of `selection`. It is recorded already; each search, whatever
            its algorithm, begins with it and with its cost.
        evaluate: see `Evaluate`. What is known of a state is not evaluated or counted again
            (`trace_bench.worker.memo`).
        proposer: turns feedback into proposals (`trace_bench.trainers.proposer.Proposer`); None for a trainer that uses
            no graph.
        chat, embed: a model, for what is no proposal; each call is named by a slot.
        knows: ``knows(state, index, split)``: whether `evaluate` returns this rollout without an evaluation.
        endless: no parameter ends the search: it goes on until `evaluate` or `chat` raises.
        reader: version of the rules by which answers are read (`trace_bench.trainers.answers`).
        programs: opens candidate programs, for graphs of a trainer's own.
        extra_dir: a folder for what a framework writes by itself; it is collected as ``artifacts/extra/``.
    """

    problem: Problem
    params: Mapping[str, Any]
    seed: int
    budget: Budget
    start: Step
    evaluate: Evaluate
    proposer: Any
    chat: ChatModel
    embed: EmbeddingModel
    log: Log
    programs: Programs
    extra_dir: Path
    knows: Callable[[Mapping[str, Value], int, str], bool] = lambda state, index, split: False
    endless: bool = False
    reader: int = READER

    @property
    def selection(self) -> str:
        """The split that states are compared on: ``validate``, or ``train`` where there is no validation data."""
        return selection_of(self.problem)

    def examples(self, split: str) -> range:
        """Indices of all examples of `split`."""
        return range(len(getattr(self.problem, split)))

    def random(self, purpose: str) -> random.Random:
        """A generator of its own for each `purpose`, from the job's seed: one more draw for one of them does not
        change what the others draw."""
        return random.Random(f"trace-bench/{purpose}/{self.seed}")


def selection_of(problem: Problem) -> str:
    """The split that states of `problem` are compared on."""
    return "validate" if problem.validate else "train"


class TrainContext(Protocol):
    """What the worker gives to the loop that runs a trainer (`trace_bench.worker.search_loop`)."""

    seed: int
    optimizer: str
    optimizer_kwargs: Mapping[str, Any]
    guide: str
    """Who words the optimizer's feedback; ``default`` is the task's own guide."""
    guide_kwargs: Mapping[str, Any]
    budget: Budget
    extra_dir: Path
    best_state: State
    """Of the steps so far; the initial state before the first of them."""
    reader: int
    """Version of the rules by which answers are read."""

    @property
    def evaluate(self) -> Evaluate: ...

    @property
    def chat(self) -> ChatModel: ...

    @property
    def embed(self) -> EmbeddingModel: ...

    @property
    def programs(self) -> Programs:
        """For graphs whose operators are trainable: opens candidate programs."""

    @property
    def deterministic(self) -> bool:
        """A state gets the same score on an example each time, as far as is known: rollouts may be remembered."""

    def count_evaluations(self, number: int) -> None:
        """Count `number` evaluations that were made without `evaluate` (through a graph), before they are made.

        Raises:
            StopTraining: the budget has not so many left.
        """

    def count_saved(self, number: int) -> None:
        """Count `number` evaluations that were asked for and known. No budget counts them."""

    def check(self) -> None:
        """Raise `StopTraining` if a stop was asked for."""

    def record(self, step: Step) -> None:
        """A line of ``state_history.jsonl``; updates best so far and the saved best state."""

    def event(self, kind: str, /, **fields: Any) -> None:
        """Add an event to ``events.jsonl``."""

    def warn(self, message: str) -> None:
        """A warning that is recorded with the run."""


class Trainer(Protocol):
    """The search algorithm around optimizer and guide.

    The docstring of the class, in Markdown, is its section of ``docs/reference/trainers.md``. A trainer that needs
    packages may have two attributes more: `layer`, a folder of ``images/layers/``, and, in a package of its own,
    `requirements`, a file beside its module with hashed pins. One that refuses problems with anything but one trainable
    parameter of kind ``code`` has `only_programs`, which is True. One that searches says in `costs` what a proposal
    costs (`Costs`), or None where that cannot be said.
    """

    name: str
    summary: str
    source: str
    """Paper or page that the algorithm follows."""
    params: tuple[Param, ...]
    uses_llm: bool
    uses_graph: bool
    """Whether it needs `Search.proposer`, and so takes an optimizer."""

    def search(self, search: Search) -> Generator[Step, None, State | None]:
        """Search: yield each evaluated candidate, return the final state. None means the best of those recorded.

        Raises:
            StopTraining: passed on from whatever of `search` was called.
            TrainerError: this problem cannot be searched; one sentence.
        """
