"""Values are found in answers of every form, and an answer of any kind and size ends in values or in one sentence."""

from __future__ import annotations

import html
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.trainers.answering import ANSWERS
from trace_bench.trainers.answer_formats import Found, Reader, read_improved, read_json, read_tags
from trace_bench.trainers.answers import Unusable

READERS: dict[str, Reader] = {"json": read_json, "tags": read_tags, "improved": read_improved}
MB = 1 << 20


def tagged(name: str, value: str) -> str:
    return f"<variable>\n<name>{name}</name>\n<value>\n{value}\n</value>\n</variable>"


@pytest.mark.parametrize(
    ("answer", "values"),
    [
        ("<reasoning>r</reasoning>\n" + tagged("x0", "1.5"), {"x0": "1.5"}),
        (tagged("a0", "1") + "\nand\n" + tagged("b0", "2"), {"a0": "1", "b0": "2"}),
        ('<variable name="x0" type="int">\n<value>\n7\n</value>\n</variable>', {"x0": "7"}),
        ("<variable><name> x0 </name><value> 7 </value></variable>", {"x0": "7"}),
        ("```xml\n" + tagged("x0", "1") + "\n```", {"x0": "1"}),
        (tagged("x0", "1") + tagged("x0", "2"), {"x0": "2"}),
        (tagged("t0", "say TERMINATE to stop"), {"t0": "say TERMINATE to stop"}),
        (tagged("t0", "def is a word; please define it"), {"t0": "def is a word; please define it"}),
        (tagged("c0", "def f():\n    return '</value>'\n"), {"c0": "def f():\n    return '</value>'"}),
        (tagged("c0", "a</variable></name></variable></value>b"), {"c0": "a</variable></name></variable></value>b"}),
        ("<variable><name>a0</name><value>1</value>\n<constraint>up to 3</constraint></variable>" * 2, {"a0": "1"}),
        (tagged("c0", "a</constraint></variable>b"), {"c0": "a</constraint></variable>b"}),
        (tagged("c0", "    indented = 1\n  less = 2"), {"c0": "    indented = 1\n  less = 2"}),
        (tagged("c0", "a < b & c > d"), {"c0": "a < b & c > d"}),
        (tagged("c0", "&lt;b&gt; &amp; &#65; &nope;"), {"c0": "&lt;b&gt; &amp; &#65; &nope;"}),
        (tagged("c0", "<![CDATA[x = 1 < 2]]>"), {"c0": "x = 1 < 2"}),
        (tagged("c0", "<![CDATA[\nx = 1\ny = 2\n]]>"), {"c0": "x = 1\ny = 2"}),
        (tagged("c0", "<![CDATA[a]]]]><![CDATA[>b]]>"), {"c0": "a]]>b"}),
        (tagged("c0", "<![CDATA[<![CDATA[a]]>]]>"), {"c0": "<![CDATA[a]]>"}),
        ("a <variable> has a name\n" + tagged("x0", "1"), {"x0": "1"}),
    ],
)
def test_values_between_tags_are_taken_as_they_stand(answer: str, values: dict[str, str]) -> None:
    found = read_tags(answer)
    assert found is not None and found.values == values


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("", "holds no <variable>"),
        ("I am sorry.", "holds no <variable>"),
        ('{"suggestion": {"x0": 1}}', "holds no <variable>"),
        ("<reasoning>only this</reasoning>", "holds no <variable>"),
        ("<variable><value>1</value></variable>", "does not begin with its <name>"),
        ("<variable><name>x0</name></variable>", "not followed by a <value>"),
        ("<variable><name>x0</name><value>1", "not closed"),
        ("<variable><name>x0</name><value>1</value>", "not closed"),
        ("<variable><name>x0</name><value>1</variable>", "not closed"),
        ("TERMINATE the rest", "holds no <variable>"),
    ],
)
def test_an_answer_without_a_tagged_value_is_unusable_for_a_reason(answer: str, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        read_tags(answer)


def test_what_is_whole_counts_and_what_is_broken_is_told() -> None:
    found = read_tags(tagged("a0", "1") + "<variable><name>b0</name><value>2")
    assert found == Found({"a0": "1"}, {"b0": "its <value> is not closed by </value> and </variable>"}, framed=True)


def test_an_entity_bomb_stays_as_small_as_it_is() -> None:
    lines = ['<!DOCTYPE lolz [<!ENTITY lol "lol">']
    lines += [f'<!ENTITY lol{i} "{f"&lol{i - 1 or str()};" * 10}">' for i in range(1, 10)]
    found = read_tags("\n".join(lines) + "]>" + tagged("x0", "&lol9;"))
    assert found is not None and found.values == {"x0": "&lol9;"}


@pytest.mark.parametrize(
    ("answer", "value"),
    [
        ("<IMPROVED_VARIABLE>4</IMPROVED_VARIABLE>", "4"),
        ("Here:\n<IMPROVED_VARIABLE>\ndef f():\n    pass\n</IMPROVED_VARIABLE> done", "def f():\n    pass"),
        ("<IMPROVED_VARIABLE>a</IMPROVED_VARIABLE><IMPROVED_VARIABLE>b</IMPROVED_VARIABLE>", "b"),
    ],
)
def test_the_improved_variable_is_what_stands_between_its_tags(answer: str, value: str) -> None:
    assert read_improved(answer) == Found({"": value}, framed=True)


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        ("no tags", "holds no <IMPROVED_VARIABLE>"),
        ("<IMPROVED_VARIABLE>1", "not closed"),
        ("<IMPROVED_VARIABLE> \n </IMPROVED_VARIABLE>", "nothing between"),
        ("</IMPROVED_VARIABLE>1<IMPROVED_VARIABLE>", "not closed"),
    ],
)
def test_no_improved_variable_is_unusable_for_a_reason(answer: str, why: str) -> None:
    with pytest.raises(Unusable, match=why):
        read_improved(answer)


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("answer", ["TERMINATE", " TERMINATE.\n", "```\nTERMINATE\n```"])
def test_terminate_as_the_whole_answer_wants_no_change(reader: Reader, answer: str) -> None:
    assert reader(answer) is None


def test_an_empty_suggestion_is_told() -> None:
    with pytest.raises(Unusable, match='the "suggestion" is empty'):
        read_json('{"suggestion": {}}')


def read(reader: Reader, text: str) -> Any:
    """What `reader` makes of `text`; it must be of the forms that are promised."""
    try:
        found = reader(text)
    except Unusable as why:
        assert 0 < len(str(why)) < 300
        return None
    if found is not None:
        assert found.values and all(isinstance(name, str) for name in found.values)
    return found


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@given(text=ANSWERS)
def test_any_text_is_read_or_refused_with_one_sentence(reader: Reader, text: str) -> None:
    read(reader, text)


@given(values=st.dictionaries(st.from_regex(r"[a-z_]{1,8}0", fullmatch=True), st.text().map(str.strip), min_size=1))
def test_every_text_without_the_closing_tags_comes_back_between_tags(values: dict[str, str]) -> None:
    values = {name: v for name, v in values.items() if "</value>" not in v and "<![CDATA[" not in v}
    if values:
        found = read_tags("\n".join(tagged(name, value) for name, value in values.items()))
        assert found is not None and dict(found.values) == {name: lines(value) for name, value in values.items()}


def lines(value: str) -> str:
    """What setting a value off by line ends leaves of it."""
    framed = f"\n{value}\n"
    return framed.strip() if "\n" not in framed.strip() else framed.strip("\r\n").rstrip()


HUGE: dict[str, Callable[[], str]] = {
    "essay": lambda: "I think that the number is too small. " * (MB // 38),
    "spaces": lambda: " " * MB,
    "open braces": lambda: "{" * MB,
    "nested objects": lambda: '{"suggestion":' + '{"a":' * (MB // 5),
    "one long text": lambda: '{"suggestion": {"x0": "' + "x" * MB,
    "objects and a suggestion": lambda: '{"' * (MB // 2) + '"suggestion"',
    "many objects": lambda: '{"a": 1} ' * (MB // 9),
    "objects of quotes": lambda: '{"' * (MB // 2),
    "open variables": lambda: "<variable>" * (MB // 10),
    "open values": lambda: "<variable><name>x0</name><value>" * (MB // 32),
    "variables without end": lambda: "<variable><name>x0</name><value>" + "</variable>" * (MB // 11),
    "values without end": lambda: "<variable><name>x0</name><value>" + "</value>" * (MB // 8),
    "constraints": lambda: "<variable><name>x0</name><value>" + "</constraint></variable>" * (MB // 24),
    "spaces before the end": lambda: "<variable><name>x0</name><value>" + ("</value>" + " " * 1000) * (MB // 1008),
    "spaces in a tag": lambda: "<variable" + " " * MB,
    "half names": lambda: '<variable name="' * (MB // 16),
    "cdata": lambda: tagged("x0", "<![CDATA[" * (MB // 12) + "]]>" * (MB // 12)),
    "small variables": lambda: tagged("x0", "1") * (MB // 60),
    "open improved": lambda: "<IMPROVED_VARIABLE>" * (MB // 19),
    "escaped": lambda: html.escape(tagged("x0", "<" * (MB // 8))),
    "digits": lambda: json.dumps({"suggestion": {"x0": 1}})[:-2] + "0" * MB + "}}",
}


@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
@pytest.mark.parametrize("kind", HUGE)
def test_a_megabyte_of_anything_is_read_in_seconds(reader: Reader, kind: str) -> None:
    text = HUGE[kind]()
    began = time.process_time()
    read(reader, text)
    assert time.process_time() - began < 5.0, "a second on a quiet machine; minutes if it grew with the square"
