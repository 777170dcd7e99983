"""Flow shops, job shops, open shops, and Taillard's instances and files of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.suites.llm4ad.conftest import Task, task_of
from tests.suites.llm4ad.contract import Case, Instance, Moved, verdicts
from trace_bench.suites.llm4ad import scheduling

BASE = "optimization/co_bench"
FLOW = f"{BASE}/flow_shop_scheduling_co_bench"
JOB = f"{BASE}/job_shop_scheduling_co_bench"
OPEN = f"{BASE}/open_shop_scheduling_co_bench"
STEPS = "optimization/jssp_construct"
TWO = {"times": [[3, 2], [4, 1]], "machines": [[0, 1], [1, 0]]}
NESTED = {"times": [[9, 1], [1, 1], [2, 1]], "machines": [[0, 1], [0, 1], [0, 1]]}


def in_turn(shop: Instance, sequence: tuple[tuple[int, int], ...]) -> list[list[int]]:
    """Starts when the operations (job, k) get their turns in this order, each as early as it then can be."""
    times, machines = shop["times"], shop["machines"]
    ready, free = [0] * len(times), [0] * len(times[0])
    starts = [[0] * len(times[0]) for _ in times]
    for j, k in sequence:
        starts[j][k] = max(ready[j], free[machines[j][k]])
        ready[j] = free[machines[j][k]] = starts[j][k] + times[j][k]
    return starts


def all_starts(shop: Instance, *, ordered: bool) -> Iterator[list[list[int]]]:
    """By all orders of all operations; those of a job in their order if `ordered`."""
    operations = [(j, k) for j in range(len(shop["times"])) for k in range(len(shop["times"][0]))]
    for sequence in permutations(operations):
        places = {operation: i for i, operation in enumerate(sequence)}
        if not ordered or all(places[j, k - 1] < places[j, k] for j, k in operations if k):
            yield in_turn(shop, sequence)


def small_shop(one: Task, seed: int) -> Instance:
    full = one.instance(seed, n_jobs=3, n_machines=2)
    return {"times": (full["times"] * 2)[:3], "machines": (full["machines"] * 2)[:3]}


def playing(*jobs: int) -> Callable[..., Any]:
    """A rule that takes the jobs in this sequence."""
    return lambda status, offered: next(o for o in offered if o[0] == jobs[sum(status["next_operation"])])


def flow_moved(one: Task, old: Instance, order: list[int], rng: np.random.Generator) -> Moved:
    """Read backwards."""
    return {"times": [[5 * t for t in row[::-1]] for row in old["times"]]}, order[::-1], 5


def job_moved(one: Task, old: Instance, starts: list[list[int]], rng: np.random.Generator) -> Moved:
    """Read backwards, jobs in another order, machines with other names."""
    end = int(one.module.score(old, starts))
    back = [[end - s - t for s, t in zip(*pair, strict=True)][::-1] for pair in zip(starts, old["times"], strict=True)]
    machines = [[len(row) - 1 - i for i in row[::-1]] for row in old["machines"][::-1]]
    new = {"times": [[5 * t for t in row[::-1]] for row in old["times"][::-1]], "machines": machines}
    return new, [[5 * s for s in row] for row in back[::-1]], 5


def steps_moved(one: Task, old: Instance, starts: list[list[int]], rng: np.random.Generator) -> Moved:
    new = {
        "times": [[5 * t for t in row] for row in old["times"]],
        "machines": [[3 - i for i in row] for row in old["machines"]],
    }
    return new, one.module.answer(one.program("template"), new), 5


ROUTED = """Nb of jobs, Nb of Machines, Time seed, Machine seed, Upper bound, Lower bound
  3 2 840612802 398197754 12 11
Times
 3 2
 4 1
 2 2
Machines
 1 2
 2 1
 2 1
"""
OTHER = ROUTED.replace("Times", "processing times :").replace("Nb", "number").replace("Machines\n", "machines :\n")
READ = {"best_known": 12, "times": [[3, 2], [4, 1], [2, 2]], "machines": [[0, 1], [1, 0], [1, 0]]}
FLOW_FILE = """number of jobs, number of machines, initial seed, upper bound and lower bound :
          3           2   873654221        12        11
processing times :
 54 83 15
 79  3 11
"""
TABLES = [
    (TWO, [[3, 6], [1, 5]], "machine 0: operation 1 of job 1 starts at 5 before operation 0 of job 0"),
    (NESTED, [[0, 9], [2, 10], [5, 11]], "operation 0 of job 2 starts at 5 before operation 0 of job 0"),
    (TWO, [[0, 9], [0, 4]], "operation 1 of job 0 ends at 11, after 10"),
    (TWO, [[0, 11], [0, 4]], "start_times[0][1] must be within 0 .. 10"),
    (TWO, [[0, 4], [-1, 4]], "must be within 0 .. 10"),
    (TWO, [[0, 4]], "start_times must have 2 entries"),
    (TWO, [[0, 4], [0]], "start_times[1] must have 2 entries"),
    (TWO, np.array([[0.0, 4], [0, 4]]), "start_times[0][0] must be an int"),
]
CASES = [
    Case(
        task=FLOW,
        tiny=lambda one, seed: {"times": one.instance(seed, n_jobs=10, n_machines=9)["times"][:5]},
        scores=verdicts(lambda small: map(list, permutations(range(5)))),
        close=1.02,
        # by Johnson's rule
        hand=[({"times": [[3, 6], [5, 2], [1, 2], [6, 6], [7, 5]]}, np.array([2, 0, 3, 4, 1]), 24)],
        refused=[
            (TWO, [1, 1], "names 1 twice"),
            (TWO, [0], "must have 2 entries"),
            (TWO, [1, 2], "within 0 .. 1"),
            (TWO, [0, 1.0], "must be an int"),
        ],
        drawn={"n_jobs": 12, "n_machines": 6},
        moved=flow_moved,
        same_bound=False,
        file="tai3_2.txt",
        read=[(FLOW_FILE * 2, [{"best_known": 12, "times": [[54, 79], [83, 3], [15, 11]]}] * 2)],
        solved=False,
    ),
    Case(
        task=JOB,
        tiny=small_shop,
        scores=verdicts(lambda small: all_starts(small, ordered=True)),
        close=1.1,
        hand=[(TWO, [[0, 4], [0, 4]], 6), (TWO, np.array([[0, 8], [0, 4]]), 10)],
        refused=[*TABLES, (TWO, [[2, 4], [0, 6]], "operation 1 of job 0 starts at 4 before operation 0")],
        drawn={"n_jobs": 6, "n_machines": 4},
        moved=job_moved,
        file="tai3_2.txt",
        read=[(ROUTED + "\n" + OTHER, [READ, READ])],
        unread=[
            ("", "has 0 headed parts"),
            ("3 2\n", "line 1: a line of words"),
            (ROUTED.replace("Times\n", ""), "has 2 headed parts; each instance has 3"),
            (ROUTED.replace(" 4 1", " 4 -1"), "line 5: a processing time must be within"),
            (ROUTED.replace(" 4 1", " 4"), "ends where a processing time is expected"),
            (ROUTED.replace(" 4 1", " 4 1 7"), "line 6: '2' is more"),
            (ROUTED.replace(" 1 2\n", " 1 3\n"), "job, number 1, that does not name each of the machines"),
            (ROUTED.replace(" 3 2 84", " 0 2 84"), "an instance without jobs"),
        ],
        solved=False,
    ),
    Case(
        task=OPEN,
        # With two machines the largest load and the longest job are reached (Gonzalez and Sahni, 1976).
        tiny=small_shop,
        scores=verdicts(lambda small: all_starts(small, ordered=False)),
        seeds=2,
        tight=1,
        hand=[(TWO, [[2, 0], [2, 6]], 7), (TWO, np.array([[2, 0], [2, 6]]), 7)],
        refused=[*TABLES, (TWO, [[4, 5], [0, 7]], "job 0: operation 1 starts at 5 before operation 0")],
        drawn={"n_jobs": 6, "n_machines": 4},
        moved=job_moved,
        file="tai3_2.txt",
        read=[(ROUTED + "\n" + OTHER, [READ, READ])],
        solved=False,
    ),
    Case(
        task=STEPS,
        tiny=small_shop,
        scores=lambda one, small: [one.play(playing(*jobs), small) for jobs in set(permutations([0, 0, 1, 1, 2, 2]))],
        close=1.05,
        hand=[(TWO, playing(1, 1, 0, 0), 10), (TWO, playing(0, 1, 0, 1), 6)],
        refused=[
            (TWO, (1, 0, 1), "step 0: operation (1, 0, 1) is not among the 2 on offer"),
            (TWO, (0, 0), "step 0 must have 3 entries"),
            (TWO, (0, 0, 3.0), "must be an int"),
        ],
        drawn={"n_jobs": 5, "n_machines": 4},
        moved=steps_moved,
    ),
]


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


def test_steps_are_shown_what_there_is_to_choose_from() -> None:
    seen = []

    def rule(status: dict[str, Any], offered: list[tuple[int, int, int]]) -> tuple[int, int, int]:
        now = (list(status["machine_status"]), list(status["job_status"]), list(status["next_operation"]))
        seen.append((*now, list(offered), status["times"].tolist(), status["machines"].tolist()))
        return offered[-1]

    assert task_of(f"llm4ad:{STEPS}").module.answer(rule, TWO) == [[5, 8], [0, 4]]
    assert [one[3] for one in seen] == [[(0, 0, 3), (1, 1, 4)], [(0, 0, 3), (1, 0, 1)], [(0, 0, 3)], [(0, 1, 2)]]
    assert seen[2][:3] == ([5, 4], [0, 5], [0, 2])
    assert all(one[4:] == (TWO["times"], TWO["machines"]) for one in seen)


def test_a_schedule_of_a_flow_shop_is_one_of_a_job_shop_and_of_an_open_shop() -> None:
    flow, job, open_shop = (task_of(f"llm4ad:{name}") for name in (FLOW, JOB, OPEN))
    shop = flow.instance(1, n_jobs=12, n_machines=6)
    order = np.random.default_rng(1).permutation(len(shop["times"])).tolist()
    starts: list[list[int]] = [[] for _ in order]
    for number, ends in zip(order, flow.module.completions(shop["times"], order), strict=True):
        starts[number] = [end - time for end, time in zip(ends, shop["times"][number], strict=True)]
    routed = shop | {"machines": [list(range(len(row))) for row in shop["times"]]}
    assert (
        flow.verdict(shop, order).score == job.verdict(routed, starts).score == open_shop.verdict(routed, starts).score
    )
    assert open_shop.judge.best([routed]) <= job.judge.best([routed])  # type: ignore[operator]


@pytest.mark.parametrize("name", [FLOW, JOB, OPEN, STEPS])
def test_one_job_on_one_machine_leaves_no_choice_and_every_shop_has_all_its_machines(name: str) -> None:
    one = task_of(f"llm4ad:{name}")
    tiny = one.instance(n_jobs=1, n_machines=1)
    (time,) = tiny["times"][0]
    for program in ("template", "reference", "worse"):
        assert one.play(one.program(program), tiny) == time == one.judge.best([tiny])
    assert one.judge.worst([tiny]) > time
    for seed in range(3):
        shop = one.instance(seed, n_jobs=9)
        assert all(len(row) == len(shop["times"][0]) for row in shop["times"])
        assert all(sorted(row) == list(range(len(row))) for row in shop.get("machines", []))


# -- published instances, made by Taillard's generator (1993) from their seeds


def taillard(seed: int) -> Callable[[int, int], int]:
    """Integers within low .. high, drawn from the sequence of `seed`."""
    state = [seed]

    def drawn(low: int, high: int) -> int:
        state[0] = 16807 * state[0] % (2**31 - 1)
        return int(low + state[0] / (2**31 - 1) * (high - low + 1))

    return drawn


def rows(numbers: list[list[int]]) -> str:
    return "".join(" ".join(map(str, row)) + "\n" for row in numbers)


def test_the_first_published_flow_shop_has_its_known_values() -> None:
    """ta001: Palmer's slope order takes 1384, the best order 1278, and the published lower bound is 1232."""
    draw = taillard(873654221)
    times = rows([[draw(1, 99) for _ in range(20)] for _ in range(5)])
    one = task_of(f"llm4ad:{FLOW}")
    (shop,) = one.module.read(f"number of jobs …\n20 5 873654221 1278 1232\nprocessing times :\n{times}", "tai20_5.txt")
    assert shop["times"][0][0] == 54 and shop["times"][1][0] == 83
    assert one.play(one.program("template"), shop) == 1384
    assert 1232 <= one.judge.best([shop]) <= 1278 <= one.play(one.program("reference"), shop) <= 1300  # type: ignore[operator]


def test_the_first_published_job_shop_has_its_known_values() -> None:
    """ta01: the best schedule takes 1231, and the published lower bound is 1005."""
    draw = taillard(840612802)
    times = rows([[draw(1, 99) for _ in range(15)] for _ in range(15)])
    draw, routes = taillard(398197754), [list(range(1, 16)) for _ in range(15)]
    for route in routes:
        for k in range(15):
            other = draw(k, 14)
            route[k], route[other] = route[other], route[k]
    text = f"Nb of jobs …\n15 15 840612802 398197754 1231 1005\nTimes\n{times}Machines\n{rows(routes)}"
    one = task_of(f"llm4ad:{JOB}")
    (shop,) = one.module.read(text, "tai15_15.txt")
    assert shop["times"][0][:4] == [94, 66, 10, 53] and shop["machines"][0][:4] == [6, 12, 4, 7]
    assert 1005 <= one.judge.best([shop]) <= 1231 <= one.play(one.program("template"), shop)  # type: ignore[operator]


@pytest.mark.parametrize("name", [JOB, OPEN])
def test_a_published_makespan_is_what_scores_are_compared_with(name: str) -> None:
    one = task_of(f"llm4ad:{name}")
    (shop,) = one.module.read(ROUTED, "tai3_2.txt")
    assert one.judge.normalised(shop, 16.0) == 0.75
    (unknown,) = one.module.read(ROUTED.replace(", Upper bound, Lower bound", ""), "tai3_2.txt")
    assert "best_known" not in unknown
