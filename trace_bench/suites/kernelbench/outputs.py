"""What the reference returns, and so what a kernel has to."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trace_bench.suites.kernelbench.reference import aligned, viewed

_SHOWN = 200


class Unequal(Exception):
    """An output of the candidate is not what it has to be."""


@dataclass(frozen=True)
class Outputs:
    """Outputs as they lie in shared memory.

    Attributes:
        told: what the harness says of them: whether there are ``several``, and type and shape of the ``tensors``.
        place: bytes, from which on they lie.
    """

    told: dict[str, Any]
    place: int

    @cached_property
    def _tensors(self) -> list[tuple[int, Any, list[int]]]:
        """Place, type and shape of each."""
        import torch

        found, at = [], self.place
        for name, shape in self.told["tensors"]:
            dtype = getattr(torch, name)
            found.append((at, dtype, shape))
            at += aligned(math.prod(shape) * dtype.itemsize)
        return found

    @property
    def end(self) -> int:
        """Bytes, up to which they reach."""
        place, dtype, shape = self._tensors[-1]
        return place + aligned(math.prod(shape) * dtype.itemsize)

    def views(self, flat: Any, start: int = 0) -> Iterator[tuple[str, Any]]:
        """Name of each, and the tensor in `flat`, which holds the bytes from `start` on."""
        for number, (place, dtype, shape) in enumerate(self._tensors):
            name = f"output {number}" if self.told["several"] else "the output"
            yield name, viewed(flat, place - start, dtype, shape)

    def check(self, told: Any) -> None:
        """Check what the process of a kernel says of its outputs. It may say anything.

        Raises:
            Unequal: it is not what the reference's says.
        """
        if told != self.told:
            raise Unequal(f"it returned {_listed(told)}, and the reference returns {_listed(self.told)}")


def _listed(told: Any) -> str:
    try:
        text = ", ".join(f"{name!s}{shape!s}" for name, shape in told["tensors"])
    except (LookupError, TypeError, ValueError):
        return "something that is no answer"
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]} …"
