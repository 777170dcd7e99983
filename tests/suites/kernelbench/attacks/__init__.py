"""Kernels that cheat, by what they abuse. A body is source in a string: nothing of it runs by being imported.

A body defines ``ModelNew``. Where the problem is ``steps``, it finds the class ``Honest`` before it, which has the
reference's parameter and computes what the reference computes (``compute``).
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pkgutil import iter_modules

from tests.suites.kernelbench.naive import Options

CREDIT, DOWN = "credit", "down"
BELIEVING = Options()


@dataclass(frozen=True)
class Attack:
    """One attack, and what a harness concludes.

    Attributes:
        name: of the test.
        about: what it does, and where it is known from.
        body: see above.
        options: of the naive harness that it beats.
        naive: ``credit`` if that harness finds it correct and faster, ``down`` if it ends without a verdict.
        faster: speed-up that the naive harness measures at least.
        says: regular expression that our judge's refusal matches; empty where the kernel is honest for our judge, which
            then measures the time of its honest work. An empty alternative allows both.
        problem: name in `PROBLEMS`.
        trials: timed calls of our judge.
        fair: speed-up that its honest work may earn, as the lower end of the interval: a busy machine is no clock.
            By the shortest times of all trials, it is twice that.
        runs: evaluations by our judge; the last one counts.
        wall_seconds: limit of a call for our judge; short where the attack is to hang.
        gpu: it needs a GPU.
    """

    name: str
    about: str
    body: str
    options: Options = BELIEVING
    naive: str = CREDIT
    faster: float = 3.0
    says: str = ""
    problem: str = "steps"
    trials: int = 8
    fair: float = 1.5
    runs: int = 1
    wall_seconds: float = 20.0
    gpu: bool = False


_FILE = """
import torch
import torch.nn as nn

{model}

def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [{init}]
"""
PROBLEMS = {
    # A dozen products of matrices, which come closer and closer to a fixed point.
    "steps": _FILE.format(
        model="""
class Model(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(size, size) / size**0.5)

    def forward(self, x):
        h = torch.zeros_like(x)
        for _ in range(12):
            h = torch.tanh(x + 0.25 * (h @ self.weight))
        return h
""",
        inputs="torch.randn(128, 256)",
        init="256",
    ),
    # It changes its input, which is its output, too.
    "in_place": _FILE.format(
        model="""
class Model(nn.Module):
    def forward(self, x):
        for _ in range(40):
            x.tanh_()
        return x
""",
        inputs="torch.randn(256, 512)",
        init="",
    ),
    "pair": _FILE.format(
        model="""
class Model(nn.Module):
    def forward(self, x):
        h = x
        for _ in range(40):
            h = torch.tanh(h)
        return h, h + 1
""",
        inputs="torch.randn(256, 512)",
        init="",
    ),
    # All values are 1.
    "ones": _FILE.format(
        model="""
class Model(nn.Module):
    def forward(self, x):
        for _ in range(10):
            x = torch.softmax(x, dim=1)
        return x.sum(dim=1)
""",
        inputs="torch.randn(256, 512)",
        init="",
    ),
    # All values are smaller than 1e-4, as those of KernelBench's level1/23_Softmax.
    "small": _FILE.format(
        model="""
class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(torch.tanh(x), dim=1)
""",
        inputs="torch.randn(8, 65536)",
        init="",
    ),
    # The mean of so many values hardly depends on them, as in KernelBench's level1/94_MSELoss.
    "mean": _FILE.format(
        model="""
class Model(nn.Module):
    def forward(self, x):
        return torch.mean((x - 0.5) ** 4)
""",
        inputs="torch.rand(512, 1024)",
        init="",
    ),
    # Copying the output costs more than computing it.
    "large": _FILE.format(
        model="""
class Model(nn.Module):
    def forward(self, x, y):
        return x + y
""",
        inputs="torch.randn(1, 2048), torch.randn(1024, 1)",
        init="",
    ),
}
_HONEST = """
import torch


class Honest(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(size, size) / size**0.5)

    def compute(self, x):
        h = torch.zeros_like(x)
        for _ in range(12):
            h = torch.tanh(x + 0.25 * (h @ self.weight))
        return h

    def forward(self, x):
        return self.compute(x)
"""
HONEST = f"{_HONEST}\n\nclass ModelNew(Honest):\n    pass\n"


def source_of(attack: Attack) -> str:
    """The attack as a program."""
    return f"{_HONEST}\n\n{attack.body.strip()}\n"


def by_kind() -> dict[str, tuple[Attack, ...]]:
    """The attacks by what they abuse: those of each module here."""
    names = [module.name for module in iter_modules(__path__)]
    return {name: import_module(f"{__name__}.{name}").ATTACKS for name in names}


def all_attacks() -> tuple[Attack, ...]:
    return tuple(attack for attacks in by_kind().values() for attack in attacks)
