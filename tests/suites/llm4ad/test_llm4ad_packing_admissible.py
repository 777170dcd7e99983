"""Admissible sets: the growth by orbits against the definition, vector by vector."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from itertools import combinations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.worker.problem import Problem, ProblemError

GetTask = Callable[[str], Task]
SET = "llm4ad:optimization/admissible_set"
Vector = tuple[int, ...]


def orbit(element: Iterable[int]) -> set[Vector]:
    """All turns of all blocks."""
    entries = tuple(element)
    blocks = [entries[i : i + 3] for i in range(0, len(entries), 3)]
    turned = [{block[k:] + block[:k] for k in range(3)} for block in blocks]
    return {sum(parts, ()) for parts in product(*turned)}


def admissible(vectors: Iterable[Vector]) -> bool:
    """By the definition."""
    found = sorted(vectors)
    places = [tuple(entry > 0 for entry in vector) for vector in found]
    if len(set(places)) < len(found) or len({sum(p) for p in places}) > 1:
        return False
    good = np.zeros((3, 3, 3), dtype=bool)
    for a, b, c in product(range(3), repeat=3):
        good[a, b, c] = sorted((a, b, c)) in ([0, 1, 2], [0, 0, 1], [0, 0, 2])
    rows = np.array(found)
    for i in range(len(rows)):
        rest = rows[i + 1 :]
        apart = good[rows[i], rest[:, None], rest[None, :]].any(axis=-1)
        if not (apart | np.eye(len(rest), dtype=bool)).all():
            return False
    return True


def vectors_of(task: Task, found: Any) -> list[set[Vector]]:
    kinds = np.array(task.module.KINDS)
    return [orbit(kinds[row].ravel().tolist()) for row in found.chosen]


def all_elements(n: int, w: int) -> list[Vector]:
    """The least vector of each orbit that is admissible by itself."""
    least = {min(orbit(v)) for v in product(range(3), repeat=n) if sum(e > 0 for e in v) == w}
    return sorted(element for element in least if admissible(orbit(element)))


@pytest.mark.parametrize(("n", "w"), [(3, 1), (3, 2), (3, 3), (6, 2), (6, 3), (6, 4)])
def test_elements_are_the_orbits_that_are_admissible_by_themselves(n: int, w: int, task: GetTask) -> None:
    one, seen = task(SET), list[Vector]()
    one.play(lambda el, n, w: seen.append(el) or 0.0, one.instance(dimension=n, weight=w))  # type: ignore[func-returns-value]
    assert seen == all_elements(n, w)


@pytest.mark.parametrize(("n", "w"), [(3, 1), (3, 2), (6, 2), (6, 5)])
def test_the_best_score_is_the_largest_symmetric_admissible_set(n: int, w: int, task: GetTask) -> None:
    one = task(SET)
    small = one.instance(dimension=n, weight=w)
    elements = all_elements(n, w)
    sets = [s for k in range(1, len(elements) + 1) for s in combinations(elements, k)]
    unions = {s: set().union(*map(orbit, s)) for s in sets}
    fine = {s: len(u) for s, u in unions.items() if admissible(u)}
    scores = {s: one.play(lambda el, n, w, s=s: float(el in s), small) for s in fine}
    bound = one.judge.best([small])
    assert bound == math.comb(n, w) and max(scores.values()) == max(fine.values()) <= bound
    assert all(scores[s] >= fine[s] for s in fine), "a set whose elements come first is contained in what grows"
    assert min(scores.values()) > one.judge.worst([small]) == 0


@given(seed=st.integers(0, 2**32), case=st.sampled_from([(6, 3), (6, 4), (9, 4), (9, 5), (9, 6)]))
def test_what_grows_is_admissible_and_nothing_can_be_added(seed: int, case: tuple[int, int]) -> None:
    one, rng = task_of(SET), np.random.default_rng(seed)
    instance = one.instance(dimension=case[0], weight=case[1])
    found = one.module.answer(lambda *_: rng.random(), instance)
    orbits = vectors_of(one, found)
    union = set().union(*orbits)
    assert admissible(union) and len(union) == one.module.score(instance, found) <= math.comb(*case)
    assert found.left[-1] == 0 and found.left == sorted(found.left, reverse=True)
    kinds = np.array(one.module.KINDS)
    for row in one.module.elements(*case)[rng.permutation(len(one.module.elements(*case)))[:6]]:
        more = orbit(kinds[row].ravel().tolist())
        assert more <= union or not admissible(union | more)


@given(seed=st.integers(0, 2**32), order=st.permutations(range(3)), swap=st.booleans())
def test_other_places_for_blocks_and_ones_and_twos_exchanged_change_nothing(
    seed: int, order: list[int], swap: bool
) -> None:
    one = task_of(SET)
    instance = one.instance(dimension=9, weight=5)
    rng = np.random.default_rng(seed)
    worth: dict[Vector, float] = {el: float(rng.random()) for el in map(tuple, listed(one, instance))}

    def moved(el: Vector, n: int, w: int) -> float:
        blocks = [el[3 * place : 3 * place + 3] for place in order]
        entries = [(0, 2, 1)[entry] if swap else entry for block in blocks for entry in block]
        return worth[min(orbit(entries))]

    assert one.play(moved, instance) == one.play(lambda el, n, w: worth[el], instance)


def listed(one: Task, instance: dict[str, Any]) -> list[list[int]]:
    rows = one.module.elements(instance["dimension"], instance["weight"])
    return [row.ravel().tolist() for row in np.array(one.module.KINDS)[rows]]


def test_the_start_and_the_full_sizes_are_the_published_ones(task: GetTask) -> None:
    one = task(SET)
    assert one.play(one.program("template"), one.instance()) == 1842 == 3003 - 1161
    assert one.judge.best([one.instance()]) == one.spec.score.best_known == 3003
    assert one.judge.best([one.instance(dimension=12, weight=7)]) == 792
    full = one.instance(dimension=9, weight=4)
    assert one.play(one.program("template"), full) == one.judge.best([full]) == 126
    assert len(one.module.elements(15, 10)) == 2432, "as the statement says"


def test_an_admissible_set_of_the_default_size_is_one_by_the_definition(task: GetTask) -> None:
    one = task(SET)
    found = one.module.answer(one.program("reference"), one.instance(dimension=12, weight=7))
    union = sorted(set().union(*vectors_of(one, found)))
    assert len(union) == one.module.score(one.instance(dimension=12, weight=7), found)
    rng = np.random.default_rng(1)
    assert all(admissible([union[i] for i in rng.permutation(len(union))[:60]]) for _ in range(3))


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (None, "the priority of element 0 must be a number, not None"),
        (math.nan, "the priority of element 0 must be finite, not nan"),
        (math.inf, "must be finite, not inf"),
        (True, "must be a number, not True"),
        ([1.0], "must be a number, not a list of length 1"),
        (np.zeros(3), "must be a number, not an array of shape (3,)"),
        (10**400, "must be a number that fits a float"),
        ("1", "must be a number, not the text '1'"),
    ],
)
def test_what_is_no_priority_is_refused(answer: Any, says: str, task: GetTask) -> None:
    one = task(SET)
    assert says in one.refusal(one.instance(dimension=6, weight=3), lambda el, n, w: answer)


def test_a_dimension_that_blocks_do_not_fill_is_refused_with_a_remedy(build_task: Callable[..., Problem]) -> None:
    with pytest.raises(ProblemError, match=r"dimension is 14, .*; give a multiple of 3"):
        build_task(SET, dimension=14)
    with pytest.raises(ProblemError, match="weight is 10, and a vector of dimension 9"):
        build_task(SET, dimension=9)
    with pytest.raises(ProblemError, match="num_train cannot be 2; give 0 or 1"):
        build_task(SET, num_train=2)
    assert build_task(SET, dimension=12, weight=7).metadata["best_known"] == 792
    assert build_task(SET, dimension=12, weight=6).metadata["best_known"] is None
