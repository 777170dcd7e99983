"""Kernels may be written in Triton, which its interpreter runs on a CPU, and in C++."""

from __future__ import annotations

import re
import tempfile

import pytest

from tests.forking import ForkingSpawner
from tests.suites.kernelbench.test_inline import PLAIN, compiler

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from trace_bench.suites.kernelbench.bench import Bench  # noqa: E402
from trace_bench.suites.kernelbench.outputs import Unequal  # noqa: E402
from trace_bench.suites.kernelbench.reference import Reference  # noqa: E402
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
MODEL = """

class ModelNew(torch.nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x, y):
"""
TRITON = (
    """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, y, out, slope, count, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = places < count
    value = tl.maximum(tl.load(x + places, mask=inside), 0.0) * slope + tl.load(y + places, mask=inside)
    tl.store(out + places, value, mask=inside)
"""
    + MODEL
    + """\
        out = torch.empty_like(x)
        count = x.numel()
        kernel[(triton.cdiv(count, 512),)](x, y, out, self.slope, count, BLOCK=512)
        return out
"""
)


@pytest.fixture
def bench(programs: Programs) -> Bench:
    limits = Limits(wall_seconds=60, cpu_seconds=60, needs=frozenset({"machine_code"}))
    return Bench(programs, Reference(REFERENCE, "problem.py", "float32"), limits, trials=9, threads=1)


@pytest.fixture
def spawner() -> ForkingSpawner:
    """Triton is to be interpreted, as the image says."""
    return ForkingSpawner(TRITON_INTERPRET="1")


def test_a_kernel_in_triton_is_measured_and_compared(bench: Bench) -> None:
    pytest.importorskip("triton", reason="Triton is not installed")
    assert bench.measure(TRITON).candidate > 0
    with pytest.raises(Unequal, match="of 2100 values differ"):
        bench.measure(TRITON.replace("tl.load(y + places, mask=inside)", "1.0"))
    with pytest.raises(CandidateError, match="no_such_function"):
        bench.measure(TRITON.replace("tl.maximum", "tl.no_such_function"))


CPP = (
    f"""
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r'''{PLAIN}'''
made = load_inline("made", SOURCE, no_implicit_headers=True, extra_cflags=["-O2"])
"""
    + MODEL
    + """\
        out = torch.empty_like(x)
        made.add(x.data_ptr(), y.data_ptr(), out.data_ptr(), x.numel(), self.slope)
        return out
"""
)
TRIES = """
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>
__attribute__((constructor)) void tries() {
    if (fork() != -1 || socket(AF_INET, SOCK_STREAM, 0) != -1 || execl("/bin/true", "true", nullptr) != -1) abort();
}
"""


@compiler
def test_a_kernel_in_cpp_is_measured_and_what_it_loads_is_under_the_filter(bench: Bench) -> None:
    assert bench.measure(CPP % TRIES).candidate > 0
    with pytest.raises(Unequal, match="of 2100 values differ"):
        bench.measure(CPP.replace("value > 0", "value > 1") % "")
    with pytest.raises(
        CandidateError, match=r"(?s)compile failed: the C\+\+ of load_inline cannot be built:.*'nothing'"
    ):
        bench.measure(CPP % "int f() { return nothing; }")


@pytest.mark.slow
@compiler
def test_a_kernel_in_cpp_may_use_the_headers_of_pytorch(bench: Bench) -> None:
    source = (
        """
import torch
from torch.utils.cpp_extension import load_inline

made = load_inline(name="made", functions=["add"], extra_cflags=["-O2"], cpp_sources='''
torch::Tensor add(torch::Tensor x, torch::Tensor y, double slope) { return x.relu() * slope + y; }
''')
"""
        + MODEL
        + """\
        return made.add(x, y, self.slope)
"""
    )
    assert bench.measure(source).candidate > 0


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


@pytest.mark.parametrize(
    ("forward", "operations"),
    [
        ("torch.relu(x @ y.T)", 2 * 3 * 700 * 3),
        ("torch.nn.functional.linear(x, y, torch.ones(3)) + x.sum()", 2 * 3 * 700 * 3),
        ("torch.nn.functional.conv1d(x[None], y[None, :, :5])", 2 * 3 * 5 * 696),
    ],
    ids=["product", "linear", "convolution"],
)
def test_operations_of_products_and_convolutions_are_counted(
    programs: Programs, monkeypatch: pytest.MonkeyPatch, forward: str, operations: int
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)  # the reference is loaded in this process, too
    folderless = "import tempfile\ntempfile.tempdir = '/missing'\n"  # as in a container: no folder can be made
    source = folderless + REFERENCE.replace("torch.relu(x) * self.slope + y", forward)
    assert counting(programs, source).operations == operations


def test_a_reference_that_fails_while_it_is_counted_is_the_tasks_fault(programs: Programs) -> None:
    source = REFERENCE.replace("torch.relu(x) * self.slope + y", "x @ y")
    with pytest.raises(ProblemError, match=r"problem.py: the reference failed: call failed: RuntimeError"):
        _ = counting(programs, source).operations


def counting(programs: Programs, source: str) -> Bench:
    limits = Limits(wall_seconds=60, cpu_seconds=60, needs=frozenset({"machine_code"}))
    return Bench(programs, Reference(source, "problem.py", "float32"), limits, trials=9, threads=1)


def test_a_reference_without_outputs_is_refused(programs: Programs) -> None:
    silent = Reference(REFERENCE.replace("return torch.relu(x) * self.slope + y", "return ()"), "problem.py", "float32")
    with pytest.raises(ProblemError, match=r"problem.py: forward\(\) returns no tensor"):
        Bench(programs, silent, Limits(needs=frozenset({"machine_code"})), trials=9, threads=1).measure("")
