"""Six numbers to choose. Hidden numbers and the weights of the examples come from the job's seed."""

from __future__ import annotations

import math
import random
from typing import Any

from trace_bench.suites.splits import split_seed, split_sizes
from trace_bench.suites.task_folder import scoring
from trace_bench.worker.problem import BuildContext, CandidateError, Example, Ops, Parameter, Problem

NAMES = tuple(f"p{i}" for i in range(6))
LOW, HIGH = -10.0, 10.0


def build(context: BuildContext) -> Problem:
    score = scoring(context)
    chance = random.Random(f"many_param/{context.seed}")
    hidden = {name: round(chance.uniform(LOW, HIGH), 3) for name in NAMES}
    return Problem(
        parameters=tuple(
            Parameter(name, 0.0, "float", f"number {i + 1} of six", bounds=(LOW, HIGH), alternatives=(LOW, HIGH))
            for i, name in enumerate(NAMES)
        ),
        guide=weighted_distance,
        agent=agent,
        objective=context.spec["statement"].strip(),
        direction=score.direction,
        failure_score=score.failure,
        score_range=score.score_range,
        **examples(context, hidden),
    )


def examples(context: BuildContext, hidden: dict[str, float]) -> Any:
    """Examples of each split: their weights are theirs alone, the hidden numbers are the same for all."""
    splits = {}
    for split, size in split_sizes(context).items():
        seed = split_seed(context, split)
        if seed is None:
            continue
        chance = random.Random(seed)
        splits[split] = tuple(
            Example(f"{split}-{i}", reference={"hidden": hidden, "weights": [chance.random() ** 2 for _ in NAMES]})
            for i in range(size)
        )
    return splits


def agent(ops: Ops, query: Any) -> Any:
    return ops.apply(together, *(ops.param(name) for name in NAMES))


def together(*numbers: Any) -> list[float] | None:
    """Put the six numbers together, each from -10 to 10. For anything else there is no answer; the guide refuses it."""
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int | float):
            return None
        if not math.isfinite(number) or not LOW <= number <= HIGH:
            return None
    return [float(number) for number in numbers]


def weighted_distance(query: Any, response: Any, reference: Any) -> tuple[float, str]:
    """Minus the weighted mean distance to the hidden numbers; 0 is best.

    Raises:
        CandidateError: there are no six numbers.
    """
    if response is None:
        raise CandidateError("output", f"p0 to p5 must be numbers from {LOW:g} to {HIGH:g}")
    weights, hidden = reference["weights"], [reference["hidden"][name] for name in NAMES]
    costs = [w * abs(x - h) for w, x, h in zip(weights, response, hidden, strict=True)]
    worst = max(range(len(NAMES)), key=lambda i: costs[i])
    if costs[worst] == 0.0:
        return 0.0, "All six numbers are right."
    which = "small" if response[worst] < hidden[worst] else "large"
    return -math.fsum(costs) / math.fsum(weights), f"{NAMES[worst]} costs most: it is too {which}."
