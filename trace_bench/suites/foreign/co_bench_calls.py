"""CO-Bench's calls of the problems that this benchmark has, too: a function for each, named after the task. Those of
packing and cutting are in `co_bench_packing`.

It takes the arguments of the task's ``solve``, yields the keywords of CO-Bench's, is sent the `Answer` to these, and
returns what the task's ``solve`` returns. Numbers of items count from 1 there, except cities of a tour. Totals that an
answer reports are not read. Both files run in the candidate's process (see `replay`), so they import nothing there but
what any process has.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

Steps = Generator[dict[str, Any], "Answer", Any]
NO_BEST = 1.0
"""In place of a best known cost, which is not given to programs."""
DEPOT = 0


class Answer:
    """What a program of CO-Bench answered: a dict.

    Attributes:
        key: the one that was read last.
    """

    def __init__(self, value: Any) -> None:
        if not isinstance(value, dict):
            raise ValueError(f"solve must return a dict, as in CO-Bench, not a value of type {type(value).__name__}")
        self._value = value
        self.key: Any = None

    def __getitem__(self, key: Any) -> Any:
        self.key = key
        for name in (key, str(key)):
            if name in self._value:
                return self._value[name]
        raise ValueError(f"the answer lacks the key {key!r}")


def replayed(problem: Callable[..., Steps], solve: Callable[..., Any]) -> Callable[..., Any]:
    """A function that is called as the task's ``solve``, and asks CO-Bench's `solve`.

    A `solve` that names its arguments is given those that it names.
    """

    def called(*args: Any, **kwargs: Any) -> Any:
        if kwargs:  # the program calls itself
            return solve(*args, **kwargs)
        steps = problem(*args)
        answer = Answer(solve(**_taken(solve, next(steps))))
        try:
            steps.send(answer)
        except StopIteration as end:
            return end.value
        except Exception as error:
            if str(error).startswith("the answer lacks"):
                raise
            text = f"{error}" if type(error) is ValueError else f"{type(error).__name__}: {error}"
            raise ValueError(f"the value of the answer's key {answer.key!r} is not as in CO-Bench: {text}") from None

    return called


def _taken(solve: Callable[..., Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    code = getattr(solve, "__code__", None)
    if code is None or code.co_flags & 0x08:  # takes any keyword
        return kwargs
    names = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    return {name: value for name, value in kwargs.items() if name in names}


def whole(value: Any) -> Any:
    """A number without a fraction as an int; any other as it is, which the task refuses."""
    return int(value) if value == int(value) else value


def index(number: Any, count: int) -> int:
    """`number` of 1 .. `count`, from 0."""
    if not 1 <= whole(number) <= count:
        raise ValueError(f"{number} is not within 1 .. {count}")
    return int(number) - 1


def indices(numbers: Any, count: int) -> list[int]:
    return [index(number, count) for number in numbers]


def _relabelled(labels: list[Any]) -> list[int]:
    """0, 1, 2 … in place of any numbers."""
    places = {label: place for place, label in enumerate(sorted(set(labels)))}
    return [places[label] for label in labels]


def _open(sites: Any, used: set[int]) -> None:
    for site in sorted(used):
        if sites[site] != 1:
            raise ValueError(f"warehouse {site + 1} is closed, and a customer is assigned to it")


# ------------------------------------------------------------------------------- assignment, covering, location, graphs


def assignment_problem(n: int, cost_matrix: Any) -> Steps:
    answer = yield {"n": n, "cost_matrix": cost_matrix.astype(float)}
    agents: list[Any] = [None] * n
    for item, agent in answer["assignment"]:
        if agents[index(item, n)] is not None:
            raise ValueError(f"item {item} is assigned twice")
        agents[index(item, n)] = index(agent, n)
    if None in agents:
        raise ValueError(f"item {agents.index(None) + 1} is not assigned")
    return agents


def generalised_assignment_problem(m: int, n: int, cost_matrix: Any, consumption_matrix: Any, capacities: Any) -> Steps:
    answer = yield {
        "m": m,
        "n": n,
        "cost_matrix": cost_matrix.tolist(),
        "consumption_matrix": consumption_matrix.tolist(),
        "capacities": capacities.tolist(),
        "problem_type": "min",
    }
    return indices(answer["assignments"], m)


def set_covering(m: int, n: int, costs: Any, row_cover: Any) -> Steps:
    cover = [[column + 1 for column in row] for row in row_cover]
    answer = yield {"m": m, "n": n, "costs": costs.tolist(), "row_cover": cover}
    return indices(answer["selected_columns"], n)


def set_partitioning(num_rows: int, num_columns: int, costs: Any, columns: Any) -> Steps:
    info = {
        number: (cost, {row + 1 for row in rows})
        for number, (cost, rows) in enumerate(zip(costs.tolist(), columns, strict=True), start=1)
    }
    answer = yield {"num_rows": num_rows, "num_columns": num_columns, "columns_info": info}
    return indices(answer["selected_columns"], num_columns)


def capacitated_warehouse_location(
    m: int, n: int, capacities: Any, fixed_costs: Any, demands: Any, costs: Any
) -> Steps:
    answer = yield {
        "m": m,
        "n": n,
        "warehouses": [
            {"capacity": float(capacity), "fixed_cost": float(cost)}
            for capacity, cost in zip(capacities, fixed_costs, strict=True)
        ],
        "customers": [
            {"demand": float(demand), "costs": row.astype(float).tolist()}
            for demand, row in zip(demands, costs, strict=True)
        ],
    }
    sites = answer["warehouse_open"]
    amounts = answer["assignments"]
    _open(sites, {site for row in amounts for site, amount in enumerate(row) if amount > 0})
    return [list(row) for row in amounts]


def uncapacitated_warehouse_location(m: int, n: int, fixed_costs: Any, costs: Any) -> Steps:
    answer = yield {
        "m": m,
        "n": n,
        "warehouses": [{"capacity": float(n), "fixed_cost": float(cost)} for cost in fixed_costs],
        "customers": [{"demand": 1.0, "costs": row.astype(float).tolist()} for row in costs],
    }
    sites = answer["warehouse_open"]
    served = []
    for number, row in enumerate(answer["assignments"], start=1):
        chosen = [site for site, share in enumerate(row) if share > 0.5]
        if len(chosen) != 1:
            raise ValueError(f"customer {number} is assigned to {len(chosen)} warehouses, and must be to one")
        served += chosen
    _open(sites, set(served))
    return served


def p_median_capacitated(n: int, p: int, Q: float, points: Any, demands: Any) -> Steps:
    customers = [
        (number, float(x), float(y), float(demand))
        for number, ((x, y), demand) in enumerate(zip(points, demands, strict=True), start=1)
    ]
    answer = yield {"best_known": NO_BEST, "n": n, "p": p, "Q": float(Q), "customers": customers}
    medians = list(answer["medians"])
    if len(medians) != p:
        raise ValueError(f"there are {len(medians)} medians, and must be {p}")
    for number in answer["assignments"]:
        if number not in medians:
            raise ValueError(f"a customer is assigned to {number}, which is no median")
    return indices(answer["assignments"], n)


def p_median_uncapacitated(n: int, p: int, dist: Any) -> Steps:
    answer = yield {"n": n, "m": n * (n - 1) // 2, "p": p, "dist": dist.astype(float).tolist()}
    return indices(answer["medians"], n)


def graph_colouring(n: int, edges: Any) -> Steps:
    pairs = [(u + 1, v + 1) for u, v in edges.tolist()]
    adjacency: dict[int, set[int]] = {vertex: set() for vertex in range(1, n + 1)}
    for u, v in pairs:
        adjacency[u].add(v)
        adjacency[v].add(u)
    answer = yield {"n": n, "edges": pairs, "adjacency": adjacency}
    return _relabelled([whole(answer[vertex]) for vertex in range(1, n + 1)])


def equitable_partitioning_problem(data: Any, n_groups: int) -> Steps:
    if n_groups != 8:
        raise ValueError(f"CO-Bench's problem has 8 groups, and this instance {n_groups}")
    answer = yield {"data": data.tolist()}
    return _relabelled([whole(label) for label in answer["assignment"]])


def corporate_structuring(
    n: int, target: int, tax_codes: Any, foreign_rates: Any, domestic_rates: Any, profits: Any, withholding: Any
) -> Steps:
    of_each = (tax_codes.tolist(), foreign_rates.tolist(), domestic_rates.tolist(), profits.tolist())
    answer = yield {
        "N": n,
        "target": target + 1,
        "countries": dict(enumerate(zip(*of_each, strict=True), start=1)),
        "withholding": {i + 1: dict(enumerate(row, start=1)) for i, row in enumerate(withholding.tolist())},
    }
    owners = [-1] * n
    for child, parent in answer["structure"].items():
        owners[index(child, n)] = index(parent, n) if parent else -1
    return owners


# --------------------------------------------------------------------------------------------------------- scheduling


def aircraft_landing(num_planes: int, num_runways: int, freeze_time: float, planes: Any, separation: Any) -> Steps:
    answer = yield {
        "num_planes": num_planes,
        "num_runways": num_runways,
        "freeze_time": freeze_time,
        "planes": planes,
        "separation": separation,
    }
    schedule = answer["schedule"]
    landings = [schedule[plane] for plane in range(1, num_planes + 1)]
    return {
        "landing_times": [landing["landing_time"] for landing in landings],
        "runways": indices([landing["runway"] for landing in landings], num_runways),
    }


def common_due_date_scheduling(jobs: Any, h: float) -> Steps:
    answer = yield {"jobs": [tuple(job) for job in jobs], "h": h}
    return indices(answer["schedule"], len(jobs))


def crew_scheduling(N: int, K: int, time_limit: int, tasks: Any, arcs: Any) -> Steps:
    answer = yield {
        "N": N,
        "K": K,
        "time_limit": float(time_limit),
        "tasks": {number: tuple(map(float, row)) for number, row in enumerate(tasks, start=1)},
        "arcs": {(i + 1, j + 1): float(cost) for i, j, cost in arcs.tolist()},
    }
    return [indices(crew, N) for crew in answer["crews"]]


def flow_shop_scheduling(n: int, m: int, matrix: Any) -> Steps:
    answer = yield {"n": n, "m": m, "matrix": matrix}
    return indices(answer["job_sequence"], n)


def hybrid_reentrant_shop_scheduling(
    n_jobs: int, n_machines: int, init_time: int, setup_times: Any, processing_times: Any
) -> Steps:
    """Machines may be counted from 0 or from 1 there."""
    answer = yield {
        "n_jobs": n_jobs,
        "n_machines": n_machines,
        "init_time": init_time,
        "setup_times": setup_times,
        "processing_times": processing_times,
    }
    order = indices(answer["permutation"], n_jobs)
    machines = [whole(machine) for machine in answer["batch_assignment"]]
    return {"permutation": order, "batch_assignment": [machine - (0 not in machines) for machine in machines]}


def job_shop_scheduling(n_jobs: int, n_machines: int, times: Any, machines: Any) -> Steps:
    numbered = [[machine + 1 for machine in row] for row in machines]
    answer = yield {"n_jobs": n_jobs, "n_machines": n_machines, "times": times, "machines": numbered}
    return [[whole(start) for start in row] for row in answer["start_times"]]


open_shop_scheduling = job_shop_scheduling


# ------------------------------------------------------------------------------------------------------ ways and tours


def euclidean_steiner_problem(points: Any) -> Steps:
    answer = yield {"points": [tuple(point) for point in points.tolist()]}
    return [tuple(point) for point in answer["steiner_points"]]


def resource_constrained_shortest_path(
    n: int, m: int, K: int, lower_bounds: Any, upper_bounds: Any, vertex_resources: Any, graph: Any
) -> Steps:
    answer = yield {
        "n": n,
        "m": m,
        "K": K,
        "lower_bounds": lower_bounds,
        "upper_bounds": upper_bounds,
        "vertex_resources": vertex_resources,
        "graph": graph,
    }
    return [whole(vertex) for vertex in answer["path"]]


def travelling_salesman_problem(nodes: Any) -> Steps:
    answer = yield {"nodes": [tuple(node) for node in nodes.tolist()]}
    return [whole(city) for city in answer["tour"]]


def vehicle_routing_period_routing(
    depot: Any, customers: Any, vehicles_per_day: Any, vehicle_capacity: float, period_length: int
) -> Steps:
    answer = yield {
        "depot": {"id": DEPOT, "x": depot[0], "y": depot[1]},
        "customers": customers,
        "vehicles_per_day": vehicles_per_day,
        "vehicle_capacity": vehicle_capacity,
        "period_length": period_length,
    }
    schedules = answer["selected_schedules"]
    chosen = [[day == 1 for day in schedules[customer["id"]]] for customer in customers]
    days, listed = [], answer["tours"]
    for day in range(1, period_length + 1):
        tours = [[whole(vertex) for vertex in tour] for tour in listed.get(day, [])]
        for tour in tours:
            if len(tour) < 2 or tour[0] != DEPOT or tour[-1] != DEPOT:
                raise ValueError(f"a tour of day {day} does not begin and end with {DEPOT}")
        days.append([tour[1:-1] for tour in tours])
        visited = {vertex for tour in tours for vertex in tour}
        for customer, plan in zip(customers, chosen, strict=True):
            if plan[day - 1] != (customer["id"] in visited):
                raise ValueError(f"day {day} of customer {customer['id']} is not as its selected schedule says")
    return days
