"""The epsilon-net: which points join, by hand and against its definition."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.trainers.epsilon_net import farthest_first, nearest, text_of

POINTS = st.lists(st.tuples(st.integers(-4, 4), st.integers(-4, 4)), max_size=8)


def test_the_farthest_joins_first_and_keeps_its_neighbours_out() -> None:
    net = [(0.0, 0.0)]
    # Distances 1, 3, 2.5, 5: (3, 4) joins with 5. Then 1, 3, 2.5 (from (3, 4): 4.5, 4, 2.9): (3, 0) joins with 3.
    # Then (2.5, 0) is 0.5 from it, and (1, 0) is 1 from the net.
    points = [(1.0, 0.0), (3.0, 0.0), (2.5, 0.0), (3.0, 4.0)]
    assert farthest_first(points, net, 0.9) == {3: 5.0, 1: 3.0, 0: 1.0}
    assert list(farthest_first(points, net, 0.9)) == [3, 1, 0]
    assert farthest_first(points, net, 1.0) == {3: 5.0, 1: 3.0}, "a distance of exactly epsilon is too near"
    assert list(farthest_first(points, net, 0.4)) == [3, 1, 0, 2]
    assert farthest_first(points, net, 9.0) == {}


def test_of_equally_far_points_the_earlier_joins_first() -> None:
    assert list(farthest_first([(0.0, 1.0), (1.0, 0.0), (-1.0, 0.0)], [(0.0, 0.0)], 0.5)) == [0, 1, 2]
    assert list(farthest_first([(2.0,), (2.0,)], [(0.0,)], 0.5)) == [0], "its twin has a distance of 0 then"


def test_with_an_empty_net_the_first_point_joins() -> None:
    assert farthest_first([(1.0,), (5.0,)], [], 1.0) == {0: math.inf, 1: 4.0}
    assert nearest((1.0,), []) == (math.inf, -1)


def test_the_nearest_is_the_first_of_equals() -> None:
    assert nearest((0.0,), [(2.0,), (1.0,), (-1.0,)]) == (1.0, 1)


def test_vectors_of_different_lengths_are_an_error() -> None:
    with pytest.raises(ValueError):
        farthest_first([(1.0, 2.0)], [(1.0,)], 0.1)


@given(POINTS, POINTS, st.sampled_from([0.0, 0.5, 1.0, 2.0, 3.5]))
def test_what_joins_is_apart_and_what_does_not_is_near(
    points: list[tuple[int, int]], net: list[tuple[int, int]], epsilon: float
) -> None:
    joined = farthest_first(points, net, epsilon)
    after = [*net, *(points[i] for i in joined)]
    for i in range(len(points)):
        others = [*net, *(points[j] for j in joined if j != i)]
        distance = min((math.dist(points[i], other) for other in others), default=math.inf)
        if i in joined:
            assert distance > epsilon
        else:
            assert min(math.dist(points[i], other) for other in after) <= epsilon
    assert list(joined.values()) == sorted(joined.values(), reverse=True), "each joins nearer than the one before"


def test_the_text_of_a_candidate_is_its_parameters_in_the_order_of_their_names() -> None:
    assert text_of({"b": 2, "a": "x\ny"}) == "a: x\ny\nb: 2" == text_of({"a": "x\ny", "b": 2})
