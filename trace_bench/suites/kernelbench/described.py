"""What the ``task.toml`` of a kernel leaves out, since it is the same for all: `described` fills it in.

Standard library only: the host reads specs, and has no PyTorch.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from trace_bench.suites.joined import joined

STATEMENT = """
Rewrite the PyTorch module `Model` below as `ModelNew`, so that it returns the same outputs in less time. `ModelNew`
takes the same arguments, makes its parameters in the same order (both are made after the same `torch.manual_seed`),
and is called on new random inputs each time, without gradients. Each output must have the type and shape of the
reference's, and agree with it within the tolerance, every time.
"""
SIGNATURE = """
class ModelNew(torch.nn.Module):
    def __init__(self, *init_inputs): ...
    def forward(self, *inputs): ...
"""
MILLISECONDS_OF_A_FAILURE = 60_000.0
FILE_SIZES = "file"
"""As ``eval_kwargs.size``: the constants that ``problem.py`` has."""


def _milliseconds(doc: str) -> dict[str, Any]:
    return {"direction": "minimize", "failure": MILLISECONDS_OF_A_FAILURE, "doc": doc}


COMMON: Mapping[str, Any] = {
    "statement": STATEMENT,
    "interaction": "kernel",
    "entry": "ModelNew",
    "signature": SIGNATURE,
    "timing_sensitive": True,
    "dependencies": ["torch"],
    "score": {"direction": "maximize", "failure": 0.0},
    "splits": {"train": 1, "validate": 0, "test": 1},
    "limits": {"wall_seconds": 60, "cpu_seconds": 300, "memory_mb": 4096, "needs": ["machine_code"]},
    "metrics": {
        "compiled": {"direction": "maximize", "failure": 0.0, "range": [0, 1], "doc": "1 if the source can be loaded."},
        "correct": {"direction": "maximize", "failure": 0.0, "range": [0, 1], "doc": "1 if all outputs agree."},
        "from_scratch": {
            "direction": "maximize",
            "failure": 0.0,
            "range": [0, 1],
            "doc": "1 if no operator of PyTorch computes, by the look of the source.",
        },
        "speedup_low": {"direction": "maximize", "failure": 0.0, "doc": "Lower end of the 95 % interval."},
        "speedup_high": {"direction": "maximize", "failure": 0.0, "doc": "Upper end of it."},
        "milliseconds": _milliseconds("Median time of a call, without the hand-over."),
        "reference_milliseconds": _milliseconds("The same of the reference."),
        "milliseconds_p10": _milliseconds("The 10 % quantile of the times of a call."),
        "milliseconds_p90": _milliseconds("The 90 % quantile."),
        "reference_milliseconds_p10": _milliseconds("The 10 % quantile of the reference."),
        "reference_milliseconds_p90": _milliseconds("The 90 % quantile of the reference."),
        "impossible": {
            "direction": "minimize",
            "failure": 0.0,
            "range": [0, 1],
            "doc": "1 if a call is shorter than peak_gb_per_s or peak_tflops allow.",
        },
    },
    "eval_kwargs": {
        "device": {
            "type": "str",
            "default": "cpu",
            "choices": ["cpu", "cuda"],
            "sandbox": {"cuda": {"image": "kernelbench-cuda", "gpus": 1}},
            "doc": "Where kernels run; 'cuda': on a GPU.",
        },
        "constants": {"type": "str", "default": "", "doc": "Other constants of problem.py: 'batch_size=16, dim=256'."},
        "trials": {"type": "int", "default": 27, "minimum": 9, "maximum": 1000, "doc": "Calls that are timed."},
        "build_seconds": {
            "type": "float",
            "default": 300.0,
            "minimum": 1.0,
            "doc": "Limit on building its C++ or CUDA.",
        },
        "threads": {"type": "int", "default": 1, "minimum": 1, "doc": "Threads that PyTorch begins with."},
        "peak_gb_per_s": {
            "type": "float",
            "default": 0.0,
            "minimum": 0.0,
            "doc": "Peak bandwidth of the device, in 10^9 bytes a second; 0: not declared.",
        },
        "peak_tflops": {
            "type": "float",
            "default": 0.0,
            "minimum": 0.0,
            "doc": "Peak rate of arithmetic of the device, in 10^12 operations a second; 0: not declared.",
        },
    },
}


_FILE = re.compile(rb"(?m)^class Model\b(?s:.)*^def get_init_inputs\b|^def get_init_inputs\b(?s:.)*^class Model\b")
_NUMBER = re.compile(r"^\d+_")
_TEMPLATE = "\n\n\nclass ModelNew(Model):\n    pass\n"


def is_file_of_kernelbench(path: Path) -> bool:
    """Whether `path` is Python with `Model` and ``get_init_inputs``, by a search in its text."""
    return path.suffix == ".py" and path.is_file() and _FILE.search(path.read_bytes()) is not None


def described_file(path: Path) -> dict[str, Any]:
    """What stands for the ``task.toml`` of a file of KernelBench that lies in no task folder."""
    own = {
        "title": _NUMBER.sub("", path.stem).replace("_", " ").strip() or path.stem,
        "tags": ["kernel", path.parent.name],
        "source": "KernelBench (arXiv:2502.10517)",
        "kernel": {},
        "candidates": {"template": "template.py"},
    }
    return described(own)


def members(path: Path) -> Iterator[tuple[str, Path | bytes]]:
    """The task folder that stands for such a file. A search starts from the module itself."""
    yield "problem.py", path
    yield "template.py", path.read_bytes() + _TEMPLATE.encode()


def described(raw: Mapping[str, Any]) -> dict[str, Any]:
    """`raw`, a ``task.toml`` with a table ``[kernel]``, and what it does not say itself. Tables are joined by key."""
    sizes = raw["kernel"].get("sizes")
    names = [*(sizes if isinstance(sizes, Mapping) else ()), FILE_SIZES]
    size = {
        "type": "str",
        "default": "cpu" if "cpu" in names else FILE_SIZES,
        "choices": names,
        "doc": f"Which of [kernel.sizes]; {FILE_SIZES!r}: as problem.py has them.",
    }
    return joined(joined(COMMON, {"eval_kwargs": {"size": size}}), raw)
