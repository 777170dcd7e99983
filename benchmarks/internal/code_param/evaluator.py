"""Run-length encoding: the fraction of strings that a program encodes exactly (higher is better)."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import groupby
from typing import Any

from trace_bench.suites import checks

LETTERS = "abcd"
LONGEST_RUN, MOST_RUNS = 12, 6


def instances(split: str, seed: int, count: int, *, n_strings: int) -> list[tuple[str, ...]]:
    """`count` lists of `n_strings` strings of up to `MOST_RUNS` runs."""
    rng = random.Random(seed)
    return [tuple(_string(rng) for _ in range(n_strings)) for _ in range(count)]


def _string(rng: random.Random) -> str:
    return "".join(rng.choice(LETTERS) * rng.randint(1, LONGEST_RUN) for _ in range(rng.randint(1, MOST_RUNS)))


def evaluate(program: Callable[..., Any], instance: tuple[str, ...], *, n_strings: int) -> tuple[float, str]:
    """The fraction of strings encoded exactly, in [0, 1].

    Raises:
        CandidateError: an answer is no string, or is absurdly long.
    """
    right = 0
    wrong = ""
    for text in instance:
        answer = checks.text(program(text), f"encode({text!r})", longest=10_000)
        due = "".join(f"{letter}{len(list(run))}" for letter, run in groupby(text))
        if answer == due:
            right += 1
        elif not wrong:
            wrong = f" First mistake: encode({text!r}) gave {answer[:80]!r}, due is {due!r}."
    return right / len(instance), f"{right} of {len(instance)} strings are right.{wrong}"
