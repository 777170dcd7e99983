"""Cutting pieces from one sheet: guillotine patterns with and without limits, and patterns of any kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError
from trace_bench.suites.llm4ad import cutting

GetTask = Callable[[str], Task]
Rows = list[tuple[int, int, int]]
FREE = "llm4ad:optimization/co_bench/unconstrained_guillotine_cutting_co_bench"
GUILLOTINE = "llm4ad:optimization/co_bench/constrained_guillotine_cutting_co_bench"
ANY = "llm4ad:optimization/co_bench/constrained_non_guillotine_cutting_co_bench"
PINWHEEL = [(0, 0, 0), (1, 2, 0), (0, 1, 2), (1, 0, 1), (2, 1, 1)]
"""Of pieces 2 x 1, 1 x 2 and 1 x 1 on a sheet of 3 x 3."""


def sheet(size: tuple[int, int], pieces: list[tuple[int, int, int]], least: int = 0, most: int = 99) -> dict[str, Any]:
    """An instance of pieces (length, width, value)."""
    given = np.array(pieces, dtype=np.int64)
    fill = np.ones(len(given), dtype=np.int64)
    return {
        "sheet": list(size),
        "sizes": given[:, :2],
        "values": given[:, 2],
        "least": least * fill,
        "most": most * fill,
    }


def tiny(seed: int) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    made = sheet((4, 3), [tuple(row) for row in rng.integers([1, 1, 1], [5, 4, 9], (2, 3)).tolist()])
    if made["sizes"].prod(axis=1).min() == 1:
        made["sizes"][0] = (2, 1)
        made["sizes"][1] = (1, 2)
    return made


def patterns(instance: dict[str, Any]) -> Iterator[Rows]:
    """Every way to put pieces on the sheet without overlap."""
    (length, width), sizes = instance["sheet"], instance["sizes"].tolist()
    cells = [(x, y) for x in range(length) for y in range(width)]

    def extended(at: int, taken: frozenset[tuple[int, int]], placed: Rows) -> Iterator[Rows]:
        if at == len(cells):
            yield placed
            return
        yield from extended(at + 1, taken, placed)
        x, y = cells[at]
        for kind, (across, up) in enumerate(sizes):
            covered = {(x + i, y + j) for i in range(across) for j in range(up)}
            if x + across <= length and y + up <= width and not covered & taken:
                yield from extended(at + 1, taken | covered, [*placed, (kind, x, y)])

    yield from extended(0, frozenset(), [])


def is_guillotine(boxes: list[tuple[int, int, int, int]], x: int, y: int, right: int, top: int) -> bool:
    """By trying every cut of the rectangle."""
    if len(boxes) < 2:
        return True
    for at in range(x + 1, right):
        if all(b[2] <= at or b[0] >= at for b in boxes):
            return is_guillotine([b for b in boxes if b[2] <= at], x, y, at, top) and is_guillotine(
                [b for b in boxes if b[0] >= at], at, y, right, top
            )
    for at in range(y + 1, top):
        if all(b[3] <= at or b[1] >= at for b in boxes):
            return is_guillotine([b for b in boxes if b[3] <= at], x, y, right, at) and is_guillotine(
                [b for b in boxes if b[1] >= at], x, at, right, top
            )
    return False


def boxes(instance: dict[str, Any], placed: Rows) -> list[tuple[int, int, int, int]]:
    sizes = instance["sizes"].tolist()
    return [(x, y, x + sizes[k][0], y + sizes[k][1]) for k, x, y in placed]


def array(placed: Rows) -> np.ndarray:
    return np.array(placed, dtype=np.int64).reshape(-1, 3)


@pytest.mark.parametrize("seed", range(4))
def test_every_pattern_of_a_tiny_sheet_is_judged_right_and_none_beats_the_bound(seed: int, task: GetTask) -> None:
    made = tiny(seed)
    best = {FREE: 0.0, GUILLOTINE: 0.0, ANY: 0.0}
    limited = made | {"most": np.array([2, 1])}
    required = limited | {"least": np.array([1, 0])}
    for placed in list(patterns(made))[::3]:
        fits = is_guillotine(boxes(made, placed), 0, 0, 4, 3)
        counts = [sum(k == kind for k, _, _ in placed) for kind in (0, 1)]
        few = counts[0] <= 2 and counts[1] <= 1
        rows, value = array(placed), float(sum(made["values"][k] for k, _, _ in placed))
        for name, instance, due in (
            (FREE, made, fits),
            (GUILLOTINE, limited, fits and few),
            (ANY, required, few and counts[0] >= 1),
        ):
            assert (not task(name).broken(instance, rows)) == due, (name, placed)
            if due:
                assert task(name).verdict(instance, rows).score == value
                best[name] = max(best[name], value)
    for name, instance in ((FREE, made), (GUILLOTINE, limited), (ANY, required)):
        assert best[name] <= task(name).judge.best([instance])  # type: ignore[operator]
        assert task(name).judge.worst([instance]) == 0


@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_without_limits_is_that_of_all_patterns_and_the_reference_finds_it(
    seed: int, task: GetTask
) -> None:
    one, made = task(FREE), tiny(seed + 10)
    best = max(
        sum(int(made["values"][k]) for k, _, _ in placed)
        for placed in patterns(made)
        if is_guillotine(boxes(made, placed), 0, 0, 4, 3)
    )
    assert one.judge.best([made]) == best == one.play(one.program("reference"), made)


def test_a_pinwheel_is_no_guillotine_pattern_and_a_part_of_it_is(task: GetTask) -> None:
    made = sheet((3, 3), [(2, 1, 2), (1, 2, 2), (1, 1, 1)])
    (said,) = task(GUILLOTINE).broken(made, array(PINWHEEL))
    assert "no straight edge-to-edge cut separates placement 0 (piece type 0 at 0, 0), placement 1" in said
    assert task(FREE).broken(made, array(PINWHEEL)) == [said]
    assert task(ANY).broken(made, array(PINWHEEL)) == []
    for left_out in range(4):
        assert task(GUILLOTINE).broken(made, array(PINWHEEL[:left_out] + PINWHEEL[left_out + 1 :])) == []
    beside = [*PINWHEEL, (2, 3, 0)]
    assert "and" not in task(GUILLOTINE).broken(made | {"sheet": [4, 3]}, array(beside))[0].split("separates")[1][:-40]


@pytest.mark.parametrize("name", [FREE, GUILLOTINE, ANY])
def test_each_broken_rule_of_a_sheet_is_named(name: str, task: GetTask) -> None:
    one, made = task(name), sheet((10, 6), [(4, 3, 5), (2, 2, 1)], most=2)
    assert one.broken(made, array([(0, 0, 0), (0, 4, 0), (1, 8, 0)])) == []
    assert one.broken(made, array([(0, 7, 0)])) == [
        "placement 0 (piece type 0 at 7, 0) reaches from 7 to 11 along x, and the sheet from 0 to 10"
    ]
    assert "from -1 to 2 along y, and the sheet from 0 to 6" in one.broken(made, array([(0, 0, -1)]))[0]
    assert one.broken(made, array([(0, 0, 0), (1, 3, 2)])) == [
        "placement 0 (piece type 0 at 0, 0) and placement 1 (piece type 1 at 3, 2) overlap by 1 x 1"
    ]
    assert one.broken(made, array([(1, 0, 0), (1, 2, 0), (1, 4, 0)])) == [
        "piece type 1 is cut 3 times, and at most 2 are asked for"
    ]
    assert one.broken(made | {"least": np.array([0, 1])}, array([(0, 0, 0)])) == [
        "piece type 1 is cut 0 times, and at least 1 are asked for"
    ]


@pytest.mark.parametrize("name", [FREE, GUILLOTINE, ANY])
@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (None, "the placements must be a list"),
        ([(0, 0)], r"placements\[0\] must have 3 entries, not 2"),
        ([(2, 0, 0)], r"the piece type of the placements\[0\] must be within 0 .. 1"),
        ([(0, 0.0, 0)], r"x of the placements\[0\] must be an int"),
        ([(True, 0, 0)], "must be an int, not True"),
        ([(0, 0, 10**30)], "an integer of 100 bits"),
        ([(0, 0, 0)] * 61, "at most 15 entries"),
        ({"placements": []}, "must be a list, not a dict"),
        (np.zeros((1, 3)), "must be an int"),
    ],
)
def test_answers_of_other_types_are_refused(name: str, returned: object, says: str, task: GetTask) -> None:
    made = sheet((10, 6), [(4, 3, 5), (2, 2, 1)])
    assert re.search(says, task(name).refusal(made, lambda *given: returned))
    assert task(name).play(lambda *given: np.array([[0, 0, 0], [1, 4, 0]]), made) == 6


@given(seed=st.integers(0, 2**32), name=st.sampled_from([FREE, GUILLOTINE, ANY]))
def test_turned_mirrored_and_renamed_sheets_change_nothing(seed: int, name: str) -> None:
    one = task_of(name)
    made = one.instance(seed, n_items=6, stock_size=40)
    placed = one.module.answer(one.program("template"), made)
    value = one.verdict(made, placed).score
    turned = made | {"sheet": made["sheet"][::-1], "sizes": made["sizes"][:, ::-1]}
    assert one.verdict(turned, placed[:, [0, 2, 1]]).score == value
    mirrored = placed.copy()
    mirrored[:, 1] = made["sheet"][0] - placed[:, 1] - made["sizes"][placed[:, 0], 0]
    assert one.verdict(made, mirrored[::-1]).score == value
    backwards = {key: made[key][::-1] for key in ("sizes", "values", "least", "most")}
    renamed = placed.copy()
    renamed[:, 0] = len(made["sizes"]) - 1 - placed[:, 0]
    assert one.verdict(made | backwards, renamed).score == value
    bounds = [one.judge.best([i]) for i in (made, turned, made | backwards)]
    assert bounds[0] == pytest.approx(bounds[1]) and bounds[0] == pytest.approx(bounds[2])
    assert one.judge.best([made | {"values": made["values"] * 3}]) >= 3 * value  # type: ignore[operator]


def test_the_bound_by_areas_sees_what_areas_alone_do_not() -> None:
    none, many = np.zeros(1, dtype=np.int64), np.full(1, 9)
    assert cutting.value_bound((10, 10), np.array([[6, 6]]), np.array([1.0]), none, many) == 1
    assert cutting.value_bound((10, 10), np.array([[4, 6]]), np.array([1.0]), none, many) == 2
    two = np.array([[6, 5], [5, 6]])
    assert cutting.value_bound((10, 10), two, np.array([1, 1]), np.zeros(2, int), np.full(2, 9)) <= 3
    assert cutting.value_bound((10, 10), np.array([[6, 6]]), np.array([1.0]), many, many) == np.inf


@given(seed=st.integers(0, 2**32))
def test_overlaps_are_those_of_cells(seed: int) -> None:
    rng = np.random.default_rng(seed)
    low = rng.integers(0, 6, (6, 2))
    high = low + rng.integers(1, 4, (6, 2))
    cells = [
        {(x, y) for x in range(a[0], b[0]) for y in range(a[1], b[1])}
        for a, b in zip(low.tolist(), high.tolist(), strict=True)
    ]
    due = {(i, j) for j in range(6) for i in range(j) if cells[i] & cells[j]}
    assert sorted(cutting.overlaps(low, high)) == sorted(due)


@given(lengths=st.lists(st.integers(1, 12), min_size=1, max_size=6), spare=st.integers(0, 3))
def test_lengths_that_fit_still_fit_under_each_dual_feasible_function(lengths: list[int], spare: int) -> None:
    limit = sum(lengths) + spare
    for scaled, capacity in cutting._scales(np.array(lengths), limit):
        assert scaled.sum() <= capacity and scaled.min() >= 0


def test_the_first_problem_of_christofides_and_whitlock_has_the_published_optimum(task: GetTask) -> None:
    one, free = task(GUILLOTINE), task(ANY)
    pieces = "8 4 2 66\n3 7 1 35\n8 2 3 24\n3 4 5 17\n3 3 2 11\n3 2 2 8\n2 1 1 2\n"
    (made,) = one.module.read("7\n15 10\n" + pieces, "cgcut1.txt")
    assert one.play(one.program("reference"), made) == 244 == free.play(free.program("reference"), made)
    assert 244 <= one.judge.best([made]) <= free.judge.best([made])  # type: ignore[operator]


def test_published_cutting_files_are_read(task: GetTask) -> None:
    (free,) = task(FREE).module.read("2\n250 240\n167 184 30728\n114 118 13452\n", "gcut1.txt")
    assert free["sheet"] == [250, 240] and free["sizes"].tolist() == [[167, 184], [114, 118]]
    assert free["values"].tolist() == [30728, 13452] and free["most"].tolist() == [1, 4]
    (few,) = task(GUILLOTINE).module.read("1\n15 10\n8 4 2 66\n", "cgcut1.txt")
    assert (few["most"].tolist(), few["values"].tolist()) == ([2], [66])
    first, second = task(ANY).module.read("2\n1\n10 10\n3 2 0 2 7\n2\n5 6\n1 2 1 3 4\n9 9 0 1 8\n", "ngcutap.txt")
    assert (first["least"].tolist(), first["most"].tolist(), first["values"].tolist()) == ([0], [2], [7])
    assert second["sheet"] == [5, 6] and second["least"].tolist() == [1, 0]
    for name, made in ((FREE, free), (GUILLOTINE, few), (ANY, second)):
        one = task(name)
        assert 0 < one.play(one.program("reference"), made) <= one.judge.best([made])  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (FREE, "", "ends where the number of pieces is expected"),
        (FREE, "0 5 5", "the number of pieces must be above zero"),
        (FREE, "1\n5 5\n1 x 3", "line 3: length and width of piece 1 must be a number"),
        (GUILLOTINE, "1\n5 0\n1 1 1 1", "length and width of the sheet must be above zero"),
        (GUILLOTINE, "1\n5 5\n1 1 1 1\n7", "line 4: '7' is more"),
        (ANY, "1\n1\n5 5\n1 1 3 2 1", "piece 1 is to be cut at least 3 and at most 2 times"),
        (ANY, "99999999", "the number of test problems must be within"),
        (ANY, "0", "the number of test problems must be above zero"),
        (ANY, "1\n1\n5 5\n6 1 1 2 1", "piece 1 is to be cut at least 1 times, and the sheet has room for 0"),
        (ANY, "1\n1\n5 5\n3 1 6 6 1", "piece 1 is to be cut at least 6 times, and the sheet has room for 5"),
        (ANY, "1\n2\n5 5\n3 4 1 1 1\n4 4 1 1 1", "must be cut have an area of 28, and the sheet 25"),
        (GUILLOTINE, "1 1e30 1e30 1 1 1 1", "length and width of the sheet must be at most 1000000, not 1e\\+30"),
        (FREE, "1 5 5 1e30 1 1", "length and width of piece 1 must be at most 1000000"),
    ],
)
def test_a_cutting_file_of_another_format_is_refused(name: str, text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(name).module.read(text, "file.txt")
