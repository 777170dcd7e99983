"""Distances of states: equal, near and far by the type of each parameter."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.trainers.distances import code_distance, number_distance, state_distance, text_distance
from trace_bench.worker.problem import Parameter

EPSILON = 0.1
PROGRAM = """def priority(item, bins):
    # Fill the fullest bin first.
    left = bins - item
    score = 1.0 / (left + 1e-6)
    score[left < 0] = -1.0
    bonus = 0.25 * (item > 0.5) + 0.125 * (left == 0)
    return score + bonus - 0.001 * left
"""


def number(a: float, b: float, bounds: tuple[float, float] | None = (-10.0, 10.0)) -> float:
    return state_distance([Parameter("x", 0.0, "float", bounds=bounds)], {"x": a}, {"x": b})


def test_numbers_are_measured_by_their_bounds() -> None:
    assert number(3.25, 3.2501) == pytest.approx(0.0001 / (0.0001 + 0.2))
    assert number(3.25, 3.2501) < EPSILON < number(3.25, 3.3)
    assert number(3.25, 3.45) == pytest.approx(0.5) and number(-10.0, 10.0) > 0.98
    assert number(1000.0, 1001.0, None) == pytest.approx(1 / (1 + 10.01)) and number(0.0, 1e-9, None) > 0.9


def test_one_changed_sign_makes_another_program() -> None:
    changed = PROGRAM.replace("bins - item", "bins + item")
    assert len(PROGRAM) > 200
    assert code_distance(PROGRAM, changed) == 1 / 5 > EPSILON


def test_comments_and_layout_are_no_part_of_a_program() -> None:
    restated = PROGRAM.replace("# Fill the fullest bin first.", "# As before.").replace(" * ", "*")
    assert code_distance(PROGRAM, restated) == 0.0
    assert code_distance("x = '# no comment'", "x = '# another'") == pytest.approx(1 / 5)


def test_numbers_of_a_program_are_numbers() -> None:
    assert code_distance("return 3.25", "return 3.2501") < EPSILON < code_distance("return 3.25", "return 3.3")
    assert code_distance("return (1, 2)", "return (1, 3)") == pytest.approx(1 / (1 + 0.03))
    assert code_distance("return x", "return 2") == pytest.approx(1 / 5)


def test_programs_of_the_same_tokens_in_another_order_differ() -> None:
    assert code_distance("return a - b", "return b - a") == pytest.approx(1 / 5)


def test_texts_are_measured_by_their_words() -> None:
    text = " ".join(f"word{i}" for i in range(100))
    assert text_distance(text, text.replace("word50", "other")) == 1 / 11 < EPSILON
    assert text_distance(text, text.replace("word50 word51", "two others")) == 2 / 12 > EPSILON
    assert text_distance("Answer briefly.", "Answer  briefly.") == 0.0


def test_the_farthest_parameter_counts() -> None:
    parameters = [Parameter("x", 0.0, "float", bounds=(0.0, 1.0)), Parameter("p", "a b", "text")]
    a, b = {"x": 0.5, "p": "a b"}, {"x": 0.5, "p": "a c"}
    assert state_distance(parameters, a, b) == text_distance("a b", "a c") > 0
    assert state_distance(parameters, a, {**b, "x": 0.9}) == number_distance(0.5, 0.9, 1.0)


@given(st.text(max_size=60), st.text(max_size=60))
def test_a_distance_is_symmetric_and_between_equal_and_different(a: str, b: str) -> None:
    for distance in (code_distance, text_distance):
        assert 0.0 <= distance(a, b) == distance(b, a) < 1.0
        assert distance(a, a) == 0.0
