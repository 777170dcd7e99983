"""What can be checked about an optimizer before a job starts."""

from __future__ import annotations

import importlib
from typing import Any

import pytest

from trace_bench.errors import TrainerError
from trace_bench.trainers.optimizers import (
    DEFAULT_OPTIMIZER,
    OPTIMIZER_INFOS,
    OPTIMIZERS,
    UNAVAILABLE,
    resolve_optimizer,
)


def test_defaults_are_filled_in_and_an_empty_name_is_the_default() -> None:
    name, kwargs = resolve_optimizer("", {"memory_size": 3})
    assert name == DEFAULT_OPTIMIZER
    assert kwargs == {"memory_size": 3, "max_tokens": 4096, "objective": "", "temperature": None}


@pytest.mark.parametrize("name", [*UNAVAILABLE, "Nonsense"])
def test_an_optimizer_that_cannot_be_had_says_why_and_what_can(name: str) -> None:
    with pytest.raises(TrainerError, match=rf"{name}.*Available: OptoPrime"):
        resolve_optimizer(name, {})


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"memory_sise": 1}, "Did you mean 'memory_size'"),
        ({"zzz": 1}, "It takes: memory_size"),
        ({"memory_size": "1"}, "type int"),
        ({"memory_size": True}, "type int"),
        ({"memory_size": -1}, "at least 0"),
        ({"max_tokens": 0}, "at least 1"),
    ],
)
def test_a_wrong_argument_is_one_sentence_with_the_remedy(kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(TrainerError, match=said):
        resolve_optimizer("OptoPrime", kwargs)


def test_no_name_is_both_available_and_unavailable() -> None:
    assert not set(OPTIMIZERS) & set(UNAVAILABLE)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_every_optimizer_is_described_and_can_be_made(name: str) -> None:
    info = OPTIMIZER_INFOS[name]
    assert info.name == name and info.params is OPTIMIZERS[name]
    assert info.summary.endswith(".") and info.source and info.doc.endswith("\n")
    assert all(param.doc and param.doc[-1] != "." for param in info.params)
    module, _, made_by = info.entry.partition(":")
    made = getattr(importlib.import_module(module), made_by)(resolve_optimizer(name, {})[1])
    assert callable(made.word) and callable(made.propose)


@pytest.mark.parametrize(
    ("kwargs", "said"),
    [
        ({"max_temperature": 2.5}, "at most 2"),
        ({"selection_technique": "best"}, "one of best_of_n, majority, last"),
        ({"max_temperature": None}, "type float"),
    ],
)
def test_bounds_and_choices_hold(kwargs: dict[str, Any], said: str) -> None:
    with pytest.raises(TrainerError, match=said):
        resolve_optimizer("OptoPrimeMulti", kwargs)


def test_a_whole_number_is_a_temperature_and_null_is_the_model_s_own() -> None:
    given = resolve_optimizer("OptoPrime", {"temperature": 1})[1]["temperature"]
    assert (given, type(given)) == (1.0, float)
    assert resolve_optimizer("OptoPrime", {"temperature": None})[1]["temperature"] is None
