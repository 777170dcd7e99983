"""Proposals by OptoPrime over the graph of one minibatch (Cheng, Nie, Swaminathan, arXiv:2406.16218).

trace-opt's `OptoPrime` collects the minimal subgraph and words the prompt. Asking the model and reading its
answer are ours: trace-opt asks twice on any error, drops suggestions that contain "def" and are no Python, casts
``bool("False")`` to True, and takes "TERMINATE" anywhere in an answer for a refusal (`docs/design/graph.md`).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from trace_bench.errors import TrainerError
from trace_bench.trainers.answers import Unusable, Variable, cast, content, pick, suggestion
from trace_bench.trainers.base import Rollout, Slot, State, TrainContext
from trace_bench.trainers.optimizers import resolve_optimizer
from trace_bench.worker.graph import load
from trace_bench.worker.graph_nodes import clipped
from trace_bench.worker.minibatch_graph import MinibatchGraph, Traced
from trace_bench.worker.problem import Problem, Value

Past = tuple[tuple[Mapping[str, Value], str], ...]
"""(variables, feedback) of a candidate's ancestors, oldest first."""


@dataclass(frozen=True)
class Prompt:
    """What the model is asked about one candidate on one minibatch; the same for each of its proposals.

    Attributes:
        state: of the candidate; what a proposal leaves out stays as it is there.
        past: of a child that comes of this prompt.
    """

    messages: tuple[Mapping[str, str], ...]
    variables: tuple[Variable, ...]
    state: Mapping[str, Value]
    past: Past


@dataclass(frozen=True)
class Explored:
    """A candidate run on a minibatch. `prompt` is None where no response depends on a trainable parameter."""

    rollouts: tuple[Rollout, ...]
    prompt: Prompt | None


@dataclass(frozen=True)
class Ask:
    """One proposal to be asked for. Its `slot` names it in the search, and with it every call that it takes."""

    prompt: Prompt
    slot: Slot


class Proposer:
    """Runs candidates through the graph, and turns feedback into proposals.

    Args:
        num_threads: proposals asked for at a time. More of them overlap, and change nothing else.

    Raises:
        TrainerError: `TrainContext.optimizer` or its arguments cannot be taken, or trace-opt is missing.
    """

    def __init__(self, problem: Problem, context: TrainContext, num_threads: int = 1) -> None:
        name, self._kwargs = resolve_optimizer(context.optimizer, context.optimizer_kwargs)
        if name != "OptoPrime":
            raise TrainerError(f"the optimizer {name!r} cannot be used. Use OptoPrime.")
        load()
        self._problem = problem
        self._context = context
        self._num_threads = num_threads
        self._warned: set[tuple[str, str]] = set()

    def explore(
        self,
        state: Mapping[str, Value],
        indices: Sequence[int],
        past: Past = (),
        *,
        only: Collection[str] | None = None,
    ) -> Explored:
        """Run `state` on the training examples `indices`, send their feedback back once, and word the prompt.

        Args:
            only: names of the parameters that may change; the others are shown as inputs. None: all that are trainable.

        Raises:
            StopTraining: passed on.
            TaskError: the task's own code failed.
        """
        outside = None
        if self._problem.agent is None:
            outside = self._context.evaluate(state, list(indices), "train")
        with MinibatchGraph(focused(self._problem, state, only), state, self._context.programs) as graph:
            traced = []
            if outside is not None:
                traced = [graph.evaluated(rollout) for rollout in outside]
            else:
                for index in indices:
                    self._context.check()
                    self._context.count_evaluations(1)
                    traced.append(graph.run(self._problem.train[index]))
            return Explored(tuple(t.rollout for t in traced), self._prompt(graph, traced, state, past))

    def _prompt(
        self, graph: MinibatchGraph, traced: Sequence[Traced], state: Mapping[str, Value], past: Past
    ) -> Prompt | None:
        target, feedback = graph.batch(traced)
        optimizer = _prompter(graph, self._kwargs["objective"] or self._problem.objective)
        optimizer.zero_feedback()
        optimizer.backward(target, feedback)
        summary = optimizer.summarize()
        parameters = {graph.parameters[p.name].py_name: p for p in graph.problem.trainable}
        variables = tuple(
            Variable(name, parameter, state[parameter.name])
            for name, parameter in parameters.items()
            if name in summary.variables
        )
        if not variables:
            return None
        seen = {v.prompt_name: v.value for v in variables}
        size = self._kwargs["memory_size"]
        remembered = (*past, (seen, feedback))[-size:] if size else ()
        return Prompt(optimizer.messages(summary, past), variables, dict(state), remembered)

    def proposals(self, asks: Sequence[Ask]) -> Generator[State | None, None, None]:
        """The state that comes of each of `asks`, in order; None where nothing does, which an event explains.

        Raises:
            StopTraining: passed on. What has been yielded until then is the same for any number of threads, but for
                a budget that ends at another call.
        """
        if self._num_threads == 1:
            for ask in asks:
                self._context.check()
                yield self.read(ask.prompt, self.ask(ask.prompt, ask.slot), ask.slot)
            return
        executor = ThreadPoolExecutor(self._num_threads, thread_name_prefix="proposals")
        try:
            futures = [executor.submit(self.ask, ask.prompt, ask.slot) for ask in asks]
            for ask, future in zip(asks, futures, strict=True):
                self._context.check()
                yield self.read(ask.prompt, future.result(), ask.slot)
        finally:
            executor.shutdown(cancel_futures=True)

    def ask(self, prompt: Prompt, slot: Slot) -> Mapping[str, Any]:
        """One model call; may run on any thread. Errors are passed on as they are; nothing is asked twice."""
        return self._context.chat(
            [dict(message) for message in prompt.messages],
            slot=slot,
            variables=[variable.header() for variable in prompt.variables],
            response_format={"type": "json_object"},
            max_tokens=self._kwargs["max_tokens"],
        )

    def read(self, prompt: Prompt, response: Mapping[str, Any], slot: Slot) -> State | None:
        """The state that the answer proposes, or None where it proposes nothing.

        What cannot be used is an event (``proposal.unusable`` for a whole answer, ``proposal.rejected`` for one
        value, ``proposal.unknown_variables``, ``proposal.terminate``), never an error.
        """
        try:
            suggested = suggestion(content(response))
        except Unusable as why:
            self._context.event("proposal.unusable", slot=str(slot), reason=f"{why}{_cut_off(response)}")
            return None
        if suggested is None:
            self._context.event("proposal.terminate", slot=str(slot))
            return None
        picked, unknown = pick(suggested, prompt.variables)
        if unknown:
            self._context.event(
                "proposal.unknown_variables", slot=str(slot), names=[clipped(n, 100) for n in unknown[:16]]
            )
        state = dict(prompt.state)
        taken = 0
        for variable in prompt.variables:
            name = variable.parameter.name
            if name not in picked:
                continue
            try:
                state[name] = cast(variable.parameter, picked[name])
                taken += 1
            except Unusable as why:
                self._reject(slot, name, str(why))
        return state if taken else None

    def _reject(self, slot: Slot, name: str, why: str) -> None:
        self._context.event("proposal.rejected", slot=str(slot), variable=name, reason=why)
        kind = "bounds" if "bounds" in why else "type"
        if (name, kind) not in self._warned:  # one warning for each variable is enough to look at the events
            self._warned.add((name, kind))
            self._context.warn(
                f"a proposed value of {name} was rejected: {why}. Further ones are events (proposal.rejected) only."
            )


def focused(problem: Problem, state: Mapping[str, Value], only: Collection[str] | None) -> Problem:
    """`problem` where only the parameters `only` are trainable; the others are fixed at their values in `state`."""
    if only is None:
        return problem
    parameters = tuple(
        p if not p.trainable or p.name in only else replace(p, value=state[p.name], trainable=False)
        for p in problem.parameters
    )
    return replace(problem, parameters=parameters)


def _cut_off(response: Mapping[str, Any]) -> str:
    try:
        cut = response["choices"][0]["finish_reason"] == "length"
    except (KeyError, IndexError, TypeError):
        cut = False
    return " (the answer was cut off at max_tokens)" if cut else ""


def _no_model(**_: Any) -> Any:
    raise TrainerError("OptoPrime tried to call a model by itself; proposals go through Proposer.ask.")


def _prompter(graph: MinibatchGraph, objective: str) -> Any:
    """trace-opt's OptoPrime over the nodes of `graph`, without the parts that word the prompt wrongly."""
    opto = graph.opto
    nodes = [graph.parameters[p.name] for p in graph.problem.trainable]
    source = {graph.parameters[p.name].py_name for p in graph.problem.parameters if p.kind == "code"}
    trainable = {node.py_name for node in nodes}

    class Prompter(opto.OptoPrime):  # type: ignore[misc, name-defined]  # trace-opt has no types
        def summarize(self) -> Any:
            """As OptoPrime's, with nodes of one level in the order of creation instead of that of addresses."""
            collected = sum(self.propagator.aggregate(node.feedback) for node in self.parameters)
            collected.graph = sorted(collected.graph, key=lambda item: (item[0], graph.order(item[1])))
            summary = opto.node_to_function_feedback(collected)
            summary.variables = {name: summary.roots[name] for name in summary.roots if name in trainable}
            summary.inputs = {name: summary.roots[name] for name in summary.roots if name not in trainable}
            return summary

        def repr_node_value(self, node_dict: Mapping[str, tuple[Any, Any]]) -> str:
            """Variables in full, everything else clipped; source is marked as the system prompt explains it."""
            lines = []
            for name, (value, _) in node_dict.items():
                if name in source:
                    lines.append(f"(code) {name}:{value}")
                else:
                    text = value if name in trainable else clipped(value)
                    lines.append(f"({type(value).__name__}) {name}={text}")
            return "\n".join(lines)

        def repr_node_constraint(self, node_dict: Mapping[str, tuple[Any, Any]]) -> str:
            return "\n".join(
                f"({'code' if name in source else type(value).__name__}) {name}: {constraint}"
                for name, (value, constraint) in node_dict.items()
                if constraint is not None
            )

        def messages(self, summary: Any, past: Past) -> tuple[Mapping[str, str], ...]:
            """System and user message. OptoPrime's own splits the prompt at a phrase that source may contain."""
            rules = self.output_format_prompt.replace("{{", "{").replace("}}", "}")  # never formatted by trace-opt
            told = self.user_prompt_template.format(problem_instance=str(self.problem_instance(summary)))
            if past:
                examples = "\n".join(json.dumps({"variables": dict(v), "feedback": f}, indent=4) for v, f in past)
                told += f"\nBelow are some variables and their feedbacks you received in the past.\n\n{examples}\n\n"
            return (
                {"role": "system", "content": self.representation_prompt + rules},
                {"role": "user", "content": told + self.final_prompt},
            )

        def _step(self, *args: Any, **kwargs: Any) -> Any:
            return _no_model()

    return Prompter(nodes, llm=_no_model, objective=objective, log=False)
