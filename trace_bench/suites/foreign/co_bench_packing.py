"""CO-Bench's calls of problems of packing, cutting and loading; the others, and what these functions are, are in
`co_bench_calls`."""

from __future__ import annotations

from typing import Any

from trace_bench.suites.foreign.co_bench_calls import Steps, index, indices, whole

UNPLACED = -1
"""Both coordinates of an item that is not packed."""


def _upright(turned: Any, sides: Any) -> None:
    if turned != 0 and sides[0] != sides[1]:
        raise ValueError("a piece is turned, which this task does not allow")


def _numbers(array: Any) -> Any:
    """An array as nested lists, of ints if all are whole."""
    whole = array.astype("int64")
    return (whole if (whole == array).all() else array).tolist()


def bp_1d(bin_capacity: int, num_items: int, items: Any) -> Steps:
    answer = yield {"id": "1", "bin_capacity": bin_capacity, "num_items": num_items, "items": items.tolist()}
    return [indices(one, num_items) for one in answer["bins"]]


def multidimensional_knapsack_problem(n: int, m: int, p: Any, r: Any, b: Any) -> Steps:
    answer = yield {"n": n, "m": m, "p": p.tolist(), "r": r.tolist(), "b": b.tolist()}
    return [whole(x) for x in answer["x"]]


def multi_demand_multidimensional_knapsack_problem(
    n: int, m: int, q: int, c: Any, a_leq: Any, b_leq: Any, a_geq: Any, b_geq: Any
) -> Steps:
    answer = yield {
        "n": n,
        "m": m,
        "q": q,
        "A_leq": _numbers(a_leq),
        "b_leq": _numbers(b_leq),
        "A_geq": _numbers(a_geq),
        "b_geq": _numbers(b_geq),
        "cost_vector": _numbers(c),
        "cost_type": "mixed" if (c < 0).any() else "positive",
    }
    return [whole(x) for x in answer["x"]]


def _sheet_pieces(pieces: Any, fields: tuple[str, ...]) -> list[dict[str, int]]:
    return [dict(zip(fields, row, strict=True)) for row in pieces.tolist()]


def constrained_guillotine_cutting(stock_length: int, stock_width: int, pieces: Any) -> Steps:
    types = _sheet_pieces(pieces, ("length", "width", "max", "value"))
    answer = yield {"m": len(types), "stock_length": stock_length, "stock_width": stock_width, "piece_types": types}
    rows = []
    for number, x, y, length, width, turned in answer["placements"]:
        kind = index(number, len(pieces))
        if (length, width, turned) != (*pieces[kind, :2].tolist(), 0):
            raise ValueError(f"a piece of type {number} is placed as {length} x {width}, turned {turned}")
        rows.append((kind, whole(x), whole(y)))
    return rows


def constrained_non_guillotine_cutting(stock_length: int, stock_width: int, pieces: Any) -> Steps:
    types = _sheet_pieces(pieces, ("length", "width", "min", "max", "value"))
    answer = yield {"stock_length": stock_length, "stock_width": stock_width, "pieces": types}
    rows = []
    for number, x, y, turned in answer["placements"]:
        kind = index(number, len(pieces))
        _upright(turned, pieces[kind])
        rows.append((kind, whole(x), whole(y)))
    return rows


def unconstrained_guillotine_cutting(stock_length: int, stock_width: int, pieces: Any) -> Steps:
    """There each piece can be cut once: it is given as many pieces of each type as the sheet's sides have room for."""
    kinds = [
        kind
        for kind, (length, width, _) in enumerate(pieces.tolist())
        for _ in range((stock_length // length) * (stock_width // width))
    ]
    names = ("l", "w", "value")
    answer = yield {
        "m": len(kinds),
        "stock_width": stock_length,
        "stock_height": stock_width,
        "pieces": {i: dict(zip(names, pieces[kind].tolist(), strict=True)) for i, kind in enumerate(kinds, start=1)},
        "allow_rotation": False,
    }
    rows, seen = [], set()
    for one in answer["placements"]:
        piece = index(one["piece_id"], len(kinds))
        if piece in seen:
            raise ValueError(f"piece {piece + 1} is placed twice")
        seen.add(piece)
        _upright(one["orientation"], pieces[kinds[piece]])
        rows.append((kinds[piece], whole(one["x"]), whole(one["y"])))
    return rows


def assortment_problem(stocks: Any, pieces: Any) -> Steps:
    answer = yield {
        "m": len(pieces),
        "n": len(stocks),
        "waste_cost": 1.0,
        "stocks": [
            {"length": float(length), "width": float(width), "fixed_cost": float(length * width)}
            for length, width in stocks.tolist()
        ],
        "pieces": [
            {"length": float(length), "width": float(width), "min": least, "max": most, "value": float(length * width)}
            for length, width, least, most in pieces.tolist()
        ],
    }
    return [
        (
            index(sheet["stock_type"], len(stocks)),
            [
                (index(one["piece"], len(pieces)), whole(one["x"]), whole(one["y"]), whole(one["orientation"]))
                for one in sheet["placements"]
            ],
        )
        for sheet in answer["placements"].values()
    ]


def container_loading(container: Any, sizes: Any, vertical: Any, counts: Any) -> Steps:
    types = {
        number: {"dims": dims, "flags": flags, "count": count}
        for number, (dims, flags, count) in enumerate(
            zip(sizes.tolist(), vertical.astype(int).tolist(), counts.tolist(), strict=True), start=1
        )
    }
    answer = yield {"problem_index": 1, "container": tuple(container), "box_types": types}
    rows = []
    placements = answer["placements"]
    if len({one["container_id"] for one in placements}) > 1:
        raise ValueError("boxes are placed in several containers, and there is one")
    for one in placements:
        kind = index(one["box_type"], len(types))
        up = [0, 1, 2].index(one["v"])
        flat = [int(side) for axis, side in enumerate(sizes[kind]) if axis != up]
        across = flat[::-1] if one["hswap"] == 1 else flat
        rows.append((kind, *(whole(one[axis]) for axis in "xyz"), *across, int(sizes[kind][up])))
    return rows


def container_loading_with_weight_restrictions(
    container: Any, sizes: Any, vertical: Any, counts: Any, weights: Any, strengths: Any
) -> Steps:
    types = []
    for dims, flags, count, weight, bears in zip(sizes, vertical, counts, weights, strengths, strict=True):
        one: dict[str, Any] = {"count": int(count), "weight": float(weight)}
        for axis, name in enumerate(("length", "width", "height")):
            one |= {name: int(dims[axis]), f"{name}_flag": int(flags[axis]), f"lb{axis + 1}": float(bears[axis])}
        types.append(one)
    volume = float((sizes.prod(axis=1) * counts).sum()) / 1e6
    answer = yield {"container": tuple(container), "n": len(types), "cargo_vol": volume, "box_types": types}
    rows = []
    for one in answer["placements"]:
        kind = index(one["box_type"], len(types))
        up = index(one["orientation"], 3)
        sides = [int(side) for side in sizes[kind]]
        across = [sides[axis] for axis in ((1, 2), (0, 2), (0, 1))[up]]
        rows.append((kind, *(whole(one[axis]) for axis in "xyz"), *across, sides[up]))
    return rows


def _in_disc(radius: float, count: int) -> dict[str, Any]:
    return {"n": count, "cx": 0.0, "cy": 0.0, "R": radius}


def _first(packed: dict[int, Any]) -> list[Any]:
    """The rows of items 0, 1 … without their numbers."""
    for place, item in enumerate(packed):
        if item != place:
            raise ValueError(f"item {place + 1} is not packed, and a larger one is")
    return list(packed.values())


def _circles(coords: Any, count: int) -> dict[int, Any]:
    if len(coords) != count:
        raise ValueError(f"it has {len(coords)} entries, and must have {count}")
    return {i: (x, y) for i, (x, y) in enumerate(coords) if not x == y == UNPLACED}


def _rectangles(placements: Any, count: int) -> dict[int, Any]:
    if len(placements) != count:
        raise ValueError(f"it has {len(placements)} entries, and must have {count}")
    packed = {}
    for i, (x, y, theta) in enumerate(placements):
        if x == y == UNPLACED:
            continue
        if min(abs(theta), abs(theta - 90)) > 1e-3:
            raise ValueError(f"item {i + 1} is turned by {theta} degrees, and must be by 0 or 90")
        packed[i] = (x, y, int(theta > 45))
    return packed


def _of_rectangles(radius: float, sizes: Any) -> dict[str, Any]:
    square = bool((sizes[:, 0] == sizes[:, 1]).all())
    items = {"items": [tuple(row) for row in sizes.tolist()]}
    return _in_disc(radius, len(sizes)) | items | {"shape": "square" if square else "rectangle", "rotation": not square}


def packing_unequal_circles(container_radius: float, radii: Any) -> Steps:
    answer = yield _in_disc(container_radius, len(radii)) | {"radii": radii.tolist()}
    return _first(_circles(answer["coords"], len(radii)))


def packing_unequal_circles_area(container_radius: float, radii: Any) -> Steps:
    answer = yield _in_disc(container_radius, len(radii)) | {"radii": radii.tolist()}
    return [(item, *row) for item, row in _circles(answer["coords"], len(radii)).items()]


def packing_unequal_rectangles_and_squares(container_radius: float, sizes: Any) -> Steps:
    answer = yield _of_rectangles(container_radius, sizes)
    return _first(_rectangles(answer["placements"], len(sizes)))


def packing_unequal_rectangles_and_squares_area(container_radius: float, sizes: Any) -> Steps:
    answer = yield _of_rectangles(container_radius, sizes)
    return [(item, *row) for item, row in _rectangles(answer["placements"], len(sizes)).items()]
