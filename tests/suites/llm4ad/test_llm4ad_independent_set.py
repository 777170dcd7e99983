"""Independent sets, and graphs as they are read."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError
from trace_bench.suites.llm4ad import graphs

GetTask = Callable[[str], Task]
SET = "llm4ad:optimization/co_bench/maximal_independent_set_co_bench"


def graph(n: int, edges: list[tuple[int, int]], largest: int | None = None) -> dict[str, Any]:
    return {"n": n, "edges": np.array(edges, dtype=np.int64).reshape(-1, 2), "largest": largest}


def largest_set(one: Task, small: dict[str, Any]) -> int:
    """By trying all."""
    n = small["n"]
    for size in range(n, 0, -1):
        if any(not one.broken(small, list(nodes)) for nodes in combinations(range(n), size)):
            return size
    return 0


@pytest.mark.parametrize("seed", range(8))
def test_no_set_is_larger_than_the_largest_of_all_and_the_reference_finds_it(seed: int, task: GetTask) -> None:
    one = task(SET)
    small = one.instance(seed, problem_size=12)
    best = largest_set(one, small)
    assert small["largest"] in (None, best), "what is said to be the largest set of a planted graph is that"
    bound = one.judge.best([small])
    assert bound is not None and best <= bound
    assert one.play(one.program("reference"), small) == best


def test_both_kinds_of_graphs_are_drawn_and_cliques_have_as_many_nodes_as_the_statement_says(task: GetTask) -> None:
    drawn = [task(SET).instance(seed) for seed in range(12)]
    planted = [made for made in drawn if made["largest"] is not None]
    assert 0 < len(planted) < len(drawn)
    for made in planted:
        assert made["n"] == made["largest"] * round(made["largest"] ** 0.8) <= 800
        assert task(SET).judge.best([made]) == made["largest"]
    assert all(400 <= made["n"] <= 800 for made in drawn if made["largest"] is None)
    assert all((made["edges"][:, 0] < made["edges"][:, 1]).all() for made in drawn)


def test_each_edge_within_the_set_is_named(task: GetTask) -> None:
    one = task(SET)
    path = graph(4, [(0, 1), (1, 2), (2, 3)])
    assert one.broken(path, [3, 1]) == one.broken(path, []) == []
    assert one.broken(path, [2, 0, 1]) == [
        "nodes 0 and 1 are both in the set and are joined by an edge",
        "nodes 1 and 2 are both in the set and are joined by an edge",
    ]
    assert one.verdict(path, [0, 3]).score == 2 and one.verdict(path, []).score == 0 == one.judge.worst([path])
    for bad, says in (
        ([0, 4], "must be within 0 .. 3"),
        ([-1], "must be within 0 .. 3"),
        ([0, 2, 0], "names 0 twice"),
        ([0.0], "must be an int, not the number 0.0"),
        ([True], "must be an int, not True"),
        ([0, 1, 2, 3, 0], "at most 4 entries, not 5"),
        ({0, 2}, "must be a list, not a value of type set"),
        (None, "must be a list, not None"),
    ):
        assert says in one.refusal(path, lambda *_, bad=bad: bad)  # type: ignore[misc]


@given(seed=st.integers(0, 2**32))
def test_other_names_for_nodes_change_nothing_and_further_edges_only_forbid(seed: int) -> None:
    one = task_of(SET)
    instance = one.instance(seed, problem_size=30)
    nodes = one.module.answer(one.program("template"), instance)
    names = np.random.default_rng(seed).permutation(instance["n"])
    renamed = instance | {"edges": np.sort(names[instance["edges"]], axis=1)}
    moved = [int(names[node]) for node in nodes]
    assert one.verdict(renamed, moved).score == one.verdict(instance, nodes).score
    more = instance | {"edges": np.vstack([instance["edges"], [[nodes[0], nodes[-1]]]])}
    assert len(nodes) < 2 or one.broken(more, nodes)
    assert len(nodes) <= graphs.clique_cover(instance["n"], instance["edges"]) <= instance["n"]


def test_a_cover_by_cliques_is_exact_where_the_graph_is_made_of_cliques() -> None:
    near = np.kron(np.eye(4, dtype=bool), np.ones((3, 3), dtype=bool)) & ~np.eye(12, dtype=bool)
    none = np.empty((0, 2), dtype=np.int64)
    assert graphs.clique_cover(12, np.argwhere(np.triu(near))) == 4
    assert graphs.clique_cover(5, none) == 5
    leaves, clique = [(0, a) for a in (1, 2, 3)], list(combinations(range(4, 8), 2))
    made = graph(8, leaves + clique + [(a, b) for a in (1, 2, 3) for b in range(4, 8)])
    assert graphs.clique_cover(8, made["edges"]) == 3, "nodes 1, 2, 3 are independent; no star is a clique"
    assert graphs.clique_cover(0, none) == 0


def test_neighbours_of_a_node_are_those_that_it_is_joined_with() -> None:
    edges = np.array([[0, 1], [1, 3]])
    assert [row.tolist() for row in graphs.neighbours(5, edges)] == [[1], [0, 3], [], [1], []]
    assert graphs.neighbours(0, edges[:0]) == []


def test_a_large_graph_and_a_long_answer_are_judged_in_no_time(task: GetTask) -> None:
    one, n = task(SET), graphs.MOST_NODES
    path = {"n": n, "edges": np.stack([np.arange(n - 1), np.arange(1, n)], axis=1), "largest": None}
    begin = process_time()
    assert one.verdict(path, list(range(0, n, 2))).bound == n / 2
    assert "names 4998 twice" in one.refusal(path, lambda n, edges: [*range(n - 1), n - 2])
    assert process_time() - begin < 1.5


@pytest.mark.parametrize(
    ("text", "n", "edges"),
    [
        ("c a path\np edge 4 3\ne 1 2\ne 3 2\ne 2 1\n", 4, [[0, 1], [1, 2]]),
        ("p col 2 1\ne 1 2\n", 2, [[0, 1]]),
        ("# nodes from 0\n0 1\n2 1\n\n3\n", 4, [[0, 1], [1, 2]]),
        ("1 2\n3 2 % nodes from 1\n", 3, [[0, 1], [1, 2]]),
    ],
)
def test_graphs_are_read_from_both_formats(text: str, n: int, edges: list[list[int]], task: GetTask) -> None:
    (made,) = task(SET).module.read(text, "a.mis")
    assert (made["n"], made["edges"].tolist(), made["largest"]) == (n, edges, None)
    assert task(SET).play(task(SET).program("reference"), made) > 0


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has no edges"),
        ("0 1 5\n", "line 1: an edge is two numbers, not 3 words"),
        ("0 1\n\n1 1\n", "line 3: an edge joins a node with itself"),
        ("0 x\n", "line 1: a node must be a whole number"),
        ("0 -1\n", "line 1: a node must be a whole number"),
        ("0 99999999999999999999\n", "line 1: a node must be a whole number"),
        ("p edge 2 1\ne 1 3\n", "line 2: a node must be a whole number within 1 .. 2"),
        ("p edge 2 1\n1 2\n", "line 2: must be 'e u v'"),
        ("c x\np 2 1\n", "line 2: must be 'p edge n m'"),
        ("e 1 2\np edge 2 1\n", "line 1: must be 'p edge n m'"),
        ("\x80\x04\x95(K\n", "line 1: a node must be a whole number"),
    ],
)
def test_a_file_of_another_format_such_as_a_pickle_is_refused(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(SET).module.read(text, "a.mis")
