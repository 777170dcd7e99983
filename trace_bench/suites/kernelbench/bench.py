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
import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.resources import files
from typing import Literal, get_args

from trace_bench.suites.kernelbench.build import Builder
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
_ENTROPY = random.SystemRandom()
"""Seeds of inputs and parameters follow from nothing that a candidate could know, or have computed before."""


@dataclass(frozen=True)
class Bench:
    """Measures kernels against one reference.

    Attributes:
        limits: of each of the processes.
        trials: calls that are timed, at least.
        threads: that PyTorch begins with.
        build_seconds: that building the C++ of a kernel may take.
    """

    programs: Programs
    reference: Reference
    limits: Limits
    trials: int
    threads: int
    build_seconds: float = 300.0

    def measure(self, source: str) -> Speed:
        """Time `source` against the reference.

        Raises:
            Unequal: an output differs. CandidateError: the candidate failed otherwise.
            ProblemError: the reference did, or a constant could stand for it.
        """
        extension = extension_of(source)
        library = self._builder.build(extension) if extension is not None else b""
        times: dict[Part, list[list[float]]] = {part: [] for part in _PARTS}
        with ExitStack() as stack:
            empty = self._own(stack, _EMPTY, "Empty", Tensors([], {}, 0), self._outputs.end)
            for pair in range(PAIRS):
                for part, found in self._pair(source, library, empty, pair * (WARM_UP + self._trials) + 1).items():
                    times[part].append(found)
        return replace(speed(**times), touched_bytes=self._outputs.end)

    @cached_property
    def _builder(self) -> Builder:
        return Builder(self.programs, self.build_seconds)

    @cached_property
    def _outputs(self) -> Outputs:
        """What the reference returns, which is found out by calling it."""
        first, second = self._inputs(), self._inputs()
        made = self._init_inputs()
        seed = _ENTROPY.getrandbits(63)
        try:
            with ExitStack() as stack:
                program = self._own(stack, self.reference.source, "Model", made, first.size, seed)
                found = Outputs(program.timed(first.fill, "run", first.arguments)[0], first.size)
            if not found.told["tensors"]:
                raise ProblemError(f"{self.reference.where}: forward() returns no tensor, and nothing can be compared")
            with ExitStack() as stack:
                program = self._own(stack, self.reference.source, "Model", made, found.end, seed)
                program.timed(first.fill, "run", first.arguments, found.place)
                one = [tensor.clone() for _, tensor in found.views(program.shared)]
                program.timed(second.fill, "run", second.arguments, found.place)
                for before, (name, now) in zip(one, found.views(program.shared), strict=True):
                    self.reference.check_output(name, before, now)
        except CandidateError as error:
            raise self._own_fault(error) from error
        return found

    def _inputs(self) -> Tensors:
        return self.reference.inputs(_ENTROPY.getrandbits(63))

    def _init_inputs(self) -> Tensors:
        return self.reference.init_inputs(_ENTROPY.getrandbits(63))

    @property
    def _trials(self) -> int:
        """Calls of a pair that are timed."""
        return math.ceil(self.trials / PAIRS)

    def _pair(self, source: str, library: bytes, empty: Program, number: int) -> dict[Part, list[float]]:
        """Seconds of the calls of one pair of processes, the first of which is trial `number`."""
        outputs = self._outputs
        made, seed = self._init_inputs(), _ENTROPY.getrandbits(63)
        times: dict[Part, list[float]] = {part: [] for part in _PARTS}
        with ExitStack() as stack:
            parts: dict[Part, Program] = {"empty": empty}
            openings: dict[Part, Callable[[], Program]] = {
                "candidate": lambda: self._opened(stack, source, "ModelNew", made, outputs.end, seed, library=library),
                "reference": lambda: self._own(stack, self.reference.source, "Model", made, outputs.end, seed),
            }
            for part in _ENTROPY.sample(list(openings), len(openings)):
                parts[part] = openings[part]()
            for trial in range(WARM_UP + self._trials):
                inputs = self._inputs()
                for part in _ENTROPY.sample(_PARTS, len(_PARTS)):
                    try:
                        told, seconds = parts[part].timed(inputs.fill, "run", inputs.arguments, inputs.size)
                    except CandidateError as error:
                        raise error if part == "candidate" else self._own_fault(error) from error
                    if part == "candidate":
                        outputs.check(told)
                    if trial >= WARM_UP:
                        times[part].append(seconds)
                # Both are stopped: what they wrote stays as it is.
                views = (outputs.views(parts[part].shared) for part in ("reference", "candidate"))
                for (name, expected), (_, found) in zip(*views, strict=True):
                    if said := self.reference.difference(expected, found):
                        raise Unequal(f"{name} is wrong in trial {number + trial}: {said}")
        return times

    def _own(self, stack: ExitStack, support: str, name: str, made: Tensors, room: int, seed: int = 0) -> Program:
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
    ) -> Program:
        needs = self.limits.needs | {"files"} if library else self.limits.needs
        limits = replace(self.limits, shared_bytes=max(room, made.size, 1), needs=needs)
        opened = self.programs.open(source, ENTRY, limits, f"{support}\n\n{_harness()}", library)
        program = stack.enter_context(opened)
        try:
            program.timed(made.fill, "make", name, made.arguments, seed, self.threads, self.reference.precision)
        except CandidateError as error:
            if error.phase == "call":
                raise CandidateError("compile", error.message, line=error.line) from error
            raise
        return program

    def _own_fault(self, error: CandidateError) -> ProblemError:
        return ProblemError(f"{self.reference.where}: the reference failed: {error}")


def _harness() -> str:
    return files("trace_bench.suites.kernelbench").joinpath("harness.py").read_text(encoding="utf-8")
