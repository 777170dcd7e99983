"""Other names of trainers, and names without a trainer here. Standard library only."""

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
        "DSPyCOPROTrainer": "DSPyTrainer",
    }
)
"""Names of OpenTrace and of the Trace-Bench prototype, to our own. A job records the trainer's own name."""

PRESETS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {"BeamsearchHistoryAlgorithm": {"max_history_size": 10}, "DSPyCOPROTrainer": {"dspy_optimizer": "copro"}}
)
"""Parameters that such a name sets, unless the config sets them."""

_DEMOS = "an optimizer shows training examples (demos) only as mipro_demos or bootstrap"
NO_COUNTERPART: Mapping[str, Mapping[str, tuple[str, tuple[str, ...]]]] = MappingProxyType(
    {
        "DSPyTrainer": {
            "auto": ("num_candidates and num_trials set the size of a search, and have the values of light", ("gepa",)),
            "max_bootstrapped_demos": (_DEMOS, ("mipro_demos", "bootstrap")),
            "max_demos": (_DEMOS, ()),
            "max_labeled_demos": ("demos never hold the right answers of a data set", ()),
            "max_full_evals": ("max_metric_calls or a budget ends a search", ()),
        }
    }
)
"""Parameters of the Trace-Bench prototype that configs give without effect, by trainer: why, and the values of
``dspy_optimizer`` with which they have one. They are left out with a warning."""

_MODEL = "trainers ask the model of llm at the top level (or of -m), through the gateway"
_FILES = "a job always writes its files (state_history.jsonl, events.jsonl, stdout.log); delete it"
_HELD_OUT = "held-out examples are read once, in scoring; the task's num_test is their number"
_BEST = "the best state of a search counts, and the initial state is one of them; delete it"
REMEDIES: Mapping[str, str] = MappingProxyType(
    {
        **dict.fromkeys(("dspy_lm", "llm", "model", "prompt_model", "reflection_lm", "task_model"), _MODEL),
        **dict.fromkeys(("api_base", "api_key", "api_key_env", "temperature"), f"{_MODEL}; write it there"),
        **dict.fromkeys(("cleanup", "log_dir", "log_frequency", "output_dir"), _FILES),
        **dict.fromkeys(("save_frequency", "save_path", "track_stats"), _FILES),
        **dict.fromkeys(("num_test_samples", "test_dataset", "test_frequency"), _HELD_OUT),
        **dict.fromkeys(("train_dataset", "validate_dataset"), "the task has the examples; delete it"),
        **dict.fromkeys(("ensure_improvement", "improvement_threshold"), _BEST),
        **dict.fromkeys(("num_threads", "threads"), "it evaluates in its own order; max_workers runs jobs in parallel"),
        "decouple_optimizers": "every candidate has an optimizer of its own; delete it",
        "eval_kwargs": "write eval_kwargs on a task entry, or at the top level",
        "guide": "write guide on the trainer entry",
        "logger": "write logger on the trainer entry",
        "min_score": "a candidate that fails has the failure score of its task; delete it",
        "objective_config": "write objective at the top level, or objective_mode in the eval_kwargs of a task",
        "score_range": "a task has its own range of scores; delete it",
        "seed": "every job has its own seed; write seeds at the top level",
        "teacher_settings": "no second model teaches the first; delete it",
    }
)
"""Parameters of trainers of OpenTrace and of the Trace-Bench prototype that a trainer may not take here, with the
remedy."""

UNAVAILABLE: Mapping[str, str] = MappingProxyType(
    {
        "AggregatedUpdate": (
            "requests one update for each example, and a model merges them; use Minibatch, which writes one prompt for "
            "all examples of a minibatch"
        ),
        "PrioritySearch_with_Regressor": (
            "ranks candidates by a regressor over embeddings; use PrioritySearch, which ranks them by their scores, or "
            "POLCA"
        ),
        "SearchTemplate": "is the base class of OpenTrace's searches, not a trainer; use PrioritySearch",
    }
)
"""Names that configs of other frameworks use, and why they are not available here."""


def canonical(name: str) -> str:
    """The trainer's own name, for any of its names.

    >>> canonical("NoOpTrainer"), canonical("PrioritySearch"), canonical("Mine")
    ('NoOp', 'PrioritySearch', 'Mine')
    """
    return ALIASES.get(name, name)


def other_names(trainer: str) -> tuple[str, ...]:
    """The aliases of `trainer`."""
    return tuple(alias for alias, name in ALIASES.items() if name == trainer)
