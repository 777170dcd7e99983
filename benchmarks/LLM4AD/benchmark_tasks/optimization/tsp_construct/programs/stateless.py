import numpy as np


def select_next_node(
    current_node: int, destination_node: int, unvisited_nodes: np.ndarray, distance_matrix: np.ndarray
) -> int:
    """The next city of a path through all cities that are left, planned anew at each call: farthest insertion
    (Rosenkrantz, Stearns, Lewis, 1977), improved by 2-opt (Croes, 1958) and moves of up to three cities (Or, 1976)."""
    d = distance_matrix
    paths = [improved(path, d) for path in starts(current_node, destination_node, unvisited_nodes, d)]
    return int(min(paths, key=lambda path: d[path[:-1], path[1:]].sum())[1])


def starts(current, destination, left, d):
    """Two paths: by farthest insertion, and from each city to the nearest."""
    path, out = [current, destination], left
    near = np.minimum(d[current], d[destination])
    while len(out):
        node = int(out[near[out].argmax()])
        out = out[out != node]
        order = np.array(path)
        added = d[order[:-1], node] + d[node, order[1:]] - d[order[:-1], order[1:]]
        path.insert(int(added.argmin()) + 1, node)
        near = np.minimum(near, d[node])
    yield np.array(path)
    path, out = [current], left
    while len(out):
        path.append(int(out[d[path[-1], out].argmin()]))
        out = out[out != path[-1]]
    yield np.array([*path, destination])


def improved(path, d):
    """The best move again and again; both ends stay."""
    while True:
        found = [turned(path, d), *(moved(path, d, size) for size in (1, 2, 3) if len(path) > size + 2)]
        gain, path = max(found, key=lambda one: one[0])
        if gain < 1e-9:
            return path


def turned(path, d):
    """The best 2-opt move: what it saves, and the path with it."""
    inner = path[1:-1]
    step = d[path[:-1], path[1:]]
    gain = step[:-1, None] + step[None, 1:] - d[path[:-2, None], inner] - d[inner[:, None], path[2:]]
    gain = np.triu(gain, 1)
    i, j = np.unravel_index(gain.argmax(), gain.shape)
    made = path.copy()
    made[i + 1 : j + 2] = path[i + 1 : j + 2][::-1]
    return gain[i, j], made


def moved(path, d, size):
    """The best move of `size` cities in a row to another place: likewise."""
    first, last = path[1:-size], path[size:-1]
    step = d[path[:-1], path[1:]]
    saved = step[:-size] + step[size:] - d[path[: -size - 1], path[size + 1 :]]
    best, made = 0.0, path
    for one, other in ((first, last), (last, first)):
        added = d[one[:, None], path[:-1]] + d[other[:, None], path[1:]] - step
        gain = saved[:, None] - added
        rows, columns = np.arange(len(first))[:, None], np.arange(len(step))[None, :]
        gain[(columns >= rows) & (columns <= rows + size)] = 0.0
        i, j = np.unravel_index(gain.argmax(), gain.shape)
        if gain[i, j] > best:
            best, chain = gain[i, j], path[i + 1 : i + size + 1]
            chain = chain if one is first else chain[::-1]
            rest = np.delete(path, slice(i + 1, i + size + 1))
            made = np.insert(rest, j + 1 if j < i else j + 1 - size, chain)
    return best, made
