"""Strict JSON: what is refused, and that nothing else escapes."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.artifacts.samples import EVENT
from trace_bench.artifacts import jsonio
from trace_bench.artifacts.outputs import Event, HistoryLine

json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"{", "not JSON"),
        (b"", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b"[NaN]", "NaN is not a number"),
        (b"[-Infinity]", "-Infinity is not a number"),
        (b"[1e999]", "beyond the range of a double"),
        (b'{"a":1,"a":1}', "the key 'a' occurs twice"),
        (b"[" * 65 + b"]" * 65, "deeper than 64"),
        (b'{"a":' * 65 + b"1" + b"}" * 65, "deeper than 64"),
        (b"[" * 1_000_000, "deeper than 64"),
        (b'["\\ud800"]', "half of a surrogate pair"),
        (b'{"\\uDFFF":1}', "half of a surrogate pair"),
        (b"1" * 5000, "5000 digits is beyond the range"),
    ],
)
def test_bad_json_is_refused_with_a_phrase(data: bytes, said: str) -> None:
    with pytest.raises(jsonio.JsonError, match=said) as caught:
        jsonio.loads(data)
    assert str(caught.value).isprintable()


def test_as_deep_as_allowed_is_read() -> None:
    assert jsonio.loads(b"[" * 64 + b"]" * 64)


def test_a_whole_surrogate_pair_is_a_character() -> None:
    assert jsonio.loads(b'"\\ud83d\\ude00"') == "\U0001f600"


@given(json_values)
def test_what_is_written_reads_back(value: Any) -> None:
    assert jsonio.loads(jsonio.dumps(value)) == value
    assert jsonio.loads(json.dumps(value)) == value


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    try:
        jsonio.loads(data)
    except jsonio.JsonError as error:
        assert str(error).isprintable()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"t": "1"}, r"\$\.t"),
        ({"t": True}, r"\$\.t"),
        ({"t": -1}, r"\$\.t"),
        ({"event": ""}, r"\$\.event"),
        ({"event": None}, r"\$\.event"),
    ],
)
def test_a_model_converts_nothing(change: dict[str, Any], said: str) -> None:
    with pytest.raises(jsonio.JsonError, match=said):
        jsonio.read_model(Event, json.dumps({**EVENT, **change}).encode())


def test_an_events_own_fields_are_kept() -> None:
    event = jsonio.read_model(Event, json.dumps(EVENT).encode())
    assert event.model_dump() == EVENT


def test_values_of_parameters_keep_their_type() -> None:
    line = (
        b'{"step":0,"candidate":"c","split":"train","score":1,"best_score":1,"seconds":0,"evaluations":0,'
        b'"parameters":{"i":1,"f":1.0,"s":"1"}}'
    )
    parameters = jsonio.read_model(HistoryLine, line).parameters
    assert {name: type(value) for name, value in parameters.items()} == {"i": int, "f": float, "s": str}
