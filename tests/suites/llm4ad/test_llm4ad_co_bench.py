"""Programs of CO-Bench on the tasks that have a counterpart there."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.suites.conftest import BuildTask
from tests.suites.llm4ad.conftest import Task, folders
from trace_bench.cli.problem_checks import programs_for
from trace_bench.errors import ConfigError
from trace_bench.suites import spec
from trace_bench.suites.foreign import co_bench_calls, co_bench_packing, replay
from trace_bench.suites.registry import load_suites
from trace_bench.worker.problem import CandidateError

WITHOUT = {"maximal_independent_set"}
PROBLEMS = sorted(replay.problems())
INVERSE = (Path(__file__).parent / "co_bench_inverse.py").read_text()
LONG = "equitable_partitioning_problem"
SLOW = {LONG, "constrained_guillotine_cutting", "packing_unequal_circles_area"}
"""Their references take seconds."""
TURNS = {"container_loading_with_weight_restrictions"}
"""Its reference turns boxes around the vertical, which an answer of CO-Bench cannot say."""
KEYS = {
    "aircraft_landing": "num_planes num_runways freeze_time planes separation",
    "assignment_problem": "n cost_matrix",
    "assortment_problem": "m n waste_cost stocks pieces",
    "bp_1d": "id bin_capacity num_items items",
    "capacitated_warehouse_location": "m n warehouses customers",
    "common_due_date_scheduling": "jobs h",
    "constrained_guillotine_cutting": "m stock_length stock_width piece_types",
    "constrained_non_guillotine_cutting": "stock_length stock_width pieces",
    "container_loading": "problem_index container box_types",
    "container_loading_with_weight_restrictions": "container n cargo_vol box_types",
    "corporate_structuring": "N target countries withholding",
    "crew_scheduling": "N K time_limit tasks arcs",
    "equitable_partitioning_problem": "data",
    "euclidean_steiner_problem": "points",
    "flow_shop_scheduling": "n m matrix",
    "generalised_assignment_problem": "m n cost_matrix consumption_matrix capacities problem_type",
    "graph_colouring": "n edges adjacency",
    "hybrid_reentrant_shop_scheduling": "n_jobs n_machines init_time setup_times processing_times",
    "job_shop_scheduling": "n_jobs n_machines times machines",
    "multi_demand_multidimensional_knapsack_problem": "n m q A_leq b_leq A_geq b_geq cost_vector cost_type",
    "multidimensional_knapsack_problem": "n m p r b",
    "open_shop_scheduling": "n_jobs n_machines times machines",
    "p_median_capacitated": "best_known n p Q customers",
    "p_median_uncapacitated": "n m p dist",
    "packing_unequal_circles": "n cx cy R radii",
    "packing_unequal_circles_area": "n cx cy R radii",
    "packing_unequal_rectangles_and_squares": "n cx cy R items shape rotation",
    "packing_unequal_rectangles_and_squares_area": "n cx cy R items shape rotation",
    "resource_constrained_shortest_path": "n m K lower_bounds upper_bounds vertex_resources graph",
    "set_covering": "m n costs row_cover",
    "set_partitioning": "num_rows num_columns columns_info",
    "travelling_salesman_problem": "nodes",
    "uncapacitated_warehouse_location": "m n warehouses customers",
    "unconstrained_guillotine_cutting": "m stock_width stock_height pieces allow_rotation",
    "vehicle_routing_period_routing": "depot customers vehicles_per_day vehicle_capacity period_length",
}
"""The keys of an instance there, without those that say what is known of its best answers."""


def id_of(problem: str) -> str:
    return f"llm4ad:optimization/co_bench/{problem}_co_bench"


def resolved(task_id: str) -> spec.Task:
    folder = folders()[task_id]
    return spec.Task(task_id, load_suites()["llm4ad"], folder, spec.load_task_spec(folder))


def played(task: Task, instance: dict[str, Any], solve: Callable[..., Any]) -> float:
    """The score of a `solve` of CO-Bench, called in this process."""
    name = task.folder.name.removesuffix("_co_bench")
    table: Any = co_bench_packing if hasattr(co_bench_packing, name) else co_bench_calls
    return task.play(co_bench_calls.replayed(getattr(table, name), solve), instance)


def test_all_tasks_but_those_that_are_listed_have_a_counterpart() -> None:
    shipped = {Path(id).name.removesuffix("_co_bench") for id in folders() if "/co_bench/" in id}
    assert len(shipped) == 36 and shipped - WITHOUT == set(PROBLEMS) == set(KEYS)


@pytest.mark.parametrize("name", [PROBLEMS[0], LONG, *(n for n in PROBLEMS[1:] if n != LONG)])  # the second is slow
def test_a_program_that_is_turned_over_and_back_scores_the_same(name: str, build_task: BuildTask) -> None:
    size = {} if name == LONG else {"size": "small"}
    problem = build_task(id_of(name), n_instance=1, **size)
    which = "template" if name in SLOW | TURNS else "reference"
    ours = (folders()[id_of(name)] / "programs" / f"{which}.py").read_text()
    theirs = (
        INVERSE
        + ours.replace("from __future__ import annotations", "")
        + f"\n_ours = solve\ndef solve(**kwargs):\n    return {name}(_ours, kwargs)\n"
    )
    (given,) = programs_for(resolved(id_of(name)), {"theirs.py": theirs}, co_bench=False).values()
    (example,) = problem.train
    expected, said = (problem.guide(None, program, example.reference)[0] for program in (ours, given))
    assert said == expected


@pytest.mark.parametrize("name", PROBLEMS)
def test_each_problem_is_given_the_keys_of_co_bench(name: str, task: Callable[[str], Task]) -> None:
    found: dict[str, Any] = {}

    def solve(**kwargs: Any) -> dict[str, Any]:
        found.update(kwargs)
        return {}

    of = task(id_of(name))
    with pytest.raises(ValueError, match=r"^the answer lacks the key '\w+'$|^the answer lacks the key 1$"):
        played(of, of.instance(), solve)
    assert " ".join(found) == KEYS[name]
    assert not any(isinstance(v, np.ndarray) for key, v in found.items() if key != "cost_matrix")


# ------------------------------------------------------------------------------- programs that are written for CO-Bench


def _bins(**kwargs: Any) -> dict[str, Any]:
    assert kwargs["items"] and max(kwargs["items"]) <= kwargs["bin_capacity"]
    return {"num_bins": kwargs["num_items"], "bins": [[i] for i in range(1, kwargs["num_items"] + 1)]}


def _jobs(**kwargs: Any) -> dict[str, Any]:
    assert len(kwargs["matrix"]) == kwargs["n"] and len(kwargs["matrix"][0]) == kwargs["m"]
    return {"job_sequence": sorted(range(1, kwargs["n"] + 1), key=lambda j: sum(kwargs["matrix"][j - 1]))}


def _shortest_first(n: int, m: int, matrix: Any) -> list[int]:
    return sorted(range(n), key=lambda j: sum(matrix[j]))


def _colours(**kwargs: Any) -> dict[int, int]:
    assert all(v in kwargs["adjacency"][u] and u in kwargs["adjacency"][v] for u, v in kwargs["edges"])
    return {vertex: vertex for vertex in range(1, kwargs["n"] + 1)}


def _owned_by_the_target(**kwargs: Any) -> dict[str, Any]:
    code, foreign, domestic, profit = kwargs["countries"][1]
    assert code in (1, 2, 3, 4) and 0 <= foreign <= 1 and 0 <= domestic <= 1 and profit >= 0
    assert 0 <= kwargs["withholding"][1][kwargs["N"]] <= 1
    target = kwargs["target"]
    return {"structure": {i: 0 if i == target else target for i in range(1, kwargs["N"] + 1)}}


def _first_come(**kwargs: Any) -> dict[str, Any]:
    planes, separation, schedule = kwargs["planes"], kwargs["separation"], {}
    runways: dict[int, list[int]] = {runway: [] for runway in range(1, kwargs["num_runways"] + 1)}
    for i in sorted(range(kwargs["num_planes"]), key=lambda i: planes[i]["target"]):
        free = {
            runway: max([planes[i]["target"], *(schedule[j + 1]["landing_time"] + separation[j][i] for j in landed)])
            for runway, landed in runways.items()
        }
        runway = min(free, key=lambda r: free[r])
        schedule[i + 1] = {"landing_time": free[runway], "runway": runway}
        runways[runway].append(i)
    return {"schedule": schedule}


def _largest_in_the_middle(**kwargs: Any) -> dict[str, Any]:
    coords = [(-1, -1)] * kwargs["n"]
    coords[-1] = (kwargs["cx"], kwargs["cy"])
    return {"coords": coords}


def _one_box(**kwargs: Any) -> dict[str, Any]:
    box = kwargs["box_types"][1]
    assert len(kwargs["container"]) == 3 and box["count"] > 0 and len(box["dims"]) == 3
    place = {"box_type": 1, "container_id": 1, "x": 0, "y": 0, "z": 0, "v": box["flags"].index(1), "hswap": 1}
    return {"placements": [place]}


def _one_strong_box(**kwargs: Any) -> dict[str, Any]:
    box = kwargs["box_types"][0]
    up = [box["length_flag"], box["width_flag"], box["height_flag"]].index(1)
    assert box["count"] > 0 and box["weight"] > 0 and (box["lb1"], box["lb2"], box["lb3"])[up] > 0
    place = {"box_type": 1, "orientation": up + 1, "x": 0.0, "y": 0.0, "z": 0.0}
    return {"instance": 1, "util": 0.0, "m": 1, "placements": [place]}


def _volume_of_one(container: Any, sizes: Any, vertical: Any, counts: Any, *_: Any) -> Any:
    up = vertical[0].tolist().index(True)
    across = [side for axis, side in enumerate(sizes[0].tolist()) if axis != up]
    return [(0, 0, 0, 0, *across, int(sizes[0, up]))]


def _cheapest_warehouse(**kwargs: Any) -> dict[str, Any]:
    sites, customers = kwargs["warehouses"], kwargs["customers"]
    total = [w["fixed_cost"] + sum(c["costs"][j] for c in customers) for j, w in enumerate(sites)]
    row = [int(j == total.index(min(total))) for j in range(kwargs["m"])]
    return {"total_cost": min(total), "warehouse_open": row, "assignments": [row] * kwargs["n"]}


def _one_after_another(**kwargs: Any) -> dict[str, Any]:
    now, starts = 0, []
    assert sorted(kwargs["machines"][0]) == list(range(1, kwargs["n_machines"] + 1))
    for row in kwargs["times"]:
        starts.append([now + sum(row[:k]) for k in range(len(row))])
        now += sum(row)
    return {"start_times": starts}


def _sheet(**kwargs: Any) -> dict[str, Any]:
    assert all(p["l"] * p["w"] > 0 and p["value"] > 0 for p in kwargs["pieces"].values())
    best = max(kwargs["pieces"], key=lambda i: kwargs["pieces"][i]["value"])
    return {"placements": [{"piece_id": best, "x": 0, "y": 0, "orientation": 0}]}


WRITTEN: list[tuple[str, Callable[..., Any], Callable[..., Any]]] = [
    ("bp_1d", _bins, lambda capacity, n, items: [[i] for i in range(n)]),
    ("flow_shop_scheduling", _jobs, _shortest_first),
    ("graph_colouring", _colours, lambda n, edges: list(range(n))),
    (
        "corporate_structuring", _owned_by_the_target,
        lambda n, target, *_: [-1 if i == target else target for i in range(n)],
    ),
    ("packing_unequal_circles_area", _largest_in_the_middle, lambda radius, radii: [(len(radii) - 1, 0.0, 0.0)]),
    ("container_loading", _one_box, _volume_of_one),
    ("container_loading_with_weight_restrictions", _one_strong_box, _volume_of_one),
    (
        "uncapacitated_warehouse_location", _cheapest_warehouse,
        lambda m, n, fixed, costs: [int((fixed + costs.sum(axis=0)).argmin())] * n,
    ),
    (
        "job_shop_scheduling", _one_after_another,
        lambda n, m, times, machines: _one_after_another(
            times=times, machines=[[k + 1 for k in row] for row in machines], n_machines=m
        )["start_times"],
    ),
    ("unconstrained_guillotine_cutting", _sheet, lambda L, W, pieces: [(int(pieces[:, 2].argmax()), 0, 0)]),
    ("travelling_salesman_problem", lambda **k: {"tour": list(range(len(k["nodes"])))}, lambda p: list(range(len(p)))),
]  # fmt: skip


@pytest.mark.parametrize(("name", "theirs", "ours"), WRITTEN, ids=[name for name, *_ in WRITTEN])
def test_what_is_written_for_co_bench_scores_what_it_says(
    name: str, theirs: Callable[..., Any], ours: Callable[..., Any], task: Callable[[str], Task]
) -> None:
    of = task(id_of(name))
    for seed in (1, 2):
        instance = of.instance(seed)
        assert played(of, instance, theirs) == of.play(ours, instance)


def test_a_landing_plan_of_co_bench_is_one(task: Callable[[str], Task]) -> None:
    of = task(id_of("aircraft_landing"))
    instance = of.instance(3)
    times, runways = of.module.first_come(instance)
    assert played(of, instance, _first_come) == of.verdict(instance, ([round(t * 1000) for t in times], runways)).score


# ------------------------------------------------------------------------------------------------------- wrong answers


WRONG: list[tuple[str, Callable[..., Any], str]] = [
    ("bp_1d", lambda **_: {"num_bins": 1}, "the answer lacks the key 'bins'"),
    ("bp_1d", lambda **_: None, "solve must return a dict, as in CO-Bench, not a value of type NoneType"),
    ("bp_1d", lambda **_: {"bins": 7}, ".* key 'bins' is not as in CO-Bench: TypeError: 'int' .*"),
    ("bp_1d", lambda **_: {"bins": [[0]]}, "the value of the answer's key 'bins' is .*: 0 is not within 1 .. .*"),
    ("bp_1d", lambda **_: {"bins": [["a"]]}, "the value of the answer's key 'bins' is not as in CO-Bench: invalid .*"),
    ("graph_colouring", lambda **_: {2: 1}, "the answer lacks the key 1"),
    ("aircraft_landing", lambda **_: {"schedule": {1: {"runway": 1}}}, ".* 'schedule' is .*: KeyError: 2"),
    ("assignment_problem", lambda **_: {"assignment": [(1, 1), (1, 2)]}, ".* 'assignment' .*: item 1 .* twice"),
    ("assignment_problem", lambda **_: {"assignment": [(1, 1)]}, ".* 'assignment' is .*: item 2 is not assigned"),
    (
        "constrained_non_guillotine_cutting", lambda **_: {"placements": [(1, 0, 0, 1)]},
        ".* 'placements' is .*: a piece is turned, which this task does not allow",
    ),
    (
        "constrained_guillotine_cutting", lambda **_: {"placements": [(1, 0, 0, 1, 1, 0)]},
        ".* 'placements' is .*: a piece of type 1 is placed as 1 x 1, turned 0",
    ),
    (
        "uncapacitated_warehouse_location",
        lambda m, n, **_: {"warehouse_open": [0] * m, "assignments": [[1] + [0] * (m - 1)] * n},
        ".* 'assignments' is .*: warehouse 1 is closed, and a customer is assigned to it",
    ),
    (
        "packing_unequal_circles", lambda n, **_: {"coords": [(-1, -1), (0, 0)] + [(-1, -1)] * (n - 2)},
        ".* 'coords' is .*: item 1 is not packed, and a larger one is",
    ),
    (
        "vehicle_routing_period_routing",
        lambda customers, **_: {"selected_schedules": {c["id"]: c["schedules"][0] for c in customers}, "tours": {}},
        r".* 'tours' is .*: day \d of customer \d+ is not as its selected schedule says",
    ),
    (
        "equitable_partitioning_problem", lambda data, **_: {"assignment": [-1.5] * len(data)},
        ".*first: group 1 has no member; .*",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "theirs", "sentence"), WRONG)
def test_an_answer_that_is_none_is_refused_in_a_sentence(
    name: str, theirs: Callable[..., Any], sentence: str, task: Callable[[str], Task]
) -> None:
    of = task(id_of(name))
    with pytest.raises((ValueError, CandidateError)) as caught:
        played(of, of.instance(), theirs)
    assert re.fullmatch(sentence, getattr(caught.value, "message", str(caught.value)))


# --------------------------------------------------------------------------------------------------------- as programs


def test_a_program_fails_with_its_own_line_and_an_answer_with_none(build_task: BuildTask) -> None:
    problem = build_task(id_of("bp_1d"), size="small", n_instance=1)
    (example,) = problem.train

    def failure(source: str, *, co_bench: bool = False) -> CandidateError:
        (program,) = programs_for(resolved(id_of("bp_1d")), {"a.py": source}, co_bench=co_bench).values()
        with pytest.raises(CandidateError) as caught:
            problem.guide(None, program, example.reference)
        return caught.value

    lacks = failure("def solve(**kwargs):\n    return {}\n")
    assert str(lacks) == "call failed: ValueError: the answer lacks the key 'bins'"
    raises = failure("\ndef solve(**kwargs):\n    return kwargs['best_known']\n")
    assert (raises.phase, raises.line) == ("call", 3) and "KeyError: 'best_known'" in str(raises)
    assert failure("def solve(**kwargs:\n", co_bench=True).line == 1
    assert "unexpected" not in str(failure("def solve(num_items, *, bin_capacity):\n    return 7\n", co_bench=True))


def test_a_program_may_name_its_arguments_and_call_itself(build_task: BuildTask) -> None:
    problem = build_task(id_of("bp_1d"), size="small", n_instance=1)
    (example,) = problem.train
    source = (
        "def solve(num_items, id, first=1):\n"
        "    if first > num_items:\n        return {'bins': []}\n"
        "    return {'bins': [[first], *solve(num_items=num_items, id=id, first=first + 1)['bins']]}\n"
    )
    (program,) = programs_for(resolved(id_of("bp_1d")), {"a.py": source}, co_bench=True).values()
    assert problem.guide(None, program, example.reference)[0] == len(example.reference["sizes"])
    (same,) = programs_for(resolved(id_of("bp_1d")), {"a.py": source}, co_bench=False).values()
    assert same == source, "it could be a program of the task"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("def solve(**kwargs): ...", True),
        ("def solve(*, n, m): ...", True),
        ("def solve(n, **kwargs): ...", False),
        ("def solve(*args, **kwargs): ...", False),
        ("def solve(): ...", False),
        ("def solve(n): ...\ndef solve(**kwargs): ...", True),
        ("def other(**kwargs): ...", False),
        ("def solve(**kwargs:", False),
    ],
)
def test_programs_that_take_keywords_alone_are_known(source: str, expected: bool) -> None:
    assert replay.takes_keywords(source) is expected


def test_other_tasks_and_files_without_solve_are_refused(task: Callable[[str], Task]) -> None:
    theirs = {"a.py": "def solve(**kwargs): ..."}
    for id in (id_of("maximal_independent_set"), "llm4ad:circle_packing"):
        with pytest.raises(ConfigError, match=rf"--program a.py: {id} cannot be called as in CO-Bench; docs/how-to"):
            programs_for(resolved(id), theirs, co_bench=True)
        assert programs_for(resolved(id), theirs, co_bench=False) == theirs
    with pytest.raises(ConfigError, match=r"--program b.py: defines no function solve at its top level, as programs"):
        programs_for(resolved(id_of("bp_1d")), {"b.py": "def pack(**kwargs): ..."}, co_bench=True)
