"""The package textgrad on one search: variables, a function that evaluates, an engine. See `textgrad_trainer`."""

from __future__ import annotations

import itertools
import logging
import os
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

from trace_bench.trainers.adapters.bridge import Bridge
from trace_bench.trainers.adapters.foreign import Foreign
from trace_bench.trainers.adapters.imports import importing
from trace_bench.trainers.answers import Unusable, content
from trace_bench.trainers.base import Rollout, Search, Slot, State
from trace_bench.trainers.candidates import Minibatches
from trace_bench.trainers.population import state_key
from trace_bench.worker.graph_nodes import clipped

_UNUSED = ("litellm", "openai", "diskcache", "platformdirs", "httpx", "requests", "dotenv", "PIL")

# The package opens a log file when it is imported.
with tempfile.TemporaryDirectory() as _logs, importing("textgrad", missing=_UNUSED):
    os.environ["TEXTGRAD_LOG_DIR"] = _logs
    import textgrad
    from textgrad.autograd import StringBasedFunction

    for _handler in list(textgrad.logger.handlers):
        textgrad.logger.removeHandler(_handler)
        _handler.close()
textgrad.logger.addHandler(logging.NullHandler())
textgrad.logger.propagate = False
_NO_TAGS = Unusable("the answer has no tags", "no_tags")


class _Ordered(dict[Any, None]):
    """A set in the order of its members' making."""

    def add(self, item: Any) -> None:
        self[item] = None


def _ordered(name: str) -> property:
    """An attribute that keeps what is set as `_Ordered`."""

    def put(self: Any, members: Any) -> None:
        setattr(self, name, _Ordered.fromkeys(sorted(members, key=lambda member: member._number)))

    return property(lambda self: getattr(self, name), put)


_numbers = itertools.count()
_make = textgrad.Variable.__init__


def _numbered(self: Any, *args: Any, **kwargs: Any) -> None:
    self._number = next(_numbers)
    _make(self, *args, **kwargs)


# The package keeps variables in sets, whose order, and with it the prompts, would be another one in each process.
textgrad.Variable.__init__ = _numbered
textgrad.Variable.gradients = _ordered("_gradients")
textgrad.Variable.predecessors = _ordered("_predecessors")
textgrad.Variable.get_short_value = lambda self, *_: str(self.value)


class Engine(textgrad.EngineLM):  # type: ignore[misc]
    """The model, as the package asks it."""

    def __init__(self, run: Run) -> None:
        self._run = run

    def generate(self, prompt: str, system_prompt: str | None = None, **_: Any) -> str:
        return self._run.answer(prompt, system_prompt or "")

    __call__ = generate


class Run:
    """Callable once, on the framework's thread: the whole search."""

    def __init__(self, search: Search, bridge: Bridge) -> None:
        self._search = search
        self._foreign = Foreign(search, bridge)
        self._step = self._calls = 0
        self._updating = False
        self._response: Mapping[str, Any] | None = None
        self._speechless: Unusable | None = None
        """Of the last update: the answer, and why it holds no text."""
        self._scored: dict[Any, list[Rollout]] = {state_key(search.start.state): list(search.start.rollouts)}

    def __call__(self) -> None:
        search, params, foreign = self._search, self._search.params, self._foreign
        batches = Minibatches(len(search.problem.train), min(params["train_batch_size"], len(search.problem.train)),
                              search.seed)  # fmt: skip
        engine = Engine(self)
        state, name = dict(search.start.state), "seed"
        variables = {
            parameter: textgrad.Variable(text, role_description=" ".join(foreign.describe(parameter).split()))
            for parameter, text in foreign.start.items()
        }
        optimizers = {
            parameter: textgrad.TextualGradientDescent(
                [variable], engine=engine, constraints=[str(sentence) for sentence in params["constraints"]]
            )
            for parameter, variable in variables.items()
        }
        while search.endless or self._step < params["num_steps"] or batches.epochs < params["num_epochs"]:
            self._step += 1
            self._calls = 0
            self._backward(engine, variables, state, batches.take())
            proposed = self._update(variables, optimizers, state)
            child = self._judge(proposed, state, name)
            if child is not None:
                state, name = child
            for parameter, text in foreign.texts(state).items():
                variables[parameter].set_value(text)

    def _backward(self, engine: Engine, variables: dict[str, Any], state: State, minibatch: Sequence[int]) -> None:
        better = "higher" if self._search.problem.direction == "maximize" else "lower"
        losses = []
        for index, rollout in zip(minibatch, self._foreign.evaluate(state, "train", minibatch), strict=True):
            query = self._search.problem.train[index].query
            told = f"Score: {rollout.score:.10g} ({better} is better). {rollout.feedback}"
            if query is not None:
                told = f"On the input {clipped(str(query))}: {told}"
            # Bound now: the function of one example says what came of that one.
            function = StringBasedFunction(lambda told=told, **_: told, self._search.problem.objective)
            losses.append(function(inputs=dict(variables), response_role_description="the evaluation"))
        for variable in variables.values():
            variable.reset_gradients()
        textgrad.sum(losses).backward(engine=engine)

    def _update(self, variables: dict[str, Any], optimizers: dict[str, Any], state: State) -> State:
        """The state that comes of one update of each parameter; what is unusable stays as it is."""
        proposed = dict(state)
        self._updating = True
        for parameter, optimizer in optimizers.items():
            try:
                optimizer.step()
                proposed[parameter] = self._foreign.value(parameter, variables[parameter].value)
            except IndexError:
                self._foreign.unusable(self._slot, self._speechless or _NO_TAGS, self._response)
            except Unusable as why:
                self._foreign.rejected(self._slot, why)
                self._foreign.unusable(self._slot, why, self._response)
        self._updating = False
        return proposed

    def _judge(self, proposed: State, state: State, name: str) -> tuple[State, str] | None:
        """The state to go on with, and its name; None where it is the one before."""
        foreign, params, split = self._foreign, self._search.params, self._search.selection
        key = state_key(proposed)
        known = self._scored.get(key)
        if known is None:
            rollouts = self._scored[key] = foreign.evaluate(proposed, split)
        else:
            rollouts = known
        before = self._scored[state_key(state)]
        improved = foreign.mean(rollouts) > foreign.mean(before) + params["improvement_threshold"]
        accepted = improved or not params["ensure_improvement"]
        if known is None:
            reason = ("better" if improved else "not better") + " than its parent"
            foreign.tell(self._step, f"s{self._step}.p0", (name,), proposed, rollouts, split, accepted, reason)
        else:
            why = "unchanged" if key == state_key(state) else "duplicate"
            foreign.event("proposal.dropped", slot=str(self._slot), reason=why, same_as=foreign.name(proposed))
        if params["verbose"]:
            taken = "taken" if accepted else "not taken"
            print(f"step {self._step}: mean {foreign.mean(rollouts):.6g}, {taken}", flush=True)  # noqa: T201
        return (proposed, foreign.name(proposed) or name) if accepted else None

    @property
    def _slot(self) -> Slot:
        return Slot(self._step, "textgrad", self._calls)

    def answer(self, prompt: str, system_prompt: str) -> str:
        """The model's; an unusable one is empty, of which `_update` tells where it is to be an update."""
        self._calls += 1
        messages = [{"role": "system", "content": system_prompt}, {"role": "user", "content": prompt}]
        request = {"max_tokens": self._search.params["max_tokens"]}
        if self._updating:
            self._speechless = None
            self._response = self._foreign.respond(messages, self._slot, **request)
            try:
                return str(content(self._response))
            except Unusable as why:
                self._speechless = why
                return ""
        return self._foreign.ask(messages, self._slot, otherwise="", partial=True, **request)
