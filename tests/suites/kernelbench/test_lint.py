"""What a kernel calls, by the look of its source."""

from __future__ import annotations

import pytest

from trace_bench.suites.kernelbench.lint import is_from_scratch

_CLASS = """
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch import matmul, empty_like as like


class ModelNew(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size) * torch.sum(torch.ones(3)))
        self.linear = nn.Linear(size, size)

    def forward(self, x):
        return {}
"""


_TRITON = """
import torch
import triton
import triton.language as tl


@triton.jit
def kernel(x, out, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    tl.store(out + places, tl.sum(tl.load(x + places)))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        out = torch.empty_like(x)
        kernel[(1,)](x, out, BLOCK=512)
        return out
"""


@pytest.mark.parametrize(
    "body",
    ["launch(x, torch.empty_like(x))", "launch(x, like(x), self.weight)", "x + 2 * x", "self.launch(x.contiguous())"],
)
def test_kernels_that_make_tensors_only_are_from_scratch(body: str) -> None:
    assert is_from_scratch(_CLASS.format(body))


@pytest.mark.parametrize(
    "body",
    ["torch.relu(x)", "F.relu(x)", "self.linear(x)", "matmul(x, x)", "x @ x", "x.sum(dim=1)", "x.relu_()",
     "super().forward(x)", "nn.functional.softmax(x, 1)", "torch.ops.aten.mm(x, x)"],
)  # fmt: skip
def test_operators_of_pytorch_are_seen(body: str) -> None:
    assert not is_from_scratch(_CLASS.format(body))


def test_what_triton_compiles_is_no_operator_of_pytorch() -> None:
    assert is_from_scratch(_TRITON)
    assert not is_from_scratch(_TRITON.replace("return out", "return out.sum()"))


@pytest.mark.parametrize(
    "source", ["", "x = 1", "class ModelNew(:", "(" * 500, "\0", "class ModelNew(Model):\n    pass"]
)
def test_what_cannot_be_read_is_not_from_scratch(source: str) -> None:
    assert not is_from_scratch(source)
