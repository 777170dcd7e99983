"""What a candidate costs in an evaluator beyond the evaluation's own time.

    python benchmarks/perf/evaluator.py [--backend docker] [--candidates 200] [--repeat 3]

In turns: `trace_bench.evaluator` with candidates one after the other, and the same task's evaluation in this process,
called as the worker does. Prints medians of both, and the difference in milliseconds. Needs the image `core`, but for
backend local.
"""

from __future__ import annotations

import argparse
import statistics
import time
from importlib import import_module
from typing import Any

import trace_bench
from trace_bench.config.resolve import resolve
from trace_bench.worker.evaluate import evaluate_state
from trace_bench.worker.problem import BuildContext, Problem

TASK = "internal:numeric_param"


def problem_here() -> Problem:
    """The problem, built in this process: it has no programs of candidates."""
    config = trace_bench.load_config({"tasks": [TASK], "trainers": ["NoOp"]})
    task, (job,) = resolve(config).tasks[TASK], trace_bench.expand(config)
    module, _, function = task.builder.partition(":")
    no_programs: Any = None
    context = BuildContext(task.folder, task.spec.raw, dict(job.eval_kwargs), job.seed, no_programs, None)
    problem: Problem = getattr(import_module(module), function)(context)
    return problem


def timed(evaluate: Any, candidates: int) -> float:
    """Median milliseconds of one candidate."""
    taken = []
    for number in range(candidates):
        begin = time.perf_counter()
        evaluate({"guess": number % 7 / 2})
        taken.append(1e3 * (time.perf_counter() - begin))
    return statistics.median(taken)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", default="docker")
    parser.add_argument("--candidates", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=3)
    given = parser.parse_args()
    problem = problem_here()
    with trace_bench.evaluator(TASK, backend=given.backend) as evaluator:
        for _ in range(given.repeat):
            far = timed(evaluator, given.candidates)
            near = timed(
                lambda state: evaluate_state(problem, state, problem.validate, None),  # type: ignore[arg-type]
                given.candidates,
            )
            print(f"evaluator {far:.2f} ms, in process {near:.3f} ms, beyond {far - near:.2f} ms a candidate")


if __name__ == "__main__":
    main()
