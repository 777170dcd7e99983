"""Kernels may be written in Triton, which its interpreter runs on a CPU."""

from __future__ import annotations

import importlib
import re

import pytest

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from trace_bench.suites.kernelbench.bench import Bench  # noqa: E402
from trace_bench.suites.kernelbench.outputs import Unequal  # noqa: E402
from trace_bench.suites.kernelbench.reference import Reference  # noqa: E402
from trace_bench.worker.preload import LATE  # noqa: E402
from trace_bench.worker.problem import CandidateError, Limits, ProblemError, Programs  # noqa: E402

REFERENCE = """
import torch


class Model(torch.nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x, y):
        return torch.relu(x) * self.slope + y


def get_inputs():
    return [torch.randn(3, 700), torch.randn(3, 700)]


def get_init_inputs():
    return [0.5]
"""
TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, out, slope, count, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    value = tl.maximum(tl.load(x + places, mask=inside), 0.0) * slope + tl.load(y + places, mask=inside)
    tl.store(out + places, value, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x, y):
        out = torch.empty_like(x)
        count = x.numel()
        kernel[(triton.cdiv(count, 512),)](x, y, out, self.slope, count, BLOCK=512)
        return out
"""


@pytest.fixture
def bench(programs: Programs) -> Bench:
    limits = Limits(wall_seconds=60, cpu_seconds=60, needs=frozenset({"machine_code"}))
    return Bench(programs, Reference(REFERENCE, "problem.py", "float32"), limits, trials=9, threads=1)


@pytest.fixture
def triton(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loaded before processes are forked, as the spawner does, and to be interpreted, as the image says."""
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    pytest.importorskip("triton", reason="Triton is not installed")
    for late in LATE["triton"]:
        importlib.import_module(late)


@pytest.mark.usefixtures("triton")
def test_a_kernel_in_triton_is_measured_and_compared(bench: Bench) -> None:
    assert bench.measure(TRITON).candidate > 0
    with pytest.raises(Unequal, match="of 2100 values differ"):
        bench.measure(TRITON.replace("tl.load(y + places, mask=inside)", "1.0"))
    with pytest.raises(CandidateError, match="no_such_function"):
        bench.measure(TRITON.replace("tl.maximum", "tl.no_such_function"))


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("class ModelNew(:", "compile failed at line 1"),
        ("ModelOld = 1", "compile failed: NameError: the program does not define ModelNew"),
        ("class ModelNew:\n    def __init__(self):\n        pass", "compile failed.*takes 1 positional argument"),
        ("class ModelNew:\n    def __init__(self, slope):\n        pass", "call failed.*not callable"),
    ],
)
def test_what_cannot_be_made_has_not_compiled(bench: Bench, source: str, said: str) -> None:
    with pytest.raises(CandidateError) as caught:
        bench.measure(source)
    assert re.search(said, str(caught.value)), caught.value


def test_a_reference_without_outputs_is_refused(programs: Programs) -> None:
    silent = Reference(REFERENCE.replace("return torch.relu(x) * self.slope + y", "return ()"), "problem.py", "float32")
    with pytest.raises(ProblemError, match=r"problem.py: forward\(\) returns no tensor"):
        Bench(programs, silent, Limits(needs=frozenset({"machine_code"})), trials=9, threads=1).measure("")
