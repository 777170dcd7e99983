"""Answers as providers and models send them, and what is read in each (``tests/data/answers.json``).

A case is one answer. `want` must be in what is read; nothing of a draft may be. None: the answer is unusable.
"""

from __future__ import annotations

import ast
import contextlib
import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from trace_bench.trainers.answer_formats import read_improved, read_json, read_tags
from trace_bench.trainers.answers import Answer, Unusable, cast, content
from trace_bench.trainers.programs import read_program
from trace_bench.worker.answer_text import split_reasoning
from trace_bench.worker.problem import Parameter
from trace_bench.worker.unusable import KINDS

CASES = json.loads((Path(__file__).parents[1] / "data" / "answers.json").read_text(encoding="utf-8"))
CODE = Parameter("x", "", "code", entry="f")
MB = 1 << 20


def tagged(value: str) -> str:
    return f"<variable>\n<name>x</name>\n<value>\n{value}\n</value>\n</variable>"


FORMATS: dict[str, tuple[Callable[[Answer], Any], Callable[[str], str]]] = {
    "program": (lambda text: read_program(text, CODE).source, lambda v: f"def f(x):\n    return {v!r}\n"),
    "json": (lambda text: read_json(text).values["x"], lambda v: json.dumps({"suggestion": {"x": v}})),  # type: ignore[union-attr]
    "tags": (lambda text: read_tags(text).values["x"], tagged),  # type: ignore[union-attr]
    "improved": (
        lambda text: read_improved(text).values[""],  # type: ignore[union-attr]
        lambda v: f"<IMPROVED_VARIABLE>{v}</IMPROVED_VARIABLE>",
    ),
    "content": (lambda text: text, lambda v: v),
    "code value": (lambda text: cast(CODE, str(text)), lambda v: f"```python\n{v}\n```"),
}
"""By name: how an answer is read, and an answer that proposes a value."""


def response(said: Any, finish: str = "stop", **beside: Any) -> dict[str, Any]:
    return {"choices": [{"finish_reason": finish, "message": {"role": "assistant", "content": said, **beside}}]}


def read(form: str, said: Any, finish: str = "stop", **beside: Any) -> Any:
    return FORMATS[form][0](content(response(said, finish, **beside)))


@pytest.mark.parametrize("case", CASES, ids=[f"{c['kind']}: {c['reader']}: {c['name']}" for c in CASES])
def test_each_answer_is_read_right(case: dict[str, Any]) -> None:
    if case["want"] is None:
        with pytest.raises(Unusable) as why:
            read(case["reader"], case["answer"])
        assert why.value.kind in KINDS and why.value.kind != "other"
        return
    taken = read(case["reader"], case["answer"])
    assert case["want"] in taken and "DRAFT" not in taken
    if "exact" in case:
        assert not {"```", "~~~", "Sure", "Hope", "Here"} & set(taken.replace("```", " ``` ").split())
    if case["reader"] == "program":
        ast.parse(taken)


def test_there_are_ten_cases_of_each_kind_beside_the_twenty() -> None:
    counts = Counter(case["kind"] for case in CASES)
    assert counts["reported"] == 20
    assert all(counts[kind] >= 10 for kind in ("fences", "reasoning", "json", "partial", "shapes"))


WAYS_TO_THINK: dict[str, Callable[[str], str]] = {
    "a line end before": lambda draft: f"\n <think>\n{draft}\n</think>\n\n",
    "no space": lambda draft: f"<think>{draft}</think>",
    "closing tag alone": lambda draft: f"I try\n{draft}\nso\n</think>\n",
    "nested": lambda draft: f"<think>a <think>b</think>\n{draft}\n</think>\n",
    "mixed case": lambda draft: f"<Thinking>\n{draft}\n</THINKING>\n",
    "reasoning": lambda draft: f"<reasoning>\n{draft}\n</reasoning>\n",
    "with an attribute": lambda draft: f'<think effort="high">\n{draft}\n</think>\n',
    "backticks": lambda draft: f"```thinking\nI try\n{draft.replace('```', '')}\n```\n",
    "tildes": lambda draft: f"~~~~ reasoning\nI try\n{draft}\n~~~~\n",
    "brackets": lambda draft: f"[THINK]\n{draft}\n[/THINK]\n",
    "twice": lambda draft: f"<think>{draft}</think>\n<think>{draft}</think>\n",
}


@pytest.mark.parametrize("way", WAYS_TO_THINK)
@pytest.mark.parametrize("form", FORMATS)
def test_a_draft_in_reasoning_is_never_the_answer(form: str, way: str) -> None:
    _, worded = FORMATS[form]
    said = WAYS_TO_THINK[way](worded("DRAFT")) + worded("FINAL")
    taken = read(form, said)
    assert "FINAL" in taken and "DRAFT" not in taken
    answer = content(response(said))
    assert "DRAFT" in answer.reasoning


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize(
    ("said", "beside"),
    [
        ("<think>\n{draft}", {}),
        ("<think>\n{draft}</think>\n ", {}),
        ("```thinking\nI try\n", {}),
        ("", {"reasoning_content": "{draft}"}),
        (None, {"reasoning": "{draft}"}),
        ([{"type": "thinking", "thinking": "{draft}"}], {}),
    ],
)
def test_reasoning_alone_is_unusable_and_says_so(form: str, said: Any, beside: dict[str, str]) -> None:
    draft = FORMATS[form][1]("DRAFT")
    said = said.replace("{draft}", draft) if isinstance(said, str) else said
    with pytest.raises(Unusable, match="the message is reasoning alone") as why:
        read(form, said, **{name: text.replace("{draft}", draft) for name, text in beside.items()})
    assert why.value.kind == "reasoning_only"


@pytest.mark.parametrize("form", FORMATS)
def test_an_answer_that_was_cut_off_is_never_read_even_if_it_seems_whole(form: str) -> None:
    said = FORMATS[form][1]("FINAL")
    assert "FINAL" in read(form, said)
    with pytest.raises(Unusable, match="the answer was cut off at max_tokens") as why:
        read(form, said, finish="length")
    assert why.value.kind == "cut_off"


def test_the_beginning_of_prose_that_was_cut_off_can_be_taken() -> None:
    assert content(response("It is too slow, and", "length"), partial=True) == "It is too slow, and"
    with pytest.raises(Unusable, match="cut off"):
        content(response("<think>It is too slow, and", "length"), partial=True)


@pytest.mark.parametrize(
    ("said", "finish", "beside", "kind"),
    [
        ("", "stop", {"refusal": "I cannot help with that."}, "refused"),
        ("", "content_filter", {}, "refused"),
        ("", "length", {"reasoning_content": "so much"}, "cut_off"),
        (" \n", "stop", {}, "empty"),
        (None, "stop", {}, "empty"),
    ],
)
def test_a_message_without_an_answer_says_why(said: Any, finish: str, beside: dict[str, str], kind: str) -> None:
    with pytest.raises(Unusable) as why:
        content(response(said, finish, **beside))
    assert why.value.kind == kind


def test_reasoning_is_kept_beside_the_answer() -> None:
    answer = content(response("<think>b</think>c", reasoning_content="a"))
    assert answer == "c" and answer.reasoning == "a\n<think>b</think>"


@pytest.mark.parametrize(
    "text",
    [
        "Use <think> and </think> in the prompt.",
        'x = "</think>"',
        "The tag `</think>` ends it.",
        json.dumps({"a": "<think>\n</think>\n</think>"}),
        "P = '''\n</think>\n'''\n",
        tagged("write\n</think>\nthen the answer"),
    ],
)
def test_a_tag_in_an_answer_is_part_of_it(text: str) -> None:
    assert split_reasoning(text) == (text, "", True)


HOSTILE = {
    "braces": "{" * 5 * MB,
    "objects with a suggestion": "{'suggestion': {" * 20_000,
    "quotes": "{'suggestion': " + '"' * MB,
    "repairs": ("{suggestion: {'x' 'b':" + "[1 2 " * 2_000 + "}}") * 20,
    "tags": "<think>" * 50_000,
    "closing tags": "a</think>" * 50_000,
    "blocks of reasoning": "<think></think>" * 50_000,
    "fences": "```\n" * 50_000,
    "lists of fences": "- ```\n" * 5_000,
    "functions": "def f(x):\n" * 10_000,
    "prose": "def f(x): pass\n" + "it is\n" * 10_000,
    "brackets": "def f(x): " + "(" * 100_000,
    "one line": "x" * 2 * MB,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_reading_a_hostile_answer_ends_soon(name: str) -> None:
    began = time.process_time()
    for form in FORMATS:
        with contextlib.suppress(Unusable, KeyError):
            read(form, HOSTILE[name])
    assert time.process_time() - began < 10


def first(text: str) -> Answer:
    return Answer.of(text, "", 1)


def test_an_answer_of_an_earlier_run_is_read_as_it_was() -> None:
    think = "\n<think>\n```python\ndef f(x):\n    return 'DRAFT'\n```\n</think>\ndef f(x):\n    return 'FINAL'\n"
    assert read_program(first(think), CODE).source == "def f(x):\n    return 'DRAFT'\n"
    two = '{"suggestion": {"x": "DRAFT"}} {"suggestion": {"x": "FINAL"}}'
    assert read_json(first(two)).values == {"x": "DRAFT"}  # type: ignore[union-attr]
    with pytest.raises(Unusable, match="no JSON object"):
        read_json(first("{'suggestion': {'x': 'FINAL'}}"))
    tags = "<IMPROVED_VARIABLE>DRAFT</IMPROVED_VARIABLE><IMPROVED_VARIABLE>FINAL</IMPROVED_VARIABLE>"
    assert read_improved(first(tags)).values == {"": "DRAFT"}  # type: ignore[union-attr]
    assert cast(CODE, "```c++\nFINAL\n```", 1) == "```c++\nFINAL\n```"
    cut = {**response("<think>DRAFT</think>", "length"), "reader": 1}
    assert content(cut) == "<think>DRAFT</think>"
