"""Bin packing in the plane, step by step."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from tests.suites.llm4ad.test_llm4ad_packing_bins import packings

GetTask = Callable[[str], Task]
PLANE = "llm4ad:optimization/bp_2d_construct"
Sizes = list[tuple[int, int]]


def of(items: Sizes, bin_size: tuple[int, int] = (6, 6)) -> dict[str, Any]:
    return {"items": np.array(items), "bin": bin_size}


def cells(x: int, y: int, width: int, height: int) -> set[tuple[int, int]]:
    return {(a, b) for a in range(x, x + width) for b in range(y, y + height)}


def fit_together(items: Sizes, width: int, height: int) -> bool:
    """Whether one bin holds them, by all whole-number places of each."""

    def place(number: int, taken: set[tuple[int, int]]) -> bool:
        if number == len(items):
            return True
        w, h = items[number]
        return any(
            not (spot & taken) and place(number + 1, taken | spot)
            for x in range(width - w + 1)
            for y in range(height - h + 1)
            if (spot := cells(x, y, w, h))
        )

    return place(0, set())


def optimum(items: Sizes, width: int, height: int) -> int:
    """Over all ways to part the items."""
    best = len(items)
    for chosen in packings([1] * len(items), len(items)):
        bins = 1 + max(chosen)
        parts = [[item for item, where in zip(items, chosen, strict=True) if where == b] for b in range(bins)]
        if bins < best and all(fit_together(part, width, height) for part in parts):
            best = bins
    return best


def endings(one: Task, instance: dict[str, Any]) -> Iterator[int]:
    """Numbers of bins at the ends of all ways in which a rule can choose."""
    sizes = [tuple(size) for size in instance["items"].tolist()]
    seen = set()

    def go(left: tuple[int, ...], free: tuple[tuple[Any, ...], ...]) -> Iterator[int]:
        if (left, free) in seen:
            return
        seen.add((left, free))
        if not left:
            yield len(free)
        for item in left:
            rest = tuple(i for i in left if i != item)
            whole = ((0, 0, *instance["bin"]),)
            for number, places in enumerate((*free, whole)):
                for x, y, across, up in places:
                    if sizes[item][0] <= across and sizes[item][1] <= up:
                        after = tuple(one.module.without(list(places), (x, y, *sizes[item])))
                        yield from go(rest, (*free[:number], after, *free[number + 1 :]))

    return go(tuple(range(len(sizes))), ())


@pytest.mark.parametrize(
    "items",
    [
        [(3, 3), (3, 3), (3, 3), (3, 3)],
        [(4, 2), (2, 4), (4, 2), (2, 4)],  # around a hole in the middle: no straight cut parts them
        [(4, 4), (4, 4), (2, 6), (2, 2)],
        [(5, 1), (1, 5), (5, 5), (2, 2)],
        [(4, 4), (4, 4), (3, 1)],
        [(6, 3), (3, 3), (3, 4)],
    ],
)
def test_the_best_of_all_choices_is_the_optimum_and_the_bound_holds(items: Sizes, task: GetTask) -> None:
    one, instance = task(PLANE), of(items)
    ends = set(endings(one, instance))
    bound = one.judge.best([instance])
    assert min(ends) == optimum(items, 6, 6) and bound is not None and 1 <= bound <= min(ends)
    assert max(ends) <= one.judge.worst([instance]) == len(items)
    assert one.play(lambda items, free: (0, None), instance) == len(items)


@given(
    items=st.lists(st.tuples(st.integers(1, 4), st.integers(1, 5)), min_size=1, max_size=12), seed=st.integers(0, 2**32)
)
def test_free_rectangles_are_the_maximal_ones_and_nothing_overlaps(items: Sizes, seed: int) -> None:
    one, rng, instance = task_of(PLANE), np.random.default_rng(seed), of(items, (5, 6))
    shown: list[np.ndarray] = []

    def rule(left: np.ndarray, free: np.ndarray) -> tuple[int, int | None]:
        shown.append(free)
        item = int(rng.integers(len(left)))
        fits = np.flatnonzero((free[:, 3:] >= left[item]).all(axis=1))
        return item, int(rng.choice(fits)) if len(fits) and rng.random() < 0.9 else None

    placed = one.module.answer(rule, instance)
    assert sorted(p.item for p in placed) == list(range(len(items)))
    taken: dict[int, set[tuple[int, int]]] = {}
    for step, p in enumerate(placed):
        opened = 1 + max(taken, default=-1)
        expected = [(number, *place) for number in range(opened) for place in maximal(taken[number], 5, 6)]
        assert sorted(expected) == sorted(tuple(row) for row in shown[step].tolist())
        spot = cells(p.x, p.y, *items[p.item])
        assert spot <= cells(0, 0, 5, 6) and not spot & taken.setdefault(p.bin, set())
        taken[p.bin] |= spot
    assert one.module.score(instance, placed) == len(taken)
    assert one.judge.best([instance]) <= len(taken)  # type: ignore[operator]


def maximal(taken: set[tuple[int, int]], width: int, height: int) -> list[tuple[int, int, int, int]]:
    """Free rectangles that are in no larger one, by trying all."""
    free = {
        (x, y, w, h)
        for x in range(width)
        for y in range(height)
        for w in range(1, width - x + 1)
        for h in range(1, height - y + 1)
        if not cells(x, y, w, h) & taken
    }
    grown = lambda x, y, w, h: {(x - 1, y, w + 1, h), (x, y - 1, w, h + 1), (x, y, w + 1, h), (x, y, w, h + 1)}  # noqa: E731
    return [place for place in free if not grown(*place) & free]


@pytest.mark.parametrize(
    ("items", "bound"),
    [
        ([(4, 4)] * 3, 3),  # one in a bin, though area would allow two
        ([(4, 1)] * 5, 1),
        ([(6, 6), (6, 6)], 2),
        ([(4, 6), (2, 6)], 1),
        ([(3, 6), (3, 6), (3, 6)], 2),
        ([(4, 3)] * 4, 2),
        ([(1, 1)], 1),
    ],
)
def test_the_bound_sees_what_cannot_lie_side_by_side(items: Sizes, bound: int, task: GetTask) -> None:
    assert task(PLANE).judge.best([of(items)]) == bound


@given(seed=st.integers(0, 2**32), copies=st.integers(2, 7))
def test_other_units_and_exchanged_axes_change_nothing(seed: int, copies: int) -> None:
    one = task_of(PLANE)
    instance = one.instance(seed, n_items=15, bin_width=20, bin_height=30)
    scaled = {"items": instance["items"] * copies, "bin": tuple(side * copies for side in instance["bin"])}
    turned = {"items": instance["items"][::-1, ::-1], "bin": instance["bin"][::-1]}
    score, bound = one.play(one.program("template"), instance), one.judge.best([instance])
    assert one.play(one.program("template"), scaled) == score
    assert one.judge.best([scaled]) == one.judge.best([turned]) == bound <= score  # type: ignore[operator]


TWO = [(4, 2), (5, 6)]


@pytest.mark.parametrize(
    ("found", "says"),
    [
        ((2, None), "the item of step 1 must be within 0 .. 1, not the integer 2"),
        ((-1, None), "the item of step 1 must be within 0 .. 1"),
        ((0, 0), "step 1: there is no free rectangle 0, only 0, counted from 0"),
        ((0, -1), "step 1: there is no free rectangle -1"),
        ((0,), "the answer of step 1 must have 2 entries, not 1"),
        (0, "the answer of step 1 must be a list, not the integer 0"),
        (None, "the answer of step 1 must be a list, not None"),
        ((0.0, None), "the item of step 1 must be an int, not the number 0.0"),
        ((True, None), "the item of step 1 must be an int, not True"),
        ((0, 0.0), "the free rectangle of step 1 must be an int"),
        ((0, 10**400), "the free rectangle of step 1 must be within"),
        (((4, 2), None), "the item of step 1 must be an int, not a tuple of length 2"),
    ],
)
def test_what_is_no_choice_is_refused(found: Any, says: str, task: GetTask) -> None:
    assert says in task(PLANE).refusal(of(TWO), lambda items, free: found)


def test_an_item_too_wide_or_too_high_for_its_place_is_refused_with_both_sizes(task: GetTask) -> None:
    one = task(PLANE)
    rule = lambda items, free: (0, None if len(free) == 0 else 0)  # noqa: E731
    assert one.refusal(of(TWO), rule) == (
        "step 2: item 0 (5 x 6) does not fit into the free rectangle of 2 x 6 at (4, 0) of bin 0"
    )
    assert "item 0 (2 x 5) does not fit into the free rectangle of 6 x 4 at (0, 2) of bin 0" in one.refusal(
        of([(6, 2), (2, 5)]), rule
    )
    assert one.play(rule, of([(6, 2), (6, 4)])) == 1


def test_instances_are_what_the_statement_says(task: GetTask) -> None:
    items = np.concatenate([task(PLANE).instance(seed, bin_height=50)["items"] for seed in range(20)])
    assert (items.min(axis=0).tolist(), items.max(axis=0).tolist()) == ([10, 5], [60, 30])
    assert task(PLANE).instance(n_items=3, bin_width=2, bin_height=2)["items"].max() == 1
