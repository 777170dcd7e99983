"""PyTorch is loaded here once: processes that are forked from this one find it."""

import contextlib

with contextlib.suppress(ImportError):
    import numpy.random  # noqa: F401 - a candidate that imports it itself has all mapped files read first
    import torch

    torch.set_num_threads(1)  # a process that is forked from one with a pool of threads waits for them forever
    torch.zeros(8).add(1)
