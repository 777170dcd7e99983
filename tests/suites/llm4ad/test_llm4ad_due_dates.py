"""The hybrid reentrant shop, and one machine with a common due date."""

from __future__ import annotations

from collections.abc import Callable
from itertools import permutations, product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
HYBRID = "llm4ad:optimization/co_bench/hybrid_reentrant_shop_scheduling_co_bench"
DUE = "llm4ad:optimization/co_bench/common_due_date_scheduling_co_bench"
SMALL = {"n_machines": 2, "init_time": 2, "setup": [3, 1, 4], "processing": [5, 6, 2]}
JOBS = {"jobs": [(3, 1, 2), (2, 4, 5), (5, 2, 3)], "h": 0.6}


# -- hybrid reentrant shop


@pytest.mark.parametrize("seed", range(4))
def test_hybrid_the_reference_finds_the_best_of_all_choices(seed: int, task: GetTask) -> None:
    one = task(HYBRID)
    full = one.instance(seed, n_jobs=10, n_machines=2)
    small = full | {"setup": full["setup"][:5], "processing": full["processing"][:5]}
    choices = product(permutations(range(5)), product(range(2), repeat=5))
    scores = [one.verdict(small, (list(order), list(on))).score for order, on in choices]
    bound = one.judge.best([small])
    assert bound is not None and bound <= min(scores) and max(scores) <= one.judge.worst([small])
    assert one.play(one.program("reference"), small) == min(scores)


def test_hybrid_a_schedule_worked_out_by_hand(task: GetTask) -> None:
    """Job 1 is set up first (2 .. 3), then job 0 (3 .. 6) and job 2, initialized at 4 (6 .. 10). Machine 0 has jobs 0
    and 2 (6 .. 11, 11 .. 13), machine 1 has job 1 (3 .. 9)."""
    one = task(HYBRID)
    found = one.module.ends(SMALL, [1, 0, 2], [0, 1, 0])
    assert found == ([2, 2, 4], [6, 3, 10], [11, 9, 13])
    assert one.verdict(SMALL, ([1, 0, 2], [0, 1, 0])).score == 13
    assert "Job 2 on machine 0 ends last" in one.verdict(SMALL, ([1, 0, 2], [0, 1, 0])).remark


def test_hybrid_no_machine_does_two_things_at_once(task: GetTask) -> None:
    """The first processing waits until all jobs of the machine are initialized."""
    one = task(HYBRID)
    alone = {"n_machines": 1, "init_time": 10, "setup": [1, 1, 1], "processing": [1, 1, 1]}
    assert one.module.ends(alone, [0, 1, 2], [0, 0, 0]).main == [31, 32, 33]


def test_hybrid_the_assignment_counts(task: GetTask) -> None:
    one = task(HYBRID)
    assert one.verdict(SMALL, ([0, 1, 2], [0, 1, 0])).score < one.verdict(SMALL, ([0, 1, 2], [0, 0, 0])).score


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ([0, 1, 2], "the solution must be a dict with 'permutation', 'batch_assignment', not a list of length 3"),
        ({"permutation": [0, 1, 2]}, "lacks the key 'batch_assignment'"),
        ({"permutation": [0, 1, 1], "batch_assignment": [0, 1, 0]}, "names 1 twice"),
        ({"permutation": [1, 2, 3], "batch_assignment": [0, 1, 0]}, "within 0 .. 2, not the integer 3"),
        ({"permutation": [0, 1, 2], "batch_assignment": [0, 2, 0]}, "batch_assignment[1] must be within 0 .. 1"),
        ({"permutation": [0, 1, 2], "batch_assignment": [0, 1]}, "must have 3 entries, not 2"),
        ({"permutation": [0, 1, 2], "batch_assignment": [0, True, 0]}, "must be an int, not True"),
    ],
)
def test_hybrid_what_is_no_solution_is_refused(given: Any, says: str, task: GetTask) -> None:
    assert says in task(HYBRID).refusal(SMALL, lambda *_: given)


@given(seed=st.integers(0, 2**32), factor=st.integers(1, 50))
def test_hybrid_scaled_times_and_renamed_machines(seed: int, factor: int) -> None:
    one = task_of(HYBRID)
    shop = one.instance(seed, n_jobs=12)
    order, machine = one.module.answer(one.program("template"), shop)
    score = one.verdict(shop, (order, machine)).score
    scaled = {k: [t * factor for t in v] if isinstance(v, list) else v * factor for k, v in shop.items()}
    scaled["n_machines"] = shop["n_machines"]
    assert one.verdict(scaled, (order, machine)).score == score * factor
    assert one.verdict(shop, (order, [shop["n_machines"] - 1 - i for i in machine])).score == score


HRS = """Number of jobs: 3  Number of machines: 2
Initialization time: 2
Setup times: 3 1 4
Processing times: 5 6 2
"""


def test_hybrid_published_files_are_read(task: GetTask) -> None:
    assert task(HYBRID).module.read(HRS + "-----\n" + HRS, "hrs-3.txt") == [SMALL, SMALL]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "line 1: 'Number of jobs' must come first"),
        (HRS.replace("Setup times: 3 1 4\n", ""), "line 3: 'Setup times' is due, not 'Processing times'"),
        (HRS.replace("5 6 2", "5 6"), "ends where a processing time is due"),
        (HRS.replace("3 1 4", "3 1 x"), "line 3: a setup time must be a number"),
        (HRS.replace("3 1 4", "3 1 4 4"), "line 3: '4' is more than the format has"),
        (HRS.replace("machines: 2", "machines: 0"), "without jobs or machines"),
        (HRS[: HRS.index("Proc")], "ends where 'Processing times' is due"),
    ],
)
def test_hybrid_a_file_of_another_format_is_refused(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError) as caught:
        task(HYBRID).module.read(text, "hrs-3.txt")
    assert says in str(caught.value)


# -- common due date


@pytest.mark.parametrize("h", [0.2, 0.4, 0.6, 0.8])
def test_due_date_the_reference_comes_close_to_the_best_of_all_orders(h: float, task: GetTask) -> None:
    one = task(DUE)
    small = {"jobs": one.instance(7, n_jobs=20)["jobs"][:6], "h": h}
    scores = [one.verdict(small, list(order)).score for order in permutations(range(6))]
    bound = one.judge.best([small])
    assert max(scores) < one.judge.worst([small]) and bound is not None and 0.6 * min(scores) < bound <= min(scores)
    assert min(scores) <= one.play(one.program("reference"), small) <= 1.25 * min(scores)


@given(
    jobs=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 10), st.integers(0, 15)), min_size=1, max_size=5),
    h=st.floats(0, 1),
)
def test_due_date_the_bound_holds_for_all_orders(jobs: list[tuple[int, int, int]], h: float) -> None:
    one = task_of(DUE)
    scores = [one.verdict({"jobs": jobs, "h": h}, list(order)).score for order in permutations(range(len(jobs)))]
    bound = one.judge.best([{"jobs": jobs, "h": h}])
    assert bound is not None and 0 <= bound <= min(scores) and max(scores) < one.judge.worst([{"jobs": jobs, "h": h}])


def test_due_date_the_bound_is_close_where_there_are_many_jobs(task: GetTask) -> None:
    one = task(DUE)
    for seed in range(3):
        full = one.instance(seed)
        bound = one.judge.best([full])
        assert bound is not None and bound <= one.play(one.program("reference"), full) < 1.01 * bound


def test_due_date_penalties_worked_out_by_hand(task: GetTask) -> None:
    """Due at 6: job 0 ends at 3, three too early; job 1 at 5, one too early; job 2 at 10, four too late."""
    one = task(DUE)
    assert one.module.due_date(JOBS) == 6
    verdict = one.verdict(JOBS, [0, 1, 2])
    assert verdict.score == 3 * 1 + 1 * 4 + 4 * 3
    assert "2 jobs end by it and cost 7, 1 end after it and cost 12. Job 2, which ends at 10" in verdict.remark
    assert one.verdict(JOBS, [2, 1, 0]).score == 1 * 2 + 1 * 5 + 4 * 2


@pytest.mark.parametrize(("place", "best"), [(0, 1936), (1, 1025)])
def test_due_date_the_first_published_problem_has_its_known_values(place: int, best: int, task: GetTask) -> None:
    """The first of ten jobs in OR-Library, with h = 0.2 and 0.4, where it does not pay to start later than at 0."""
    jobs = "20 4 5 6 1 15 13 5 13 13 2 13 12 7 6 12 9 8 12 5 15 3 6 1 12 6 8 13 10 1"
    one = task(DUE)
    problem = one.module.read(f"1 10 {jobs}", "sch10.txt")[place]
    assert one.play(one.program("reference"), problem) == best
    assert 0.9 * best < one.judge.best([problem]) <= best  # type: ignore[operator]


def test_due_date_is_safe_from_the_rounding_of_the_product(task: GetTask) -> None:
    """0.7 * 10 and the like may come out a little short of the integer."""
    for share, total, due in ((0.7, 10, 7), (0.6, 35, 21), (0.29, 100, 29), (0.57, 100, 57), (0.2, 9, 1)):
        assert task(DUE).module.due_date({"jobs": [(total, 1, 1)], "h": share}) == due


@given(seed=st.integers(0, 2**32), factor=st.integers(1, 9), shuffle=st.randoms(use_true_random=False))
def test_due_date_scaled_penalties_and_renamed_jobs(seed: int, factor: int, shuffle: Any) -> None:
    one = task_of(DUE)
    instance = one.instance(seed, n_jobs=20)
    jobs, n = instance["jobs"], len(instance["jobs"])
    order = list(range(n))
    shuffle.shuffle(order)
    score = one.verdict(instance, order).score
    dearer = instance | {"jobs": [(p, a * factor, b * factor) for p, a, b in jobs]}
    assert one.verdict(dearer, order).score == score * factor
    slower = instance | {"jobs": [(p * 10, a, b) for p, a, b in jobs]}
    if instance["h"] * sum(p for p, _, _ in jobs) % 1 < 1e-6:
        assert one.verdict(slower, order).score == score * 10
    renamed = instance | {"jobs": [jobs[j] for j in order]}
    assert one.verdict(renamed, list(range(n))).score == score


def test_due_date_takes_permutations_only(task: GetTask) -> None:
    refusal = task(DUE).refusal
    assert "names 0 twice" in refusal(JOBS, lambda jobs, h: [0, 1, 0])
    assert "within 0 .. 2, not the integer 3" in refusal(JOBS, lambda jobs, h: [1, 2, 3])
    assert "must have 3 entries, not 2" in refusal(JOBS, lambda jobs, h: [0, 1])
    assert "must be a list, not a dict" in refusal(JOBS, lambda jobs, h: {"schedule": [0, 1, 2]})


def test_due_date_published_files_are_read_with_every_due_date(task: GetTask) -> None:
    found = task(DUE).module.read("2\n3\n3 1 2\n2 4 5\n5 2 3\n1\n4 1 1\n", "sch3.txt")
    free = task(DUE).module.read("1\n1\n4 1 1\n", "sch1.txt", start="free")
    assert all(one["free"] for one in free)
    assert (
        len(found) == 8 and JOBS | {"free": False} in found and [one["h"] for one in found] == [0.2, 0.4, 0.6, 0.8] * 2
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("1\n3\n3 1 2\n2 4\n", "ends where b is due"),
        ("1\n1\n3 1 2\n9\n", "line 4: '9' is more"),
        ("1\n1\n3 -1 2\n", "line 3: a must be within"),
        ("1\n1\n0 1 2\n", "has a job that takes no time"),
        ("1\n1\n3.5 1 2\n", "line 3: p must be a whole number"),
    ],
)
def test_due_date_a_file_of_another_format_is_refused(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError) as caught:
        task(DUE).module.read(text, "sch3.txt")
    assert says in str(caught.value)


def test_due_date_is_drawn_from_the_four_of_the_literature_or_given(task: GetTask) -> None:
    one = task(DUE)
    assert {one.instance(seed)["h"] for seed in range(40)} == {0.2, 0.4, 0.6, 0.8}
    assert one.instance(h=0.35)["h"] == 0.35


def test_one_job_leaves_no_choice(task: GetTask) -> None:
    for name, sizes in ((HYBRID, {"n_jobs": 1, "n_machines": 1}), (DUE, {"n_jobs": 1})):
        one = task(name)
        tiny = one.instance(**sizes)
        scores = {one.play(one.program(program), tiny) for program in ("template", "reference", "worse")}
        assert len(scores) == 1 and one.judge.worst([tiny]) > scores.pop()


def test_a_file_of_more_jobs_than_can_be_bounded_is_refused(task: GetTask) -> None:
    with pytest.raises(DataError, match=r"line 2: the number of jobs must be within 1 \.\. 2000"):
        task(DUE).module.read("1\n2001\n", "sch2001.txt")
