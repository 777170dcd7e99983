"""The optimizers that a trainer may be given, and the arguments each of them takes. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any

from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Param

DEFAULT_OPTIMIZER = "OptoPrime"

OPTIMIZERS: Mapping[str, tuple[Param, ...]] = MappingProxyType(
    {
        "OptoPrime": (
            Param(
                "memory_size",
                0,
                int,
                "past (variables, feedback) pairs of a candidate's ancestors shown in the prompt",
                minimum=0,
            ),
            Param("max_tokens", 4096, int, "limit on the tokens of one answer", minimum=1),
            Param(
                "objective",
                "",
                str,
                "instruction in place of the problem's own objective; empty: the problem's own",
            ),
        ),
    }
)
"""Name of each available optimizer to its arguments."""

UNAVAILABLE: Mapping[str, str] = MappingProxyType(
    {
        "OPRO": "is not adapted yet",
        "TextGrad": "is not adapted yet",
        "OptoPrimeMulti": "is not adapted yet",
        "OptoPrimeV2": "is not part of trace-opt 0.1.3.8",
        "OPROv2": "is not part of trace-opt 0.1.3.8",
    }
)
"""Names that configs of other frameworks use, with why they cannot be had here."""


def resolve_optimizer(name: str, kwargs: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The optimizer's name and all of its arguments, defaults filled in. An empty `name` is the default one.

    Raises:
        TrainerError: no such optimizer, no such argument, or an argument of the wrong type or too small.
    """
    name = name or DEFAULT_OPTIMIZER
    available = ", ".join(OPTIMIZERS)
    if name not in OPTIMIZERS:
        why = UNAVAILABLE.get(name, "is not known")
        raise TrainerError(f"the optimizer {name!r} {why}. Available: {available}.")
    params = {param.name: param for param in OPTIMIZERS[name]}
    for key in kwargs:
        if key not in params:
            near = get_close_matches(key, params, n=1)
            hint = f"Did you mean {near[0]!r}?" if near else f"It takes: {', '.join(params)}."
            raise TrainerError(f"the optimizer {name} takes no argument {key!r}. {hint}")
    resolved = {key: param.default for key, param in params.items()}
    for key, value in kwargs.items():
        _check(name, params[key], value)
        resolved[key] = value
    return name, resolved


def _check(optimizer: str, param: Param, value: Any) -> None:
    if not isinstance(value, param.type) or (isinstance(value, bool) and param.type is not bool):
        raise TrainerError(
            f"{param.name} of the optimizer {optimizer} is {value!r}; give a value of type {param.type.__name__}."
        )
    if param.minimum is not None and isinstance(value, int | float) and value < param.minimum:
        raise TrainerError(f"{param.name} of the optimizer {optimizer} is {value!r}; give at least {param.minimum:g}.")
