"""Data in, data out: choose numbers of a list; the score is their sum. Higher is better."""

import random

from trace_bench.suites import checks

ENTRY = "choose"
SIGNATURE = "def choose(numbers: list[int]) -> list[int]: ..."
HONEST = """
def honest(numbers):
    chosen = []
    left = 3
    for at, number in enumerate(numbers):
        if left and number > 0:
            chosen.append(at)
            left -= 1
    return chosen
"""


def instances(seed, count):
    rng = random.Random(seed)
    return [[rng.randrange(-99, 100) for _ in range(20)] for _ in range(count)]


def play(program, numbers):
    chosen = checks.integers(program(list(numbers)), "chosen", low=0, high=len(numbers) - 1)
    if len(set(chosen)) != len(chosen):
        raise checks.refuse("an index was chosen twice")
    return float(sum(numbers[at] for at in chosen)), f"{len(chosen)} numbers chosen"


def honest_score(numbers):
    """What the honest program comes to: the first three positive numbers."""
    return float(sum([number for number in numbers if number > 0][:3]))
