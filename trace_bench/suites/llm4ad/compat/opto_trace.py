"""Stands for ``opto.trace``: the nodes that a task makes, and the decorators of agents. It keeps values and traces
nothing; which graph there is, the trainer decides."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from trace_bench.worker.problem import ProblemError


class Node:
    """A value with a name."""

    def __init__(
        self,
        value: Any,
        *,
        name: str | None = None,
        trainable: bool = False,
        description: str | None = None,
        **other: Any,
    ) -> None:
        self._data = value
        self.name = name or ""
        self.trainable = trainable
        self.description = description or ""

    @property
    def data(self) -> Any:
        return self._data

    def __str__(self) -> str:
        return str(self._data)


class ParameterNode(Node):
    """One that may be trained."""


class ExecutionError(Exception):
    """Named by agents that catch it; nothing here raises it."""


class Module:
    """An agent: what is called is `forward`."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)  # type: ignore[attr-defined]


def node(
    value: Any, name: str | None = None, trainable: bool = False, description: str | None = None, **other: Any
) -> Node:
    """A node of `value`; a node is itself."""
    if isinstance(value, Node):
        return value
    kind = ParameterNode if trainable else Node
    return kind(value, name=name, trainable=trainable, description=description)


def bundle(*decorated: Any, trainable: bool = False, **options: Any) -> Any:
    """An operator: a function of plain values. Nodes among its arguments are what they hold.

    Raises:
        ProblemError: its code is to be trained.
    """
    if trainable:
        raise ProblemError("the task trains the code of a bundle, which candidate processes cannot run; train a node")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def operator(*args: Any, **kwargs: Any) -> Any:
            return function(*map(held, args), **{name: held(value) for name, value in kwargs.items()})

        return operator

    return decorate(decorated[0]) if decorated and callable(decorated[0]) else decorate


def model(decorated: Any = None, **options: Any) -> Any:
    """An agent is the class that it is."""
    return decorated if decorated is not None else model


def held(value: Any) -> Any:
    """What a node holds; any other value itself."""
    return value.data if isinstance(value, Node) else value
