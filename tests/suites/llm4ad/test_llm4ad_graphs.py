"""Graph colouring."""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
COLOURING = "llm4ad:optimization/co_bench/graph_colouring_co_bench"


def graph(n: int, edges: list[tuple[int, int]]) -> dict[str, object]:
    return {"n": n, "edges": np.array(edges, dtype=np.int64).reshape(-1, 2)}


@pytest.mark.parametrize("seed", range(5))
def test_no_colouring_of_a_tiny_graph_beats_the_best_of_all_and_the_reference_finds_it(
    seed: int, task: GetTask
) -> None:
    one = task(COLOURING)
    small = one.instance(seed, problem_size=7)
    n = small["n"]
    valid = [list(c) for c in product(range(4), repeat=n) if not one.broken(small, list(c))]
    best = min((one.verdict(small, c).score for c in valid), default=5.0)
    assert one.judge.best([small]) is not None and one.judge.best([small]) <= best  # type: ignore[operator]
    if valid:
        assert one.play(one.program("reference"), small) == best


def test_each_edge_within_a_colour_is_named(task: GetTask) -> None:
    one = task(COLOURING)
    triangle = graph(3, [(0, 1), (0, 2), (1, 2)])
    assert one.broken(triangle, [0, 1, 2]) == []
    assert one.broken(triangle, [0, 1, 1]) == ["nodes 1 and 2 are joined by an edge and both have colour 1"]
    assert "3 rules" not in one.refusal(triangle, lambda n, edges: [0, 0, 0])
    assert one.refusal(triangle, lambda n, edges: [0, 1]) == "the colours must have 3 entries, not 2"
    assert "within 0 .. 2" in one.refusal(triangle, lambda n, edges: [0, 1, 3])


@given(seed=st.integers(0, 2**32), shuffle=st.randoms(use_true_random=False))
def test_other_names_for_nodes_and_colours_change_nothing(seed: int, shuffle: object) -> None:
    one = task_of(COLOURING)
    instance = one.instance(seed, problem_size=20)
    n, edges = instance["n"], instance["edges"]
    colours = one.module.answer(one.program("template"), instance)
    names = list(range(n))
    shuffle.shuffle(names)  # type: ignore[attr-defined]
    renamed = {"n": n, "edges": np.array(names)[edges]}
    moved = [0] * n
    for node, colour in enumerate(colours):
        moved[names[node]] = n - 1 - colour
    assert one.verdict(renamed, moved).score == one.verdict(instance, colours).score
    assert one.judge.best([instance]) <= len(set(colours))  # type: ignore[operator]


def test_the_bound_of_the_largest_graphs_takes_less_than_a_second(task: GetTask) -> None:
    one = task(COLOURING)
    largest = one.spec.raw["eval_kwargs"]["problem_size"]["maximum"]
    upper = np.triu(np.random.default_rng(1).random((largest, largest)) < 0.9, k=1)
    start = time.process_time()
    assert 40 < one.module.bound({"n": largest, "edges": np.argwhere(upper)}) < 120
    assert time.process_time() - start < 1


def test_published_files_are_read(task: GetTask) -> None:
    text = "c a triangle and a tail\np edge 4 5\ne 1 2\ne 2 3\ne 1 3\ne 3 4\ne 4 3\n"
    (made,) = task(COLOURING).module.read(text, "gcol1.txt")
    assert (made["n"], made["edges"].tolist()) == (4, [[0, 1], [0, 2], [1, 2], [2, 3]])


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "ends where the line 'p edge n m'"),
        ("p edge 2 1\ne 1 3\n", "line 2: has an edge 1 3; the ends must differ and lie within 1 .. 2"),
        ("c one\n\n c two\np edge 2 1\ne 1 3\n", "line 5: has an edge"),
        ("c one\nc two\np edge 3 2\ne 1 2\nc three\ne 1 x\n", "line 6: a node must be a number"),
        ("c one\np edge 3 1\nn 1 2\n", "line 3: must be 'e u v'"),
        ("p edge 2 1\ne 1 x\n", "line 2: a node must be a number"),
        ("p edge 2 1\ne 1 2\n7", "line 3: '7' is more"),
        ("p edge 2 9999999999\n", "the number of edges must be within"),
    ],
)
def test_a_file_of_another_format_is_refused_with_the_line(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(COLOURING).module.read(text, "gcol1.txt")
