"""Container loading, with and without limits on what boxes bear."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
Row = tuple[int, int, int, int, int, int, int]
PLAIN = "llm4ad:optimization/co_bench/container_loading_co_bench"
WEIGHED = "llm4ad:optimization/co_bench/container_loading_with_weight_restrictions_co_bench"


def cargo(
    container: tuple[int, int, int],
    boxes: list[tuple[tuple[int, int, int], tuple[int, int, int], int]],
    weights: list[float] | None = None,
    strengths: list[tuple[float, float, float]] | None = None,
) -> dict[str, Any]:
    """An instance of boxes (dimensions, which may point upwards, number)."""
    return {
        "container": list(container),
        "sizes": np.array([b[0] for b in boxes], dtype=np.int64),
        "vertical": np.array([b[1] for b in boxes], dtype=bool),
        "counts": np.array([b[2] for b in boxes], dtype=np.int64),
        "weights": np.array(weights or [1.0] * len(boxes), dtype=float),
        "strengths": np.array(strengths or [(9.0, 9.0, 9.0)] * len(boxes), dtype=float),
    }


def rows(*placed: Row) -> np.ndarray:
    return np.array(placed, dtype=np.int64).reshape(-1, 7)


def stands(instance: dict[str, Any], kind: int) -> set[tuple[int, ...]]:
    size, up = instance["sizes"][kind].tolist(), instance["vertical"][kind].tolist()
    return {tuple(size[k] for k in order) for order in permutations(range(3)) if up[order[2]]}


def loadings(instance: dict[str, Any]) -> Iterator[list[Row]]:
    """Every way to load some of the boxes of a tiny container."""
    pieces = [kind for kind, number in enumerate(instance["counts"].tolist()) for _ in range(number)]
    sides = instance["container"]

    def cells(row: Row) -> set[tuple[int, int, int]]:
        return set(product(*(range(row[1 + k], row[1 + k] + row[4 + k]) for k in range(3))))

    def extended(at: int, taken: set[tuple[int, int, int]], placed: list[Row]) -> Iterator[list[Row]]:
        if at == len(pieces):
            yield placed
            return
        yield from extended(at + 1, taken, placed)
        for stand in stands(instance, pieces[at]):
            for place in product(*(range(side - d + 1) for side, d in zip(sides, stand, strict=True))):
                row = (pieces[at], *place, *stand)
                if not cells(row) & taken:
                    yield from extended(at + 1, taken | cells(row), [*placed, row])

    yield from extended(0, set(), [])


def bears_all(instance: dict[str, Any], placed: list[Row]) -> bool:
    """Support and loads by exact fractions, box by box from the top."""
    resting = [Fraction(0)] * len(placed)
    for i in sorted(range(len(placed)), key=lambda i: -placed[i][3]):
        kind, x, y, z, dx, dy, _ = placed[i]
        if z == 0:
            continue
        touched = 0
        for j, (_, a, b, c, da, db, dc) in enumerate(placed):
            area = max(0, min(x + dx, a + da) - max(x, a)) * max(0, min(y + dy, b + db) - max(y, b))
            if c + dc == z and area:
                touched += area
                resting[j] += (resting[i] + Fraction(float(instance["weights"][kind]))) * Fraction(area, dx * dy)
        if touched < dx * dy:
            return False
    for (kind, _, _, _, dx, dy, dz), load in zip(placed, resting, strict=True):
        able = [
            float(s)
            for s, d, up in zip(
                instance["strengths"][kind], instance["sizes"][kind], instance["vertical"][kind], strict=True
            )
            if d == dz and up
        ]
        if load > Fraction(max(able)) * dx * dy:
            return False
    return True


TINY = [
    cargo((2, 2, 2), [((2, 1, 1), (1, 1, 0), 2), ((1, 1, 1), (1, 1, 1), 1)], [2.0, 1.0], [(1, 0.5, 0), (1, 2, 0)]),
    cargo((3, 2, 2), [((2, 2, 1), (0, 0, 1), 2), ((1, 1, 2), (0, 1, 1), 1)], [4.0, 3.0], [(1, 1, 1), (1, 1, 1)]),
    cargo((3, 1, 3), [((2, 1, 1), (1, 0, 0), 1), ((3, 1, 1), (0, 1, 1), 2)], [2.0, 3.0], [(0, 0, 0), (1, 0.5, 0.9)]),
]


@pytest.mark.parametrize("made", TINY)
def test_every_loading_of_a_tiny_container_is_judged_right_and_none_beats_the_bound(
    made: dict[str, Any], task: GetTask
) -> None:
    plain, weighed = task(PLAIN), task(WEIGHED)
    full = float(np.prod(made["container"]))
    best = [0.0, 0.0]
    for placed in loadings(made):
        array = rows(*placed)
        share = sum(dx * dy * dz for *_, dx, dy, dz in placed) / full
        assert plain.broken(made, array) == []
        assert plain.verdict(made, array).score == pytest.approx(share)
        bearing = bears_all(made, placed)
        assert (weighed.broken(made, array) == []) == bearing, placed
        best = [max(best[0], share), max(best[1], share * bearing)]
    assert 0 < best[1] <= best[0] <= plain.judge.best([made]) + 1e-12  # type: ignore[operator]
    assert plain.judge.worst([made]) == weighed.judge.worst([made]) == 0
    assert 0 < plain.play(plain.program("reference"), made) <= best[0] + 1e-12
    assert 0 < weighed.play(weighed.program("reference"), made) <= best[1] + 1e-12


@pytest.mark.parametrize("name", [PLAIN, WEIGHED])
def test_each_broken_rule_of_a_container_is_named(name: str, task: GetTask) -> None:
    one = task(name)
    made = cargo((10, 6, 5), [((4, 3, 2), (0, 1, 1), 2), ((2, 2, 2), (1, 1, 1), 9)])
    assert one.broken(made, rows((0, 0, 0, 0, 4, 3, 2), (0, 4, 0, 0, 2, 4, 3), (1, 6, 0, 0, 2, 2, 2))) == []
    assert one.broken(made, rows((0, 0, 0, 0, 3, 2, 4))) == [
        "box 0 (type 0 at 0, 0, 0) is placed as 3 x 2 x 4, which is no orientation of 4 x 3 x 2 with 3 or 2 upright"
    ]
    assert "is placed as 4 x 3 x 3" in one.broken(made, rows((0, 0, 0, 0, 4, 3, 3)))[0]
    assert one.broken(made, rows((1, 9, 0, 0, 2, 2, 2))) == [
        "box 0 (type 1 at 9, 0, 0) reaches from 9 to 11 along x, and the container from 0 to 10"
    ]
    assert "from 4 to 6 along z, and the container from 0 to 5" in one.broken(made, rows((1, 0, 0, 4, 2, 2, 2)))[0]
    assert one.broken(made, rows((1, 0, 0, 0, 2, 2, 2), (0, 1, 1, 0, 4, 3, 2))) == [
        "box 0 (type 1 at 0, 0, 0) and box 1 (type 0 at 1, 1, 0) overlap by 1 x 1 x 2"
    ]
    assert one.broken(made | {"counts": np.array([2, 0])}, rows((1, 0, 0, 0, 2, 2, 2))) == [
        "box type 1 is placed 1 times, and there are 0 of it"
    ]


@pytest.mark.parametrize("name", [PLAIN, WEIGHED])
@pytest.mark.parametrize(
    ("returned", "says"),
    [
        (None, "the placements must be a list"),
        ([(0, 0, 0, 0, 4, 3)], "must have 7 entries, not 6"),
        ([(2, 0, 0, 0, 4, 3, 2)], "the box type of the placements.0. must be within 0 .. 1"),
        ([(0, 0, 0, 0, 4, 0, 2)], "dy of the placements.0. must be within 1"),
        ([(0, 0, 0, 0, 4, 3, 2.0)], "dz of the placements.0. must be an int"),
        ([(0, 0, 0, 0, 4, 3, 2)] * 12, "at most 11 entries"),
        (np.zeros((1, 7)), "must be an int"),
    ],
)
def test_loadings_of_other_types_are_refused(name: str, returned: object, says: str, task: GetTask) -> None:
    made = cargo((10, 6, 5), [((4, 3, 2), (0, 1, 1), 2), ((2, 2, 2), (1, 1, 1), 9)])
    assert re.search(says, task(name).refusal(made, lambda *given: returned))


def test_what_hangs_over_or_bears_too_much_is_named(task: GetTask) -> None:
    one = task(WEIGHED)
    made = cargo((4, 4, 9), [((2, 2, 2), (0, 0, 1), 4), ((4, 2, 1), (0, 0, 1), 2)], [8.0, 6.0], [(0, 0, 2), (0, 0, 1)])
    low = ((0, 0, 0, 0, 2, 2, 2), (0, 2, 0, 0, 2, 2, 2))
    table = (*low, (1, 0, 0, 2, 4, 2, 1))
    assert one.broken(made, rows(*table)) == []
    assert task(PLAIN).broken(made, rows(low[0], table[2])) == []
    assert one.broken(made, rows(low[0], table[2])) == [
        "box 1 (type 1 at 0, 0, 2) rests on other boxes with 4 of its base of 8 only"
    ]
    assert "with 0 of its base of 4 only" in one.broken(made, rows((0, 0, 0, 3, 2, 2, 2)))[0]
    on_top = (*table, (0, 0, 0, 3, 2, 2, 2))  # bears 8 of the table's 8; 14 spread over both boxes below, 7 of 8 each
    assert one.broken(made, rows(*on_top)) == []
    assert one.broken(made | {"weights": np.array([8.0 + 1e-6, 6.0])}, rows(*on_top)) == [
        "box 2 (type 1 at 0, 0, 2) bears 8.00 kg and can bear 8.00 kg as it stands"
    ]
    heavier = made | {"strengths": np.array([(0, 0, 1.7), (0, 0, 1)])}
    assert one.broken(heavier, rows(*on_top)) == [
        f"box {i} (type 0 at {2 * i}, 0, 0) bears 7.00 kg and can bear 6.80 kg as it stands" for i in (0, 1)
    ]


def test_loads_are_shared_by_the_areas_of_contact_and_go_down_through_all_layers(task: GetTask) -> None:
    made = cargo(
        (4, 1, 9),
        [((3, 1, 1), (0, 0, 1), 1), ((1, 1, 1), (0, 0, 1), 1), ((4, 1, 1), (0, 0, 1), 2)],
        [1.0, 1.0, 4.0],
        [(0, 0, 2), (0, 0, 2), (0, 0, 1)],
    )
    placed = rows((0, 0, 0, 0, 3, 1, 1), (1, 3, 0, 0, 1, 1, 1), (2, 0, 0, 1, 4, 1, 1), (2, 0, 0, 2, 4, 1, 1))
    assert task(WEIGHED).broken(made, placed) == []  # 8 kg: 6 of 6 on the long box, 2 of 2 on the short one
    for weak, said in ((0, "box 0 (type 0 at 0, 0, 0) bears 6.00"), (1, "box 1 (type 1 at 3, 0, 0) bears 2.00")):
        strengths = made["strengths"].copy()
        strengths[weak] *= 0.99
        (sentence,) = task(WEIGHED).broken(made | {"strengths": strengths}, placed)
        assert sentence.startswith(said)


def test_strength_is_that_of_the_dimension_upright(task: GetTask) -> None:
    one = task(WEIGHED)
    made = cargo((4, 4, 9), [((2, 2, 1), (1, 1, 1), 1), ((1, 1, 1), (1, 1, 1), 1)], [1, 2], [(1, 1, 9), (9, 9, 9)])
    assert one.broken(made, rows((0, 0, 0, 0, 2, 2, 1), (1, 0, 0, 1, 1, 1, 1))) == []
    assert one.broken(made, rows((0, 0, 0, 0, 2, 1, 2), (1, 0, 0, 2, 1, 1, 1))) == []
    weak = made | {"strengths": np.array([(0.5, 0.9, 9), (9, 9, 9)])}
    lying = weak | {"vertical": np.array([(True, False, True), (True, True, True)])}
    assert "can bear 1.00" in one.broken(lying, rows((0, 0, 0, 0, 2, 1, 2), (1, 0, 0, 2, 1, 1, 1)))[0]
    assert "bears 2.00 kg and can bear 1.80" in one.broken(weak, rows((0, 0, 0, 0, 2, 1, 2), (1, 0, 0, 2, 1, 1, 1)))[0]


@given(seed=st.integers(0, 2**32), name=st.sampled_from([PLAIN, WEIGHED]))
def test_mirrored_scaled_and_renamed_containers_change_nothing(seed: int, name: str) -> None:
    one = task_of(name)
    made = one.instance(seed, n_items=4)
    placed = one.module.answer(one.program("template"), made)
    value = one.verdict(made, placed).score
    mirrored = placed.copy()
    mirrored[:, 1] = made["container"][0] - placed[:, 1] - placed[:, 4]
    assert one.verdict(made, mirrored[::-1]).score == value
    turned = made | {"container": [made["container"][k] for k in (1, 0, 2)]}
    assert one.verdict(turned, placed[:, [0, 2, 1, 3, 5, 4, 6]]).score == value
    larger = made | {"container": [3 * side for side in made["container"]], "sizes": 3 * made["sizes"]}
    tripled = placed.copy()
    tripled[:, 1:] *= 3
    assert one.verdict(larger, tripled).score == pytest.approx(value)
    assert one.judge.best([larger]) == pytest.approx(one.judge.best([made]))
    backwards = {key: made[key][::-1] for key in made if key != "container"}
    renamed = placed.copy()
    renamed[:, 0] = len(made["sizes"]) - 1 - placed[:, 0]
    assert one.verdict(made | backwards, renamed).score == value
    assert value <= one.judge.best([made])  # type: ignore[operator]


def test_cargo_is_drawn_as_the_field_does(task: GetTask) -> None:
    made = task(WEIGHED).instance(3, n_items=12)
    volume = int(made["sizes"].prod(axis=1) @ made["counts"])
    full = int(np.prod(made["container"]))
    assert made["container"] == [587, 233, 220] and full - 120 * 100 * 80 < volume <= full
    assert (np.diff(made["sizes"], axis=1) <= 0).all() and made["vertical"][:, 2].all()
    assert made["counts"].min() >= 1 and 6 <= len(made["counts"]) <= 12
    flat = made["sizes"][:, 0] * made["sizes"][:, 1]
    assert (made["strengths"][:, 2] * flat >= made["weights"] * 0.99).all()


def test_published_container_files_are_read(task: GetTask) -> None:
    plain, weighed = task(PLAIN), task(WEIGHED)
    text = (
        "2\n1 2502505\n587 233 220\n2\n1 108 0 76 0 30 1 40\n2 110 0 43 1 25 1 33\n2 77\n50 50 50\n1\n1 9 1 8 1 7 1 6\n"
    )
    first, second = plain.module.read(text, "thpack1.txt")
    assert first["container"] == [587, 233, 220] and first["sizes"].tolist() == [[108, 76, 30], [110, 43, 25]]
    assert first["vertical"].tolist() == [[False, False, True], [False, True, True]]
    assert first["counts"].tolist() == [40, 33] and second["counts"].tolist() == [6]
    (unseeded,) = plain.module.read("1\n1\n50 50 50\n1\n1 9 1 8 1 7 1 6\n", "thpack8.txt")
    assert unseeded["sizes"].tolist() == [[9, 8, 7]]
    text = "587 233 220\n1 29.82\n78 1 49 1 47 1 9 179.63 0.19527 0.18970 0.14661\n"
    one, other = weighed.module.read(text + text, "wtpack1.txt")
    assert one["weights"].tolist() == [179.63] and other["strengths"].tolist() == [[0.19527, 0.1897, 0.14661]]
    assert len(weighed.module.read("2\n" + text + text, "wtpack1.txt")) == 2
    assert 0 < plain.play(plain.program("reference"), second) <= 1
    assert 0 < weighed.play(weighed.program("reference"), one) <= 1


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        (PLAIN, "", "ends where the number of test problems"),
        (PLAIN, "1\n1 5\n5 5 5\n1\n1 2 0 2 0 2 0 1", "box type 1 may not stand in any way"),
        (PLAIN, "1\n1 5\n5 5 5\n1\n1 2 2 2 0 2 0 1", "line 5: whether the length of box type 1 may be vertical"),
        (PLAIN, "1\n1 5\n5 5 5\n1\n1 2 1 2 0 2 0 1\n3", "line 6: '3' is more"),
        (WEIGHED, "\n", "ends where the container's dimensions are due"),
        (WEIGHED, "2\n5 5 5\n1 1\n2 1 2 1 2 1 1 1 1 1 1", "announces 2 problems and holds 1"),
        (WEIGHED, "5 5 5\n1 1\n2 1 2 1 2 1 1 0 1 1 1", "box type 1 has no weight"),
        (WEIGHED, "5 5 5\n1 1\n2 1 2 1 2 1 1 3 1 1", "ends where the load-bearing ability"),
    ],
)
def test_a_container_file_of_another_format_is_refused(name: str, text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError, match=says):
        task(name).module.read(text, "file.txt")
