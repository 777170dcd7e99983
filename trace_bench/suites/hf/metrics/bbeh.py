"""The metric of BIG-Bench Extra Hard (Kazemi et al., 2025): whether an answer equals the right one, with small
differences of format left out of account.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trace_bench.suites.hf.metrics.judgement import Judgement, right_or_wrong, unreadable
from trace_bench.suites.hf.metrics.reading import LONGEST_ANSWER
from trace_bench.suites.hf.metrics.spans import EMPTY, TOO_LONG

_PREFIXES = ("The answer is:", "The final answer is ", "The final answer is: ", "The answer is ")
"""In the order in which they are looked for, each in what the one before left."""
_COMMANDS = ("boxed{", "text{", "texttt{")


def answer_of(response: str) -> str:
    """The answer of `response` as it is compared: what follows the last "The answer is" or the like, in lower case,
    its first line, without LaTeX, emphasis and a final full stop."""
    answer = response.strip()
    for prefix in _PREFIXES:
        _, found, rest = answer.rpartition(prefix)
        answer = rest.strip() if found else answer
    answer = _without_latex(answer.removesuffix(".")).lower()
    return answer.replace(", ", ",").replace("**", "").partition("\n")[0].removesuffix(".")


def matches(response: str, right: str) -> bool:
    """Whether the answer of `response` equals the right answer, as the authors of the benchmark decide."""
    return _equal(answer_of(response), right.strip().lower().replace(", ", ","))


def judge(response: str, gold: Mapping[str, Any]) -> Judgement:
    """Judge as BIG-Bench Extra Hard does. A final full stop of the right answer is left out too, as the response's is:
    no response could have it."""
    if not response.strip():
        return unreadable(EMPTY)
    right, answer = str(gold["answer"]), answer_of(response)
    if len(answer) > LONGEST_ANSWER:
        return unreadable(TOO_LONG)
    return right_or_wrong(matches(response, right) or matches(response, right.strip().removesuffix(".")), answer)


def _without_latex(text: str) -> str:
    if text.startswith("$") and text.endswith("$"):
        text = text[1:-1]
    for command in _COMMANDS:
        if command in text and text.endswith("}"):
            text = text[:-1].split(command)[1]
    return text


def _equal(answer: str, right: str) -> bool:
    if answer == right:
        return True
    for first, second in ((answer, right), (right, answer)):
        if len(first) == 3 and first[0] == "(" and first[-1] == ")":  # "(a)" and "a"; no other rule applies
            return first[1] == second
    return (
        _same_number(answer, right)
        or answer.replace("'", "") == right.replace("'", "")
        or f"[{right}]" == answer
        or f"[{answer}]" == right
        or (answer.endswith("?") and answer[:-1] == right)
    )


def _same_number(first: str, second: str) -> bool:
    try:
        return float(first) == float(second)
    except ValueError:
        return False
