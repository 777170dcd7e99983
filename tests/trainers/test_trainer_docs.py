"""docs/reference/trainers.md is what the code says of every trainer, parameter and optimizer."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from trace_bench.trainers.names import ALIASES, UNAVAILABLE
from trace_bench.trainers.optimizers import OPTIMIZERS
from trace_bench.trainers.reference import described, page
from trace_bench.trainers.registry import load_trainer, load_trainers

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "trainers.md"
TRAINERS = load_trainers()


def test_the_page_is_up_to_date() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m trace_bench.trainers.reference --write"


@pytest.mark.parametrize("name", sorted(TRAINERS))
def test_every_trainer_has_a_section_with_all_of_its_parameters(name: str) -> None:
    found = re.search(rf"^## {re.escape(name)}\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.M | re.S)
    assert found, f"{PAGE.name} has no section {name}"
    for param in TRAINERS[name].params:
        row = [line for line in found[1].splitlines() if line.startswith(f"| `{param.name}` |")][-1]
        assert all(f"`{word}`" in row for word in (*param.aliases, *(param.choices or ()), *param.when))


@pytest.mark.parametrize("name", sorted(TRAINERS))
def test_every_trainer_says_what_it_does_and_after_whom(name: str) -> None:
    trainer = described(TRAINERS[name])
    assert len(trainer["semantics"].split()) >= 40, "the docstring of the class is its section of the docs"
    assert trainer["source"] and trainer["summary"].endswith(".")
    assert inspect.isgeneratorfunction(TRAINERS[name].search)
    for param in trainer["params"]:
        assert param["doc"] and not param["doc"].endswith(".")
        assert set(param["when"]) <= {p["name"] for p in trainer["params"]}


def test_other_names_lead_to_trainers_and_unavailable_ones_to_a_reason() -> None:
    text = PAGE.read_text()
    for alias, name in ALIASES.items():
        assert load_trainer(alias) is TRAINERS[name] and f"| `{alias}` | `{name}`" in text
    for name, reason in UNAVAILABLE.items():
        assert name not in TRAINERS and f"| `{name}` | {reason} |" in text


def test_every_optimizer_has_a_section() -> None:
    assert all(f"\n### {name}\n" in PAGE.read_text() for name in OPTIMIZERS)
