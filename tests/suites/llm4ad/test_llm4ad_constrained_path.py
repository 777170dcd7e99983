"""Shortest paths with limits on resources."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
RCSP = "llm4ad:optimization/co_bench/resource_constrained_shortest_path_co_bench"
DIAMOND = """4 5 1
1
10
0 1 1 0
1 2 1.5 7
2 4 1 7
1 3 4 2
3 4 4 2
2 3 0.5 1
"""


def diamond(**changed: Any) -> dict[str, Any]:
    """Above 1-2-4: cost 2.5, 15 of the resource; below 1-3-4: 8 and 5; 1-2-3-4: 6 and 12, so that both cost
    something."""
    (made,) = task_of(RCSP).module.read(DIAMOND, "rcsp1.txt")
    return made | changed


def arcs_of(instance: dict[str, Any]) -> dict[tuple[int, int], tuple[float, list[float]]]:
    found: dict[tuple[int, int], tuple[float, list[float]]] = task_of(RCSP).module._arcs(instance)
    return found


def all_paths(instance: dict[str, Any], path: tuple[int, ...] = (1,)) -> Iterator[list[int]]:
    if path[-1] == instance["n"]:
        yield list(path)
        return
    for start, end, *_ in instance["arcs"]:
        if start == path[-1] and end not in path:
            yield from all_paths(instance, (*path, end))


@pytest.mark.parametrize("seed", range(6))
def test_no_path_beats_the_best_of_all_and_the_reference_finds_it(seed: int, task: GetTask) -> None:
    one = task(RCSP)
    small = one.instance(seed, problem_size=14, n_resources=1 + seed % 3)
    every = list(all_paths(small))
    valid = [path for path in every if not one.broken(small, path)]
    best, bound = min(one.module.score(small, p) for p in valid), one.judge.best([small])
    assert bound is not None and 0 < bound <= best
    assert max(one.module.score(small, p) for p in every) == pytest.approx(one.judge.worst([small]))
    assert one.play(one.program("reference"), small) == best
    cheapest = min(every, key=lambda p: one.module.score(small, p))
    assert len(valid) < len(every) and one.broken(small, cheapest)
    assert not one.broken(small, one.module.answer(one.program("worse"), small))


def test_limits_hold_for_arcs_and_vertices_together(task: GetTask) -> None:
    one = task(RCSP)
    assert one.play(lambda *_: [1, 3, 4], diamond()) == 8
    assert one.play(lambda *_: [1, 2, 4], diamond(upper=np.array([15.0]))) == 2.5
    assert one.play(lambda *_: np.array([1, 2, 3, 4]), diamond(upper=np.array([12.0]))) == 6
    for program in ("template", "reference"):
        assert one.play(one.program(program), diamond()) == 8
        assert one.play(one.program(program), diamond(upper=np.array([15.0]))) == 2.5
    assert one.judge.best([diamond()]) == pytest.approx(8 - 0.5 * 5.5, rel=1e-6), "half of each way"
    first = diamond(upper=np.array([12.0]), lower=np.array([3.0]), vertices=np.array([[2.0], [1], [1], [0]]))
    assert one.judge.best([first]) == pytest.approx(8 - 0.5 * 5.5, rel=1e-6), "the first vertex consumes, too"
    least = diamond(upper=np.array([30.0]), lower=np.array([20.0]), vertices=np.array([[5.0], [1], [1], [0]]))
    assert one.judge.best([least]) == pytest.approx(2.5, rel=1e-6)
    assert one.judge.best([least | {"lower": np.array([20.5])}]) == 0, "no path consumes so much"


def test_each_rule_that_a_path_breaks_is_named(task: GetTask) -> None:
    one = task(RCSP)
    assert one.broken(diamond(), [1, 2, 4]) == ["the path consumes 15 of resource 0, 5 over its limit 10"]
    assert one.broken(diamond(lower=np.array([7.0])), [1, 3, 4]) == [
        "the path consumes 5 of resource 0, 2 short of its least 7"
    ]
    assert one.broken(diamond(), [1, 4]) == ["there is no arc from vertex 1 to vertex 4"]
    assert one.broken(diamond(), [1, 3, 2, 4]) == ["there is no arc from vertex 3 to vertex 2"]
    assert one.broken(diamond(), [3, 4]) == ["the path must lead from vertex 1 to vertex 4, not from 3 to 4"]
    assert one.broken(diamond(), []) == ["the path must lead from vertex 1 to vertex 4, not be empty"]
    looped = diamond(n=5, vertices=np.zeros((5, 1)))
    looped["arcs"] += [(3, 1, 0.0, [0.0]), (4, 5, 0.0, [0.0])]
    assert "vertex 1 is visited again at place 2 of the path" in one.broken(looped, [1, 3, 1, 3, 4, 5])
    assert "at most 4 entries, not 5" in one.refusal(diamond(), lambda *_: [1, 2, 3, 4, 4])
    assert "must be within 1 .. 4, not the integer 0" in one.refusal(diamond(), lambda *_: [0, 1, 3])
    assert "must be an int, not the number 3.0" in one.refusal(diamond(), lambda *_: [1, 3.0, 4])
    assert "must be a list, not a dict" in one.refusal(diamond(), lambda *_: {"path": [1, 3, 4]})


def test_rounding_of_fractions_breaks_no_limit(task: GetTask) -> None:
    exact = diamond(upper=np.array([0.3]), lower=np.zeros(1), vertices=np.zeros((4, 1)))
    exact["arcs"] = [(1, 2, 1.0, [0.1]), (2, 4, 1.0, [0.2])]
    assert task(RCSP).broken(exact, [1, 2, 4]) == []
    assert task(RCSP).broken(exact | {"upper": np.array([0.3 - 1e-8])}, [1, 2, 4]) != []


def test_the_arguments_are_what_the_statement_says(task: GetTask) -> None:
    def solve(n: Any, m: Any, K: Any, lower: Any, upper: Any, vertices: Any, graph: Any) -> list[int]:
        assert (n, m, K, lower, upper) == (4, 5, 1, [1.0], [10.0]) and vertices == [[0.0], [1.0], [1.0], [0.0]]
        assert graph == {1: [(2, 1.5, [7.0]), (3, 4.0, [2.0])], 2: [(4, 1.0, [7.0]), (3, 0.5, [1.0])],
                         3: [(4, 4.0, [2.0])], 4: []}  # fmt: skip
        return [1, 3, 4]

    assert task(RCSP).play(solve, diamond()) == 8


@given(seed=st.integers(0, 2**32), cost=st.integers(1, 9), amount=st.integers(1, 9))
def test_scaled_costs_and_resources_score_as_they_should(seed: int, cost: int, amount: int) -> None:
    one = task_of(RCSP)
    old = one.instance(seed, problem_size=20)
    arcs = [(start, end, c * cost, [u * amount for u in used]) for start, end, c, used in old["arcs"]]
    new = old | {"arcs": arcs, "vertices": old["vertices"] * amount, "upper": old["upper"] * amount}
    path = one.module.answer(one.program("worse"), old)
    assert one.broken(new, path) == []
    assert one.module.score(new, path) == cost * one.module.score(old, path)
    assert one.judge.best([new]) == pytest.approx(cost * (one.judge.best([old]) or 0), rel=1e-5)
    assert one.judge.worst([new]) == pytest.approx(cost * one.judge.worst([old]))
    reversed_order = old | {"arcs": old["arcs"][::-1]}
    assert one.judge.worst([reversed_order]) == one.judge.worst([old])


def test_arcs_that_lead_back_have_a_worst_and_a_bound(task: GetTask) -> None:
    one = task(RCSP)
    ring = diamond()
    ring["arcs"] += [(4, 1, 3.0, [1.0]), (3, 2, 9.0, [1.0])]
    assert one.judge.worst([ring]) == 4 + 1 + 9
    assert one.judge.best([ring]) == pytest.approx(one.judge.best([diamond()]))
    assert one.judge.best([diamond(upper=np.array([1.0]))]) == 0, "no path at all: nothing is known"


def test_published_files_keep_parallel_arcs_that_a_path_may_need(task: GetTask) -> None:
    one, text = task(RCSP), DIAMOND.replace("4 5 1", "4 6 1")
    (made,) = one.module.read(text + "2 3 0.25 1\n", "rcsp1.txt")
    assert made["n"] == 4 and len(made["arcs"]) == 5 and arcs_of(made)[2, 3] == (0.25, [1.0])
    assert made["vertices"].tolist() == [[0], [1], [1], [0]]
    no_least = text.replace("\n1\n", "\n0\n", 1) + "2 3 0.5 7\n"
    assert [len(i["arcs"]) for i in one.module.read(no_least + DIAMOND, "rcsp1.txt")] == [5, 5]
    (made,) = one.module.read(text + "1 2 2 2\n", "rcsp1.txt")
    assert made["n"] == 5 and made["vertices"].tolist() == [[0], [1], [1], [0], [0]]
    assert one.play(lambda *_: [1, 4, 2, 5], made) == 3, "the cheap arc consumes too much, the other fits"
    assert "over its limit" in one.refusal(made, lambda *_: [1, 2, 5])
    assert one.play(one.program("reference"), made) == 3 >= (one.judge.best([made]) or 0) > 2.5


def test_parallel_arcs_that_consume_more_stay_where_a_least_is_to_be_consumed(task: GetTask) -> None:
    text = "2 2 1\n4\n5\n0 0\n1 2 1 1\n1 2 3 4\n"
    (made,) = task(RCSP).module.read(text, "rcsp1.txt")
    assert task(RCSP).play(lambda *_: [1, 2, 3], made) == 3
    (none,) = task(RCSP).module.read(text.replace("\n4\n", "\n0\n"), "rcsp1.txt")
    assert none["arcs"] == [(1, 2, 1.0, [1.0])]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (DIAMOND + "7", "ends where the number of arcs"),
        ("2 0 1 0 9 0 0", "no path leads from vertex 1 to vertex 2"),
        (
            DIAMOND.replace("3 4 4 2", "4 3 4 2").replace("2 4 1 7", "4 2 1 7"),
            "no path leads from vertex 1 to vertex 4",
        ),
        (DIAMOND.replace("1 3 4 2", "1 5 4 2"), "an arc 1 5; its ends"),
        (DIAMOND.replace("1 3 4 2", "1 3 -4 2"), "an arc 1 3 of cost -4"),
        (DIAMOND.replace("1 3 4 2", "1 3 4 x"), "line 7: what an arc consumes must be a number"),
        (DIAMOND.replace("4 5 1", "4 6 1"), "ends where the start of an arc"),
        ("1 0 1", "has 1 vertices"),
        ("4 99999999 1", "the number of arcs must be within"),
    ],
)
def test_a_file_of_another_format_is_refused(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(RCSP).module.read(text, "rcsp1.txt")
