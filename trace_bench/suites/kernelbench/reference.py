"""The reference of a kernel: its inputs, and whether outputs agree with its own.

This is trusted code, in the process of the phase that judges. The module itself runs elsewhere.
"""

from __future__ import annotations

import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from trace_bench.worker.problem import ProblemError

TOLERANCES: Mapping[str, float] = {"float32": 1e-4, "float16": 1e-2, "bfloat16": 1e-2}
"""Absolute and relative, by precision, as KernelBench has them (arXiv:2502.10517)."""
_ALIGNED = 64
_SAME = 0.01
"""Share of the values of an output that differ between two inputs, and are too few."""


@dataclass(frozen=True)
class Tensors:
    """Tensors as they lie in shared memory.

    Attributes:
        arguments: of the module, each a plain value or the place of a tensor (``place``, ``dtype``, ``shape``).
        tensors: what lies there, by place.
        size: bytes, up to which they reach.
    """

    arguments: list[Any]
    tensors: Mapping[int, Any]
    size: int

    def fill(self, flat: Any) -> None:
        """Write the tensors to `flat`, a tensor of bytes."""
        for at, tensor in self.tensors.items():
            viewed(flat, at, tensor.dtype, tensor.shape).copy_(tensor)


@dataclass(frozen=True)
class Reference:
    """A file of KernelBench.

    Attributes:
        source: its text.
        where: its name, in messages.
        precision: of tensors: ``float32``, ``float16`` or ``bfloat16``.
        device: where inputs are made.
    """

    source: str
    where: str
    precision: str
    device: str = "cpu"

    @cached_property
    def _module(self) -> types.ModuleType:
        module = types.ModuleType("kernelbench_problem")
        try:
            exec(compile(self.source, self.where, "exec"), module.__dict__)
        except Exception as error:
            raise self._fault(error) from error
        for name in ("Model", "get_inputs", "get_init_inputs"):
            if not callable(getattr(module, name, None)):
                raise ProblemError(f"{self.where}: defines no {name}; a file of KernelBench has it")
        return module

    def inputs(self, seed: int) -> Tensors:
        """Arguments of one call."""
        return self._made("get_inputs", seed)

    def init_inputs(self, seed: int) -> Tensors:
        """Arguments that the module is made with."""
        return self._made("get_init_inputs", seed)

    def _made(self, name: str, seed: int) -> Tensors:
        import torch

        make = getattr(self._module, name)
        torch.manual_seed(seed)
        try:
            with torch.no_grad(), torch.device(self.device):
                values = make()
        except Exception as error:
            raise self._fault(error) from error
        return laid_out(values, getattr(torch, self.precision))

    def _fault(self, error: Exception) -> ProblemError:
        return ProblemError(f"{self.where}: {type(error).__name__}: {error}; the reference itself is at fault")

    def difference(self, expected: Any, found: Any) -> str:
        """How an output differs from the reference's, in words; empty if it agrees within the tolerance."""
        import torch

        apart = self._apart(expected, found)
        if not apart:
            return ""
        if expected.is_floating_point() and not torch.isfinite(found).all() and torch.isfinite(expected).all():
            return "it holds values that are not finite"
        most = float((expected.double() - found.double()).abs().max())
        return f"{apart} of {expected.numel()} values differ, by {most:.3g} at most"

    def check_output(self, name: str, first: Any, second: Any) -> None:
        """Check that two calls on different inputs had different outputs.

        Raises:
            ProblemError: a constant could stand for them, or one that agrees with itself is impossible.
        """
        apart = self._apart(first, second, 4)
        if first.isnan().any():
            raise ProblemError(f"{self.where}: {name} holds NaN, with which nothing agrees")
        if apart <= _SAME * first.numel():
            raise ProblemError(
                f"{self.where}: {name} is the same on different inputs, within the tolerance, in "
                f"{first.numel() - apart} of {first.numel()} values: a constant could stand for it"
            )

    def _apart(self, expected: Any, found: Any, times: float = 1) -> int:
        """In how many values two tensors differ, by more than `times` the tolerance. NaN agrees with nothing."""
        import torch

        if not expected.is_floating_point():
            return int((expected != found).sum())
        relative = times * TOLERANCES[self.precision]
        # Values that are small altogether must not pass for zeros.
        size = float(torch.linalg.vector_norm(expected, dtype=torch.float32)) / math.sqrt(max(expected.numel(), 1))
        absolute = relative * min(1.0, size)
        if math.isfinite(size) and (found - expected).abs_().le_(expected.abs().mul_(relative).add_(absolute)).all():
            return 0  # as torch.isclose says, which takes several times as long
        return int((~torch.isclose(found, expected, rtol=relative, atol=absolute)).sum())


def laid_out(values: Sequence[Any], dtype: Any) -> Tensors:
    """`values` with tensors at places of their own; floating-point tensors as `dtype`."""
    import torch

    arguments: list[Any] = []
    tensors: dict[int, Any] = {}
    at = 0
    for value in values:
        if isinstance(value, torch.Tensor):
            tensor = value.to(dtype) if value.is_floating_point() else value
            tensors[at] = tensor
            arguments.append({"place": at, "dtype": name_of(tensor.dtype), "shape": list(tensor.shape)})
            at += aligned(tensor.numel() * tensor.element_size())
        else:
            arguments.append(value)
    return Tensors(arguments, tensors, at)


def viewed(flat: Any, place: int, dtype: Any, shape: Sequence[int]) -> Any:
    """The tensor at `place` of `flat`, a tensor of bytes, which it is a view of."""
    return flat[place : place + math.prod(shape) * dtype.itemsize].view(dtype).view(tuple(shape))


def name_of(dtype: Any) -> str:
    """``float32`` of ``torch.float32``."""
    return str(dtype).removeprefix("torch.")


def aligned(size: int) -> int:
    return -(-size // _ALIGNED) * _ALIGNED
