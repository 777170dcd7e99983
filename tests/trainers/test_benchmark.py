"""benchmarks/trainers: models are of the quality they claim, every search is in it, and its page says what it says."""

from __future__ import annotations

import re
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from trace_bench.errors import TrainerError
from trace_bench.trainers.base import Budget

REPOSITORY = Path(__file__).parents[2]
sys.path.insert(0, str(REPOSITORY))

from benchmarks.trainers.arena import Arena, build  # noqa: E402
from benchmarks.trainers.compare import README, TASKS, run_cell, searches, tables  # noqa: E402
from benchmarks.trainers.models import MODELS, parameter_of  # noqa: E402

SEARCHES = sorted(searches())
PROGRAMS_ONLY = {name for name, trainer in searches().items() if hasattr(trainer, "only_programs")}
"""Trainers that search over one program alone."""


def part(trainer: str, model: str, task: str, seed: int, budget: int = 300) -> float:
    """The part of the way to the best known that one search came."""
    found = run_cell((trainer, model, task, seed), [budget])
    assert found is not None
    return found[0]


CLIMBED = [task for task in TASKS if task != "arena:one_program"]


@pytest.mark.parametrize(
    "task", [pytest.param(task, marks=[] if task == "internal:many_param" else pytest.mark.slow) for task in CLIMBED]
)
def test_a_model_that_climbs_finds_more_than_a_walk_and_a_walk_more_than_a_fall(task: str) -> None:
    """Minibatch goes on with every proposal, so that its path is the model's own."""
    reached = {
        model: statistics.fmean(part("Minibatch", model, task, seed) for seed in range(1, 7)) for model in MODELS
    }
    margin = 0.02 if task == "arena:several_programs" else 0.15
    assert reached["hill climbing"] > reached["random walk"] + margin, reached
    assert reached["random walk"] > reached["adversarial"] + 0.02, reached


@pytest.mark.parametrize("task", ["internal:multi_param", "internal:numeric_param"])
def test_a_model_that_climbs_solves_what_a_fall_does_not(task: str) -> None:
    for seed in (1, 2, 3):
        climbed = part("Minibatch", "hill climbing", task, seed, 100)
        assert climbed > 0.9 and climbed > part("Minibatch", "adversarial", task, seed, 100) + 0.02


def test_a_variable_of_a_prompt_is_the_parameter_that_it_shows() -> None:
    names = ["p0", "p00", "q", "k1"]
    shown = ["p0", "p00", "p000", "p07", "q", "q12", "k1", "k10"]
    assert [parameter_of(name, names) for name in shown] == ["p0", "p00", "p00", "p0", "q", "q", "k1", "k1"]
    with pytest.raises(KeyError, match="'r0'"):
        parameter_of("r0", names)


@pytest.mark.parametrize("task", TASKS)
def test_what_is_drawn_at_random_does_not_solve_a_problem(task: str) -> None:
    drawn = [part("RandomProposals", "lazy", task, seed) for seed in range(1, 21)]
    assert 0.1 < statistics.fmean(drawn) < 0.9


@pytest.mark.parametrize("name", ["BasicSearch", "GEPA-Base", "UCBSearch"])
def test_a_curve_holds_what_a_search_with_a_smaller_budget_finds(name: str) -> None:
    cell = (name, "hill climbing", "arena:many_examples", 1)
    both = run_cell(cell, [150, 400])
    assert both is not None and both[0] == part(*cell, budget=150)


@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SEARCHES if n != "NoOp"])
def test_every_search_finds_more_than_the_start_and_the_same_again(name: str) -> None:
    first = [part(name, "hill climbing", "arena:one_program", seed) for seed in (1, 2, 3)]
    assert 0 < sum(first) <= 3 and part(name, "hill climbing", "arena:one_program", 1) == first[0]


@pytest.mark.parametrize("name", sorted(PROGRAMS_ONLY))
def test_a_search_over_one_program_finds_more_than_its_model_and_takes_no_numbers(name: str) -> None:
    assert run_cell((name, "hill climbing", "arena:twelve_numbers", 1), [100]) is None
    cells = [(name, "hill climbing", "arena:one_program", seed) for seed in (1, 2, 3)]
    found = [run_cell(cell, [100, 300]) for cell in cells]
    model = [run_cell(("BestOfN", *cell[1:]), [100, 300]) for cell in cells]
    assert sum(scores[0] for scores in found) > sum(scores[0] for scores in model) > 0
    assert all(large >= small for small, large in found)


def test_no_op_finds_nothing_and_a_lazy_model_ends_no_search() -> None:
    assert part("NoOp", "lazy", "arena:one_program", 1) == 0
    assert part("PrioritySearch", "lazy", "arena:one_program", 1, budget=60) >= 0


def test_the_page_shows_every_search_with_intervals_at_three_budgets() -> None:
    shown = README.read_text(encoding="utf-8")
    assert re.search(r"^\d+ seeds", shown, re.MULTILINE)
    assert "| trainer | 100 evaluations | 300 evaluations | 1,000 evaluations |" in shown
    for name in SEARCHES:
        assert re.search(rf"^\| {re.escape(name)} \|.* \d\.\d\d / \d\.\d\d / \d\.\d\d", shown, re.MULTILINE), name
        if name in PROGRAMS_ONLY:
            continue
        interval = r" \d\.\d+ \[± \d\.\d+\] \|"
        assert re.search(rf"^\| {re.escape(name)} \|{interval}{interval}{interval}", shown, re.MULTILINE), name


def test_tables_pair_differences_by_seed() -> None:
    """Two searches whose scores rise and fall together differ by a constant: with no interval at all."""
    plus = {"NoOp": 0.0, "RandomProposals": 0.1, "BestOfN": 0.2, "A": 0.2}
    scores = {(n, m, t, s): [s / 10 + plus[n]] for n in plus for m in MODELS for t in TASKS for s in (1, 2, 3)}
    text = tables(scores, [7])
    (row,) = re.findall(r"^\| A \| 0\.400 \[± (.*?)\] \| (.*) \|$", text, re.MULTILINE)
    assert row == ("0.248", "+0.100 [± 0.000] better | +0.000 [± 0.000] no difference seen")
    assert re.search(r"^\| A \| 0\.40 \| 0\.40 \| 0\.40 \| 0\.40 \|$", text, re.MULTILINE)


@pytest.mark.parametrize("name", ["RandomProposals", "BestOfN"])
def test_baselines_end_after_their_steps_with_the_best_that_was_scored(name: str) -> None:
    problem = build("arena:several_programs", 3)
    arena = Arena(problem, MODELS["random walk"], 3, Budget())
    assert (
        arena.run(searches()[name], num_steps=12)
        == arena.truth(arena.best_state)
        > arena.truth(problem.initial_state())
    )
    assert 6 <= arena.evaluations <= 25 and arena.calls == (12 if name == "BestOfN" else 0)


def test_polca_keeps_out_what_says_the_same() -> None:
    kept_out = {}
    for model in ("lazy", "hill climbing"):
        arena = Arena(build("arena:several_programs", 1), MODELS[model], 1, Budget(evaluations=100, calls=100))
        arena.run(searches()["POLCA"], num_steps=0)
        kept_out[model] = arena.events["proposal.dropped.near"]
    assert kept_out["lazy"] > 20 and kept_out["hill climbing"] == 0


def test_random_proposals_refuses_what_it_cannot_draw() -> None:
    problem = build("arena:one_program", 1)
    (parameter,) = problem.parameters
    bare = replace(problem, parameters=(replace(parameter, alternatives=()),))
    with pytest.raises(TrainerError, match="cannot draw 'digits': it has no bounds and no alternatives"):
        Arena(bare, MODELS["lazy"], 1, Budget()).run(searches()["RandomProposals"])


@pytest.mark.slow
def test_polca_is_not_priority_search_where_a_model_repeats_itself() -> None:
    """What the net keeps out costs no evaluation, which helps where one is dear. Where calls are what is spent, a copy
    of the best state is one more place to search from, and the net is in the way."""

    def reached(name: str, task: str) -> float:
        return statistics.fmean(part(name, "lazy", task, seed) for seed in range(1, 7))

    assert reached("POLCA", "arena:many_examples") > reached("PrioritySearch", "arena:many_examples") + 0.05
    assert reached("POLCA", "arena:several_programs") < reached("PrioritySearch", "arena:several_programs") - 0.05
