"""Arguments of tasks under the names that the Trace-Bench prototype has for them. Standard library only."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType

OTHER_NAMES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "capacity": ("bin_capacity", "knapsack_capacity"),
        "harbor_timeout_seconds": ("harbor_cli_timeout_seconds",),
        "n_instance": ("n_instances",),
        "n_points": ("sample_size",),
        "num_train": ("n_train",),
        "num_validate": ("n_val",),
        "timeout_seconds": ("timeout",),
    }
)
"""The prototype's names of an argument, by its own. A job records the own name."""

_DRAWN = "instances are drawn by the job's seed; set n_instance, n_items and capacity"
_REFUSED: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "data_file": ("n_items", _DRAWN),
        "data_key": ("n_items", _DRAWN),
        "max_capacity": ("max_demand", "capacities follow from the demands; set max_demand"),
        "max_cost": ("max_demand", "a cost is a demand times a distance; delete it"),
        "max_subset_size": ("n_subsets", "a subset has 1 to 20 elements; delete it"),
        "mode": ("", "write mode at the top level of the config"),
        "model": ("", "name the model under llm at the top level, or with -m"),
        "n_bins": ("n_items", "there are as many bins as a program opens; delete it"),
        "n_facilities": ("problem_size", "problem_size is the number of facilities and of locations; set it"),
        "n_obj": ("n_partitions", "the problem has three objectives; delete it"),
        "pop_size": ("n_partitions", "there is a solution for each weight vector; set n_partitions"),
        "seed": ("", "write seeds at the top level of the config"),
    }
)
"""Arguments of the prototype's tasks that tasks do not have here, with the remedy. Each belongs to tasks that have the
argument named first; empty: to all tasks."""


def remedies(arguments: Iterable[str]) -> dict[str, str]:
    """Return the remedy for each of the prototype's arguments that a task with these `arguments` does not take."""
    own = {"", *arguments}
    return {key: remedy for key, (beside, remedy) in _REFUSED.items() if beside in own and key not in own}
