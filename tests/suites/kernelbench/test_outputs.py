"""Outputs are compared exactly in type and shape, and in value by a tolerance that no constant passes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from trace_bench.suites.kernelbench.outputs import Outputs, Unequal  # noqa: E402
from trace_bench.suites.kernelbench.reference import Reference  # noqa: E402
from trace_bench.worker.problem import ProblemError  # noqa: E402

TOLD = {"several": False, "tensors": [["float32", [4, 8]]]}


@pytest.mark.parametrize(
    "told",
    [
        {"several": False, "tensors": [["float32", [8]]]},  # which broadcasts
        {"several": False, "tensors": [["float32", []]]},
        {"several": False, "tensors": [["float32", [8, 4]]]},
        {"several": False, "tensors": [["float64", [4, 8]]]},
        {"several": False, "tensors": []},
        {"several": True, "tensors": [["float32", [4, 8]]]},
        {"several": False, "tensors": [["float32", [1 << 62] * 100_000]]},
        {"several": False, "tensors": [17]},
        {},
        None,
        "tensors",
    ],
)
def test_types_and_shapes_are_the_references(told: Any) -> None:
    outputs = Outputs(TOLD, 64)
    outputs.check(TOLD)
    with pytest.raises(Unequal) as refused:
        outputs.check(told)
    assert len(str(refused.value)) < 400 and r"reference returns float32[4, 8]" in str(refused.value)


def test_outputs_lie_behind_each_other() -> None:
    outputs = Outputs({"several": True, "tensors": [["float32", [3]], ["int64", []], ["float16", [2, 2]]]}, 128)
    flat = torch.zeros(outputs.end, dtype=torch.uint8)
    for number, (_, view) in enumerate(outputs.views(flat)):
        view.fill_(number + 1)
    assert outputs.end == 128 + 3 * 64
    assert [(name, view.tolist()) for name, view in outputs.views(flat[128:], 128)] == [
        ("output 0", [1, 1, 1]),
        ("output 1", 2),
        ("output 2", [[3, 3], [3, 3]]),
    ]


def reference(precision: str = "float32") -> Reference:
    return Reference("", "problem.py", precision)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_tolerance_follows_the_size_of_the_output(size: float) -> None:
    expected = torch.randn(100, generator=torch.Generator().manual_seed(1)) * size
    one = reference()
    assert one.difference(expected, expected * (1 + 0.5e-4)) == ""
    assert "values differ" in one.difference(expected, expected * 1.001 + min(size, 1) * 1e-3)
    assert "100 of 100 values differ" in one.difference(expected, torch.zeros(100))


def test_what_is_not_finite_agrees_with_itself_alone() -> None:
    one = reference()
    masked = torch.tensor([1.0, float("-inf")])
    assert one.difference(masked, masked.clone()) == ""
    assert "1 of 2 values differ" in one.difference(masked, torch.tensor([1.0, float("inf")]))
    assert "not finite" in one.difference(torch.ones(2), torch.tensor([1.0, float("inf")]))
    assert "not finite" in one.difference(torch.ones(2), torch.tensor([1.0, float("nan")]))
    assert "differ" in one.difference(torch.tensor([float("nan")]), torch.tensor([float("nan")]))


def test_whole_numbers_must_be_equal() -> None:
    one = reference()
    assert one.difference(torch.arange(5), torch.arange(5)) == ""
    assert "1 of 5 values differ, by 1" in one.difference(torch.arange(5), torch.tensor([0, 1, 2, 3, 5]))


def test_a_problem_that_a_constant_solves_is_refused() -> None:
    one, draw = reference(), torch.randn(1000)
    one.check_output("the output", draw, torch.randn(1000))
    one.check_output("the output", torch.arange(5), torch.arange(5).flip(0))
    for before, now in ((draw, draw), (draw, draw * (1 + 1e-4)), (torch.tensor(0.5), torch.tensor(0.50005))):
        with pytest.raises(ProblemError, match=r"problem.py: the output is the same on different inputs.* a constant"):
            one.check_output("the output", before, now)
    with pytest.raises(ProblemError, match="holds NaN"):
        one.check_output("the output", draw.log(), torch.randn(1000))
