"""Where kernels run, and how tensors come to their processes and back: over memory of the host, or of a GPU.

A process that is stopped computes nothing on a CPU. On a GPU, work that it has queued goes on: it could wait for the
next inputs, or slow down the reference. So there the memory of a call is made for that call and reaches the process
only once the clock runs, and one process of a kernel is there at a time.
"""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any, Protocol, TypeVar

from trace_bench.suites.kernelbench import device_memory
from trace_bench.suites.kernelbench.device_memory import DeviceMemory, DriverError
from trace_bench.suites.kernelbench.outputs import Outputs
from trace_bench.suites.kernelbench.reference import Tensors
from trace_bench.worker.problem import CandidateError, DeviceLost, ProblemError, Program

ENTROPY = random.SystemRandom()
"""Draws what follows from nothing that a candidate could know, or have computed before."""
_Part = TypeVar("_Part")
_ANSWERS_WITHIN = 30.0
"""Seconds after which a GPU that has not finished what the judge asks of it counts as lost."""


class Link(Protocol):
    """The way of tensors between the judge and one process.

    Attributes:
        files, shared_bytes: what the process has to be opened with.
    """

    files: Mapping[str, bytes | int]
    shared_bytes: int

    def call(self, program: Program, tensors: Tensors, end: int, *args: Any) -> tuple[Any, float]:
        """Call `program` on `tensors` and `args`: its answer, and seconds (see `Program.timed`).

        Args:
            end: bytes, up to which inputs and outputs reach.

        Raises:
            CandidateError: the program failed. DeviceLost: its GPU did.
        """

    def outputs(self, program: Program, outputs: Outputs) -> list[tuple[str, Any]]:
        """Name and tensor of each output of the last call. On a CPU they are valid until the next one."""


class Device(Protocol):
    """Where kernels run.

    Attributes:
        name: as PyTorch calls it.
        architecture: of a GPU, as its compiler calls it (``sm_90``); empty for a CPU.
        needs: of the processes of kernels (`Limits.needs`).
        apart: one process of a kernel is there at a time.
    """

    name: str
    architecture: str
    needs: frozenset[str]
    apart: bool

    def link(self, stack: ExitStack, room: int) -> Link:
        """A link for one process, which `stack` closes, with `room` for inputs and outputs, in bytes."""


def turns(device: Device, parts: Sequence[_Part], trials: int) -> Iterator[tuple[_Part, int]]:
    """The order in which `parts` make `trials` trials each, numbered from 0: it is drawn.

    They take turns in each trial, or one after the other makes all of its trials.
    """
    if device.apart:
        for part in ENTROPY.sample(parts, len(parts)):
            for trial in range(trials):
                yield part, trial
    else:
        for trial in range(trials):
            for part in ENTROPY.sample(parts, len(parts)):
                yield part, trial


class Cpu:
    """The CPUs of the sandbox."""

    name, architecture, needs, apart = "cpu", "", frozenset[str](), False

    def link(self, stack: ExitStack, room: int) -> Link:
        return _HostLink(room)


class _HostLink:
    def __init__(self, room: int) -> None:
        self.files: Mapping[str, bytes | int] = {}
        self.shared_bytes = max(room, 1)

    def call(self, program: Program, tensors: Tensors, end: int, *args: Any) -> tuple[Any, float]:
        return program.timed(lambda memory: tensors.fill(_flat(memory)), *args)

    def outputs(self, program: Program, outputs: Outputs) -> list[tuple[str, Any]]:
        return list(outputs.views(_flat(program.shared)))  # it is stopped, so they stay as they are


class Cuda:
    """The first GPU of the sandbox.

    Raises:
        ProblemError: there is none that PyTorch can use.
    """

    needs, apart = frozenset({"files", "machine_code", "gpu"}), True

    def __init__(self, name: str = "cuda") -> None:
        import torch

        if not torch.cuda.is_available():
            raise ProblemError("eval_kwargs.device is cuda, and PyTorch finds no GPU here; ask for one: sandbox.gpus")
        found = torch.cuda.get_device_properties(0)
        self.name = name
        self.architecture = f"sm_{found.major}{found.minor}" + ("a" if found.major >= 9 else "")
        # More than the cache holds: writing it leaves nothing of what was there.
        self._flush = torch.empty(2 * found.L2_cache_size, dtype=torch.uint8, device=name)
        self._mark = torch.zeros(1, device=name)

    def link(self, stack: ExitStack, room: int) -> Link:
        return stack.enter_context(_DeviceLink(self))

    def settle(self) -> None:
        """Wait until the GPU does something of the judge's. Work that another process has queued delays that, so what
        a process has not finished counts, as far as the GPU is busy with it."""
        import torch

        self._mark.add_(1)
        torch.cuda.synchronize()

    def flush(self) -> None:
        """Have nothing in the GPU's cache that a kernel could find there, also where it asked for that to stay."""
        from cuda.bindings import driver

        driver.cuCtxResetPersistingL2Cache()
        self._flush.zero_()
        self.settle()

    def check(self) -> None:
        """
        Raises:
            DeviceLost: the GPU does not finish a small piece of work.
        """
        said: list[str] = []

        def ask() -> None:
            try:
                self.settle()
            except Exception as error:
                said.append(f"it refuses all work: {error}")
            else:
                said.append("")

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(_ANSWERS_WITHIN)
        if why := said[0] if said else f"it has not answered for {_ANSWERS_WITHIN:g} s":
            raise DeviceLost(f"the GPU cannot be used any more after a kernel has failed: {why}")


class _DeviceLink:
    shared_bytes = 0

    def __init__(self, device: Cuda) -> None:
        self._device = device
        self._ours, self._theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.files: Mapping[str, bytes | int] = {"device_channel": self._theirs.fileno()}
        self._memory: DeviceMemory | None = None

    def __enter__(self) -> _DeviceLink:
        return self

    def __exit__(self, *exc: object) -> None:
        self._forget()
        self._ours.close()
        self._theirs.close()

    def call(self, program: Program, tensors: Tensors, end: int, *args: Any) -> tuple[Any, float]:
        try:
            return program.timed(lambda _: self._fill(tensors, end), *args, settle=self._settle)
        except CandidateError:
            self._device.check()
            raise

    def outputs(self, program: Program, outputs: Outputs) -> list[tuple[str, Any]]:
        assert self._memory is not None
        with self._own_work():
            flat = self._memory.flat(self._device.name)
            # By arithmetic: a plain copy is a copy engine's work, which could go on beside what the process has queued.
            kept = flat[outputs.place : outputs.end].bitwise_or(0)
            self._device.settle()
        return list(outputs.views(kept, outputs.place))

    def _settle(self) -> None:
        with self._own_work():
            self._device.settle()

    def _fill(self, tensors: Tensors, end: int) -> None:
        """Put `tensors` into new memory, and send its descriptor, which the process cannot take while it is stopped."""
        self._forget()
        with self._own_work():
            self._memory, descriptor = device_memory.made(max(end, 1))
            try:
                flat = self._memory.flat(self._device.name)
                flat.zero_()
                tensors.fill(flat)
                self._device.flush()
                socket.send_fds(self._ours, [b"%d" % self._memory.size], [descriptor])
            finally:
                os.close(descriptor)

    @contextmanager
    def _own_work(self) -> Iterator[None]:
        """Work of the judge on the GPU. What fails there has one of two causes: the GPU is lost, or the process leaves
        too little memory."""
        try:
            yield
        except (DriverError, RuntimeError) as error:
            self._device.check()
            raise CandidateError(
                "memory", f"its process leaves too little of the GPU's memory for the tensors of a call: {error}"
            ) from error

    def _forget(self) -> None:
        memory, self._memory = self._memory, None
        if memory is not None:
            memory.close()


def device_of(name: str) -> Device:
    """The device that ``eval_kwargs.device`` names.

    Raises:
        ProblemError: it is not there.
    """
    return Cuda() if name == "cuda" else Cpu()


def _flat(memory: memoryview) -> Any:
    import torch

    return torch.frombuffer(memory, dtype=torch.uint8)
