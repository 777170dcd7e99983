"""Flow shops, job shops, open shops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from trace_bench.suites.llm4ad import scheduling

GetTask = Callable[[str], Task]
FLOW = "llm4ad:optimization/co_bench/flow_shop_scheduling_co_bench"
JOB = "llm4ad:optimization/co_bench/job_shop_scheduling_co_bench"
STEPS = "llm4ad:optimization/jssp_construct"
OPEN = "llm4ad:optimization/co_bench/open_shop_scheduling_co_bench"
TWO = {"times": [[3, 2], [4, 1]], "machines": [[0, 1], [1, 0]]}


def in_turn(shop: dict[str, Any], sequence: tuple[tuple[int, int], ...]) -> list[list[int]]:
    """Starts when the operations (job, k) get their turns in this order, each as early as it then can be."""
    times, machines = shop["times"], shop["machines"]
    ready, free = [0] * len(times), [0] * len(times[0])
    starts = [[0] * len(times[0]) for _ in times]
    for j, k in sequence:
        starts[j][k] = max(ready[j], free[machines[j][k]])
        ready[j] = free[machines[j][k]] = starts[j][k] + times[j][k]
    return starts


def sequences(shop: dict[str, Any], *, ordered: bool) -> Iterator[tuple[tuple[int, int], ...]]:
    """All orders of all operations; those of a job in their order if `ordered`."""
    times = shop["times"]
    operations = [(j, k) for j in range(len(times)) for k in range(len(times[0]))]
    for sequence in permutations(operations):
        places = {operation: i for i, operation in enumerate(sequence)}
        if not ordered or all(places[j, k - 1] < places[j, k] for j, k in operations if k):
            yield sequence


def check_all(one: Task, shop: dict[str, Any], solutions: list[Any]) -> float:
    """Bound and worst hold on all solutions; the best of their scores."""
    scores = [one.verdict(shop, solution).score for solution in solutions]
    bound = one.judge.best([shop])
    assert bound is not None and bound <= min(scores) and max(scores) <= one.judge.worst([shop])
    return min(scores)


# -- optima


@pytest.mark.parametrize("seed", range(3))
def test_flow_shop_the_reference_finds_the_best_of_all_orders(seed: int, task: GetTask) -> None:
    one = task(FLOW)
    small = {"times": one.instance(seed, n_jobs=10, n_machines=9)["times"][:5]}
    best = check_all(one, small, [list(order) for order in permutations(range(5))])
    assert best <= one.play(one.program("reference"), small) <= 1.02 * best


def test_flow_shop_of_two_machines_is_solved_by_johnsons_rule(task: GetTask) -> None:
    times = [[3, 6], [5, 2], [1, 2], [6, 6], [7, 5]]
    assert task(FLOW).verdict({"times": times}, [2, 0, 3, 4, 1]).score == 24
    assert check_all(task(FLOW), {"times": times}, [list(order) for order in permutations(range(5))]) == 24


@pytest.mark.parametrize("seed", range(3))
def test_job_shop_the_reference_finds_the_best_of_all_sequences(seed: int, task: GetTask) -> None:
    one = task(JOB)
    full = one.instance(seed, n_jobs=3, n_machines=2)
    small = {"times": (full["times"] * 2)[:3], "machines": (full["machines"] * 2)[:3]}
    best = check_all(one, small, [in_turn(small, s) for s in sequences(small, ordered=True)])
    assert best <= one.play(one.program("reference"), small) <= 1.1 * best


@pytest.mark.parametrize("seed", range(2))
def test_open_shop_of_two_machines_has_the_optimum_of_gonzalez_and_sahni(seed: int, task: GetTask) -> None:
    """With two machines the largest load and the longest job are reached (1976)."""
    one = task(OPEN)
    full = one.instance(seed, n_jobs=5, n_machines=2)
    small = {"times": full["times"][:3], "machines": full["machines"][:3]}
    solutions = [in_turn(small, s) for s in sequences(small, ordered=False)]
    assert check_all(one, small, solutions) == one.judge.best([small])
    assert one.play(one.program("reference"), small) == one.judge.best([small])


@given(jobs=st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=5))
def test_the_bound_of_one_machine_holds_for_all_orders(jobs: list[tuple[int, int, int]]) -> None:
    def end(order: tuple[tuple[int, int, int], ...]) -> int:
        now = last = 0
        for head, time, tail in order:
            now = max(now, head) + time
            last = max(last, now + tail)
        return last

    bound = scheduling.one_machine_bound(jobs)
    assert bound <= min(map(end, permutations(jobs)))
    least = min(h for h, _, _ in jobs) + sum(p for _, p, _ in jobs) + min(q for _, _, q in jobs)
    assert bound >= max(least, *(h + p + q for h, p, q in jobs))


# -- step by step


def playing(jobs: list[int]) -> Callable[..., Any]:
    """A rule that takes the jobs in this sequence."""
    rest = list(jobs)
    return lambda status, offered: next(o for o in offered if o[0] == rest[0] and rest.pop(0) == o[0])


@pytest.mark.parametrize("seed", range(3))
def test_steps_in_the_right_sequence_make_the_best_job_shop_schedule(seed: int, task: GetTask) -> None:
    one = task(STEPS)
    small = one.instance(seed, n_jobs=3, n_machines=2)
    played = {one.play(playing(list(jobs)), small) for jobs in permutations([0, 0, 1, 1, 2, 2])}
    scheduled = {task(JOB).verdict(small, in_turn(small, s)).score for s in sequences(small, ordered=True)}
    assert played == scheduled
    bound = one.judge.best([small])
    assert bound is not None and bound <= min(played) and max(played) <= one.judge.worst([small])
    assert min(played) <= one.play(one.program("reference"), small) <= 1.05 * min(played)


def test_steps_are_shown_what_there_is_to_choose_from(task: GetTask) -> None:
    seen = []

    def rule(status: dict[str, Any], offered: list[tuple[int, int, int]]) -> tuple[int, int, int]:
        now = (list(status["machine_status"]), list(status["job_status"]), list(status["next_operation"]))
        seen.append((*now, list(offered), status["times"].tolist(), status["machines"].tolist()))
        return offered[-1]

    starts = task(STEPS).module.answer(rule, TWO)
    assert starts == [[5, 8], [0, 4]] and task(JOB).broken(TWO, starts) == []
    assert [one[3] for one in seen] == [[(0, 0, 3), (1, 1, 4)], [(0, 0, 3), (1, 0, 1)], [(0, 0, 3)], [(0, 1, 2)]]
    assert seen[2][:3] == ([5, 4], [0, 5], [0, 2])
    assert all(one[4:] == (TWO["times"], TWO["machines"]) for one in seen)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ((1, 0, 1), "step 0: operation (1, 0, 1) is not among the 2 on offer, which begin with (0, 0, 3)"),
        ((0, 0), "the operation of step 0 must have 3 entries, not 2"),
        (0, "must be a list, not the integer 0"),
        ((0, 0, 3.0), "must be an int, not the number 3.0"),
        ((False, 0, 3), "must be an int, not False"),
        (None, "must be a list, not None"),
    ],
)
def test_steps_take_operations_on_offer_only(given: Any, says: str, task: GetTask) -> None:
    assert says in task(STEPS).refusal(TWO, lambda *_: given)


@given(seed=st.integers(0, 2**32), factor=st.integers(1, 50))
def test_steps_scaled_times_and_renamed_machines(seed: int, factor: int) -> None:
    one = task_of(STEPS)
    shop = one.instance(seed, n_jobs=5, n_machines=4)
    rule = one.program("template")
    score = one.play(rule, shop)
    scaled = shop | {"times": [[t * factor for t in row] for row in shop["times"]]}
    renamed = shop | {"machines": [[3 - i for i in row] for row in shop["machines"]]}
    assert one.play(rule, scaled) == score * factor and one.play(rule, renamed) == score


# -- rules


def test_an_operation_before_the_one_that_it_follows_is_named(task: GetTask) -> None:
    assert task(JOB).broken(TWO, [[0, 4], [0, 4]]) == []
    assert task(JOB).broken(TWO, [[2, 4], [0, 6]]) == [
        "operation 1 of job 0 starts at 4 before operation 0 of that job ends at 5"
    ]


@pytest.mark.parametrize("name", [JOB, OPEN])
def test_two_operations_on_a_machine_at_once_are_named(name: str, task: GetTask) -> None:
    assert task(name).broken(TWO, [[3, 6], [1, 5]]) == [
        "machine 0: operation 1 of job 1 starts at 5 before operation 0 of job 0, started at 3, ends at 6"
    ]
    row = {"times": [[9, 1], [1, 1], [2, 1]], "machines": [[0, 1], [0, 1], [0, 1]]}
    assert len(task(name).broken(row, [[0, 9], [2, 10], [5, 11]])) == 2, "both lie within a third one"


def test_a_job_on_two_machines_at_once_is_named(task: GetTask) -> None:
    assert task(OPEN).broken(TWO, [[2, 0], [2, 6]]) == []
    assert task(OPEN).broken(TWO, [[4, 5], [0, 7]]) == [
        "job 0: operation 1 starts at 5 before operation 0, started at 4, ends at 7"
    ]


@pytest.mark.parametrize("name", [JOB, OPEN])
def test_an_end_beyond_all_reason_is_named(name: str, task: GetTask) -> None:
    assert task(name).broken(TWO, [[0, 8], [0, 4]]) == []
    assert task(name).broken(TWO, [[0, 9], [0, 4]]) == [
        "operation 1 of job 0 ends at 11, after 10, the sum of all processing times"
    ]
    refusal = task(name).refusal
    assert refusal(TWO, lambda *_: [[0, 11], [0, 4]]) == "start_times[0][1] must be within 0 .. 10, not the integer 11"
    assert "must be within 0 .. 10" in refusal(TWO, lambda *_: [[0, 4], [-1, 4]])


@pytest.mark.parametrize("name", [JOB, OPEN])
@pytest.mark.parametrize(
    ("given", "says"),
    [
        (None, "start_times must be a list, not None"),
        ({"start_times": [[0, 4], [0, 4]]}, "must be a list, not a dict"),
        ([[0, 4]], "start_times must have 2 entries, not 1"),
        ([[0, 4], [0]], r"start_times[1] must have 2 entries, not 1"),
        ([[0, 4.0], [0, 4]], r"start_times[0][1] must be an int, not the number 4.0"),
        ([[0, True], [0, 4]], "must be an int, not True"),
    ],
)
def test_what_is_no_table_of_start_times_is_refused(name: str, given: Any, says: str, task: GetTask) -> None:
    assert says in task(name).refusal(TWO, lambda *_: given)


def test_arrays_are_taken_as_lists_are(task: GetTask) -> None:
    for name, answer in ((JOB, [[0, 4], [0, 4]]), (OPEN, [[2, 0], [2, 6]]), (FLOW, [1, 0])):
        one = task(name)
        assert one.play(lambda *_, a=answer: np.array(a), TWO) == one.play(lambda *_, a=answer: a, TWO)
        assert "must be an int" in one.refusal(TWO, lambda *_, a=answer: np.array(a, dtype=float))


def test_flow_shop_takes_permutations_only(task: GetTask) -> None:
    refusal = task(FLOW).refusal
    assert "names 1 twice" in refusal(TWO, lambda n, m, matrix: [1, 1])
    assert "must have 2 entries, not 1" in refusal(TWO, lambda *_: [0])
    assert "within 0 .. 1" in refusal(TWO, lambda *_: [1, 2])
    assert "must be an int, not the number 1.0" in refusal(TWO, lambda *_: [0, 1.0])


# -- properties


@given(seed=st.integers(0, 2**32), factor=st.integers(1, 50))
def test_scaled_relabelled_and_mirrored_shops_change_the_makespan_as_they_should(seed: int, factor: int) -> None:
    one = task_of(JOB)
    shop = one.instance(seed, n_jobs=6, n_machines=4)
    starts = one.module.answer(one.program("template"), shop)
    score, bound = one.verdict(shop, starts).score, one.judge.best([shop])
    assert bound is not None
    times, machines = shop["times"], shop["machines"]
    scaled = {"times": [[t * factor for t in row] for row in times], "machines": machines}
    assert one.verdict(scaled, [[s * factor for s in row] for row in starts]).score == score * factor
    assert one.judge.best([scaled]) == bound * factor
    renamed = {"times": times[::-1], "machines": [[len(row) - 1 - i for i in row] for row in machines[::-1]]}
    assert one.verdict(renamed, starts[::-1]).score == score and one.judge.best([renamed]) == bound
    mirrored = {"times": [row[::-1] for row in times], "machines": [row[::-1] for row in machines]}
    back = [
        [int(score) - s - t for s, t in zip(row, spent, strict=True)][::-1]
        for row, spent in zip(starts, times, strict=True)
    ]
    assert one.verdict(mirrored, back).score == score and one.judge.best([mirrored]) == bound
    assert task_of(OPEN).verdict(shop, starts).score == score, "what suits a job shop suits the open shop"
    assert task_of(OPEN).judge.best([shop]) <= bound  # type: ignore[operator]


@given(seed=st.integers(0, 2**32), shuffle=st.randoms(use_true_random=False))
def test_a_flow_shop_read_backwards_takes_as_long(seed: int, shuffle: Any) -> None:
    one = task_of(FLOW)
    shop = one.instance(seed, n_jobs=12, n_machines=6)
    order = list(range(len(shop["times"])))
    shuffle.shuffle(order)
    mirrored = {"times": [row[::-1] for row in shop["times"]]}
    assert one.verdict(mirrored, order[::-1]).score == one.verdict(shop, order).score
    starts: list[list[int]] = [[] for _ in order]
    for job, ends in zip(order, one.module.completions(shop["times"], order), strict=True):
        starts[job] = [end - time for end, time in zip(ends, shop["times"][job], strict=True)]
    as_job_shop = shop | {"machines": [list(range(len(row))) for row in shop["times"]]}
    assert task_of(JOB).verdict(as_job_shop, starts).score == one.verdict(shop, order).score


@pytest.mark.parametrize("name", [FLOW, JOB, OPEN, STEPS])
def test_fewer_is_better(name: str, task: GetTask) -> None:
    """The makespan itself is the score: a shorter schedule has the smaller one, and the larger normalised one."""
    one = task(name)
    shop = one.instance(n_jobs=6, n_machines=5)
    good, bad = (one.verdict(shop, one.module.answer(one.program(p), shop)) for p in ("reference", "worse"))
    assert one.spec.score.direction == "minimize"
    assert good.score < bad.score and good.metrics["normalised"] > bad.metrics["normalised"]


def test_pictures_and_remarks_name_the_busiest_machine(task: GetTask) -> None:
    said = task(JOB).verdict(TWO, [[0, 4], [0, 4]]).remark
    assert "Operation 1 of job 0 ends last, on machine 1" in said
    assert "the busiest, machine 1, has 6 to do and job 0 is the longest with 5" in said
    said = task(FLOW).verdict({"times": [[3, 6], [5, 2]]}, [1, 0]).remark
    assert "machine, 0 of 0 .. 1, works 8; it begins at 0, stands idle for 0 between jobs, and 6 pass" in said


@pytest.mark.parametrize("name", [FLOW, JOB, OPEN, STEPS])
def test_one_job_on_one_machine_leaves_no_choice(name: str, task: GetTask) -> None:
    one = task(name)
    tiny = one.instance(n_jobs=1, n_machines=1)
    (time,) = tiny["times"][0]
    for program in ("template", "reference", "worse"):
        assert one.play(one.program(program), tiny) == time == one.judge.best([tiny])
    assert one.judge.worst([tiny]) > time


def test_every_kind_of_shop_has_all_its_machines(task: GetTask) -> None:
    for (name, jobs), seed in product({FLOW: 9, JOB: 9, OPEN: 9}.items(), range(3)):
        shop = task(name).instance(seed, n_jobs=jobs)
        assert all(len(row) == len(shop["times"][0]) for row in shop["times"])
        assert all(sorted(row) == list(range(len(row))) for row in shop.get("machines", []))
