"""Assignment problems: linear, generalised, quadratic."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError
from trace_bench.suites.llm4ad import location

GetTask = Callable[[str], Task]
LINEAR = "llm4ad:optimization/co_bench/assignment_problem_co_bench"
GENERAL = "llm4ad:optimization/co_bench/generalised_assignment_problem_co_bench"
QUADRATIC = "llm4ad:optimization/qap_construct"


def placing(at: list[int]) -> Callable[..., tuple[int, int]]:
    """A rule that ends with the placement `at`."""
    return lambda now, *_: (now.index(-1), at[now.index(-1)])


# -- linear


@pytest.mark.parametrize("seed", range(4))
def test_linear_the_best_of_all_assignments_is_the_bound_and_the_reference_finds_it(seed: int, task: GetTask) -> None:
    one = task(LINEAR)
    small = one.instance(seed, problem_size=6)
    scores = [one.verdict(small, list(p)).score for p in permutations(range(small["n"]))]
    assert min(scores) == one.judge.best([small]) == one.play(one.program("reference"), small)
    assert max(scores) <= one.judge.worst([small])


def test_linear_costs_are_those_of_rows_to_columns(task: GetTask) -> None:
    small = {"n": 3, "costs": np.array([[1, 20, 300], [4, 50, 600], [7, 80, 900]])}
    assert task(LINEAR).play(lambda n, costs: [2, 0, 1], small) == 300 + 4 + 80
    said = task(LINEAR).verdict(small, [2, 0, 1]).remark
    assert "1 of 3 items" in said and "item 0 pays 300 where its cheapest agent costs 1" in said


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([0, 1, 1], "names 1 twice"),
        ([0, 1], "must have 3 entries, not 2"),
        ([1, 2, 3], "within 0 .. 2, not the integer 3"),
        ([0, 1, 2.0], "must be an int, not the number 2.0"),
        ([0, 1, True], "must be an int, not True"),
        (None, "must be a list, not None"),
        ([0, 1, 10**400], "an integer of 1329 bits"),
    ],
)
def test_linear_answers_that_are_none(given: Any, says: str, task: GetTask) -> None:
    small = {"n": 3, "costs": np.ones((3, 3))}
    assert says in task(LINEAR).refusal(small, lambda *_: given)


@given(seed=st.integers(0, 2**32), scale=st.integers(1, 9), shift=st.integers(0, 50))
def test_linear_other_names_and_units_change_the_score_as_they_should(seed: int, scale: int, shift: int) -> None:
    one, rng = task_of(LINEAR), np.random.default_rng(seed)
    instance = one.instance(seed, problem_size=12)
    n, costs = instance["n"], instance["costs"]
    agents = rng.permutation(n)
    score = one.verdict(instance, agents.tolist()).score
    rows, columns = rng.permutation(n), rng.permutation(n)
    renamed = {"n": n, "costs": costs[np.ix_(rows, columns)] * scale + shift}
    moved = np.argsort(columns)[agents[rows]]
    assert one.verdict(renamed, moved.tolist()).score == score * scale + shift * n
    assert one.module.bound(renamed) == one.module.bound(instance) * scale + shift * n


def test_linear_published_files_are_read(task: GetTask) -> None:
    (made,) = task(LINEAR).module.read("2\n 3 5\n 7\n 11\n", "assign100.txt")
    assert (made["n"], made["costs"].tolist()) == (2, [[3, 5], [7, 11]])
    assert made["costs"].dtype == np.int64
    assert task(LINEAR).module.read("1 0.5", "assign100.txt")[0]["costs"].dtype == np.float64
    for text, says in (("0", "the number of items must be above zero"), ("2 1 2 3", "ends where the costs of item 2"),
                       ("2\n1 2 3 4\n5", "line 3: '5' is more")):  # fmt: skip
        with pytest.raises(DataError, match=says):
            task(LINEAR).module.read(text, "assign100.txt")


# -- generalised


@pytest.mark.parametrize("name", ["worse", "template", "reference"])
def test_general_programs_keep_capacities_that_the_least_consumption_does_not(name: str, task: GetTask) -> None:
    """As in OR-Library's gap files: both jobs take least of the first agent, which has room for one."""
    one = task(GENERAL)
    (made,) = one.module.read("1\n2 2\n5 5\n9 9\n3 3\n4 4\n5 5\n", "gapa.txt")
    assert one.play(one.program(name), made) == 14


@pytest.mark.parametrize("seed", range(4))
def test_general_no_valid_assignment_beats_the_bound_and_the_reference_is_close_to_the_best(
    seed: int, task: GetTask
) -> None:
    one = task(GENERAL)
    small = one.instance(seed, n_agents=3, n_jobs=7)
    m, n = small["costs"].shape
    valid = [list(a) for a in product(range(m), repeat=n) if not one.broken(small, list(a))]
    scores = [one.verdict(small, a).score for a in valid]
    bound = one.judge.best([small])
    assert bound is not None and bound <= min(scores)
    assert max(scores) <= one.judge.worst([small])
    assert min(scores) <= one.play(one.program("reference"), small) <= 1.2 * min(scores)


def of_two(capacities: list[int]) -> dict[str, Any]:
    return {
        "costs": np.array([[1, 2, 4], [10, 20, 40]]),
        "uses": np.array([[3, 4, 5], [1, 1, 1]]),
        "capacities": np.array(capacities),
    }


def test_general_an_agent_with_too_much_is_named_with_the_amount(task: GetTask) -> None:
    one = task(GENERAL)
    assert one.play(lambda *_: [0, 0, 1], of_two([7, 1])) == 1 + 2 + 40
    assert one.broken(of_two([6, 0]), [0, 0, 1]) == [
        "agent 0 has capacity 6 and its 2 jobs take 7, 1 too much",
        "agent 1 has capacity 0 and its 1 jobs take 1, 1 too much",
    ]
    assert "within 0 .. 1, not the integer 2" in one.refusal(of_two([7, 1]), lambda *_: [1, 1, 2])
    assert "must have 3 entries, not 4" in one.refusal(of_two([7, 1]), lambda *_: [0, 0, 1, 1])
    assert "must be a list, not a dict" in one.refusal(of_two([7, 1]), lambda *_: {"assignments": [1]})


def test_general_arguments_come_in_the_order_of_the_statement(task: GetTask) -> None:
    seen: list[Any] = []
    task(GENERAL).play(lambda *args: seen.extend(args) or [1, 1, 1], of_two([0, 3]))  # type: ignore[func-returns-value]
    assert seen[:2] == [2, 3] and seen[2][1, 2] == 40 and seen[3][0, 2] == 5 and seen[4].tolist() == [0, 3]


@given(seed=st.integers(0, 2**32))
def test_general_every_generated_instance_has_the_solution_that_the_statement_names(seed: int) -> None:
    one = task_of(GENERAL)
    instance = one.instance(seed, n_agents=6, n_jobs=20)
    thrifty = instance["uses"].argmin(axis=0).tolist()
    score = one.verdict(instance, thrifty).score
    agents, jobs = (np.random.default_rng(seed).permutation(k) for k in instance["costs"].shape)
    renamed = {
        "costs": instance["costs"][np.ix_(agents, jobs)] * 3,
        "uses": instance["uses"][np.ix_(agents, jobs)],
        "capacities": instance["capacities"][agents],
    }
    moved = np.argsort(agents)[np.array(thrifty)[jobs]].tolist()
    assert one.verdict(renamed, moved).score == 3 * score
    assert one.module.bound(instance) <= one.play(one.program("template"), instance) <= score


def test_general_published_files_are_read_and_profits_are_turned(task: GetTask) -> None:
    text = "1\n 2 3\n 9 8 7\n 1 2 3\n 4 5 6\n 6 5 4\n 10 11\n"
    (least,) = task(GENERAL).module.read(text, "gapa.txt")
    assert least["costs"].tolist() == [[9, 8, 7], [1, 2, 3]]
    assert least["uses"].tolist() == [[4, 5, 6], [6, 5, 4]] and least["capacities"].tolist() == [10, 11]
    (most,) = task(GENERAL).module.read(text, "gap12.txt")
    assert most["costs"].tolist() == [[0, 1, 2], [8, 7, 6]]
    with pytest.raises(DataError, match="ends where a capacity"):
        task(GENERAL).module.read(text[:-4], "gapa.txt")
    assert task(GENERAL).module.read(text, "GAP12.TXT")[0]["costs"].tolist() == most["costs"].tolist()
    for name in ("gap_minimise.txt", "gap.txt", "gaping.txt", "x.txt"):
        with pytest.raises(DataError, match="does not tell profits from costs"):
            task(GENERAL).module.read(text, name)
    for wrong, says in (("0", "the number of problems must be above zero"), ("1 1 0 5", "the number of jobs must be"),
                        ("1 0 1 5", "the number of agents must be"),
                        ("1 2 1 1 1 1 1 5 -1", "capacity -1, which is below"),
                        ("1 1 2 1 1 1 7 5", "job 2 takes more of each agent than its capacity")):  # fmt: skip
        with pytest.raises(DataError, match=says):
            task(GENERAL).module.read(wrong, "gapa.txt")
    with pytest.raises(DataError, match="line 2: the number of agents must be a whole number"):
        task(GENERAL).module.read("1\n2.5 3", "gapa.txt")


# -- quadratic


@pytest.mark.parametrize("seed", range(3))
def test_quadratic_no_placement_beats_the_bound_and_the_reference_comes_close(seed: int, task: GetTask) -> None:
    one = task(QUADRATIC)
    small = one.instance(seed, problem_size=6)
    scores = [one.verdict(small, list(p)).score for p in permutations(range(6))]
    bound = one.judge.best([small])
    assert bound is not None and 0.5 * min(scores) < bound <= min(scores)
    assert max(scores) <= one.judge.worst([small]) < 2 * max(scores)
    assert min(scores) <= one.play(one.program("reference"), small) <= 1.1 * min(scores)


def test_quadratic_bound_counts_flows_within_a_facility() -> None:
    flows, distances = np.array([[5, 1], [2, 7]]), np.array([[1, 3], [4, 2]])
    costs = [(flows * distances[np.ix_(p, p)]).sum() for p in ([0, 1], [1, 0])]
    assert location.pairing_bound(flows, distances) <= min(costs)
    assert location.pairing_bound(flows, distances, most=True) >= max(costs)


def test_quadratic_two_facilities_by_hand(task: GetTask) -> None:
    flows, distances = np.array([[0, 3, 0], [3, 0, 1], [0, 1, 0]]), np.array([[0, 1, 9], [1, 0, 5], [9, 5, 0]])
    small = {"flows": flows, "distances": distances, "points": np.zeros((3, 2))}
    assert task(QUADRATIC).play(placing([0, 1, 2]), small) == 2 * (3 * 1 + 1 * 5)
    assert task(QUADRATIC).play(placing([0, 2, 1]), small) == 2 * (3 * 9 + 1 * 5)


def test_quadratic_each_facility_and_location_is_used_once(task: GetTask) -> None:
    one = task(QUADRATIC)
    small = one.instance(problem_size=4)
    assert "step 1: facility 0 has a location already, 0" in one.refusal(small, lambda now, *_: (0, now.count(-1) % 4))
    assert "step 1: location 2 is taken by facility 0" in one.refusal(small, lambda now, *_: (now.index(-1), 2))
    assert "of step 0 must have 2 entries, not 1" in one.refusal(small, lambda *_: [0])
    assert "within 0 .. 3, not the integer -1" in one.refusal(small, lambda *_: (0, -1))
    assert "must be a list, not the integer 0" in one.refusal(small, lambda *_: 0)


def test_quadratic_what_a_rule_does_to_its_arguments_does_not_matter(task: GetTask) -> None:
    one = task(QUADRATIC)
    small = one.instance(problem_size=5)

    def spoils(now: list[int], *_: Any) -> tuple[int, int]:
        step = 5 - now.count(-1)
        now[:] = [4] * 5
        return step, step

    assert one.play(spoils, small) == one.play(placing([0, 1, 2, 3, 4]), small)


@given(seed=st.integers(0, 2**32), scale=st.integers(1, 50))
def test_quadratic_other_names_and_units_change_the_score_as_they_should(seed: int, scale: int) -> None:
    one, rng = task_of(QUADRATIC), np.random.default_rng(seed)
    instance = one.instance(seed, problem_size=9)
    at, names = rng.permutation(9), rng.permutation(9)
    score = one.verdict(instance, at.tolist()).score
    renamed = instance | {"flows": instance["flows"][np.ix_(names, names)], "distances": instance["distances"] * scale}
    assert one.verdict(renamed, at[names].tolist()).score == scale * score
    assert one.module.bound(renamed) == scale * one.module.bound(instance)
    assert one.module.bound(instance) <= score <= one.module.worst(instance)


def test_general_instances_are_of_the_three_types_of_the_statement(task: GetTask) -> None:
    seen = set()
    for seed in range(24):
        made = task(GENERAL).instance(seed, size="small")
        costs, uses = made["costs"], made["uses"]
        is_c = uses.min() >= 5 and uses.max() <= 25 and costs.min() >= 10 and costs.max() <= 50
        is_d = uses.min() >= 1 and uses.max() <= 100 and np.abs(costs + uses - 111).max() <= 10
        high, low = np.floor(1000 / uses), np.floor(1000 / (uses + 1) - 10)
        is_e = bool((costs >= np.maximum(1, low)).all() and (costs <= np.maximum(1, high)).all())
        assert [is_c, is_d, is_e].count(True) == 1, seed
        seen.add((is_c, is_d, is_e))
    assert len(seen) == 3
