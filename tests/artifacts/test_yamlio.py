"""State files give back exactly what was put in, and code in them reads as code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from trace_bench.artifacts.yamlio import dump_state, load_state, read_state, write_state
from trace_bench.errors import HarnessError

texts = st.text(st.characters(codec="utf-8"), max_size=60)
SNIPPETS = (
    *("def f(x):", "    return x ", "", " ", "\t", "  # é", "- a", "key: 'v'", "...", "---", "|", "#", "%YAML"),
    *("\r", "\x85", "\u2028", "\ufeff", "\x00", "&a", "*a", "!t"),
)
ENDS = ("\n", "\n\n", "\r\n", "\n \n")
code_like = st.tuples(st.lists(st.sampled_from(SNIPPETS), max_size=8), st.sampled_from(ENDS)).map(
    lambda pair: pair[1].join(pair[0])
)
values = texts | code_like | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
names = st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,12}", fullmatch=True) | st.sampled_from(
    ["yes", "null", "on", "é", "_1"]
)


@given(st.dictionaries(names, values, max_size=4))
def test_a_state_reads_back_exactly(state: dict[str, Any]) -> None:
    again = load_state(dump_state(state))
    assert again == state
    assert {k: type(v) for k, v in again.items()} == {k: type(v) for k, v in state.items()}
    assert list(again) == list(state)


def test_through_a_file_line_ends_survive(tmp_path: Path) -> None:
    state = {"a": "x\r\ny\r", "b": "x\n\n", "c": " lead\n", "d": "\ttab \n"}
    write_state(tmp_path / "s.yaml", state)
    assert read_state(tmp_path / "s.yaml") == state


def test_code_with_trailing_blanks_and_tabs_is_a_literal_block() -> None:
    code = "def f(x):\n    y = 1 \n\t\n    return 'é'  # ü\n"
    assert dump_state({"code": code}) == ("code: |\n  def f(x):\n      y = 1 \n  \t\n      return 'é'  # ü\n")


@settings(deadline=None)
@given(code_like)
def test_any_other_yaml_reader_gets_the_same(code: str) -> None:
    assert yaml.safe_load(dump_state({"code": code})) == {"code": code}


@pytest.mark.parametrize("value", [float("nan"), True, None, ["a"], "\ud800"])
def test_what_cannot_be_held_is_refused_when_it_is_written(value: Any) -> None:
    with pytest.raises(HarnessError, match="cannot be written"):
        dump_state({"x": value})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "not YAML"),
        ("- 1", "mapping"),
        ("a: true", "'a' must be text or a number"),
        ("1: 2", "1 must be"),
        ("a: [1]", "'a'"),
        ("a: !!python/object/apply:os.getcwd []", "not YAML"),
    ],
)
def test_a_bad_state_file_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(text)
    with pytest.raises(ValueError, match=rf"s\.yaml: .*{said}"):
        read_state(path)
