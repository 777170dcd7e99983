"""PyTorch is loaded here once: processes that are forked from this one find it."""

import contextlib
import sys
from pathlib import Path

INSTALLED = Path(__file__).parents[3] / ".venv" / "kernels"
"""Where scripts/test puts what the image of kernels holds. Other packages load PyTorch wherever they find it, so only
the tests here do."""
if INSTALLED.is_dir():
    sys.path.append(str(INSTALLED))

with contextlib.suppress(ImportError):
    import numpy.random  # noqa: F401 - a candidate that imports it itself has all mapped files read first
    import torch

    torch.set_num_threads(1)  # a process that is forked from one with a pool of threads waits for them forever
    torch.zeros(8).add(1)
