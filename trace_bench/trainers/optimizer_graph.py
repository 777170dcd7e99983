"""What one backward pass collects, as optimizers word it; made while the graph is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trace_bench.trainers.answers import Variable
from trace_bench.trainers.prompts import Past, Told
from trace_bench.worker.minibatch_graph import MinibatchGraph
from trace_bench.worker.problem import Value


@dataclass(frozen=True)
class View:
    """The minimal graph from parameters to result, after one backward pass.

    Attributes:
        summary: trace-opt's ``FunctionFeedback``; ``variables`` are what may change, ``inputs`` the other roots.
        nodes: of the same graph, roots first; of one level in the order of creation. The last joins the examples, where
            there are several.
        parts: for each example the name of the node that its feedback enters at, and that feedback.
        source: names of the nodes whose values are source code.
        state: of the candidate.
    """

    graph: MinibatchGraph
    summary: Any
    nodes: tuple[Any, ...]
    parts: tuple[tuple[str, str], ...]
    variables: tuple[Variable, ...]
    source: frozenset[str]
    feedback: str
    state: Mapping[str, Value]
    told: Told

    @property
    def seen(self) -> dict[str, Value]:
        """The values of `variables`, by their names in the prompt."""
        return {v.prompt_name: v.value for v in self.variables}

    def past(self, size: int) -> Past:
        """What a child is to remember: the last `size` of its ancestors, this candidate among them."""
        return (*self.told.past, (self.seen, self.feedback))[-size:] if size else ()


def view_of(graph: MinibatchGraph, target: Any, feedback: str, state: Mapping[str, Value], told: Told) -> View:
    """Send `feedback` back from `target`, and collect what it passes."""
    opto = graph.opto
    parameters = [graph.parameters[p.name] for p in graph.problem.trainable]
    propagator = opto.GraphPropagator()
    for node in parameters:
        node.zero_feedback()
    target.backward(feedback, propagator=propagator)
    collected = sum(propagator.aggregate(node.feedback) for node in parameters)
    # trace-opt orders the nodes of one level by their addresses, which differ from process to process.
    collected.graph = sorted(collected.graph, key=lambda item: (item[0], graph.order(item[1])))
    summary = opto.node_to_function_feedback(collected)
    names = {graph.parameters[p.name].py_name: p for p in graph.problem.trainable if p.name in told.only}
    summary.variables = {name: summary.roots[name] for name in summary.roots if name in names}
    summary.inputs = {name: summary.roots[name] for name in summary.roots if name not in names}
    variables = tuple(
        Variable(name, parameter, state[parameter.name])
        for name, parameter in names.items()
        if name in summary.variables
    )
    source = frozenset(graph.parameters[p.name].py_name for p in graph.problem.parameters if p.kind == "code")
    nodes = tuple(node for _, node in collected.graph)
    parts = tuple((node.py_name, line) for node, line in graph.parts)
    return View(graph, summary, nodes, parts, variables, source, feedback, state, told)


def kind_of(view: View, name: str, value: object) -> str:
    """The type of a node's value as a prompt names it."""
    return "code" if name in view.source else type(value).__name__


def with_context(context: str) -> str:
    """A trainer's own text as a paragraph of a prompt; empty if there is none."""
    return f"\n{context}\n\n" if context else ""


def request_of(kwargs: Mapping[str, Any], **fields: Any) -> dict[str, Any]:
    """What a call sends besides messages; no temperature where none is given: the model's own then."""
    given = {} if kwargs.get("temperature") is None else {"temperature": kwargs["temperature"]}
    return {"max_tokens": kwargs["max_tokens"], **given, **fields}


def headers(variables: Sequence[Variable], answer_format: str = "json") -> list[dict[str, Any]]:
    """What the built-in models are told of `variables`."""
    return [variable.header(answer_format) for variable in variables]
