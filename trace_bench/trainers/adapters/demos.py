"""Demos (few-shot examples) as a part of a text parameter's value: a query, and the agent's answer to it.

A state with demos is a state like any other: its text holds them. So agents, the scorer and other trainers need to know
nothing about them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trace_bench.errors import TrainerError
from trace_bench.worker.problem import Problem


@dataclass(frozen=True)
class Demo:
    """One training example that the agent answered well, as texts."""

    query: str
    response: str


def write(instruction: str, demos: Sequence[Demo]) -> str:
    """`instruction` with `demos` behind it, in their order; `instruction` itself where there are none.

    >>> print(write("Add.", [Demo("1+1", "2")]))
    Add.
    <BLANKLINE>
    Examples:
    <BLANKLINE>
    --- Example 1 ---
    Query: 1+1
    Response: 2
    """
    if not demos:
        return instruction
    examples = [
        f"--- Example {number} ---\nQuery: {demo.query}\nResponse: {demo.response}"
        for number, demo in enumerate(demos, 1)
    ]
    return "\n\n".join([*([instruction] if instruction else []), "Examples:", *examples])


def parameter_for(problem: Problem, name: str) -> str:
    """The name of the text parameter of `problem` that demos are added to: `name`, or the only one if it is empty.

    Raises:
        TrainerError: demos make no sense for `problem`, or `name` does not name one of its text parameters.
    """
    texts = [parameter.name for parameter in problem.trainable if parameter.kind == "text"]
    if not texts:
        raise TrainerError("demos are added to a trainable text, and this task has none; use another dspy_optimizer.")
    if problem.agent is None:
        raise TrainerError(
            "demos are answers of an agent to queries, and this task has no agent: its answer is the parameter itself; "
            "use another dspy_optimizer."
        )
    if not problem.validate:
        raise TrainerError(
            "demos show answers to training examples, and this task has no validation examples to compare states on; "
            "use another dspy_optimizer."
        )
    if problem.score_range is None:
        raise TrainerError(
            "demos are answers with a good score, and this task states no range of scores; use another dspy_optimizer."
        )
    if not name and len(texts) > 1:
        raise TrainerError(f"this task has several trainable texts; set demo_parameter to one of {', '.join(texts)}.")
    if name and name not in texts:
        raise TrainerError(
            f"demo_parameter: {name!r} is not a trainable text of this task; use one of {', '.join(texts)}."
        )
    return name or texts[0]
