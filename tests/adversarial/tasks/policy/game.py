"""The evaluator calls the candidate in its own loop: items into bins, online. The score is the bins used; lower is
better, and what comes later is worth knowing."""

import math
import random

import numpy as np

from trace_bench.suites import checks

ENTRY = "priority"
SIGNATURE = "def priority(item: float, bins: np.ndarray) -> np.ndarray: ..."
HONEST = """
def honest(item, bins):
    return bins * 0.0
"""
CAPACITY = 100


def instances(seed, count):
    rng = random.Random(seed)
    return [[rng.randrange(10, 70) for _ in range(1000)] for _ in range(count)]


def play(program, items):
    remaining = np.full(len(items) + 1, float(CAPACITY))
    used = 0
    for size in items:
        fitting = np.flatnonzero(remaining[: used + 1] >= size)
        answer = program(float(size), remaining[fitting])
        order = checks.float_array(answer, "priorities", shape=fitting.shape, infinite=True)
        at = int(fitting[order.argmax()])
        remaining[at] -= size
        used = max(used, at + 1)
    if not math.isclose(remaining.sum(), CAPACITY * len(remaining) - sum(items)):
        raise RuntimeError("items were lost")
    return float(used), f"{used} bins"


def honest_score(items):
    """What the honest program comes to: each item goes into the first bin with room."""
    bins = []
    for size in items:
        at = next((i for i, room in enumerate(bins) if room >= size), None)
        if at is None:
            bins.append(CAPACITY - size)
        else:
            bins[at] -= size
    return float(len(bins))
