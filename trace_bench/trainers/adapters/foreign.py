"""What a framework sees of a search: parameters as texts, scores of which higher is better, a model that answers texts.

Everything here may be called on any thread of the framework; it happens on the search's (`bridge.Bridge`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from trace_bench.trainers.adapters.bridge import Bridge
from trace_bench.trainers.answer_reading import unusable
from trace_bench.trainers.answers import Unusable, cast, content
from trace_bench.trainers.base import Rollout, Search, Slot, State, Step
from trace_bench.trainers.candidates import Orientation, oriented_mean
from trace_bench.trainers.population import state_key
from trace_bench.worker.graph_nodes import clipped
from trace_bench.worker.problem import Value

KINDS = {"int": "whole number", "float": "number", "code": "piece of Python source", "text": "text"}


class Unanswered(Unusable):
    """The model's answer holds no text. An event has said so."""


class Foreign:
    """One search, as a framework sees it.

    Attributes:
        start: the initial state, as texts.
        asked: a model was asked.
        bounds: (lowest, highest) score that the task can give, higher is better; None if it does not say.
    """

    def __init__(self, search: Search, bridge: Bridge) -> None:
        self.search = search
        self._bridge = bridge
        self._orientation = Orientation.of(search.problem)
        self._parameters = {p.name: p for p in search.problem.trainable}
        self._names = {state_key(search.start.state): search.start.candidate}
        self.asked = False
        self.start = self.texts(search.start.state)
        self.bounds = self._orientation.bounds(search.problem.score_range)

    def texts(self, state: Mapping[str, Value]) -> dict[str, str]:
        """Each value as text; `read` gives the same value back."""
        return {name: value if isinstance(value, str) else repr(value) for name, value in state.items()}

    def read(self, texts: Mapping[str, Any]) -> State:
        """The state that `texts` says.

        Raises:
            Unusable: a value is none of its parameter's.
        """
        return {name: self.value(name, texts[name]) for name in self._parameters}

    def value(self, name: str, text: Any) -> Value:
        """`text` as a value of the parameter `name`; white space around numbers is let pass.

        Raises:
            Unusable: it is none.
        """
        parameter = self._parameters[name]
        if parameter.kind in ("int", "float") and isinstance(text, str):
            text = text.strip()
        try:
            return cast(parameter, text, self.search.reader)
        except Unusable as why:
            raise Unusable(f"{name}: {why}", why.kind) from None

    def evaluate(self, state: Mapping[str, Value], split: str, indices: Iterable[int] | None = None) -> list[Rollout]:
        """`state` on examples of `split` (all of them, if none are named), in that order.

        Frameworks repeat examples, and come back to states: what the search knows costs nothing.
        """
        chosen = list(self.search.examples(split) if indices is None else indices)
        return self._bridge.call(lambda: self.search.evaluate(state, chosen, split))

    def knows(self, state: Mapping[str, Value], split: str, index: int) -> bool:
        """Whether the search knows `state` on this example."""
        return self._bridge.call(lambda: self.search.knows(state, index, split))

    def score(self, rollout: Rollout) -> float:
        """Its score; higher is better."""
        return self._orientation.oriented(rollout.score)

    def mean(self, rollouts: Sequence[Rollout]) -> float:
        """Mean score of `rollouts`; higher is better."""
        return oriented_mean([self.score(r) for r in rollouts])

    @property
    def failure(self) -> float:
        """What a candidate that cannot be run scores; higher is better."""
        return self._orientation.oriented(self.search.problem.failure_score)

    def name(self, state: Mapping[str, Value]) -> str | None:
        """The id of the candidate that has been told of with `state`."""
        return self._names.get(state_key(state))

    def tell(
        self,
        step: int,
        candidate: str,
        parents: Sequence[str],
        state: State,
        rollouts: Sequence[Rollout],
        split: str,
        accepted: bool | None = None,
        reason: str = "",
        **extra: Any,
    ) -> None:
        """Record a step; `candidate` is the name of its state from now on, unless that has one."""
        self._names.setdefault(state_key(state), candidate)
        told = Step(step, candidate, tuple(parents), dict(state), tuple(rollouts), split, accepted, reason, extra)
        self._bridge.tell(told)

    def ask(
        self,
        messages: Sequence[Mapping[str, Any]],
        slot: Slot,
        *,
        otherwise: str | None = None,
        partial: bool = False,
        **request: Any,
    ) -> str:
        """The text that the model answers. If it holds none, the event ``proposal.unusable`` says so, and it is
        `otherwise`.

        Args:
            partial: see `content`.

        Raises:
            Unanswered: it holds none, and there is no `otherwise`.
        """
        response = self.respond(messages, slot, **request)
        try:
            return str(content(response, partial=partial))  # some packages refuse subclasses of str
        except Unusable as why:
            self.unusable(slot, why, response)
            if otherwise is None:
                raise Unanswered(str(why), why.kind) from None
            return otherwise

    def respond(self, messages: Sequence[Mapping[str, Any]], slot: Slot, **request: Any) -> dict[str, Any]:
        """The model's whole answer, as OpenAI's chat completions have it."""
        self.asked = True
        told = [dict(message) for message in messages]
        return self._bridge.call(lambda: self.search.chat(told, slot=slot, **request))

    def unusable(self, slot: Slot, why: Unusable, response: Mapping[str, Any] | None = None) -> None:
        """The event ``proposal.unusable`` of one answer."""
        kind, fields = unusable(slot, why, response)
        self.event(kind, **fields)

    def rejected(self, slot: Slot, why: Unusable) -> None:
        """The event ``proposal.rejected``: `why` begins with the parameter's name."""
        name, _, reason = str(why).partition(": ")
        self.event("proposal.rejected", slot=str(slot), variable=name, reason=clipped(reason, 1000))

    def event(self, kind: str, /, **fields: Any) -> None:
        """An event of the job."""
        self._bridge.call(lambda: self.search.log.event(kind, **fields))

    def warn(self, message: str) -> None:
        """A warning of the job."""
        self._bridge.call(lambda: self.search.log.warn(message))

    def describe(self, name: str) -> str:
        """What the parameter `name` is, in a few lines: for prompts that do not take a text for an instruction."""
        parameter = self._parameters[name]
        lines = [
            f"`{name}` is a {KINDS[parameter.kind]}{': ' + parameter.description if parameter.description else ''}."
        ]
        if parameter.bounds is not None:
            low, high = parameter.bounds
            lines.append(f"It is from {low:.10g} to {high:.10g}.")
        if parameter.kind == "code":
            lines.append(f"It defines:\n{parameter.signature or parameter.entry}")
        return "\n".join(lines)
