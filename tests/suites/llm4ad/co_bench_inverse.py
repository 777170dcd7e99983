"""The other way round: a program of ours, ``ours``, as CO-Bench calls its own. A function for each problem takes the
program and CO-Bench's keywords, and returns CO-Bench's answer. The tests run this file in the candidate's process."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Ours = Callable[..., Any]
Given = dict[str, Any]


def _from_1(numbers: Any) -> list[int]:
    return [int(number) + 1 for number in numbers]


def _back(rows: Any) -> list[list[int]]:
    return [[number - 1 for number in row] for row in rows]


def aircraft_landing(ours: Ours, k: Given) -> Any:
    found = ours(k["num_planes"], k["num_runways"], k["freeze_time"], k["planes"], k["separation"])
    landings = zip(found["landing_times"], found["runways"], strict=True)
    return {"schedule": {i: {"landing_time": t, "runway": on + 1} for i, (t, on) in enumerate(landings, start=1)}}


def assignment_problem(ours: Ours, k: Given) -> Any:
    agents = ours(k["n"], k["cost_matrix"].astype(int))
    return {"total_cost": None, "assignment": [(i, int(agent) + 1) for i, agent in enumerate(agents, start=1)]}


def assortment_problem(ours: Ours, k: Given) -> Any:
    stocks = np.array([[s["length"], s["width"]] for s in k["stocks"]], dtype=int)
    pieces = np.array([[p["length"], p["width"], p["min"], p["max"]] for p in k["pieces"]], dtype=int)
    names = ("piece", "x", "y", "orientation")
    sheets = {
        number: {
            "stock_type": int(kind) + 1,
            "placements": [dict(zip(names, (int(row[0]) + 1, *map(float, row[1:])), strict=True)) for row in rows],
        }
        for number, (kind, rows) in enumerate(ours(stocks, pieces), start=1)
    }
    return {"objective": 0.0, "placements": sheets}


def bp_1d(ours: Ours, k: Given) -> Any:
    bins = ours(k["bin_capacity"], k["num_items"], np.array(k["items"]))
    return {"num_bins": len(bins), "bins": [_from_1(one) for one in bins]}


def capacitated_warehouse_location(ours: Ours, k: Given) -> Any:
    sites, customers = k["warehouses"], k["customers"]
    arrays = ([s["capacity"] for s in sites], [s["fixed_cost"] for s in sites], [c["demand"] for c in customers])
    costs = np.array([c["costs"] for c in customers], dtype=int)
    amounts = np.asarray(ours(k["m"], k["n"], *(np.array(a, dtype=int) for a in arrays), costs), dtype=float)
    opened = (amounts > 0).any(axis=0).astype(int).tolist()
    return {"total_cost": 0.0, "warehouse_open": opened, "assignments": amounts.tolist()}


def common_due_date_scheduling(ours: Ours, k: Given) -> Any:
    return {"schedule": _from_1(ours(k["jobs"], k["h"]))}


def _sheet(ours: Ours, k: Given, pieces: Any, fields: str) -> tuple[Any, Any]:
    table = np.array([[piece[name] for name in fields.split()] for piece in pieces])
    return table, [tuple(map(int, row)) for row in ours(k["stock_length"], k["stock_width"], table)]


def constrained_guillotine_cutting(ours: Ours, k: Given) -> Any:
    table, rows = _sheet(ours, k, k["piece_types"], "length width max value")
    placed = [(kind + 1, x, y, *table[kind, :2].tolist(), 0) for kind, x, y in rows]
    return {"total_value": int(sum(table[kind, 3] for kind, _, _ in rows)), "placements": placed}


def constrained_non_guillotine_cutting(ours: Ours, k: Given) -> Any:
    _, rows = _sheet(ours, k, k["pieces"], "length width min max value")
    return {"placements": [(kind + 1, x, y, 0) for kind, x, y in rows]}


def unconstrained_guillotine_cutting(ours: Ours, k: Given) -> Any:
    copies: dict[tuple[int, ...], list[int]] = {}
    for number, piece in k["pieces"].items():
        copies.setdefault((piece["l"], piece["w"], piece["value"]), []).append(number)
    kinds = list(copies)
    rows = ours(k["stock_width"], k["stock_height"], np.array(kinds))
    names = ("piece_id", "x", "y", "orientation")
    return {
        "placements": [
            dict(zip(names, (copies[kinds[int(kind)]].pop(), int(x), int(y), 0), strict=True)) for kind, x, y in rows
        ]
    }


def container_loading(ours: Ours, k: Given) -> Any:
    types = list(k["box_types"].values())
    dims, flags, counts = (np.array([one[name] for one in types]) for name in ("dims", "flags", "count"))
    placed = []
    for kind, x, y, z, dx, dy, dz in (map(int, row) for row in ours(list(k["container"]), dims, flags == 1, counts)):
        across = {v: [int(d) for axis, d in enumerate(dims[kind]) if axis != v] for v in range(3)}
        v = next(
            v for v in range(3) if dims[kind, v] == dz and flags[kind, v] and sorted(across[v]) == sorted((dx, dy))
        )
        swap = int([dx, dy] != across[v])
        placed.append({"box_type": kind + 1, "container_id": 1, "x": x, "y": y, "z": z, "v": v, "hswap": swap})
    return {"placements": placed}


def container_loading_with_weight_restrictions(ours: Ours, k: Given) -> Any:
    names = ("length", "width", "height")
    dims = np.array([[one[name] for name in names] for one in k["box_types"]])
    flags = np.array([[one[f"{name}_flag"] == 1 for name in names] for one in k["box_types"]])
    counts, weights = (np.array([one[name] for one in k["box_types"]]) for name in ("count", "weight"))
    strengths = np.array([[one["lb1"], one["lb2"], one["lb3"]] for one in k["box_types"]])
    placed = []
    for kind, x, y, z, dx, dy, dz in ours(list(k["container"]), dims, flags, counts, weights, strengths):
        across = [[int(d) for axis, d in enumerate(dims[kind]) if axis != v] for v in range(3)]
        v = next(v for v in range(3) if dims[kind, v] == dz and flags[kind, v] and across[v] == [dx, dy])
        placed.append({"box_type": int(kind) + 1, "orientation": v + 1, "x": float(x), "y": float(y), "z": float(z)})
    return {"instance": 1, "util": 0.0, "m": len(placed), "placements": placed}


def corporate_structuring(ours: Ours, k: Given) -> Any:
    columns = [np.array(column) for column in zip(*(k["countries"][i] for i in range(1, k["N"] + 1)), strict=True)]
    rates = np.array([[k["withholding"][i][j] for j in range(1, k["N"] + 1)] for i in range(1, k["N"] + 1)])
    owners = ours(k["N"], k["target"] - 1, *columns, rates)
    structure = {i: int(owner) + 1 for i, owner in enumerate(owners, start=1) if owner >= 0}
    return {"structure": structure | {k["target"]: 0}}


def crew_scheduling(ours: Ours, k: Given) -> Any:
    tasks = np.array([k["tasks"][i] for i in range(1, k["N"] + 1)], dtype=int)
    arcs = np.array([(i - 1, j - 1, cost) for (i, j), cost in k["arcs"].items()], dtype=int)
    return {"crews": [_from_1(crew) for crew in ours(k["N"], k["K"], int(k["time_limit"]), tasks, arcs)]}


def equitable_partitioning_problem(ours: Ours, k: Given) -> Any:
    return {"assignment": _from_1(ours(np.array(k["data"]), 8))}


def euclidean_steiner_problem(ours: Ours, k: Given) -> Any:
    return {"steiner_points": [tuple(map(float, point)) for point in ours(np.array(k["points"]))]}


def flow_shop_scheduling(ours: Ours, k: Given) -> Any:
    return {"job_sequence": _from_1(ours(k["n"], k["m"], k["matrix"]))}


def generalised_assignment_problem(ours: Ours, k: Given) -> Any:
    assert k["problem_type"] == "min"
    arrays = (np.array(k[name]) for name in ("cost_matrix", "consumption_matrix", "capacities"))
    return {"assignments": _from_1(ours(k["m"], k["n"], *arrays))}


def graph_colouring(ours: Ours, k: Given) -> Any:
    joined = {(u, v) for u, others in k["adjacency"].items() for v in others if u < v}
    assert joined == {tuple(sorted(edge)) for edge in k["edges"]}
    colours = ours(k["n"], np.array(_back(k["edges"])))
    return {i: 10 * int(colour) + 1 for i, colour in enumerate(colours, start=1)}


def hybrid_reentrant_shop_scheduling(ours: Ours, k: Given) -> Any:
    names = ("n_jobs", "n_machines", "init_time", "setup_times", "processing_times")
    found = ours(*(k[name] for name in names))
    return {name: _from_1(found[name]) for name in ("permutation", "batch_assignment")}


def job_shop_scheduling(ours: Ours, k: Given) -> Any:
    return {"start_times": ours(k["n_jobs"], k["n_machines"], k["times"], _back(k["machines"]))}


open_shop_scheduling = job_shop_scheduling


def multi_demand_multidimensional_knapsack_problem(ours: Ours, k: Given) -> Any:
    assert k["cost_type"] == ("mixed" if min(k["cost_vector"]) < 0 else "positive")
    arrays = (np.array(k[name], dtype=float) for name in ("cost_vector", "A_leq", "b_leq", "A_geq", "b_geq"))
    return {"optimal_value": None, "x": [int(x) for x in ours(k["n"], k["m"], k["q"], *arrays)]}


def multidimensional_knapsack_problem(ours: Ours, k: Given) -> Any:
    return {"x": [int(x) for x in ours(k["n"], k["m"], *(np.array(k[name]) for name in "prb"))]}


def p_median_capacitated(ours: Ours, k: Given) -> Any:
    points = np.array([(x, y) for _, x, y, _ in k["customers"]], dtype=int)
    demands = np.array([demand for *_, demand in k["customers"]], dtype=int)
    of = _from_1(ours(k["n"], k["p"], int(k["Q"]), points, demands))
    unused = [i for i in range(1, k["n"] + 1) if i not in of]
    medians = sorted(set(of))
    return {"objective": 0, "medians": medians + unused[: k["p"] - len(medians)], "assignments": of}


def p_median_uncapacitated(ours: Ours, k: Given) -> Any:
    return {"medians": _from_1(ours(k["n"], k["p"], np.array(k["dist"], dtype=int)))}


def packing_unequal_circles(ours: Ours, k: Given) -> Any:
    placed = [(k["cx"] + float(x), k["cy"] + float(y)) for x, y in ours(k["R"], np.array(k["radii"]))]
    return {"coords": placed + [(-1, -1)] * (k["n"] - len(placed))}


def packing_unequal_circles_area(ours: Ours, k: Given) -> Any:
    rows = {int(item): (k["cx"] + float(x), k["cy"] + float(y)) for item, x, y in ours(k["R"], np.array(k["radii"]))}
    return {"coords": [rows.get(item, (-1, -1)) for item in range(k["n"])]}


def packing_unequal_rectangles_and_squares(ours: Ours, k: Given) -> Any:
    rows = [(float(x), float(y), 90 * int(turned)) for x, y, turned in ours(k["R"], np.array(k["items"]))]
    return {"placements": rows + [(-1, -1, 0)] * (k["n"] - len(rows))}


def packing_unequal_rectangles_and_squares_area(ours: Ours, k: Given) -> Any:
    found = ours(k["R"], np.array(k["items"]))
    rows = {int(item): (float(x), float(y), 90 * int(turned)) for item, x, y, turned in found}
    return {"placements": [rows.get(item, (-1, -1, 0)) for item in range(k["n"])]}


def resource_constrained_shortest_path(ours: Ours, k: Given) -> Any:
    names = ("n", "m", "K", "lower_bounds", "upper_bounds", "vertex_resources", "graph")
    return {"total_cost": 0.0, "path": ours(*(k[name] for name in names))}


def set_covering(ours: Ours, k: Given) -> Any:
    return {"selected_columns": _from_1(ours(k["m"], k["n"], np.array(k["costs"]), _back(k["row_cover"])))}


def set_partitioning(ours: Ours, k: Given) -> Any:
    info = [k["columns_info"][j] for j in range(1, k["num_columns"] + 1)]
    assert all(isinstance(rows, set) for _, rows in info)
    columns = _back(sorted(rows) for _, rows in info)
    costs = np.array([cost for cost, _ in info])
    return {"selected_columns": _from_1(ours(k["num_rows"], k["num_columns"], costs, columns))}


def travelling_salesman_problem(ours: Ours, k: Given) -> Any:
    return {"tour": [int(city) for city in ours(np.array(k["nodes"]))]}


def uncapacitated_warehouse_location(ours: Ours, k: Given) -> Any:
    fixed = np.array([site["fixed_cost"] for site in k["warehouses"]], dtype=int)
    costs = np.array([customer["costs"] for customer in k["customers"]], dtype=int)
    of = [int(site) for site in ours(k["m"], k["n"], fixed, costs)]
    matrix = [[int(site == j) for j in range(k["m"])] for site in of]
    return {"total_cost": 0.0, "warehouse_open": [int(j in of) for j in range(k["m"])], "assignments": matrix}


def vehicle_routing_period_routing(ours: Ours, k: Given) -> Any:
    depot = (k["depot"]["x"], k["depot"]["y"])
    days = ours(depot, k["customers"], k["vehicles_per_day"], k["vehicle_capacity"], k["period_length"])
    visits = [{node for tour in tours for node in tour} for tours in days]
    chosen = {c["id"]: [int(c["id"] in day) for day in visits] for c in k["customers"]}
    tours = {d: [[0, *tour, 0] for tour in day if len(tour)] for d, day in enumerate(days, start=1)}
    return {"selected_schedules": chosen, "tours": tours}
