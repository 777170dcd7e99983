"""Configs of the Trace-Bench prototype for its data sets load, and expand to as many jobs as there."""

from __future__ import annotations

from typing import Any

import pytest

from trace_bench.config.loader import parse_config
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import select
from trace_bench.matrix import expand

DYCK, HOTPOT = "hf:bbeh_eight/dyck_languages", "hf:hotpot_qa"
ONE_STEP = {"id": "PrioritySearch", "params_variants": [{"ps_steps": 1, "ps_batches": 1}]}
FEW = {"ps_steps": 5, "ps_batches": 1, "batch_size": 4, "ps_candidates": 5}
OVERNIGHT = [
    {"dspy_optimizer": "mipro", "auto": "light"},
    {"dspy_optimizer": "simba", "max_steps": 8, "bsize": 8, "max_demos": 4},
    {"dspy_optimizer": "gepa", "auto": "light", "reflection_minibatch_size": 10},
]


def _dspy(*variants: dict[str, Any], id_: str = "DSPyTrainer") -> dict[str, Any]:
    return {"id": id_, "params_variants": list(variants)}


def _sizes(train: int, validate: int, test: int, **more: Any) -> dict[str, Any]:
    return {"num_train": train, "num_validate": validate, "num_test": test, **more}


CONFIGS: dict[str, tuple[str, dict[str, Any], list[Any], int]] = {
    "smoke_hf_bbeh": (DYCK, _sizes(2, 1, 1), [ONE_STEP], 1),
    "smoke_hf_bbeh_priority_search_gemini": (DYCK, _sizes(2, 2, 1), [ONE_STEP], 1),
    "smoke_hf_bbeh_dspy": (
        DYCK, _sizes(5, 2, 1, framework="dspy"),
        [_dspy({"dspy_optimizer": "mipro", "auto": "light", "num_candidates": 2, "max_bootstrapped_demos": 1,
                "max_labeled_demos": 1})], 1,
    ),
    "smoke_hf_bbeh_dspy_copro_gemini": (
        DYCK, _sizes(2, 2, 1, framework="dspy"), [_dspy({"dspy_optimizer": "copro", "breadth": 2, "depth": 1})], 1,
    ),
    "smoke_hf_bbeh_dspy_gemini": (
        DYCK, _sizes(2, 2, 1, framework="dspy"),
        [_dspy({"dspy_optimizer": "mipro", "auto": None, "num_candidates": 1, "num_trials": 1,
                "max_bootstrapped_demos": 0, "max_labeled_demos": 0})], 1,
    ),
    "smoke_hf_bbeh_dspy_gepa_gemini": (
        DYCK, _sizes(2, 2, 1, framework="dspy"),
        [_dspy({"dspy_optimizer": "gepa", "max_full_evals": 1, "reflection_minibatch_size": 1})], 1,
    ),
    "smoke_hf_bbeh_dspy_simba_gemini": (
        DYCK, _sizes(2, 2, 1, framework="dspy"),
        [_dspy({"dspy_optimizer": "simba", "num_candidates": 1, "max_steps": 1, "bsize": 1, "max_demos": 1})], 1,
    ),
    "smoke_hf_hotpotqa": (HOTPOT, _sizes(2, 1, 1), [ONE_STEP], 1),
    "smoke_hf_hotpotqa_gemini": (
        HOTPOT, _sizes(1, 1, 1), [{"id": "PrioritySearch", "params_variants": [{"ps_steps": 5, "ps_batches": 2}]}], 1,
    ),
    "smoke_hf_hotpotqa_polca": (HOTPOT, _sizes(1, 1, 1), [{"id": "POLCA", "params_variants": [FEW]}], 1),
    "smoke_hf_hotpotqa_dspy": (
        HOTPOT, _sizes(20, 10, 10, framework="dspy"),
        [_dspy({"dspy_optimizer": "copro", "breadth": 2, "depth": 5}, id_="DSPyCOPROTrainer")], 1,
    ),
    "smoke_hf_hotpotqa_dspy_copro_gemini": (
        HOTPOT, _sizes(2, 2, 1, framework="dspy"), [_dspy({"dspy_optimizer": "copro", "breadth": 2, "depth": 1})], 1,
    ),
    "overnight_hf_hotpotqa_gemini": (
        HOTPOT, _sizes(100, 100, 100),
        [{"id": "PrioritySearch", "params_variants": [FEW]}, _dspy(*OVERNIGHT)], 4,
    ),
    "overnight_hf_hotpotqa_gepa_gemini": (
        HOTPOT, _sizes(50, 20, 50),
        [_dspy({"dspy_optimizer": "gepa", "auto": "light", "reflection_minibatch_size": 3})], 1,
    ),
    "overnight_hf_bbeh_gemini": (
        "hf:bbeh_eight", _sizes(15, 5, 180),
        [{"id": "PrioritySearch", "params_variants": [{"ps_steps": 10, "ps_batches": 4}]}, _dspy(*OVERNIGHT)], 32,
    ),
}  # fmt: skip
"""By its name there: task, ``eval_kwargs``, trainers, jobs."""


@pytest.mark.parametrize("name", CONFIGS)
def test_it_loads_and_expands(name: str) -> None:
    task, eval_kwargs, trainers, jobs = CONFIGS[name]
    data = {"mode": "stub", "seeds": [123], "tasks": [{"id": task, "eval_kwargs": eval_kwargs}], "trainers": trainers}
    config = select(parse_config(data))
    found = resolve(config)
    expanded = expand(config, found.tasks, found.trainers)
    assert len(expanded) == jobs
    assert all(job.eval_kwargs["num_test"] == eval_kwargs["num_test"] for job in expanded)
