"""The prototype's import path of `discover_tasks` and its like."""

from trace_bench.integrations import (
    TaskSpec,
    TrainerSpec,
    discover_tasks,
    discover_trainers,
    load_task_bundle,
    normalize_task_id,
)

__all__ = ["TaskSpec", "TrainerSpec", "discover_tasks", "discover_trainers", "load_task_bundle", "normalize_task_id"]
