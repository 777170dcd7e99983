"""Assortment: pieces from sheets of at most two types."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
Rows = list[tuple[int, int, int, int]]
ASSORTMENT = "llm4ad:optimization/co_bench/assortment_problem_co_bench"


def demand(stocks: list[tuple[int, int]], pieces: list[tuple[int, int, int, int]]) -> dict[str, Any]:
    """An instance of pieces (length, width, min, max)."""
    table = np.array(pieces, dtype=np.int64)
    return {
        "stocks": np.array(stocks, dtype=np.int64),
        "sizes": table[:, :2],
        "least": table[:, 2],
        "most": table[:, 3],
    }


def plan(*sheets: tuple[int, Rows]) -> list[tuple[int, np.ndarray]]:
    return [(stock, np.array(rows, dtype=np.int64).reshape(-1, 4)) for stock, rows in sheets]


def fillings(instance: dict[str, Any], stock: int) -> Iterator[Rows]:
    """Every way to put pieces on one sheet without overlap."""
    (length, width), sizes = instance["stocks"][stock].tolist(), instance["sizes"].tolist()
    cells = list(product(range(length), range(width)))

    def extended(at: int, taken: frozenset[tuple[int, int]], placed: Rows) -> Iterator[Rows]:
        if at == len(cells):
            yield placed
            return
        yield from extended(at + 1, taken, placed)
        x, y = cells[at]
        for kind, size in enumerate(sizes):
            for turned in range(1 if size[0] == size[1] else 2):
                p, q = size[::-1] if turned else size
                covered = {(x + i, y + j) for i in range(p) for j in range(q)}
                if x + p <= length and y + q <= width and not covered & taken:
                    yield from extended(at + 1, taken | covered, [*placed, (kind, x, y, turned)])

    yield from extended(0, frozenset(), [])


@pytest.mark.parametrize(
    "made",
    [
        demand([(3, 2), (2, 2)], [(2, 1, 1, 2), (2, 2, 0, 1)]),
        demand([(3, 2), (2, 3), (3, 1)], [(2, 2, 1, 2), (3, 1, 1, 1)]),
        demand([(3, 2), (4, 1)], [(2, 1, 0, 1), (2, 2, 1, 1)]),
    ],
)
def test_every_plan_of_one_or_two_sheets_is_judged_right_and_none_beats_the_bound(
    made: dict[str, Any], task: GetTask
) -> None:
    one = task(ASSORTMENT)
    sheets = [(stock, rows) for stock in range(len(made["stocks"])) for rows in fillings(made, stock)]
    best = 1.0
    plans = [(sheet,) for sheet in sheets] + [(a, b) for n, a in enumerate(sheets[::2]) for b in sheets[: n + 1 : 3]]
    for tried in plans:
        counts = [sum(row[0] == kind for _, rows in tried for row in rows) for kind in range(len(made["sizes"]))]
        due = all(a <= c <= b for a, c, b in zip(made["least"], counts, made["most"], strict=True))
        assert (one.broken(made, plan(*tried)) == []) == due, tried
        if due:
            area = sum(int(made["stocks"][stock].prod()) for stock, _ in tried)
            used = sum(c * int(size.prod()) for c, size in zip(counts, made["sizes"], strict=True))
            score = one.verdict(made, plan(*tried)).score
            assert score == pytest.approx(1 - used / area)
            best = min(best, score)
    assert one.judge.best([made]) <= best < one.judge.worst([made]) == 1  # type: ignore[operator]
    assert best <= one.play(one.program("reference"), made) + 1e-12


def test_the_bound_sees_sheets_that_cannot_be_filled(task: GetTask) -> None:
    assert task(ASSORTMENT).judge.best([demand([(10, 10)], [(6, 6, 1, 9)])]) == pytest.approx(0.64)
    assert task(ASSORTMENT).judge.best([demand([(10, 10), (6, 7)], [(6, 6, 1, 9)])]) == pytest.approx(1 / 7)


def test_each_broken_rule_of_a_plan_is_named(task: GetTask) -> None:
    one = task(ASSORTMENT)
    made = demand([(10, 6), (5, 5), (4, 4)], [(4, 3, 1, 3), (2, 2, 0, 1)])
    assert one.broken(made, plan((0, [(0, 0, 0, 0), (0, 7, 0, 1)]), (1, [(0, 0, 0, 0)]))) == []
    assert one.broken(made, plan()) == [
        "no sheet is cut, and one at least must be",
        "piece type 0 is cut 0 times, and at least 1 are asked for",
    ]
    assert one.broken(made, plan(*((stock, [(0, 0, 0, 0)]) for stock in range(3)))) == [
        "sheets of 3 types are used (0, 1, 2), and at most 2 may be"
    ]
    assert one.broken(made, plan((0, [(0, 7, 0, 0)]))) == [
        "placement 0 on sheet 0 (piece type 0) reaches from 7 to 11 along x, and the sheet of type 0 from 0 to 10"
    ]
    assert "from 2 to 6 along y, and the sheet of type 1" in one.broken(made, plan((1, [(0, 0, 2, 1)])))[0]
    assert one.broken(made, plan((0, [(0, 0, 0, 0), (1, 3, 2, 0)]))) == [
        "placement 0 on sheet 0 (piece type 0) and placement 1 on sheet 0 (piece type 1) overlap by 1 x 1"
    ]
    assert one.broken(made, plan((0, [(0, 0, 0, 0), (1, 4, 0, 0)]), (0, [(1, 0, 0, 0)]))) == [
        "piece type 1 is cut 2 times, and at most 1 are asked for"
    ]
    assert one.verdict(made, plan((1, [(0, 0, 0, 0)]))).score == pytest.approx(1 - 12 / 25)


@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (None, "the sheets must be a list"),
        ([0], "sheet 0 must be a list"),
        ([(0,)], "sheet 0 must have 2 entries, not 1"),
        ([(3, [])], "the type of sheet 0 must be within 0 .. 2"),
        ([(0.0, [])], "the type of sheet 0 must be an int"),
        ([(0, [(0, 0, 0)])], "the placements on sheet 0.0. must have 4 entries, not 3"),
        ([(0, [(0, 0, 0, 2)])], "turned of the placements on sheet 0.0. must be within 0 .. 1"),
        ([(0, [(2, 0, 0, 0)])], "the piece type of the placements on sheet 0.0. must be within 0 .. 1"),
        ([(0, [(0, 0, 0, 0)])] * 5, "the sheets must have at most 4 entries"),
        ([(0, [(0, 0, 0, 0)] * 5)], "at most 4 entries"),
        ([(0, [(0, 0, 0, 0)] * 3)] * 2, "sheets 0 .. 1 hold 6 pieces, and at most 4 may be cut in all"),
    ],
)
def test_plans_of_other_types_are_refused(returned: object, says: str, task: GetTask) -> None:
    made = demand([(10, 6), (5, 5), (4, 4)], [(4, 3, 1, 3), (2, 2, 0, 1)])
    assert re.search(says, task(ASSORTMENT).refusal(made, lambda *given: returned))


@given(seed=st.integers(0, 2**32))
def test_other_names_turned_and_scaled_sheets_change_nothing(seed: int) -> None:
    one = task_of(ASSORTMENT)
    made = one.instance(seed, n_items=5, n_stocks=3)
    found = one.module.answer(one.program("template"), made)
    value = one.verdict(made, found).score
    turned = made | {"stocks": made["stocks"][:, ::-1]}
    swapped = [(s, np.column_stack([r[:, 0], r[:, 2], r[:, 1], 1 - r[:, 3]])) for s, r in found]
    assert one.verdict(turned, swapped).score == value
    last = len(made["sizes"]) - 1
    backwards = {key: made[key][::-1] for key in made}
    renamed = [(2 - s, np.column_stack([last - r[:, 0], r[:, 1:]])) for s, r in found[::-1]]
    assert one.verdict(backwards, renamed).score == pytest.approx(value)
    larger = made | {"stocks": 3 * made["stocks"], "sizes": 3 * made["sizes"]}
    assert one.verdict(larger, [(s, r * [1, 3, 3, 1]) for s, r in found]).score == pytest.approx(value)
    bounds = [one.judge.best([i]) for i in (made, turned, backwards)]
    assert bounds == pytest.approx([bounds[0]] * 3) and bounds[0] <= value  # type: ignore[operator]
    assert one.play(one.program("reference"), made) <= value


def test_less_waste_is_a_greater_share_of_the_way_from_worst_to_bound(task: GetTask) -> None:
    one, made = task(ASSORTMENT), demand([(4, 4)], [(4, 2, 1, 2)])
    assert one.spec.score.direction == "minimize"
    half = one.verdict(made, plan((0, [(0, 0, 0, 0)])))
    full = one.verdict(made, plan((0, [(0, 0, 0, 0), (0, 0, 2, 0)])))
    assert (half.score, half.metrics["normalised"]) == (0.5, 0.5)
    assert (full.score, full.metrics["normalised"]) == (0.0, 1.0)


def test_a_published_assortment_file_is_read(task: GetTask) -> None:
    text = "2 1 0.5\n10 8 100\n4 3 1 3 12.5\n2 2 0 1 4\n"
    (made,) = task(ASSORTMENT).module.read(text, "assort1.txt")
    assert made["stocks"].tolist() == [[10, 8]] and made["sizes"].tolist() == [[4, 3], [2, 2]]
    assert made["least"].tolist() == [1, 0] and made["most"].tolist() == [3, 1]
    assert task(ASSORTMENT).play(task(ASSORTMENT).program("reference"), made) < 0.6


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("2", "ends where the number of stock rectangles"),
        ("1 1 1\n10 0 1", "length and width of stock rectangle 1 must be above zero"),
        ("1 1 1\n10 5 1\n2 2 3 1 1", "piece 1 is to be cut at least 3 and at most 1 times"),
        ("1 1 1\n10 5 1\n2 2 1 1.5 1", "line 3: the greatest number of piece 1 must be a whole number"),
        ("1 1 1\n10 5 1\n2 2 1 1 1\n0", "line 4: '0' is more"),
    ],
)
def test_an_assortment_file_of_another_format_is_refused(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(ASSORTMENT).module.read(text, "file.txt")
