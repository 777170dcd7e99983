"""What a trainer is written against. The definitions live with the worker, which runs trainers without knowing any."""

from trace_bench.worker.training import (
    Budget,
    ChatModel,
    EmbeddingModel,
    Evaluate,
    Log,
    OtherThan,
    Param,
    Rollout,
    Search,
    Slot,
    State,
    Step,
    StopTraining,
    TrainContext,
    Trainer,
    selection_of,
)

__all__ = [
    "Budget",
    "ChatModel",
    "EmbeddingModel",
    "Evaluate",
    "Log",
    "OtherThan",
    "Param",
    "Rollout",
    "Search",
    "Slot",
    "State",
    "Step",
    "StopTraining",
    "TrainContext",
    "Trainer",
    "selection_of",
]
