"""Other names of trainers, and names that stand for none. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "NoOpTrainer": "NoOp",
        "MinibatchAlgorithm": "Minibatch",
        "BasicSearchAlgorithm": "BasicSearch",
        "BeamsearchAlgorithm": "BeamSearch",
        "BeamsearchHistoryAlgorithm": "BeamSearch",
        "UCBSearchAlgorithm": "UCBSearch",
        "GEPAAlgorithmBase": "GEPA-Base",
        "GEPAUCBSearch": "GEPA-UCB",
        "GEPABeamPareto": "GEPA-Beam",
    }
)
"""Names of OpenTrace and of the Trace-Bench prototype, to our own. A job is of the trainer, whatever it was called."""

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType({"BeamsearchHistoryAlgorithm": {"max_history_size": 10}})
"""Parameters that other names stand for besides, where the config says nothing else."""

UNAVAILABLE: Mapping[str, str] = MappingProxyType(
    {
        "AggregatedUpdate": (
            "asks for one update for each example and has a model merge them; Minibatch words one prompt for all of a "
            "minibatch instead"
        ),
        "PrioritySearch_with_Regressor": (
            "ranks candidates by a regressor over embeddings; use PrioritySearch, which ranks them by their scores, or "
            "POLCA"
        ),
        "SearchTemplate": "is the frame that OpenTrace's searches fill in, and no trainer; use PrioritySearch",
    }
)
"""Names that configs of other frameworks use, with why they cannot be had here."""


def canonical(name: str) -> str:
    """The trainer's own name, for any of its names.

    >>> canonical("NoOpTrainer"), canonical("PrioritySearch"), canonical("Mine")
    ('NoOp', 'PrioritySearch', 'Mine')
    """
    return ALIASES.get(name, name)


def other_names(trainer: str) -> tuple[str, ...]:
    """The aliases of `trainer`."""
    return tuple(alias for alias, name in ALIASES.items() if name == trainer)
