"""Packing circles, and rectangles and squares, into a disc: by number and by area."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError
from trace_bench.suites.llm4ad.round_packing import TOLERANCE, Packing

GetTask = Callable[[str], Task]
BASE = "llm4ad:optimization/co_bench/packing_unequal_"
CIRCLES, CIRCLE_AREA = f"{BASE}circles_co_bench", f"{BASE}circles_area_co_bench"
BOXES, BOX_AREA = f"{BASE}rectangles_and_squares_co_bench", f"{BASE}rectangles_and_squares_area_co_bench"
ALL = [CIRCLES, CIRCLE_AREA, BOXES, BOX_AREA]


def circles(radius: float, *radii: float) -> dict[str, Any]:
    return {"radius": radius, "radii": np.array(radii)}


def boxes(radius: float, *sizes: tuple[float, float]) -> dict[str, Any]:
    return {"radius": radius, "sizes": np.array(sizes, dtype=float)}


def packing(*rows: tuple[float, ...]) -> Packing:
    """Of rows (item, x, y) or (item, x, y, turned)."""
    return Packing(
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1:3] for row in rows], dtype=float).reshape(-1, 2),
        np.array([len(row) > 3 and row[3] for row in rows], dtype=bool),
    )


def fits(instance: dict[str, Any], rows: list[tuple[float, ...]]) -> bool:
    """By exact squares of whole coordinates."""
    big = Fraction(instance["radius"])
    if "radii" in instance:
        parts = [(x, y, Fraction(instance["radii"][i])) for i, x, y in rows]
        inside = all(x * x + y * y <= (big - r) ** 2 and r <= big for x, y, r in parts)
        apart = [
            (p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2 >= (p[2] + q[2]) ** 2
            for n, p in enumerate(parts)
            for q in parts[:n]
        ]
        return inside and all(apart)
    spans = []
    for i, x, y, turned in rows:
        a, b = (Fraction(s) for s in instance["sizes"][i][:: -1 if turned else 1])
        spans.append((x - a / 2, y - b / 2, x + a / 2, y + b / 2))
    corners = [(x, y) for s in spans for x in (s[0], s[2]) for y in (s[1], s[3])]
    apart = [
        p[2] <= q[0] or q[2] <= p[0] or p[3] <= q[1] or q[3] <= p[1] for n, p in enumerate(spans) for q in spans[:n]
    ]
    return all(x * x + y * y <= big * big for x, y in corners) and all(apart)


@pytest.mark.parametrize("radius", [3, 4])
def test_every_packing_of_circles_on_a_grid_is_judged_right_and_none_beats_the_bounds(
    radius: int, task: GetTask
) -> None:
    made = circles(radius, 1, 1.5, 2)
    best = {CIRCLES: 0.0, CIRCLE_AREA: 0.0}
    places = list(product(range(-2, 3), repeat=2))
    for count in (1, 2, 3):
        for centres in product(places[:: 2 if count > 2 else 1], repeat=count):
            rows = [(i, *c) for i, c in enumerate(centres)]
            valid = fits(made, rows)  # type: ignore[arg-type]
            for name, best_now in best.items():
                assert (task(name).broken(made, packing(*rows)) == []) == valid, rows
                if valid:
                    best[name] = max(best_now, task(name).verdict(made, packing(*rows)).score)
    for name, value in best.items():
        assert 0 < value <= task(name).judge.best([made])  # type: ignore[operator]
        assert task(name).judge.worst([made]) == 0
        assert task(name).play(task(name).program("reference"), made) <= task(name).judge.best([made])  # type: ignore[operator]


@pytest.mark.parametrize("radius", [2, 2.5])
def test_every_packing_of_rectangles_on_a_grid_is_judged_right_and_none_beats_the_bounds(
    radius: float, task: GetTask
) -> None:
    made = boxes(radius, (1, 1), (2, 1), (3, 2))
    best = {BOXES: 0.0, BOX_AREA: 0.0}
    halves = [Fraction(k, 2) for k in range(-3, 4)]
    options = [(x, y, t) for x in halves for y in halves for t in (0, 1)]
    for count in (1, 2):
        for chosen in product(options[:: 1 if count == 1 else 3], repeat=count):
            rows = [(i, *c) for i, c in enumerate(chosen)]
            valid = fits(made, rows)  # type: ignore[arg-type]
            as_numbers = packing(*((i, float(x), float(y), t) for i, x, y, t in rows))
            assert (task(BOXES).broken(made, as_numbers) == []) == valid, rows
            if valid:
                for name in best:
                    best[name] = max(best[name], task(name).verdict(made, as_numbers).score)
    for name, value in best.items():
        assert 0 < value <= task(name).judge.best([made])  # type: ignore[operator]


def test_two_circles_and_one_rectangle_fit_exactly_where_geometry_says(task: GetTask) -> None:
    touching = [(-2.0, 0.0), (1.0, 0.0)]
    assert (
        task(CIRCLES).play(lambda *given: touching, circles(3, 1, 2))
        == 2
        == task(CIRCLES).judge.best([circles(3, 1, 2)])
    )
    assert task(CIRCLES).judge.best([circles(2.99, 1, 2)]) == 1
    assert "overlap by 0.02" in task(CIRCLES).refusal(circles(2.99, 1, 2), lambda *given: [(-1.99, 0), (0.99, 0)])
    assert task(BOXES).play(lambda *given: [(0, 0, 0)], boxes(2.5, (3, 4))) == 1
    assert task(BOXES).judge.best([boxes(2.49, (3, 4))]) == 0 == task(BOX_AREA).judge.best([boxes(2.49, (3, 4))])
    assert task(CIRCLE_AREA).judge.best([circles(3, 1, 4)]) == pytest.approx(math.pi)
    for name, made in ((CIRCLES, circles(3, 1, 2)), (BOXES, boxes(2.5, (3, 4)))):
        assert task(name).play(task(name).program("reference"), made) == task(name).judge.best([made])


def test_each_broken_rule_of_a_disc_is_named(task: GetTask) -> None:
    made = circles(4, 1, 2)
    assert task(CIRCLES).broken(made, packing((0, -2.5, 0), (1, 1, 0))) == []
    assert task(CIRCLES).broken(made, packing((0, 3.5, 0))) == [
        "circle 0 at (3.5, 0) reaches 0.5 beyond the container's radius 4"
    ]
    assert task(CIRCLE_AREA).broken(made, packing((0, -1.5, 0), (1, 1, 0))) == [
        "circle 0 at (-1.5, 0) and circle 1 at (1, 0) overlap by 0.5"
    ]
    assert task(CIRCLE_AREA).broken(made, packing((0, -3, 0), (0, 3, 0))) == ["circle 0 is packed 2 times"]
    box = boxes(4, (2, 1), (3, 2))
    assert task(BOXES).broken(box, packing((0, -1, 0, 0), (1, 1, 0, 1))) == []
    assert task(BOXES).broken(box, packing((0, -1, 0, 0), (1, 1, 0, 0))) == [
        "rectangle 0 at (-1, 0) and rectangle 1 at (1, 0) overlap by 0.5"
    ]
    assert "rectangle 1 at (0, 3) reaches 0.272 beyond" in task(BOX_AREA).broken(box, packing((1, 0, 3, 0)))[0]
    assert task(BOX_AREA).broken(box, packing((1, 0, 0, 0), (1, 0, 2, 0))) == ["rectangle 1 is packed 2 times"]


@pytest.mark.parametrize(
    ("name", "returned", "says"),
    [
        (CIRCLES, None, "the packing must be a list"),
        (CIRCLES, [(0, 0, 0)], "row 0 must have 2 entries, not 3"),
        (CIRCLES, [(0, 0)] * 4, "at most 3 entries"),
        (CIRCLES, [(0, float("nan"))], "y of row 0 must be finite"),
        (CIRCLES, [(0, 1e300)], "y of row 0 must be within"),
        (CIRCLES, [(None, 0)], "x of row 0 must be a number"),
        (CIRCLE_AREA, [(3, 0, 0)], "the item of row 0 must be within 0 .. 2"),
        (CIRCLE_AREA, [(-1, 0, 0)], "the item of row 0 must be within"),
        (CIRCLE_AREA, [(0.5, 0, 0)], "the item of row 0 must be a whole number"),
        (BOXES, [(0, 0)], "row 0 must have 3 entries, not 2"),
        (BOXES, [(0, 0, 2)], "turned in row 0 must be within 0 .. 1"),
        (BOXES, [(0, 0, 0.5)], "turned in row 0 must be a whole number"),
        (BOX_AREA, [(0, 0, 0)], "row 0 must have 4 entries"),
        (BOX_AREA, [("0", 0, 0, 0)], "the item of row 0 must be a number"),
    ],
)
def test_packings_of_other_types_are_refused(name: str, returned: object, says: str, task: GetTask) -> None:
    made = circles(4, 1, 1, 2) if "circles" in name else boxes(4, (1, 1), (2, 1), (2, 2))
    assert re.search(says, task(name).refusal(made, lambda *given: returned))


def test_arrays_and_truth_values_are_understood(task: GetTask) -> None:
    made = boxes(4, (1, 1), (2, 1), (2, 2))
    assert task(BOX_AREA).play(lambda *given: np.array([[2.0, 0, 0, 1], [1, 0, 2, 0]]), made) == 6
    assert task(BOXES).play(lambda *given: [(0, 0, True), (0, 1.0, np.bool_(False))], made) == 2
    assert [task(name).play(lambda *given: [], made) for name in (BOXES, BOX_AREA)] == [0, 0]


@pytest.mark.parametrize("name", [CIRCLE_AREA, BOX_AREA])
def test_a_tolerated_violation_gains_nothing(name: str, task: GetTask) -> None:
    one = task(name)
    made = circles(3, 1, 2) if name == CIRCLE_AREA else boxes(2.5, (3, 2), (3, 2))
    honest = [(0, -2.0, 0.0), (1, 1.0, 0.0)] if name == CIRCLE_AREA else [(0, 0, 1.0, 0), (1, 0, -1.0, 0)]
    valid = one.play(lambda *given: honest, made)
    assert valid == pytest.approx(5 * math.pi if name == CIRCLE_AREA else 12, abs=1e-12)
    shrunk = made | {"radius": made["radius"] * (1 - 0.9 * TOLERANCE)}
    assert valid - 1e-6 < one.play(lambda *given: honest, shrunk) < valid
    over = made | {"radius": made["radius"] * (1 - 3 * TOLERANCE)}
    assert "beyond the container" in one.refusal(over, lambda *given: honest)
    assert one.judge.best([shrunk]) >= one.play(lambda *given: honest, shrunk)  # type: ignore[operator]


@given(seed=st.integers(0, 2**32), name=st.sampled_from(ALL), angle=st.floats(0, 6))
def test_turned_mirrored_and_scaled_containers_change_scores_as_they_should(seed: int, name: str, angle: float) -> None:
    one = task_of(name)
    made = one.instance(seed, n_items=10)
    found = one.module.answer(one.program("template"), made)
    value, by_area = one.verdict(made, found).score, "area" in name
    assert value <= one.judge.best([made])  # type: ignore[operator]
    mirrored = Packing(found.items, found.centres * [-1, 1], found.turned)
    assert one.verdict(made, mirrored).score == pytest.approx(value)
    quarter = Packing(found.items, found.centres[:, ::-1], ~found.turned)
    assert one.verdict(made, quarter).score == pytest.approx(value)
    if "circles" in name:
        turn = np.array([[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]])
        assert one.verdict(made, Packing(found.items, found.centres @ turn, found.turned)).score == pytest.approx(value)
    larger = {key: 3 * part for key, part in made.items()}
    tripled = Packing(found.items, 3 * found.centres, found.turned)
    assert one.verdict(larger, tripled).score == pytest.approx(9 * value if by_area else value)
    assert one.judge.best([larger]) == pytest.approx((9 if by_area else 1) * one.judge.best([made]))  # type: ignore[operator]


@pytest.mark.parametrize("name", ALL)
def test_items_come_in_ascending_order_of_area(name: str, task: GetTask) -> None:
    for seed in range(4):
        made = task(name).instance(seed)
        area = made["radii"] ** 2 if "radii" in made else made["sizes"].prod(axis=1)
        assert (np.diff(area) >= 0).all() and 20 <= len(area) <= 40


@pytest.mark.parametrize(("name", "cells"), [(CIRCLES, 2), (BOXES, 3), (CIRCLE_AREA, 2), (BOX_AREA, 3)])
def test_small_items_in_a_large_container_cannot_lie_on_one_another(name: str, cells: int, task: GetTask) -> None:
    made = circles(1e6, 1e-4, 1e-4) if "circles" in name else boxes(1e6, (1e-4, 1e-4), (1e-4, 1e-4))
    rows = [[*([i] if "area" in name else []), *[0] * cells] for i in range(2)]
    assert any(
        "overlap by 0.000" in sentence
        for sentence in task(name).broken(made, task(name).module.answer(lambda *_: rows, made))
    )


def test_published_packing_files_are_read(task: GetTask) -> None:
    small, large = task(CIRCLES).module.read("3\n5 6.5\n3\n1\n2\n", "circles.txt")
    assert (small["radius"], large["radius"], small["radii"].tolist()) == (5.0, 6.5, [1.0, 2.0, 3.0])
    assert len(task(CIRCLE_AREA).module.read("1 2 0.5", "one.txt")) == 1
    squares = task(BOXES).module.read("2\n5 6 7\n3\n1.5\n", "square1.txt")
    assert [made["radius"] for made in squares] == [5, 6, 7]
    assert squares[0]["sizes"].tolist() == [[1.5, 1.5], [3.0, 3.0]]
    boxes_read = task(BOX_AREA).module.read("2\n5 6 7\n3 4\n1.5 2\n", "rect1.txt")
    assert boxes_read[2]["sizes"].tolist() == [[1.5, 2.0], [3.0, 4.0]]
    for name, made in ((CIRCLES, small), (BOXES, squares[0]), (BOX_AREA, boxes_read[0])):
        assert 0 < task(name).play(task(name).program("reference"), made) <= task(name).judge.best([made])  # type: ignore[operator]


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (CIRCLES, "0 1", "the number of circles must be above zero"),
        (CIRCLES, "3 1 2 3", "names 3 circles and has 0 more numbers"),
        (CIRCLES, "1\n5\n-1", "the radius of circle 1 must be within"),
        (CIRCLE_AREA, "1\nx 2", "line 2: radius 1 of the container must be a number"),
        (BOXES, "0 1 1 1", "the number of items must be above zero"),
        (BOXES, "2\n5 6 7\n3 4\n1.5", "ends where a side of item 2"),
        (BOX_AREA, "2\n5 6 7\n3 4\n1 2\n7", "line 5: '7' is more"),
    ],
)
def test_a_packing_file_of_another_format_is_refused(name: str, text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(name).module.read(text, "file.txt")
