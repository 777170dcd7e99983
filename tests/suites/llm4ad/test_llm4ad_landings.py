"""Aircraft landing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import permutations, product
from time import process_time
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
LANDING = "llm4ad:optimization/co_bench/aircraft_landing_co_bench"


def plane(earliest: float, target: float, latest: float, early: float, late: float) -> dict[str, float]:
    return {"appearance": 0.0, "earliest": earliest, "target": target, "latest": latest,
            "penalty_early": early, "penalty_late": late}  # fmt: skip


def case(planes: list[dict[str, float]], separation: list[list[float]], runways: int = 1) -> dict[str, Any]:
    return {"planes": planes, "separation": separation, "runways": runways, "freeze": 10.0}


TWO = case([plane(0, 10, 50, 2, 3), plane(5, 12, 60, 4, 1)], [[99, 5], [7, 99]])


def program_of(instance: dict[str, Any], order: Sequence[int], on: Sequence[int]) -> tuple[float, list[float]]:
    """Cost and times of the best schedule with these runways and this order on each, as a linear program."""
    planes, separation = instance["planes"], instance["separation"]
    n = len(planes)
    rows, limits = [], []
    for i, one in enumerate(planes):
        for sign, column in ((-1.0, n + i), (1.0, 2 * n + i)):
            row = np.zeros(3 * n)
            row[i], row[column] = sign, -1.0
            rows.append(row)
            limits.append(sign * one["target"])
    for place, j in enumerate(order):
        for i in order[:place]:
            if on[i] == on[j]:
                row = np.zeros(3 * n)
                row[i], row[j] = 1.0, -1.0
                rows.append(row)
                limits.append(-separation[i][j])
    costs = [0.0] * n + [p["penalty_early"] for p in planes] + [p["penalty_late"] for p in planes]
    windows = [(p["earliest"], p["latest"]) for p in planes] + [(0.0, None)] * (2 * n)
    found = linprog(costs, np.array(rows), limits, bounds=windows, method="highs")
    return (float(found.fun), found.x[:n].tolist()) if found.status == 0 else (math.inf, [])


@pytest.mark.parametrize(("seed", "runways", "size"), [(0, 1, 4), (1, 1, 4), (2, 2, 4), (3, 2, 3), (4, 3, 4)])
def test_no_schedule_beats_the_best_of_all_orders_and_the_reference_finds_it(
    seed: int, runways: int, size: int, task: GetTask
) -> None:
    one = task(LANDING)
    full = one.instance(seed, n_planes=20, n_runways=runways)
    places = range(0, size * 2, 2) if runways == 1 else range(size)
    small = case([full["planes"][i] for i in places],
                 [[full["separation"][i][j] for j in places] for i in places], runways)  # fmt: skip
    scores, seen = [], set()
    for on in product(range(runways), repeat=size):
        for order in permutations(range(size)):
            rows = tuple(sorted(tuple(i for i in order if on[i] == runway) for runway in range(runways)))
            if rows in seen:
                continue
            seen.add(rows)
            cost, times = program_of(small, order, on)
            if times:
                verdict = one.verdict(small, one.module.answer(lambda *_, t=times, on=on: said(t, on), small))
                assert verdict.score == pytest.approx(cost, abs=1e-6)
                scores.append(verdict.score)
    bound = one.judge.best([small])
    assert bound is not None and bound <= min(scores) and max(scores) <= one.judge.worst([small])
    assert min(scores) - 1e-9 <= one.play(one.program("reference"), small) <= 1.02 * min(scores) + 1e-9


def said(times: Sequence[float], on: Sequence[int]) -> dict[str, Any]:
    return {"landing_times": list(times), "runways": list(on)}


@given(seed=st.integers(0, 2**32), runways=st.integers(1, 4), share=st.floats(0, 1))
def test_normalised_is_within_0_and_1_and_grows_as_the_cost_falls(seed: int, runways: int, share: float) -> None:
    one = task_of(LANDING)
    full = one.instance(seed, n_planes=12, n_runways=runways)
    low, high = one.module.bound(full), one.module.worst(full)
    found = one.judge.normalised(full, low + share * (high - low))
    assert -1e-9 <= found <= 1 + 1e-9
    assert one.judge.normalised(full, low) == pytest.approx(1) and one.judge.normalised(full, high) == 0
    assert found >= one.judge.normalised(full, low + min(1.0, share + 0.1) * (high - low))


def test_five_hundred_planes_are_judged_in_no_time(task: GetTask) -> None:
    one = task(LANDING)
    full = one.module.instance(np.random.default_rng(1), n_planes=900, n_runways=1)
    times, on = one.module.first_come(full)
    begin = process_time()
    verdict = one.verdict(full, ([round(t * 1000) for t in times], on))
    assert len(on) > 450 and 0 < verdict.metrics["normalised"] < 1
    assert process_time() - begin < 1


def test_the_bound_counts_no_plane_twice(task: GetTask) -> None:
    """One plane, ten early, makes way for two others at once."""
    one = task(LANDING)
    three = case([plane(0, 50, 99, 9, 9), plane(0, 50, 99, 1, 9), plane(0, 50, 99, 9, 9)],
                 [[0, 90, 0], [10, 0, 10], [0, 90, 0]])  # fmt: skip
    assert (
        one.verdict(three, ([50_000, 40_000, 50_000], [0, 0, 0])).score == 10 == pytest.approx(one.judge.best([three]))
    )


def test_penalties_worked_out_by_hand(task: GetTask) -> None:
    one = task(LANDING)
    verdict = one.verdict(TWO, ([8000, 14500], [0, 0]))
    assert verdict.score == 2 * 2 + 2.5 * 1
    assert (
        "1 planes land early and cost 4, 1 land late and cost 2.5. Plane 0 costs most, 4: it lands at 8"
        in verdict.remark
    )
    assert one.judge.best([TWO]) == pytest.approx(3 * 1), "plane 1 three late is the cheapest way to part them"
    assert one.verdict(TWO, ([10000, 15000], [0, 0])).score == 3


def test_a_plane_outside_its_window_is_named(task: GetTask) -> None:
    assert task(LANDING).broken(TWO, ([10000, 60001], [0, 0])) == [
        "plane 1 lands at 60.001, outside its window 5 .. 60"
    ]
    assert task(LANDING).broken(TWO, ([0, 5000], [0, 0])) == []


def test_planes_too_close_are_named_with_the_separation_of_their_order(task: GetTask) -> None:
    broken = task(LANDING).broken
    assert broken(TWO, ([10000, 14999], [0, 0])) == [
        "plane 1 lands on runway 0 at 14.999, 4.999 after plane 0; it must be 5"
    ]
    assert broken(TWO, ([18000, 12000], [0, 0])) == ["plane 0 lands on runway 0 at 18, 6 after plane 1; it must be 7"]
    assert broken(TWO, ([12000, 12000], [0, 0])) == ["plane 0 lands on runway 0 at 12, 0 after plane 1; it must be 7"]
    assert broken(TWO | {"runways": 2}, ([12000, 12000], [0, 1])) == []


def test_planes_that_are_no_neighbours_keep_apart_too(task: GetTask) -> None:
    three = case([plane(0, 5, 99, 1, 1)] * 3, [[0, 3, 15], [3, 0, 3], [3, 3, 0]])
    assert task(LANDING).broken(three, ([0, 3000, 6000], [0, 0, 0])) == [
        "plane 2 lands on runway 0 at 6, 6 after plane 0; it must be 15"
    ]


def test_the_rounding_of_a_time_gains_nothing(task: GetTask) -> None:
    """What is less than half a thousandth too close counts, and costs, as if it were not."""
    one = task(LANDING)
    assert (
        one.play(lambda *_: said([10, 14.9999], [0, 0]), TWO) == one.play(lambda *_: said([10, 15], [0, 0]), TWO) == 3
    )
    assert "4.999 after plane 0" in one.refusal(TWO, lambda *_: said([10, 14.9994], [0, 0]))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([10, 15], "the solution must be a dict with 'landing_times', 'runways'"),
        ({1: {"landing_time": 10, "runway": 1}}, "lacks the key 'landing_times'"),
        (said([10], [0, 0]), "landing_times must have 2 entries, not 1"),
        (said([10, math.nan], [0, 0]), "landing_times[1] must be finite, not nan"),
        (said([10, math.inf], [0, 0]), "landing_times[1] must be finite, not inf"),
        (said([10, 1e300], [0, 0]), "plane 1 lands at 61, outside its window"),
        (said([10, "15"], [0, 0]), "landing_times[1] must be a number"),
        (said([10, 15], [0, 1]), "runways[1] must be within 0 .. 0"),
        (said([10, 15], [0, False]), "runways[1] must be an int, not False"),
    ],
)
def test_what_is_no_landing_is_refused(given: Any, says: str, task: GetTask) -> None:
    assert says in task(LANDING).refusal(TWO, lambda *_: given)


@given(seed=st.integers(0, 2**32), shift=st.integers(0, 999), factor=st.integers(1, 9), shuffle=st.randoms())
def test_shifted_times_dearer_penalties_and_renamed_planes(seed: int, shift: int, factor: int, shuffle: Any) -> None:
    one = task_of(LANDING)
    full = one.instance(seed, n_planes=14)
    n = len(full["planes"])
    times, on = one.module.answer(one.program("template"), full)
    score, bound = one.verdict(full, (times, on)).score, one.judge.best([full])
    assert bound is not None and bound <= score
    names = list(range(n))
    shuffle.shuffle(names)
    changed = [
        {k: v * factor if "penalty" in k else v + shift for k, v in full["planes"][old].items()} for old in names
    ]
    other = full | {"planes": changed, "separation": [[full["separation"][i][j] for j in names] for i in names]}
    moved = [times[old] + 1000 * shift for old in names], [full["runways"] - 1 - on[old] for old in names]
    assert one.verdict(other, moved).score == pytest.approx(score * factor)


@pytest.mark.parametrize("seed", range(3))
def test_landing_in_the_order_of_the_targets_misses_no_window(seed: int, task: GetTask) -> None:
    one = task(LANDING)
    for runways in (0, 1, 3):
        full = one.instance(seed, n_planes=30, n_runways=runways)
        times, on = one.module.first_come(full)
        assert one.broken(full, ([round(t * 1000) for t in times], on)) == []
        s = np.array(full["separation"])
        assert (s[:, :, None] + s[None, :, :] >= s[:, None, :]).all(), "no plane in between is a short cut"


def test_the_first_published_instance_has_its_known_values(task: GetTask) -> None:
    """Ten planes of OR-Library: 700 with one runway, 90 with two, 0 with three."""
    first = [(54, 129, 155, 559), (120, 195, 258, 744), (14, 89, 98, 510), (21, 96, 106, 521), (35, 110, 123, 555),
             (45, 120, 135, 576), (49, 124, 138, 577), (51, 126, 140, 573), (60, 135, 150, 591),
             (85, 160, 180, 657)]  # fmt: skip
    text = "10 10\n"
    for i, times in enumerate(first):
        between = (99999 if i == j else 15 if (i < 2) != (j < 2) else 3 if i < 2 else 8 for j in range(10))
        text += " ".join(map(str, [*times, *([10.00, 10.00] if i < 2 else [30.00, 30.00]), *between])) + "\n"
    one = task(LANDING)
    for instance, best in zip(one.module.read(text, "airland1.txt"), (700, 90, 0), strict=True):
        assert one.play(one.program("reference"), instance) == pytest.approx(best)
        assert one.judge.best([instance]) <= best  # type: ignore[operator]


@pytest.mark.parametrize("runways", [1, 3])
def test_one_plane_lands_at_its_target(runways: int, task: GetTask) -> None:
    one = task(LANDING)
    tiny = one.instance(n_planes=1, n_runways=runways)
    assert {one.play(one.program(program), tiny) for program in ("template", "reference")} == {0.0}
    assert one.judge.best([tiny]) == 0 and one.verdict(tiny, ([_ticks(tiny)], [0])).metrics["normalised"] == 1


def _ticks(instance: dict[str, Any]) -> int:
    return round(instance["planes"][0]["target"] * 1000)


AIRLAND = "2 10\n54 129 155 559 10.00 30.00\n99999 3\n120 195 258 744 10 10\n3 99999\n"


def test_published_files_are_read_with_each_number_of_runways(task: GetTask) -> None:
    found = task(LANDING).module.read(AIRLAND, "airland1.txt")
    assert [one["runways"] for one in found] == [1, 2, 3]
    assert found[0]["planes"][0] == {"appearance": 54, "earliest": 129, "target": 155, "latest": 559,
                                     "penalty_early": 10, "penalty_late": 30}  # fmt: skip
    assert found[2]["separation"] == [[99999, 3], [3, 99999]]
    assert [len(task(LANDING).module.read(AIRLAND, f"airland{k}.txt")) for k in (7, 9, 13)] == [2, 4, 5]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (AIRLAND.replace("195 258", "258 195"), "plane, number 2, whose target is not between"),
        ("2 10\n1 2 3 4 5 6\n9 9\n", "ends where a number of a plane is expected"),
        ("1 10\n1 2 3 4 5 6\n9\n9\n", "line 4: '9' is more"),
        ("1 10\n1 2 3 4 -5 6\n9\n", "number 1, with a penalty below zero"),
        ("1 10\n1 2 x 4 5 6\n9\n", "line 2: a number of a plane must be a number"),
        ("0 10\n", "has no planes"),
        ("1 10\n1 2 2.0004 4 5 6\n9\n", "line 2: a number of a plane must be a multiple of 0.001"),
        ("1 10\n1 2 3 4 5 6\n9.00001\n", "line 3: a separation must be a multiple of 0.001"),
        ("1 10\n1 2 3 4 5 6\n1e9\n", "line 3: a separation must be a multiple of 0.001 within 1e+06 of 0"),
    ],
)
def test_a_file_of_another_format_is_refused(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError) as caught:
        task(LANDING).module.read(text, "airland1.txt")
    assert says in str(caught.value)
