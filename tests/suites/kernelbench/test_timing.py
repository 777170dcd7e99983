"""What paired times say of the speed-up."""

from __future__ import annotations

import math
import random

import pytest

from trace_bench.suites.kernelbench.timing import _rank, speed


def noisy(draw: random.Random, seconds: float, count: int, spread: float = 0.03) -> list[float]:
    """Times as a machine gives them: never shorter than `seconds`, and now and then much longer."""
    return [seconds * (1 + abs(draw.gauss(0, spread))) * (3 if draw.random() < 0.05 else 1) for _ in range(count)]


def pairs(draw: random.Random, seconds: float, bias: float = 0.0) -> list[list[float]]:
    """Times of nine processes, which are slower or faster by `bias` as a whole."""
    return [noisy(draw, seconds * math.exp(draw.gauss(0, bias)), 3) for _ in range(9)]


def test_the_handover_is_taken_off_both_and_a_known_ratio_is_found() -> None:
    draw = random.Random(1)
    for wanted in (0.5, 1.0, 2.0, 8.0):
        empty = [[0.010 + abs(draw.gauss(0, 1e-5)) for _ in range(3)] for _ in range(9)]
        theirs = [[0.010 + t for t in times] for times in pairs(draw, 0.080)]
        ours = [[0.010 + t for t in times] for times in pairs(draw, 0.080 / wanted)]
        found = speed(theirs, ours, empty)
        assert found.speedup == pytest.approx(wanted, rel=0.05)
        assert found.low < wanted < found.high and found.is_resolved
        assert found.handover == pytest.approx(0.010, rel=0.01)


@pytest.mark.parametrize("bias", [0.0, 0.15])
def test_the_interval_of_a_kernel_against_itself_holds_1_as_often_as_it_says(bias: float) -> None:
    draw = random.Random(2)
    held = 0
    for _ in range(400):
        empty = [[0.001 + abs(draw.gauss(0, 1e-4)) for _ in range(3)] for _ in range(9)]
        found = speed(pairs(draw, 0.02, bias), pairs(draw, 0.02, bias), empty)
        held += found.low <= 1 <= found.high
    assert held >= 0.93 * 400


def test_no_credit_for_what_is_shorter_than_the_handover_varies() -> None:
    empty = [[0.010 + 0.001 * (pair % 4), 0.5] for pair in range(9)]
    found = speed([[0.020] * 2] * 9, [[0.0] * 2] * 9, empty)
    assert not found.is_resolved
    assert found.candidate == pytest.approx(found.resolution) and found.resolution > 0.001
    assert found.speedup < 0.020 / 0.001


def test_quantiles_are_of_each_side_and_lie_within_its_times() -> None:
    times = [[0.1 * n for n in range(start, start + 3)] for start in range(10, 31, 3)]
    found = speed(times, [[t / 10 for t in calls] for calls in times], [[0.0] * 3] * 7)
    assert (found.reference_p10, found.reference_p90) == (pytest.approx(1.18), pytest.approx(2.62))
    assert (found.candidate_p10, found.candidate_p90) == (pytest.approx(0.118), pytest.approx(0.262))
    few = speed([[1.0], [2.0], [3.0], [4.0], [5.0], [9.0]], [[1.0]] * 6, [[0.0]] * 6)
    assert 1.0 <= few.reference_p10 < few.reference < few.reference_p90 <= 9.0 and few.candidate_p90 == 1.0


@pytest.mark.parametrize("count", [6, 8, 9, 20, 50, 101])
def test_ranks_hold_the_median_with_95_percent(count: int) -> None:
    def outside(left_out: int) -> float:
        return 2 * sum(math.comb(count, i) for i in range(left_out + 1)) / 2**count

    assert outside(_rank(count)) <= 0.05 < outside(_rank(count) + 1)
