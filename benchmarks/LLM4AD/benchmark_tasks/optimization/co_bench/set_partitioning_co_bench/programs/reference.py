import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_matrix

LEVEL = 5
WIDTH = {1: 1, 2: 1, 3: 10, 4: 100, 5: 1500}[LEVEL]


def solve(num_rows: int, num_columns: int, costs: np.ndarray, columns: list[list[int]]) -> list[int]:
    """Beam search (Ow and Morton, 1988): row by row, the first row that is not covered gets each column that fits; of
    the partial partitions those are kept whose reduced costs in the linear relaxation are least. At level 1 the
    least that a row costs stands in for its price there."""
    prices = duals(num_rows, costs, columns) if LEVEL >= 2 else cheapest(num_rows, costs, columns)
    width = max(1, min(WIDTH, WIDTH * 200 // num_rows))
    starting = [[] for _ in range(num_rows)]  # columns by their first row
    for column, rows in enumerate(columns):
        if rows:
            reduced = float(costs[column] - prices[rows].sum())
            starting[min(rows)].append((reduced, column, sum(1 << row for row in rows)))
    layers = [{} for _ in range(num_rows + 1)]  # by the first row not covered: rows covered -> (reduced costs, columns)
    layers[0][0] = (0.0, ())
    for row in range(num_rows):
        for covered, (spent, chosen) in sorted(layers[row].items(), key=lambda item: item[1][0])[:width]:
            for reduced, column, mask in starting[row]:
                if not mask & covered:
                    new, total = covered | mask, spent + reduced
                    first = (~new & (new + 1)).bit_length() - 1
                    if total < layers[first].get(new, (np.inf,))[0]:
                        layers[first][new] = (total, (column, chosen))
        layers[row] = {}
    (_, chain), found = layers[num_rows].get((1 << num_rows) - 1, (0.0, ())), []
    while chain:
        found.append(chain[0])
        chain = chain[1]
    return found


def cheapest(num_rows, costs, columns):
    prices = np.full(num_rows, np.inf)
    for cost, rows in zip(costs, columns, strict=True):
        prices[rows] = np.minimum(prices[rows], cost / max(1, len(rows)))
    return prices


def duals(num_rows, costs, columns):
    rows = [row for column in columns for row in column]
    ends = np.cumsum([0] + [len(column) for column in columns])
    matrix = csc_matrix((np.ones(len(rows)), rows, ends), shape=(num_rows, len(columns)))
    found = linprog(costs, A_eq=matrix, b_eq=np.ones(num_rows), method="highs")
    return found.eqlin.marginals if found.status == 0 else np.zeros(num_rows)
