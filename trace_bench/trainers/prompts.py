"""What goes between proposer, optimizer and search: plain data, which any thread may hold. Standard library only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from trace_bench.trainers.answers import Variable
from trace_bench.trainers.base import Rollout, Slot, State
from trace_bench.worker.problem import Value

Past = tuple[tuple[Mapping[str, Value], str], ...]
"""(variables, feedback) of a candidate's ancestors, oldest first."""

AskModel = Callable[..., Mapping[str, Any]]
"""``ask(messages, slot, variables, **request)``: one model call; its errors are passed on as they are."""


@dataclass(frozen=True)
class Seen:
    """What the search was told about one state on one minibatch.

    Attributes:
        variables: all that are trainable, by their names in a prompt, whichever of them might change.
        score: mean over the minibatch; higher is better, whatever the problem's direction.
    """

    variables: Mapping[str, Value]
    feedback: str
    score: float


@dataclass(frozen=True)
class Told:
    """What a prompt tells besides the graph.

    Attributes:
        past: of the candidate's ancestors.
        history: of the whole search so far, in the order of exploring; without this candidate on this minibatch.
        context: text of the trainer's; may be empty.
        only: names of the parameters that may change.
    """

    past: Past
    history: tuple[Seen, ...]
    context: str
    only: frozenset[str]
    objective: str


@dataclass(frozen=True)
class Prompt:
    """What the model is asked about one candidate on one minibatch; the same for each of its proposals.

    Attributes:
        messages: of the first call.
        state: of the candidate; what a proposal leaves out stays as it is there.
        past: of a child that comes of this prompt.
    """

    messages: tuple[Mapping[str, str], ...]
    variables: tuple[Variable, ...]
    state: Mapping[str, Value]
    past: Past


@dataclass(frozen=True)
class Explored:
    """A candidate run on a minibatch. `prompt` is None where no response depends on what may change."""

    rollouts: tuple[Rollout, ...]
    prompt: Prompt | None


@dataclass(frozen=True)
class Ask:
    """One proposal to be asked for. Its `slot` names it in the search; a call it takes is an attempt at that slot."""

    prompt: Prompt
    slot: Slot


@dataclass(frozen=True)
class Proposal:
    """What comes of the calls for one proposal.

    Attributes:
        state: None where nothing usable was proposed.
        events: ``(kind, fields)`` of whatever could not be used, in order; told later, in the order of slots.
    """

    state: State | None
    events: tuple[tuple[str, Mapping[str, Any]], ...] = ()
