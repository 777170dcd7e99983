"""What searches over one program share: whatever an answer holds, it ends in a program or in one sentence."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainers.memory_context import greeting, numeric
from tests.trainers.program_search import SIGNATURE, constant, fenced, program
from trace_bench.errors import TrainerError
from trace_bench.trainers.answers import Unusable
from trace_bench.trainers.base import Rollout
from trace_bench.trainers.mcts_ahd import MCTSAHD
from trace_bench.trainers.programs import (
    DESCRIPTION_CHARACTERS,
    failure,
    program_of,
    read_program,
    renamed,
)
from trace_bench.worker.problem import Parameter

CODE = Parameter("code", program(0.0), "code", entry="answer")
PIECES = st.sampled_from(
    ["```", "```python\n", "\n```\n", "def answer():\n", "    return 1\n", "def answer_v2():", '{"suggestion": {',
     '"code": ', '"x"', "}}", "\ud800", "\x00", "TERMINATE", "\n", " ", "class answer:"]
)  # fmt: skip


@pytest.mark.parametrize(
    ("text", "source", "description"),
    [
        (fenced(program(1.0)), program(1.0), "An idea."),
        ("```\ndef answer():\n    return 1\n\n\n```", "def answer():\n    return 1\n", ""),
        # The last block that defines the program, not an example around it; text before all blocks describes it.
        ("Idea.\n```\nanswer()\n```\nso\n```python\ndef answer(): return 2\n```", "def answer(): return 2\n", "Idea."),
        (fenced(program(1.0)) + "Better:\n" + fenced(program(2.0)) + "```\nanswer()\n```", program(2.0), "An idea."),
        ("1. So\n   ```python\n   def answer():\n       return 1\n   ```\n", "def answer():\n    return 1\n", "1. So"),
        ("```python\nanswer = lambda: 2\n```", "answer = lambda: 2\n", ""),
        # A block that is not closed: the rest of the answer.
        ("```python\ndef answer():\n    return 3", "def answer():\n    return 3\n", ""),
        ("def answer():\n    return 4\n", "def answer():\n    return 4\n", ""),
        (json.dumps({"reasoning": "r", "suggestion": {"code": program(5.0)}}), program(5.0), ""),
        # A dict in the source is no suggestion.
        ("```python\ndef answer():\n    return {}\n```", "def answer():\n    return {}\n", ""),
    ],
)  # fmt: skip
def test_a_program_is_read(text: str, source: str, description: str) -> None:
    written = read_program(text, CODE)
    assert (written.source, written.description) == (source, description)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("I do not know.", "the answer holds no code block"),
        ("```python", "the answer holds no code block"),
        ("```python\n\n```", "the source is empty"),
        ('{"suggestion": {"other": "x"}}', "the answer suggests no code"),
        ('{"suggestion": {"code": 3}}', "source is due, and the answer gives a number"),
        ("```python\n" + "x" * 100_001 + "\n```", "100000 is the most"),
    ],
)
def test_an_answer_without_a_program_says_why(text: str, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        read_program(text, CODE)


def test_a_version_gets_the_name_of_the_function_and_no_other_name_changes() -> None:
    text = "```python\ndef answer_v2():\n    return answer_v2b + x.answer_v2\n```"
    assert read_program(text, CODE, "answer_v2").source == "def answer():\n    return answer_v2b + x.answer\n"
    versions = "```python\ndef answer_v0(): pass\n```\n```python\ndef answer_v2(): pass\n```"
    assert read_program(versions, CODE, "answer_v2").source == "def answer(): pass\n"
    assert read_program(fenced(program(1.0)), CODE, "answer_v2").source == program(1.0)
    shown = renamed("def f(): return f (1) + ff(2) + g.f(3)  # f is fine", "f", r"f_v0\1")
    assert shown == r"def f_v0\1(): return f_v0\1 (1) + ff(2) + g.f(3)  # f is fine"


def test_a_description_is_cut_off() -> None:
    assert len(read_program(fenced(program(1.0), "x" * 9999), CODE).description) == DESCRIPTION_CHARACTERS


@given(st.one_of(st.text(), st.lists(PIECES, max_size=40).map("".join)))
def test_whatever_an_answer_holds_it_ends_in_a_program_or_a_sentence(text: str) -> None:
    try:
        written = read_program(text, CODE, "answer_v2")
    except Unusable as why:
        assert str(why) and "\n" not in str(why)
    else:
        assert written.source.strip() and written.source.encode()


def test_only_a_problem_with_one_trainable_parameter_that_is_code_is_searched() -> None:
    assert program_of(constant()).name == "code"
    with pytest.raises(
        TrainerError, match=r"^this trainer searches for one program, and .* are x \(float\); use a task"
    ):
        program_of(numeric())
    with pytest.raises(TrainerError, match=r"are decide \(code\), greet \(code\)"):
        program_of(greeting())


def test_the_failure_of_a_program_names_an_example() -> None:
    good, bad, worse = Rollout("a", 1.0, ""), Rollout("b", 0.0, "", failed=True), Rollout("c", 0.0, "", failed=True)
    assert failure([good]) == "" and failure([good, bad]) == "failed on b"
    assert failure([good, bad, worse]) == "failed on 2 examples"


@pytest.mark.parametrize("objective", ["Find the number.", f"Write a function.\n\n{SIGNATURE}\n\nLower is better."])
def test_a_prompt_shows_the_signature_once(context: Any, objective: str) -> None:
    asked = context(replace(constant(), objective=objective), lambda *_: "")
    asked.search(MCTSAHD, num_steps=1, init_size=1)
    assert asked.calls[0].prompt.count("def answer():") == 1
