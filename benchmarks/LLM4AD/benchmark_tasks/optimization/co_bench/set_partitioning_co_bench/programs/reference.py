import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csc_matrix

WIDTH = 150


def solve(num_rows: int, num_columns: int, costs: np.ndarray, columns: list[list[int]]) -> list[int]:
    """Beam search (Ow and Morton, 1988): row by row, the first row that is not covered gets each column that fits; of
    the partial partitions those are kept whose reduced costs in the linear relaxation are least."""
    prices = duals(num_rows, costs, columns)
    starting = [[] for _ in range(num_rows)]  # columns by their first row
    for column, rows in enumerate(columns):
        if rows:
            reduced = float(costs[column] - prices[rows].sum())
            starting[min(rows)].append((reduced, column, sum(1 << row for row in rows)))
    layers = [{} for _ in range(num_rows + 1)]  # by the first row not covered: rows covered -> (reduced costs, columns)
    layers[0][0] = (0.0, ())
    for row in range(num_rows):
        for covered, (spent, chosen) in sorted(layers[row].items(), key=lambda item: item[1][0])[:WIDTH]:
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


def duals(num_rows, costs, columns):
    rows = [row for column in columns for row in column]
    ends = np.cumsum([0] + [len(column) for column in columns])
    matrix = csc_matrix((np.ones(len(rows)), rows, ends), shape=(num_rows, len(columns)))
    found = linprog(costs, A_eq=matrix, b_eq=np.ones(num_rows), method="highs")
    return found.eqlin.marginals if found.status == 0 else np.zeros(num_rows)
