"""What a kernel's guide measures: of one that is right, one that is wrong, and one that does not compile."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from trace_bench.suites.kernelbench.described import COMMON
from trace_bench.suites.kernelbench.outputs import Unequal
from trace_bench.suites.kernelbench.problem import KernelGuide
from trace_bench.suites.kernelbench.timing import Speed, speed
from trace_bench.worker.problem import CandidateError

TIMES = [[0.009]] * 2 + [[0.010]] * 5 + [[0.011]] * 2
FOUND = replace(speed([[2 * t for t in calls] for calls in TIMES], TIMES, [[0.0]] * 9), touched_bytes=10_000_000)
"""10 MB in 10 ms: 1 GB/s."""


class FixedBench:
    """Gives one answer whatever the kernel."""

    operations = 10_000_000

    def __init__(self, answer: Speed | Exception) -> None:
        self._answer = answer

    def measure(self, source: str) -> Speed:
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


def guide(answer: Speed | Exception, *peaks: float) -> KernelGuide:
    bench: Any = FixedBench(answer)
    return KernelGuide(bench, *peaks)


def test_a_kernel_that_is_right_has_every_metric_that_the_task_declares() -> None:
    score, _, metrics = guide(FOUND)(None, "source", "1/0")
    assert score == pytest.approx(2.0) and metrics.keys() == COMMON["metrics"].keys()
    assert (metrics["compiled"], metrics["correct"], metrics["impossible"]) == (1.0, 1.0, 0.0)
    for prefix, factor in (("", 1), ("reference_", 2)):
        times = [metrics[f"{prefix}milliseconds{end}"] for end in ("_p10", "", "_p90")]
        assert times == pytest.approx([9 * factor, 10 * factor, 11 * factor])


@pytest.mark.parametrize(
    ("error", "compiled"),
    [
        (Unequal("the output is wrong"), 1.0),
        (CandidateError("call", "RuntimeError: no"), 1.0),
        (CandidateError("timeout", "it took 60 s"), 1.0),
        (CandidateError("compile", "SyntaxError: invalid syntax"), 0.0),
    ],
)
def test_a_kernel_that_fails_has_compiled_unless_its_source_did_not(error: Exception, compiled: float) -> None:
    with pytest.raises(CandidateError) as caught:
        guide(error)(None, "source", "1/0")
    assert caught.value.metrics == {"compiled": compiled}
    assert caught.value.phase == ("output" if isinstance(error, Unequal) else error.phase)  # type: ignore[attr-defined]


@pytest.mark.parametrize(("peak", "flagged"), [(0.0, False), (2.0, False), (1.0, False), (0.9995, False), (0.99, True)])
def test_a_time_too_short_to_move_the_data_or_to_compute_is_marked_where_a_peak_is_declared(
    peak: float, flagged: bool
) -> None:
    for peaks in ((1e9 * peak, 0.0), (0.0, 1e9 * peak), (2e9, 1e9 * peak)):
        assert guide(FOUND, *peaks)(None, "source", "1/0")[2]["impossible"] == float(flagged), peaks
    unknown = replace(FOUND, touched_bytes=0)
    assert guide(unknown, 1.0)(None, "source", "1/0")[2]["impossible"] == 0.0
