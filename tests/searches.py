"""Every search that can be run outside of an image, and parameters that let it go on until somebody ends it."""

from __future__ import annotations

from typing import Any

from trace_bench.trainers.registry import load_trainers

ENDLESS = (
    "num_steps", "num_epochs", "num_iterations", "num_search_iterations", "iterations", "num_generations", "max_steps",
    "num_rounds", "max_depth",
)  # fmt: skip
"""Names of parameters that say how long a search goes on by itself."""
SEARCHES: dict[str, Any] = {
    name: trainer
    for name, trainer in load_trainers().items()
    if name != "NoOp" and not getattr(trainer, "layer", "")  # which has its packages in an image only
}


def endless(name: str) -> dict[str, int]:
    """Parameters of the search `name`."""
    return {p.name: 1000 for p in SEARCHES[name].params if p.name in ENDLESS}
