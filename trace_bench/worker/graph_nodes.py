"""Makes the nodes of one graph, under names and in an order that are the same in every process."""

from __future__ import annotations

from collections.abc import Mapping
from types import TracebackType
from typing import Any

from trace_bench.worker.graph import load
from trace_bench.worker.problem import CandidateError, Parameter, Problem, Value
from trace_bench.worker.sentences import visible


class GraphNodes:
    """The nodes of one graph. Use as a context manager: it holds the process's graph lock, and starts with an
    empty registry, so that the names of nodes depend on nothing but this graph.

    Args:
        problem: its parameters become nodes named after them; feedback reaches the trainable ones.
        state: ``{name: value}`` of trainable parameters; the others keep the problem's value.

    Attributes:
        parameters: name of each parameter to its node.
    """

    def __init__(self, problem: Problem, state: Mapping[str, Value]) -> None:
        self.opto = load()
        self.problem = problem
        self.parameters: dict[str, Any] = {}
        self._state = dict(state)
        self._names: set[str] = set()
        self._nodes: list[Any] = []
        self._order: dict[int, int] = {}
        self._constants: dict[int, tuple[object, Any]] = {}

    def __enter__(self) -> GraphNodes:
        self.opto.lock.acquire()
        try:
            self.opto.registry.clear()
            for parameter in self.problem.parameters:
                self.parameters[parameter.name] = self._parameter(parameter)
        except BaseException:
            self.opto.lock.release()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.opto.registry.clear()
        self.opto.lock.release()

    def _parameter(self, parameter: Parameter) -> Any:
        kind = self.opto.ParameterNode if parameter.trainable else self.opto.Node
        value = self._state.get(parameter.name, parameter.value) if parameter.trainable else parameter.value
        fields: dict[str, Any] = {"description": parameter.description}
        if self.opto.has_constraints:
            fields["constraint"] = constraint(parameter)
        return self.add(kind, value, name=parameter.name, **fields)

    def add(self, kind: Any, value: object, *, name: str, **fields: Any) -> Any:
        """A new node under a name that no other node has in a prompt.

        trace-opt numbers nodes of one name and drops the separator, so that the twelfth ``a`` and the second
        ``a1`` are both called ``a11``; a longer base name is taken where that would happen.
        """
        while f"{name}{self._count(name)}" in self._names:
            name += "_"
        node = kind(value, name=name, **fields)
        self._names.add(node.py_name)
        self._order[id(node)] = len(self._order)
        self._nodes.append(node)  # keeps the id from being used again
        return node

    def _count(self, name: str) -> int:
        """How many nodes trace-opt has by that name. OpenTrace 0.2 may keep numbers in place of lists."""
        known = self.opto.registry._nodes.get(name, ())
        return known if isinstance(known, int) else len(known)

    def order(self, node: Any) -> tuple[int, str]:
        """Place of `node` in the order of creation. trace-opt breaks ties by memory address, which differs from
        process to process, and with it the prompt would. Nodes not made here come last, by name."""
        return self._order.get(id(node), len(self._order)), node.py_name

    def constant(self, value: object, name: str) -> Any:
        """The node of a plain value; one node for one object, however often it is used.

        Numbers and None are objects that unrelated arguments share, so each use of them gets its own node.
        """
        if value is None or isinstance(value, bool | int | float):
            return self.add(self.opto.Node, value, name=name)
        known = self._constants.get(id(value))
        if known is None:
            known = (value, self.add(self.opto.Node, value, name=name))
            self._constants[id(value)] = known
        return known[1]

    def message(self, value: object, *, function: str, name: str, doc: str, inputs: Mapping[str, Any]) -> Any:
        """The result of `function` on `inputs`, under `name`; `doc` is what the optimizer reads about it."""
        return self.add(
            self.opto.MessageNode,
            value,
            name=name,
            description=f"[{function}] {doc}",
            inputs=dict(inputs),
            info={"fun_name": function},
        )

    def exception(self, error: CandidateError, *, function: str, doc: str, inputs: Mapping[str, Any]) -> Any:
        """The failure of `function` on `inputs`; the node's value is the text of `error`."""
        node = self.add(
            self.opto.ExceptionNode,
            error,
            name=f"exception_{function}",
            description=f"[{function}] {doc}",
            inputs=dict(inputs),
            info={"fun_name": function, "traceback": str(error)},
        )
        node._data = str(error)  # trace-opt puts the full name of the exception's class before it
        return node


def constraint(parameter: Parameter) -> str | None:
    """What a proposed value must obey, in words for the optimizer."""
    said = [parameter.description] if parameter.description else []
    if parameter.kind == "int":
        said.append("a whole number")
    if parameter.bounds is not None:
        said.append(f"from {parameter.bounds[0]:.10g} to {parameter.bounds[1]:.10g}, both included")
    if parameter.kind == "code" and parameter.signature:
        begin = f"The code should start with:\n{parameter.signature}"
        return f"{'; '.join(said)}\n{begin}" if said else begin
    return "; ".join(said) or None


def clipped(value: object, limit: int = 2000) -> str:
    """`value` as text of about `limit` characters at most."""
    text = str(value)
    shown = visible(text[:limit], lines=True)
    return shown if len(text) <= limit else f"{shown}... ({len(text) - limit} more characters)"
