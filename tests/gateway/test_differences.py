"""What two requests differ in is found, and told in little room."""

from __future__ import annotations

from typing import Any

import pytest

from trace_bench.gateway.differences import MAX_LINES, distance, first_difference, whole_difference

BODY: dict[str, Any] = {"model": "m", "messages": [{"role": "user", "content": "find x"}], "n": 1}


def changed(**keys: Any) -> dict[str, Any]:
    return {**BODY, **keys}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (changed(n=2), "n is '2', and was '1'"),
        (changed(model="mm"), "model differs at character 1: 'mm', and was 'm'"),
        (changed(top_p=0.5), "top_p is '0.5', and was not there"),
        ({k: v for k, v in BODY.items() if k != "n"}, "n is not there, and was '1'"),
        (changed(n=1.0), "n differs at character 1: '1.0', and was '1'"),
        (changed(messages=[{"role": "user", "content": "find y"}]), "messages[0].content differs at character 5: "),
        (changed(messages=[]), "messages is '[]', and was not there"),
        (BODY, "they are equal"),
    ],
)
def test_the_first_difference_is_named_with_both_values(asked: dict[str, Any], said: str) -> None:
    assert first_difference(asked, BODY).startswith(said)


def test_long_texts_are_clipped_around_the_difference() -> None:
    text = "a" * 10**5 + "{}" + "b" * 10**5
    said = first_difference({"x": text.format("new")}, {"x": text.format("old")})
    assert "new" not in said[:20] and "…aaa" in said and "new" in said and "old" in said and len(said) < 300


def test_hostile_characters_do_not_reach_the_terminal() -> None:
    assert "\x1b" not in first_difference({"x": "\x1b[2J"}, {"x": ""})
    assert "\x1b" not in first_difference({"\x1b[2J": 1}, {})


def test_distance_counts_what_differs_and_not_what_is_shared() -> None:
    far = changed(messages=[{"role": "user", "content": "something else altogether"}])
    assert distance(BODY, BODY) == 0 < distance(changed(n=2), BODY) < distance(far, BODY)
    assert distance({"x": "a" * 1000 + "1" + "b" * 1000}, {"x": "a" * 1000 + "2" + "b" * 1000}) < 5


def test_the_whole_difference_is_a_diff_by_lines() -> None:
    diff = whole_difference({"x": "one\nTWO\nthree"}, {"x": "one\ntwo\nthree"})
    assert "--- recorded" in diff and "\n-  two\n+  TWO\n" in diff


def test_very_long_requests_are_shown_one_after_the_other() -> None:
    long = "\n".join(map(str, range(MAX_LINES + 1)))
    shown = whole_difference({"x": long}, {"x": ""})
    assert shown.startswith("--- recorded") and "+++ asked" in shown and str(MAX_LINES) in shown
