"""What was said in a call, as people read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.errors import HarnessError
from trace_bench.records.calls import Part, answered, asked, read_calls

TOOL_CALL = {"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at": "x"}'}}


@pytest.mark.parametrize(
    ("body", "parts"),
    [
        (
            {"messages": [{"role": "system", "content": "be brief"}, {"role": "user", "content": "hi\nthere"}]},
            [("system", "be brief"), ("user", "hi\nthere")],
        ),
        (
            {"messages": [{"role": "user", "content": [
                {"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:…"}},
            ]}]},
            [("user", "a\n(image_url, 49 characters)")],
        ),
        (
            {"messages": [{"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}],
             "tools": [{"type": "function", "function": {"name": "look"}}]},
            [("tool call", 'look({"at": "x"})'), ("tools", "look")],
        ),
        ({"instructions": "be brief", "input": "hi"}, [("system", "be brief"), ("user", "hi")]),
        (
            {"input": [{"role": "user", "content": "hi"}, {"type": "function_call_output", "output": "5"}]},
            [("user", "hi"), ("tool", "5")],
        ),
        ({"input": ["one", "two"]}, [("user", "one\ntwo")]),
        ({"prompt": "once"}, [("user", "once")]),
        ({}, []),
    ],
)  # fmt: skip
def test_requests(body: dict[str, Any], parts: list[tuple[str, str]]) -> None:
    assert asked(body) == [Part(*part) for part in parts]


@pytest.mark.parametrize(
    ("response", "parts"),
    [
        (
            {"choices": [{"message": {"role": "assistant", "reasoning_content": "hm", "content": "yes"}}]},
            [("reasoning", "hm"), ("assistant", "yes")],
        ),
        (
            {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [TOOL_CALL]}}]},
            [("tool call", 'look({"at": "x"})')],
        ),
        ({"choices": [{"text": "upon a time"}]}, [("assistant", "upon a time")]),
        (
            {"output": [
                {"type": "reasoning", "summary": [{"type": "summary_text", "text": "hm"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "yes"}]},
                {"type": "function_call", "name": "look", "arguments": "{}"},
            ]},
            [("reasoning", "hm"), ("assistant", "yes"), ("tool call", "look({})")],
        ),
        ({"data": [{"embedding": [0.1]}] * 3}, [("embeddings", "3")]),
        ({"error": {"message": "too many", "code": "x"}}, [("error", "too many")]),
        ({"error": "odd"}, [("error", "odd")]),
        ({"strange": 1}, [("answer", '{"strange":1}')]),
        (None, [("answer", "null")]),
    ],
)  # fmt: skip
def test_answers(response: Any, parts: list[tuple[str, str]]) -> None:
    assert answered(response) == [Part(*part) for part in parts]


KEYS = st.sampled_from([
    "messages", "input", "instructions", "prompt", "tools", "role", "content", "tool_calls", "function", "name", "text",
    "choices", "message", "output", "data", "error", "type", "arguments", "summary", "reasoning",
])  # fmt: skip
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, json_values, max_size=5))
def test_whatever_was_said_can_be_shown(body: dict[str, Any]) -> None:
    for part in [*asked(body), *answered(body)]:
        assert isinstance(part.who, str) and isinstance(part.text, str)


def test_a_cassette_that_is_not_there_has_no_calls_and_a_damaged_one_is_named(tmp_path: Path) -> None:
    cassette = tmp_path / "llm.jsonl"
    assert list(read_calls(cassette)) == []
    cassette.write_text('{"n": 1}\n')
    with pytest.raises(HarnessError, match=r"llm\.jsonl, line 1: "):
        list(read_calls(cassette))
