from __future__ import annotations

import itertools
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trace_bench.records.hypervolume import hypervolume


def by_inclusion_and_exclusion(points: list[tuple[int, ...]], reference: tuple[int, ...]) -> int:
    """The same from the definition: boxes, minus what two of them share, plus what three share, …"""
    inside = [p for p in points if all(a > b for a, b in zip(p, reference, strict=True))]
    total = 0
    for size in range(1, len(inside) + 1):
        for chosen in itertools.combinations(inside, size):
            corner = [min(column) for column in zip(*chosen, strict=True)]
            total += (-1) ** (size + 1) * math.prod(a - b for a, b in zip(corner, reference, strict=True))
    return total


def points_of(dimension: int) -> st.SearchStrategy[list[tuple[int, ...]]]:
    return st.lists(st.tuples(*[st.integers(-2, 6)] * dimension), max_size=7)


@pytest.mark.parametrize("dimension", [1, 2, 3])
@given(data=st.data())
def test_it_is_exact_on_whole_numbers(dimension: int, data: st.DataObject) -> None:
    points = data.draw(points_of(dimension))
    reference = data.draw(st.tuples(*[st.integers(-2, 2)] * dimension))
    assert hypervolume(points, reference) == by_inclusion_and_exclusion(points, reference)


@pytest.mark.parametrize(
    ("points", "reference", "volume"),
    [
        ([], (0.0, 0.0), 0.0),
        ([(1.0, 1.0)], (0.0, 0.0), 1.0),
        ([(1.0, 3.0), (2.0, 2.0), (3.0, 1.0)], (0.0, 0.0), 6.0),
        ([(1.0, 0.0)], (0.0, 0.0), 0.0),
        ([(5.0, -1.0), (1.0, 1.0)], (0.0, 0.0), 1.0),
        ([(2.0, 1.0, 1.0), (1.0, 2.0, 1.0), (1.0, 1.0, 2.0)], (0.0, 0.0, 0.0), 4.0),
        ([(1.0, 1.0, 1.0), (1.0, 1.0, 1.0)], (0.0, 0.0, 0.0), 1.0),
    ],
)
def test_known_volumes(points: list[tuple[float, ...]], reference: tuple[float, ...], volume: float) -> None:
    assert hypervolume(points, reference) == volume


def test_what_is_beyond_a_double_or_has_too_many_objectives_is_none() -> None:
    assert hypervolume([(1e308, 1e308)], (-1e308, -1e308)) is None
    assert hypervolume([(1e200, 1e200, 1.0)], (0.0, 0.0, 0.0)) is None
    assert hypervolume([(1e308,)], (-1e308,)) is None
    assert hypervolume([(1.0,) * 4], (0.0,) * 4) is None and hypervolume([], ()) is None
