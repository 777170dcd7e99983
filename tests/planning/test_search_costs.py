"""What is said of budgets before a run: that none makes trainers unequal, and that one leaves no room to search."""

from __future__ import annotations

from typing import Any

import pytest

from trace_bench.config import load_config
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import select
from trace_bench.matrix import expand
from trace_bench.planning.search_costs import amounts_of, budget_sentences, costs_of, search_costs
from trace_bench.trainers.base import Costs
from trace_bench.trainers.registry import load_trainers

TASK = "llm4ad:online_bin_packing_local"


def said(*trainers: Any, task: Any = TASK, **config: Any) -> list[str]:
    loaded = select(load_config({"tasks": [task], "trainers": list(trainers), **config}))
    resolved = resolve(loaded)
    jobs = expand(loaded, resolved.tasks, resolved.trainers)
    costs = search_costs(jobs, resolved.tasks, resolved.trainers)
    return budget_sentences(loaded, jobs, costs, resolved.trainers)


def test_several_searches_without_a_budget_can_spend_differently() -> None:
    (text,) = said("NoOp", "EoH", "PrioritySearch")
    assert text.startswith("no budget limits what a job spends, so that EoH and PrioritySearch can spend differently; ")
    assert "--budget calls=60" in text
    assert said("NoOp", "EoH") == [], "a baseline spends nothing"
    variants = {"id": "EoH", "params_variants": [{"num_steps": 1}, {"num_steps": 2}]}
    assert said(variants)[0].startswith("no budget limits what a job spends, so that the variants of EoH ")


def test_a_budget_that_ends_them_all_leaves_nothing_to_say() -> None:
    assert said("EoH", "PrioritySearch", budget={"calls": 60}) == []


def test_who_has_a_number_of_steps_may_end_before_the_budget() -> None:
    (text,) = said("EoH", {"id": "PrioritySearch", "params": {"num_steps": 2}}, budget={"calls": 60})
    assert text.startswith("PrioritySearch may end before the budget, by a parameter that limits the steps")


@pytest.mark.parametrize(
    ("budget", "room", "wanted"),
    [
        ({"evaluations": 8}, "evaluations=8 has room for no proposal", "evaluations=20 for 3"),
        ({"evaluations": 17}, "evaluations=17 has room for 2 proposals", "evaluations=20 for 3"),
        ({"evaluations": 500, "calls": 1}, "evaluations=500,calls=1 has room for 1 proposal ", "calls=3 for 3"),
    ],
)
def test_a_budget_for_fewer_than_three_proposals_is_too_small(budget: dict[str, int], room: str, wanted: str) -> None:
    (text,) = said("EoH", budget=budget)
    assert text.startswith(f"EoH on {TASK}: {room}") and text.endswith(wanted)


def test_calls_of_the_program_itself_take_room_too() -> None:
    task = {"id": "hf:gsm8k", "eval_kwargs": {"fixture": True, "num_train": 4, "num_validate": 5}}
    (text,) = said("PrioritySearch", task=task, budget={"calls": 12})
    assert "calls=12 has room for 1 proposal after the start, and calls=26 for 3" in text  # 5, and 1 + 1 + 5 each
    for more in ({"agent": "chain"}, {"num_eval_repeats": 2}):
        task["eval_kwargs"] |= more  # two calls for an example; then each validation example twice, too
    task["id"] = "hf:hotpot_qa"
    (text,) = said("PrioritySearch", task=task, budget={"calls": 25})
    assert "calls=25 has room for 0 proposals" in text or "has room for no proposal" in text
    assert "calls=89 for 3" in text  # 20, and 1 + 2 + 20 each


def test_many_that_are_too_small_are_not_all_listed() -> None:
    text = said("EoH", "FunSearch", "ReEvo", "PrioritySearch", "BestOfN", "BeamSearch", budget={"evaluations": 6})
    assert len(text) == 5 and text[-1] == "and 2 more; --dry-run has all estimates"


def test_every_trainer_that_searches_says_what_a_proposal_costs_in_parameters_that_it_has() -> None:
    silent = []
    for name, trainer in load_trainers().items():
        if (costs := costs_of(trainer)) is None:
            silent.append(name)
            continue
        assert "costs" in vars(trainer), name
        names = {param.name for param in trainer.params}
        assert {costs.batch, costs.judged_on, *costs.first_step} - {""} <= names, name
        assert bool(costs.calls) == trainer.uses_llm, name
    assert sorted(silent) == ["DSPyTrainer", "NoOp"], "one does not search, and the other's package decides"


def test_a_step_is_as_many_proposals_as_its_parameters_say() -> None:
    costs = Costs("batch", "sample", first_step=("width", "names"))
    params = {"batch": 9, "sample": 2, "width": 3, "names": ["a", "b"]}
    assert amounts_of(costs, params, train=4, validate=7, asked=1) == ((7, 7), (6, 7), (36, 42))
    assert amounts_of(costs, {"batch": 1}, train=4, validate=0)[:2] == ((4, 0), (5, 1)), "no validation data"
