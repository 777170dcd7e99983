"""A state as one text, and back, for frameworks that evolve a text."""

from __future__ import annotations

import re
from collections.abc import Mapping

from trace_bench.trainers.answers import Unusable
from trace_bench.worker.problem import Problem

_HEAD = re.compile(r"^#### (\w+) ####[ \t]*$", re.MULTILINE)


def is_plain(problem: Problem) -> bool:
    """Whether a state of `problem` is written without sections: one parameter, a text or source."""
    return len(problem.trainable) == 1 and problem.trainable[0].kind in ("text", "code")


def write(problem: Problem, texts: Mapping[str, str]) -> str:
    """`texts`, by the names of parameters, as one text."""
    if is_plain(problem):
        return texts[problem.trainable[0].name]
    return "\n".join(f"#### {p.name} ####\n{texts[p.name]}" for p in problem.trainable)


def read(problem: Problem, text: str) -> dict[str, str]:
    """The texts of all parameters.

    Raises:
        Unusable: a section is missing, there twice, or of no parameter.
    """
    if is_plain(problem):
        return {problem.trainable[0].name: text}
    pieces = _HEAD.split(text)
    names, values = pieces[1::2], pieces[2::2]
    wanted = [p.name for p in problem.trainable]
    if sorted(names) != sorted(wanted):
        raise Unusable(f"program: its sections have to be {', '.join(wanted)}, each once", "invalid_value")
    return {name: value.removeprefix("\n").removesuffix("\n") for name, value in zip(names, values, strict=True)}
