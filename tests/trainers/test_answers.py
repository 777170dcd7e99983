"""Answers of models are hostile input: whatever they hold, reading ends in admitted values or one sentence."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.trainers.answers import MOST_CHARACTERS, Unusable, Variable, cast, content, pick, suggestion
from trace_bench.worker.problem import Parameter

CODE = Parameter("code", "def f(): ...", "code")
TEXT = Parameter("text", "hello", "text")
INT = Parameter("n", 1, "int", bounds=(0, 10))
FLOAT = Parameter("x", 1.0, "float", bounds=(-1.0, 1.0))


@pytest.mark.parametrize(
    "answer",
    [
        '{"reasoning": "r", "suggestion": {"x0": 1}}',
        '```json\n{"suggestion": {"x0": 1}}\n```',
        'Let me think about {x0} first.\n{"suggestion": {"x0": 1}}\nThat is all.',
        '{"reasoning": "I would TERMINATE here", "suggestion": {"x0": 1}}',
        '{"reasoning": "two\nlines", "suggestion": {"x0": 1}}',
        "{a}{b} " * 500 + '{"reasoning": "{c}{d}", "suggestion": {"x0": 1}}' + " {e}" * 500,
    ],
)
def test_a_suggestion_is_found_wherever_it_stands(answer: str) -> None:
    assert suggestion(answer) == {"x0": 1}


@pytest.mark.parametrize("answer", ["TERMINATE", " TERMINATE.\n", '"TERMINATE"', "```\nTERMINATE\n```"])
def test_terminate_is_a_refusal_only_as_the_whole_answer(answer: str) -> None:
    assert suggestion(answer) is None


def test_a_suggested_text_may_hold_the_word_terminate() -> None:
    assert suggestion(json.dumps({"suggestion": {"t": "say TERMINATE to stop"}})) == {"t": "say TERMINATE to stop"}


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("I cannot help.", "no JSON object"),
        ('{"reasoning": "r"}', 'no "suggestion" object'),
        ('{"suggestion": "x0 = 1"}', 'no "suggestion" object'),
        ('{"suggestion": {"x0": 1', "no JSON object"),
        ("{" * 100_000, "no JSON object"),
        ('{"suggestion":' + '{"a":' * 50_000, "no JSON object"),
        ("TERMINATE now", "no JSON object"),
    ],
)
def test_an_answer_without_a_suggestion_is_unusable_for_a_reason(answer: str, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        suggestion(answer)


@pytest.mark.parametrize(
    "response",
    [
        {},
        {"choices": []},
        {"choices": [{"message": None}]},
        {"choices": [{"message": {"content": None}}]},
        {"choices": 3},
    ],
)
def test_a_response_without_a_message_is_unusable(response: Any) -> None:
    with pytest.raises(Unusable):
        content(response)


def test_variables_are_known_by_their_name_in_the_prompt_or_their_own() -> None:
    variables = [Variable("x0", FLOAT, 0.5), Variable("n0", INT, 1)]
    assert pick({"x0": 0.1, "n": 2, "score0": 3}, variables) == ({"x": 0.1, "n": 2}, ["score0"])


@pytest.mark.parametrize(
    ("parameter", "given", "value"),
    [
        (TEXT, "please define: a default", "please define: a default"),
        (TEXT, "def", "def"),
        (TEXT, 7, "7"),
        (CODE, "def f( ): return  1", "def f( ): return  1"),
        (CODE, "```python\ndef f():\n    return 1\n```", "def f():\n    return 1"),
        (CODE, "this is no Python", "this is no Python"),
        (INT, 3, 3),
        (INT, 3.0, 3),
        (INT, "3", 3),
        (FLOAT, 1, 1.0),
        (FLOAT, "-0.5", -0.5),
    ],
)
def test_admitted_values_keep_their_meaning(parameter: Parameter, given: Any, value: Any) -> None:
    taken = cast(parameter, given)
    assert taken == value
    assert type(taken) is type(value)


@pytest.mark.parametrize(
    ("parameter", "given", "why"),
    [
        (TEXT, ["a"], "a list"),
        (TEXT, False, "true or false"),
        (TEXT, "\ud800", "surrogate"),
        (CODE, 3, "a number"),
        (CODE, "  \n", "empty"),
        (CODE, "```python\n\n```", "empty"),
        (INT, "False", "text that is none"),
        (INT, True, "true or false"),
        (INT, 2.5, "whole number"),
        (INT, 11, "bounds from 0 to 10"),
        (INT, 10**400, "too large"),
        (FLOAT, float("nan"), "not finite"),
        (FLOAT, "inf", "not finite"),
        (FLOAT, 1.0001, "bounds"),
        (FLOAT, None, "null"),
        (FLOAT, {"value": 1}, "an object"),
    ],
)
def test_other_values_are_rejected_and_never_bent_into_shape(parameter: Parameter, given: Any, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        cast(parameter, given)


def test_the_header_tells_the_stub_what_a_real_model_is_not_told() -> None:
    assert Variable("x0", Parameter("x", 1, "int", bounds=(0, 2), alternatives=(2,)), 1).header() == {
        "name": "x0", "kind": "int", "value": 1, "bounds": [0, 2], "alternatives": [2],
    }  # fmt: skip


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(JSON, st.sampled_from([CODE, TEXT, INT, FLOAT]))
def test_casting_anything_gives_an_admitted_value_or_unusable(value: Any, parameter: Parameter) -> None:
    try:
        taken = cast(parameter, value)
    except Unusable as why:
        assert str(why)
    else:
        assert type(taken) is {"code": str, "text": str, "int": int, "float": float}[parameter.kind]
        assert parameter.bounds is None or parameter.bounds[0] <= taken <= parameter.bounds[1]  # type: ignore[operator]


@given(st.text(alphabet='{}[]":, \n\\ua1.eTERMINATE') | st.text())
def test_reading_any_text_ends_in_a_suggestion_or_unusable(text: str) -> None:
    try:
        found = suggestion(text)
    except Unusable as why:
        assert str(why)
    else:
        assert found is None or isinstance(found, dict)


@pytest.mark.parametrize("kind", ["text", "code"])
def test_a_value_has_a_most(kind: Any) -> None:
    parameter = Parameter("p", "", kind, entry="f")
    assert cast(parameter, "x" * MOST_CHARACTERS)
    with pytest.raises(Unusable, match="100001 characters, and 100000 is the most"):
        cast(parameter, "x" * (MOST_CHARACTERS + 1))


def test_a_request_that_was_refused_says_by_whom_and_why() -> None:
    with pytest.raises(Unusable, match="the provider refused the request: HTTP 400: too long"):
        content({"refused": "HTTP 400: too long", "choices": [{"message": {"content": ""}}]})
