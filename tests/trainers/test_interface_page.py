"""The page about the trainer interface: its example searches, and its tables name what is there."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from tests.integration.cli import REPOSITORY
from tests.trainers.memory_context import MemoryContext, numeric, seeded, suggest
from trace_bench.cli.new import new_trainer
from trace_bench.trainers.base import Rollout, Search, Slot, Step, StopTraining, Trainer

PAGE = (REPOSITORY / "docs" / "reference" / "trainer-interface.md").read_text(encoding="utf-8")
CHAPTERS = {part.split("\n", 1)[0]: part for part in PAGE.split("\n## ")}
EXAMPLE = re.findall(r"^```python\n(.*?)^```", CHAPTERS["An example that asks a model"], re.MULTILINE | re.DOTALL)[0]


@pytest.fixture(scope="module")
def example() -> Any:
    space: dict[str, Any] = {"__name__": "hill_climb"}
    exec(compile(EXAMPLE, "trainer-interface.md", "exec"), space)
    return space["HillClimb"]


Make = Callable[..., MemoryContext]


def test_the_example_is_what_the_command_writes(tmp_path: Path) -> None:
    package = new_trainer("HillClimb", tmp_path)[0].parent
    assert (package / "hill_climb" / "__init__.py").read_text(encoding="utf-8") == EXAMPLE


def test_the_example_climbs_and_names_each_call(context: Make, example: Any) -> None:
    made = context(numeric(validate=2), seeded(3))
    made.search(example, num_steps=8)
    assert made.stop_reason == "completed" and made.best_score > made.steps[0].score
    slots = [str(call.slot) for call in made.calls]
    assert len(slots) == len(set(slots)) == 8
    assert [step.score for step in made.steps if step.accepted] == sorted(
        step.score for step in made.steps if step.accepted
    )
    assert "too low" in made.calls[0].prompt, "the model is shown the feedback"


@pytest.mark.parametrize("answer", ["no JSON", suggest(x=99.0), suggest(x="much"), suggest(), ""])
def test_the_example_lives_with_answers_that_cannot_be_used(context: Make, example: Any, answer: str) -> None:
    made = context(numeric(), lambda *_: answer)
    made.search(example, num_steps=3)
    assert made.stop_reason == "completed" and len(made.steps) == 1 and len(made.calls) == 3


def test_the_example_lets_the_end_of_a_budget_pass(context: Make, example: Any) -> None:
    def out_of_budget(*_: Any) -> str:
        raise StopTraining("budget")

    made = context(numeric(), out_of_budget)
    made.search(example)
    assert made.stop_reason == "budget" and made.best_state == made.problem.initial_state()


@pytest.mark.parametrize(("title", "shown"), [
    ("Search", [field.name for field in fields(Search)] + ["selection", "examples", "random"]),
    ("Rollout", [field.name for field in fields(Rollout)]),
    ("Step", [field.name for field in fields(Step)]),
    ("Slot", [field.name for field in fields(Slot)]),
    ("The class", [*Trainer.__annotations__, "search"]),
])  # fmt: skip
def test_the_page_names_every_attribute(title: str, shown: list[str]) -> None:
    words = set(re.findall(r"[a-z_]+", CHAPTERS[title]))
    assert set(shown) <= words, set(shown) - words
