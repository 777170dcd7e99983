"""The one door to the graph library, trace-opt; nothing else imports it.

trace-opt pulls in an LLM client and a code formatter when it is imported. They take seconds and over a
hundred megabytes, and must not be used: models are reached through the gateway alone. They are replaced while
trace-opt is imported, and are out of `sys.modules` again afterwards. `docs/design/graph.md` has the numbers.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import inspect
import io
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType, ModuleType
from typing import Any

from trace_bench.errors import TrainerError

TRACE_OPT_VERSION = "0.1.3.8"
"""The version that images hold. Others are used as far as they have what `Opto` names."""

_REPLACED = ("litellm", "openai", "black", "graphviz")
_HIDDEN = ("autogen",)

# trace-opt keeps one registry of nodes for the whole process, so its lock is one for the whole process too.
_LOCK = threading.RLock()


@dataclass(frozen=True)
class Opto:
    """What is used of trace-opt. The fields are its own classes and functions.

    Attributes:
        textgrad: the module, for its prompts.
        registry: the process-wide registry of nodes, ``GRAPH``.
        has_constraints: nodes take a ``constraint``; those of OpenTrace 0.2 do not.
        lock: to be held while nodes are made or read.
    """

    Node: Any
    ParameterNode: Any
    MessageNode: Any
    ExceptionNode: Any
    ExecutionError: Any
    OptoPrime: Any
    OPRO: Any
    textgrad: Any
    GraphPropagator: Any
    node_to_function_feedback: Any
    registry: Any
    has_constraints: bool
    lock: Any


def load() -> Opto:
    """trace-opt, imported at the first call.

    Raises:
        TrainerError: it is missing, or lacks something that is needed.
    """
    with _LOCK:
        try:
            return _loaded()
        except (ImportError, AttributeError, KeyError) as error:
            raise TrainerError(
                f"trace-opt=={TRACE_OPT_VERSION} cannot be used here ({error}); run on backend docker, or install it: "
                "scripts/quickstart --local, or pip install --no-deps -r images/core/requirements.txt"
            ) from error


def _loaded() -> Opto:
    if "opto.optimizers.optoprime" not in sys.modules:
        _import()
    nodes = sys.modules["opto.trace.nodes"]
    prime = sys.modules["opto.optimizers.optoprime"]
    return Opto(
        Node=nodes.Node,
        ParameterNode=nodes.ParameterNode,
        MessageNode=nodes.MessageNode,
        ExceptionNode=nodes.ExceptionNode,
        ExecutionError=sys.modules["opto.trace.errors"].ExecutionError,
        OptoPrime=prime.OptoPrime,
        OPRO=sys.modules["opto.optimizers.opro"].OPRO,
        textgrad=sys.modules["opto.optimizers.textgrad"],
        GraphPropagator=sys.modules["opto.trace.propagators"].GraphPropagator,
        node_to_function_feedback=prime.node_to_function_feedback,
        registry=nodes.GRAPH,
        has_constraints="constraint" in nodes.ParameterNode.__init__.__code__.co_varnames,
        lock=_LOCK,
    )


def _import() -> None:
    with clients_replaced():
        importlib.import_module("opto.optimizers.optoprime")
        if importlib.util.find_spec("numpy") is None:
            # Iterating over a node imports numpy for one isinstance check. Where numpy is absent that import is
            # made now, with a stand-in; where it is present it stays lazy, since it takes as long as trace-opt.
            with _in_place({"numpy": _stand_in("numpy")}):
                importlib.import_module("opto.trace.iterators")


@contextlib.contextmanager
def clients_replaced(**others: ModuleType) -> Iterator[None]:
    """While opto is imported: what it would import and must not use is replaced, by `others` where they name it, and
    the import is made cheap.
    """
    stand_ins = {**{name: _stand_in(name) for name in _REPLACED}, **dict.fromkeys(_HIDDEN), **others}
    # "Using LiteLLM as the default LLM backend." goes to stdout, and is not true here.
    with _in_place(stand_ins), _cheap_stack(), contextlib.redirect_stdout(io.StringIO()):
        yield


class _Disabled:
    """Stands for whatever trace-opt would use of a replaced package."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        raise TrainerError(
            "trace-opt tried to use a package that is switched off here. Models are reached through the gateway only."
        )


def _stand_in(name: str) -> ModuleType:
    def attribute(attribute_name: str) -> type[_Disabled]:
        if attribute_name.startswith("__"):
            raise AttributeError(attribute_name)
        return _Disabled

    module = ModuleType(name)
    module.__dict__["__getattr__"] = attribute
    return module


@contextlib.contextmanager
def _in_place(modules: Mapping[str, ModuleType | None]) -> Iterator[None]:
    """Put `modules` before the import system (None means "not installed"); afterwards all is as it was."""
    before = {name: sys.modules[name] for name in modules if name in sys.modules}
    sys.modules.update(modules)  # type: ignore[arg-type]  # the import system knows None, its type does not
    try:
        yield
    finally:
        for name in modules:
            sys.modules.pop(name, None)
        sys.modules.update(before)


@contextlib.contextmanager
def _cheap_stack() -> Iterator[None]:
    """`inspect.stack` without source lines: trace-opt calls it for each of 83 operators, to reach one frame."""

    def stack(context: int = 1) -> list[inspect.FrameInfo]:
        frames = []
        frame: FrameType | None = sys._getframe(1)
        while frame is not None:
            code = frame.f_code
            frames.append(inspect.FrameInfo(frame, code.co_filename, frame.f_lineno, code.co_name, None, None))
            frame = frame.f_back
        return frames

    original = inspect.stack
    inspect.stack = stack
    try:
        yield
    finally:
        inspect.stack = original
