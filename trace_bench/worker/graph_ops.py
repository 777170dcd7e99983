"""How an agent computes on graph nodes.

Nodes are made as trace-opt's ``FunModule`` makes them at its end, without the rest of it: that part reads source
files, fails for functions that have none, and keeps a process-wide stack of used nodes. Source that a model wrote
is never executed here: a call of a trainable operator goes to the candidate runner, and its node holds the result
or the error.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trace_bench.errors import HarnessError, TaskError, TraceBenchError
from trace_bench.worker import source_scan
from trace_bench.worker.graph import Opto
from trace_bench.worker.graph_nodes import GraphNodes
from trace_bench.worker.problem import CandidateError, Parameter, Program, Programs
from trace_bench.worker.training import StopTraining


class GraphOps:
    """`trace_bench.worker.problem.Ops` over graph nodes, for one example.

    Use as a context manager: closing ends the candidate processes that it opened.

    Args:
        programs: opens the sources of trainable operators.
    """

    def __init__(self, nodes: GraphNodes, programs: Programs) -> None:
        self._nodes = nodes
        self._programs = programs
        self._opened: dict[str, Program] = {}
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> GraphOps:
        return self

    def __exit__(self, *exc: object) -> None:
        self._stack.close()

    def param(self, name: str) -> Any:
        """The node of the parameter `name`.

        Raises:
            TaskError: there is no such parameter.
        """
        if name not in self._nodes.parameters:
            known = ", ".join(self._nodes.parameters)
            raise TaskError(f"the agent asks for a parameter {name!r}, and the problem has: {known}")
        return self._nodes.parameters[name]

    def apply(self, fn: Callable[..., Any], *args: Any) -> Any:
        """The node of ``fn(*args)``.

        Raises:
            CandidateError: `fn` raised it; it carries the node to send feedback to (``exception_node``).
            TaskError: `fn` raised anything else.
        """
        name = getattr(fn, "__name__", type(fn).__name__).strip("<>")
        doc = inspect.getdoc(fn) or f"The function {name}."
        inputs = self._inputs(_argument_names(fn), args)
        try:
            value = fn(*(self.data_of(arg) for arg in args))
        except CandidateError as error:
            raise self._failure(error, function=name, doc=doc, inputs=inputs) from error
        except (TraceBenchError, StopTraining):
            raise
        except Exception as error:
            raise TaskError(f"{name}, a fixed function of the agent, raised {type(error).__name__}: {error}") from error
        return self._nodes.message(value, function=name, name=f"{name}_result", doc=doc, inputs=inputs)

    def call(self, name: str, *args: Any) -> Any:
        """The node of a call of the operator whose source is the parameter `name`, in the candidate runner.

        Raises:
            CandidateError: the operator failed; it carries the node to send feedback to (``exception_node``).
            HarnessError: the candidate runner failed.
        """
        code = self.param(name)
        parameter = next(p for p in self._nodes.problem.parameters if p.name == name)
        entry = parameter.entry or name
        doc = f"Calls the function {entry} that the source __code defines, with the other arguments."
        inputs = {"__code": code, **self._inputs(_signature_names(parameter.signature), args)}
        function = f"call_{entry}"
        try:
            value = self._program(parameter, code._data)(*(self.data_of(arg) for arg in args))
        except CandidateError as error:
            raise self._failure(error, function=function, doc=doc, inputs=inputs) from error
        except (TraceBenchError, StopTraining):
            raise
        except Exception as error:
            raise HarnessError(f"the candidate runner failed: {type(error).__name__}: {error}") from error
        return self._nodes.message(value, function=function, name=f"{entry}_result", doc=doc, inputs=inputs)

    def node_of(self, response: Any) -> Any:
        """`response` as one node: itself, or a node that joins those it holds."""
        if isinstance(response, self._nodes.opto.Node):
            return response
        inputs = {f"part_{i}": node for i, node in enumerate(self._held(response))}
        doc = "The answer of the agent."
        return self._nodes.message(self.data_of(response), function="answer", name="answer", doc=doc, inputs=inputs)

    def data_of(self, value: Any) -> Any:
        """`value` with every node in it replaced by what it holds."""
        if isinstance(value, self._nodes.opto.Node):
            return value._data
        if type(value) in (list, tuple):
            return type(value)(self.data_of(item) for item in value)
        if type(value) is dict:
            return {key: self.data_of(item) for key, item in value.items()}
        return value

    def _held(self, value: Any) -> Iterator[Any]:
        """Every node in `value`."""
        if isinstance(value, self._nodes.opto.Node):
            yield value
        elif type(value) in (list, tuple, dict):
            for item in value.values() if type(value) is dict else value:
                yield from self._held(item)

    def _inputs(self, names: Sequence[str], args: Sequence[Any]) -> dict[str, Any]:
        inputs: dict[str, Any] = {}
        for i, arg in enumerate(args):
            name = names[i] if i < len(names) else f"args_{i}"
            held = list(self._held(arg))
            if not held:
                inputs[name] = self._nodes.constant(arg, name)
            elif held[0] is arg:
                inputs[name] = arg
            else:
                inputs.update({f"{name}_{k}": node for k, node in enumerate(held)})
        return inputs

    def _program(self, parameter: Parameter, source: str) -> Program:
        if parameter.name not in self._opened:
            program = self._programs.open(source, parameter.entry or parameter.name)
            self._opened[parameter.name] = self._stack.enter_context(program)
        return self._opened[parameter.name]

    def _failure(self, error: CandidateError, **operation: Any) -> CandidateError:
        """`error` as an exception that agents catch as CandidateError and trace-opt knows as its own."""
        node = self._nodes.exception(error, **operation)
        failure: CandidateError = _operator_error(self._nodes.opto)(node, error)
        return failure


def _operator_error(opto: Opto) -> Any:
    def __init__(self: Any, exception_node: Any, error: CandidateError) -> None:
        CandidateError.__init__(self, error.phase, error.message, line=error.line)
        self.exception_node = exception_node

    members = {"__init__": __init__, "__str__": CandidateError.__str__}
    return type("OperatorError", (opto.ExecutionError, CandidateError), members)


def _argument_names(fn: Callable[..., Any]) -> list[str]:
    try:
        parameters = inspect.signature(fn).parameters.values()
    except (TypeError, ValueError):  # a builtin without a signature
        return []
    return [p.name for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _signature_names(signature: str) -> list[str]:
    """Argument names of the ``def`` in the task's own signature text, which is parsed and never run."""
    for source in (signature, f"{signature}\n    pass"):
        for function in source_scan.functions(source).values():
            return source_scan.positional(function)
    return []
