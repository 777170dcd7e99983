"""What a trainer is written against. The definitions live with the worker, which runs trainers without knowing any."""

from trace_bench.worker.training import (
    ChatModel,
    Evaluate,
    Param,
    Rollout,
    Slot,
    State,
    StopTraining,
    TrainContext,
    Trainer,
)

__all__ = [
    "ChatModel",
    "Evaluate",
    "Param",
    "Rollout",
    "Slot",
    "State",
    "StopTraining",
    "TrainContext",
    "Trainer",
]
