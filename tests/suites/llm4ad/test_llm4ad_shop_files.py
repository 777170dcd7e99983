"""Shops as they are published: Taillard's instances and files."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.suites.llm4ad.conftest import Task
from trace_bench.suites.data_files import DataError

GetTask = Callable[[str], Task]
FLOW = "llm4ad:optimization/co_bench/flow_shop_scheduling_co_bench"
JOB = "llm4ad:optimization/co_bench/job_shop_scheduling_co_bench"
OPEN = "llm4ad:optimization/co_bench/open_shop_scheduling_co_bench"


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


def test_flow_shop_the_first_published_instance_has_its_known_values(task: GetTask) -> None:
    """ta001: Palmer's slope order takes 1384, the best order 1278, and the published lower bound is 1232."""
    draw = taillard(873654221)
    times = rows([[draw(1, 99) for _ in range(20)] for _ in range(5)])
    one = task(FLOW)
    (shop,) = one.module.read(f"number of jobs …\n20 5 873654221 1278 1232\nprocessing times :\n{times}", "tai20_5.txt")
    assert shop["times"][0][0] == 54 and shop["times"][1][0] == 83
    assert one.play(one.program("template"), shop) == 1384
    assert 1232 <= one.judge.best([shop]) <= 1278 <= one.play(one.program("reference"), shop) <= 1300  # type: ignore[operator]


def test_job_shop_the_first_published_instance_has_its_known_values(task: GetTask) -> None:
    """ta01: the best schedule takes 1231, and the published lower bound is 1005."""
    draw = taillard(840612802)
    times = rows([[draw(1, 99) for _ in range(15)] for _ in range(15)])
    draw, routes = taillard(398197754), [list(range(1, 16)) for _ in range(15)]
    for route in routes:
        for k in range(15):
            other = draw(k, 14)
            route[k], route[other] = route[other], route[k]
    text = f"Nb of jobs …\n15 15 840612802 398197754 1231 1005\nTimes\n{times}Machines\n{rows(routes)}"
    one = task(JOB)
    (shop,) = one.module.read(text, "tai15_15.txt")
    assert shop["times"][0][:4] == [94, 66, 10, 53] and shop["machines"][0][:4] == [6, 12, 4, 7]
    assert 1005 <= one.judge.best([shop]) <= 1231 <= one.play(one.program("reference"), shop) <= 1400  # type: ignore[operator]


# -- published files


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


@pytest.mark.parametrize("name", [JOB, OPEN])
def test_files_with_routes_are_read(name: str, task: GetTask) -> None:
    other = ROUTED.replace("Times", "processing times :").replace("Nb", "number").replace("Machines\n", "machines :\n")
    one, same = task(name).module.read(ROUTED + "\n" + other, "tai3_2.txt")
    assert one == same == {"best_known": 12, "times": [[3, 2], [4, 1], [2, 2]], "machines": [[0, 1], [1, 0], [1, 0]]}
    assert task(name).judge.normalised(one, 16.0) == 0.75, "by the published makespan, as CO-Bench has it"
    (unknown,) = task(name).module.read(ROUTED.replace(", Upper bound, Lower bound", ""), "tai3_2.txt")
    assert "best_known" not in unknown


def test_flow_shop_files_have_a_row_for_each_machine(task: GetTask) -> None:
    text = """number of jobs, number of machines, initial seed, upper bound and lower bound :
          3           2   873654221        12        11
processing times :
 54 83 15
 79  3 11
"""
    first, second = task(FLOW).module.read(text * 2, "tai3_2.txt")
    assert first == second == {"best_known": 12, "times": [[54, 79], [83, 3], [15, 11]]}


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "has 0 headed parts"),
        ("3 2\n", "line 1: a line of words"),
        (ROUTED.replace("Times\n", ""), "has 2 headed parts; each instance has 3"),
        (ROUTED.replace(" 4 1", " 4 -1"), "line 5: a processing time must be within"),
        (ROUTED.replace(" 4 1", " 4"), "ends where a processing time is due"),
        (ROUTED.replace(" 4 1", " 4 1 7"), "line 6: '2' is more than the format has"),
        (ROUTED.replace(" 1 2\n", " 1 3\n"), "job, number 1, that does not name each of the machines"),
        (ROUTED.replace(" 3 2 84", " 0 2 84"), "an instance without jobs"),
    ],
)
def test_a_file_of_another_format_is_refused(text: str, says: str, task: GetTask) -> None:
    with pytest.raises(DataError) as caught:
        task(JOB).module.read(text, "tai3_2.txt")
    assert says in str(caught.value)
