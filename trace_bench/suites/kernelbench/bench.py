"""The bench that kernels are measured on.

Reference, candidate and a kernel that does nothing each run in a process of their own (`harness`), under one protocol.
For each trial new inputs are drawn. In an order that is drawn too, each of the three is stopped, gets the inputs, goes
on, computes, copies its outputs to memory that it shares with the judge, and is stopped again: the judge's clock runs
from the moment that it goes on to the moment that the kernel of the system says it is stopped. All outputs of all
trials are compared, those of the first ones too, which are not timed. Nothing that a candidate says of itself counts
but type and shape of its outputs, and those must be the reference's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib.resources import files
from typing import Any, Literal, get_args

from trace_bench.suites.kernelbench.build import Builder
from trace_bench.suites.kernelbench.devices import ENTROPY, Cpu, Device, Link, turns
from trace_bench.suites.kernelbench.inline import extension_of
from trace_bench.suites.kernelbench.outputs import Outputs, Unequal
from trace_bench.suites.kernelbench.reference import Reference, Tensors
from trace_bench.suites.kernelbench.timing import Speed, speed
from trace_bench.worker.problem import CandidateError, Limits, ProblemError, Program, Programs

ENTRY = "trace_bench_kernel"
PAIRS = 9
"""Pairs of processes that one measurement takes: a 95 % interval of their median leaves out one at each end."""
WARM_UP = 1
"""Trials of each pair that are checked and not timed."""
_EMPTY = '''
class Empty:
    """A kernel that does nothing, and returns nothing."""

    def __call__(self, *inputs):
        return ()
'''
Part = Literal["reference", "candidate", "empty"]
_PARTS: Sequence[Part] = get_args(Part)
_Times = dict[Part, list[float]]


@dataclass(frozen=True)
class _Process:
    """A process of a kernel whose module is made."""

    program: Program
    link: Link

    def run(self, inputs: Tensors, end: int, place: int | None = None) -> tuple[Any, float]:
        """Call it: what it says of its outputs, and seconds. They are copied to `place`, if there is one."""
        return self.link.call(self.program, inputs, end, "run", inputs.arguments, place)

    def outputs(self, outputs: Outputs) -> list[tuple[str, Any]]:
        return self.link.outputs(self.program, outputs)


@dataclass(frozen=True)
class Bench:
    """Measures kernels against one reference.

    Attributes:
        limits: of each of the processes.
        trials: calls that are timed, at least.
        threads: that PyTorch begins with.
        build_seconds: that building the C++ or CUDA of a kernel may take.
    """

    programs: Programs
    reference: Reference
    limits: Limits
    trials: int
    threads: int
    build_seconds: float = 300.0
    device: Device = field(default_factory=Cpu)

    def measure(self, source: str) -> Speed:
        """Time `source` against the reference.

        Raises:
            Unequal: an output differs. CandidateError: the candidate failed otherwise.
            ProblemError: the reference did, or a constant could stand for it. DeviceLost: the GPU did.
        """
        extension = extension_of(source, self.device.architecture)
        library = self._builder.build(extension) if extension is not None else b""
        times: dict[Part, list[list[float]]] = {part: [] for part in _PARTS}
        with ExitStack() as stack:
            kept: dict[Part, _Process] = {} if self.device.apart else {"empty": self._empty(stack)}
            for pair in range(PAIRS):
                for part, found in self._pair(source, library, kept, pair * (WARM_UP + self._trials) + 1).items():
                    times[part].append(found)
        return replace(speed(**times), touched_bytes=self._outputs.end)

    @cached_property
    def _builder(self) -> Builder:
        return Builder(self.programs, self.build_seconds)

    @cached_property
    def _outputs(self) -> Outputs:
        """What the reference returns, which is found out by calling it."""
        first, second = self.reference.inputs(_drawn()), self.reference.inputs(_drawn())
        made, seed = self.reference.init_inputs(_drawn()), _drawn()
        try:
            with ExitStack() as stack:
                process = self._own(stack, self.reference.source, "Model", made, first.size, seed)
                found = Outputs(process.run(first, first.size)[0], first.size)
            if not found.told["tensors"]:
                raise ProblemError(f"{self.reference.where}: forward() returns no tensor, and nothing can be compared")
            with ExitStack() as stack:
                process = self._own(stack, self.reference.source, "Model", made, found.end, seed)
                process.run(first, found.end, found.place)
                one = [tensor.clone() for _, tensor in process.outputs(found)]
                process.run(second, found.end, found.place)
                for before, (name, now) in zip(one, process.outputs(found), strict=True):
                    self.reference.check_output(name, before, now)
        except CandidateError as error:
            raise self._own_fault(error) from error
        return found

    @cached_property
    def operations(self) -> int:
        """Floating-point operations of one call of the reference, as far as PyTorch has a formula for them.

        Raises:
            ProblemError: the reference failed.
        """
        inputs, made = self.reference.inputs(_drawn()), self.reference.init_inputs(_drawn())
        with ExitStack() as stack:
            process = self._own(stack, self.reference.source, "Model", made, inputs.size)
            try:
                return int(process.link.call(process.program, inputs, inputs.size, "count", inputs.arguments)[0])
            except CandidateError as error:
                raise self._own_fault(error) from error

    @property
    def _trials(self) -> int:
        """Calls of a pair that are timed."""
        return math.ceil(self.trials / PAIRS)

    def _pair(self, source: str, library: bytes, kept: Mapping[Part, _Process], number: int) -> _Times:
        """Seconds of the calls of one pair of processes, the first of which is trial `number`.

        Args:
            kept: processes that are there already, and stay.
        """
        outputs = self._outputs
        made, seed = self.reference.init_inputs(_drawn()), _drawn()
        seeds = [_drawn() for _ in range(WARM_UP + self._trials)]
        times: _Times = {part: [] for part in _PARTS}
        unmatched: dict[int, dict[Part, list[tuple[str, Any]]]] = {}
        there = dict(kept)
        with ExitStack() as stack:

            def start(part: Part) -> _Process:
                if part == "candidate":
                    return self._opened(stack, source, "ModelNew", made, outputs.end, seed, library=library)
                if part == "reference":
                    return self._own(stack, self.reference.source, "Model", made, outputs.end, seed)
                return self._empty(stack)

            if not self.device.apart:
                there |= {part: start(part) for part in ENTROPY.sample(_PARTS, len(_PARTS)) if part not in kept}
            for part, trial in turns(self.device, _PARTS, len(seeds)):
                if part not in there:
                    stack.close()
                    there = {part: start(part)}
                inputs = self.reference.inputs(seeds[trial])
                try:
                    told, seconds = there[part].run(inputs, outputs.end, inputs.size)
                except CandidateError as error:
                    raise error if part == "candidate" else self._own_fault(error) from error
                if trial >= WARM_UP:
                    times[part].append(seconds)
                if part == "empty":
                    continue
                if part == "candidate":
                    outputs.check(told)
                both = unmatched.setdefault(trial, {})
                both[part] = there[part].outputs(outputs)
                if len(both) == 2:
                    self._compare(unmatched.pop(trial), number + trial)
        return times

    def _compare(self, both: Mapping[Part, list[tuple[str, Any]]], number: int) -> None:
        for (name, expected), (_, found) in zip(both["reference"], both["candidate"], strict=True):
            if said := self.reference.difference(expected, found):
                raise Unequal(f"{name} is wrong in trial {number}: {said}")

    def _empty(self, stack: ExitStack) -> _Process:
        return self._own(stack, _EMPTY, "Empty", Tensors([], {}, 0), self._outputs.end)

    def _own(self, stack: ExitStack, support: str, name: str, made: Tensors, room: int, seed: int = 0) -> _Process:
        """A process of ours: its source is no candidate's."""
        try:
            return self._opened(stack, "", name, made, room, seed, support)
        except CandidateError as error:
            raise self._own_fault(error) from error

    def _opened(
        self,
        stack: ExitStack,
        source: str,
        name: str,
        made: Tensors,
        room: int,
        seed: int,
        support: str = "",
        library: bytes = b"",
    ) -> _Process:
        link = self.device.link(stack, max(room, made.size))
        given = {**link.files, **({"library_path": library} if library else {})}
        needs = self.limits.needs | self.device.needs | ({"files"} if library else frozenset())
        limits = replace(self.limits, shared_bytes=link.shared_bytes, needs=needs)
        opened = self.programs.open(source, ENTRY, limits, f"{support}\n\n{_harness()}", given)
        process = _Process(stack.enter_context(opened), link)
        try:
            link.call(process.program, made, made.size, "make", name, made.arguments, seed, self.threads,
                      self.reference.precision)  # fmt: skip
        except CandidateError as error:
            if error.phase == "call":
                raise CandidateError("compile", error.message, line=error.line) from error
            raise
        return process

    def _own_fault(self, error: CandidateError) -> ProblemError:
        return ProblemError(f"{self.reference.where}: the reference failed: {error}")


def _drawn() -> int:
    """A seed that follows from nothing that a candidate could know."""
    return ENTROPY.getrandbits(63)


def _harness() -> str:
    return files("trace_bench.suites.kernelbench").joinpath("harness.py").read_text(encoding="utf-8")
