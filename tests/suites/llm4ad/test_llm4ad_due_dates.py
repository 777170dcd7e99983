"""The hybrid reentrant shop, and one machine with a common due date."""

from __future__ import annotations

from itertools import permutations, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from tests.suites.llm4ad.contract import Case, Instance, Moved, verdicts

HYBRID = "optimization/co_bench/hybrid_reentrant_shop_scheduling_co_bench"
DUE = "optimization/co_bench/common_due_date_scheduling_co_bench"
SMALL = {"n_machines": 2, "init_time": 2, "setup": [3, 1, 4], "processing": [5, 6, 2]}
JOBS = {"jobs": [(3, 1, 2), (2, 4, 5), (5, 2, 3)], "h": 0.6}


def hybrid_tiny(one: Task, seed: int) -> Instance:
    full = one.instance(seed, n_jobs=10, n_machines=2)
    return full | {"setup": full["setup"][:5], "processing": full["processing"][:5]}


def hybrid_moved(one: Task, old: Instance, found: Any, rng: np.random.Generator) -> Moved:
    new = {k: [t * 7 for t in v] if isinstance(v, list) else v * 7 for k, v in old.items()}
    order, machine = found
    return new | {"n_machines": old["n_machines"]}, (order, [old["n_machines"] - 1 - i for i in machine]), 7


def due_moved(one: Task, old: Instance, order: list[int], rng: np.random.Generator) -> Moved:
    names = rng.permutation(len(order))
    jobs = [old["jobs"][j] for j in names]
    return old | {"jobs": [(p, 4 * a, 4 * b) for p, a, b in jobs]}, np.argsort(names)[order].tolist(), 4


def answer(order: list[int], on: list[Any]) -> dict[str, Any]:
    return {"permutation": order, "batch_assignment": on}


HRS = """Number of jobs: 3  Number of machines: 2
Initialization time: 2
Setup times: 3 1 4
Processing times: 5 6 2
"""
CASES = [
    Case(
        task=HYBRID,
        tiny=hybrid_tiny,
        scores=verdicts(lambda small: product(permutations(range(5)), product(range(2), repeat=5))),
        seeds=2,
        hand=[
            # Job 1 is set up first (2 .. 3), then job 0 (3 .. 6) and job 2, initialized at 4 (6 .. 10). Machine 0 has
            # jobs 0 and 2 (6 .. 11, 11 .. 13), machine 1 has job 1 (3 .. 9).
            (SMALL, answer([1, 0, 2], [0, 1, 0]), 13),
            # A machine is one thing at a time: the first processing waits until all of its jobs are initialized.
            (
                {"n_machines": 1, "init_time": 10, "setup": [1, 1, 1], "processing": [1, 1, 1]},
                answer([0, 1, 2], [0] * 3),
                33,
            ),
        ],
        refused=[
            (SMALL, [0, 1, 2], "must be a dict with 'permutation', 'batch_assignment'"),
            (SMALL, {"permutation": [0, 1, 2]}, "lacks the key 'batch_assignment'"),
            (SMALL, answer([0, 1, 1], [0, 1, 0]), "names 1 twice"),
            (SMALL, answer([1, 2, 3], [0, 1, 0]), "within 0 .. 2"),
            (SMALL, answer([0, 1, 2], [0, 2, 0]), "batch_assignment[1] must be within 0 .. 1"),
            (SMALL, answer([0, 1, 2], [0, 1]), "must have 3 entries"),
            (SMALL, answer([0, 1, 2], [0, True, 0]), "must be an int"),
        ],
        drawn={"n_jobs": 12},
        moved=hybrid_moved,
        same_bound=False,
        file="hrs-3.txt",
        read=[(HRS + "-----\n" + HRS, [SMALL, SMALL])],
        unread=[
            ("", "line 1: 'Number of jobs' must come first"),
            (HRS.replace("Setup times: 3 1 4\n", ""), "line 3: 'Setup times' is due, not 'Processing times'"),
            (HRS.replace("5 6 2", "5 6"), "ends where a processing time"),
            (HRS.replace("3 1 4", "3 1 4 4"), "line 3: '4' is more"),
            (HRS.replace("machines: 2", "machines: 0"), "without jobs or machines"),
            (HRS[: HRS.index("Proc")], "ends where 'Processing times' is due"),
        ],
    ),
    Case(
        task=DUE,
        tiny=lambda one, seed: {"jobs": one.instance(7, n_jobs=20)["jobs"][:5], "h": 0.2 * (1 + seed)},
        scores=verdicts(lambda small: map(list, permutations(range(5)))),
        seeds=4,
        close=1.25,
        tight=0.6,
        # Due at 6: job 0 ends at 3, three too early; job 1 at 5, one too early; job 2 at 10, four too late.
        hand=[(JOBS, [0, 1, 2], 3 * 1 + 1 * 4 + 4 * 3), (JOBS, [2, 1, 0], 1 * 2 + 1 * 5 + 4 * 2)],
        refused=[
            (JOBS, [0, 1, 0], "names 0 twice"),
            (JOBS, [1, 2, 3], "within 0 .. 2"),
            (JOBS, [0, 1], "must have 3 entries"),
        ],
        drawn={"n_jobs": 20},
        moved=due_moved,
        same_bound=False,
        file="sch3.txt",
        read=[("2\n3\n3 1 2\n2 4 5\n5 2 3\n1\n4 1 1\n",
               [{"jobs": jobs, "h": h, "free": False} for jobs in (JOBS["jobs"], [(4, 1, 1)])
                for h in (0.2, 0.4, 0.6, 0.8)])],
        unread=[
            ("1\n3\n3 1 2\n2 4\n", "ends where b is expected"),
            ("1\n1\n3 1 2\n9\n", "line 4: '9' is more"),
            ("1\n1\n3 -1 2\n", "line 3: a must be within"),
            ("1\n1\n0 1 2\n", "takes no time"),
            ("1\n2001\n", "line 2: the number of jobs must be within 1 .. 2000"),
        ],
    ),
]  # fmt: skip


def test_the_parts_of_a_hybrid_schedule_end_as_computed_by_hand() -> None:
    found = task_of(f"llm4ad:{HYBRID}").module.ends(SMALL, [1, 0, 2], [0, 1, 0])
    assert found == ([2, 2, 4], [6, 3, 10], [11, 9, 13])


@given(
    jobs=st.lists(st.tuples(st.integers(1, 20), st.integers(0, 10), st.integers(0, 15)), min_size=1, max_size=5),
    h=st.floats(0, 1),
)
def test_the_bound_of_due_dates_holds_for_all_orders(jobs: list[tuple[int, int, int]], h: float) -> None:
    one, instance = task_of(f"llm4ad:{DUE}"), {"jobs": jobs, "h": h}
    scores = [one.module.score(instance, list(order)) for order in permutations(range(len(jobs)))]
    bound = one.judge.best([instance])
    assert bound is not None and 0 <= bound <= min(scores) and max(scores) < one.judge.worst([instance])


def test_the_bound_of_due_dates_is_close_where_there_are_many_jobs() -> None:
    one = task_of(f"llm4ad:{DUE}")
    full = one.instance(0, n_jobs=60)
    bound = one.judge.best([full])
    assert bound is not None and bound <= one.play(one.program("reference"), full) < 1.03 * bound


def test_the_first_published_problem_has_its_known_values() -> None:
    """The first of ten jobs in OR-Library, with h = 0.2 and 0.4, where it does not pay to start later than at 0."""
    jobs = "20 4 5 6 1 15 13 5 13 13 2 13 12 7 6 12 9 8 12 5 15 3 6 1 12 6 8 13 10 1"
    one = task_of(f"llm4ad:{DUE}")
    for problem, best in zip(one.module.read(f"1 10 {jobs}", "sch10.txt")[:2], (1936, 1025), strict=True):
        assert one.play(one.program("reference"), problem) == best
        assert 0.9 * best < one.judge.best([problem]) <= best  # type: ignore[operator]


def test_the_due_date_is_safe_from_the_rounding_of_the_product() -> None:
    """0.7 * 10 and the like may come out a little short of the integer."""
    for share, total, due in ((0.7, 10, 7), (0.6, 35, 21), (0.29, 100, 29), (0.57, 100, 57), (0.2, 9, 1)):
        assert task_of(f"llm4ad:{DUE}").module.due_date({"jobs": [(total, 1, 1)], "h": share}) == due


def test_the_due_date_is_drawn_from_the_four_of_the_literature_or_given_and_the_start_may_be_free() -> None:
    one = task_of(f"llm4ad:{DUE}")
    assert {one.instance(seed)["h"] for seed in range(40)} == {0.2, 0.4, 0.6, 0.8}
    assert one.instance(h=0.35)["h"] == 0.35
    assert all(made["free"] for made in one.module.read("1\n1\n4 1 1\n", "sch1.txt", start="free"))


@pytest.mark.parametrize(("name", "sizes"), [(HYBRID, {"n_jobs": 1, "n_machines": 1}), (DUE, {"n_jobs": 1})])
def test_one_job_leaves_no_choice(name: str, sizes: dict[str, int]) -> None:
    one = task_of(f"llm4ad:{name}")
    tiny = one.instance(**sizes)
    scores = {one.play(one.program(program), tiny) for program in ("template", "reference", "worse")}
    assert len(scores) == 1 and one.judge.worst([tiny]) > scores.pop()
