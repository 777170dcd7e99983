"""Every search that can be run outside of an image, and parameters that let it go on until somebody ends it."""

from __future__ import annotations

from typing import Any

from trace_bench.trainers.registry import load_trainers

SEARCHES: dict[str, Any] = {
    name: trainer
    for name, trainer in load_trainers().items()
    if name != "NoOp" and not getattr(trainer, "layer", "")  # which has its packages in an image only
}


def only_programs(name: str) -> bool:
    """Whether the search `name` refuses problems with anything but one program."""
    return getattr(SEARCHES[name], "only_programs", False)


def endless(name: str) -> dict[str, Any]:
    """Parameters of the search `name` with which only a budget ends it."""
    return {p.name: p.endless for p in SEARCHES[name].params if p.endless is not None}
