"""Builds the C++ and CUDA of kernels: once for each text, in a process of its own that runs compilers and no kernel.

What was built stays in the judge's memory. No kernel can reach it, so none can build for another one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from importlib.resources import files

from trace_bench.suites.kernelbench.inline import MODULE, Extension
from trace_bench.worker.problem import CandidateError, Limits, ProblemError, Programs

SCRIPT = files("trace_bench.suites.kernelbench").joinpath("compiling.py").read_text(encoding="utf-8")
_LARGEST = 256 << 20
"""Bytes of a file; a compiler that writes a larger one is stopped by the kernel of the system."""
_LIBRARY = 32 << 20
"""Bytes of a library."""
_KEPT = 8
"""Libraries, and failures, that are remembered: the last ones."""
_MEMORY = 3 << 30
"""Bytes of address space of each process of a compiler; with PyTorch's headers it takes 1.3 GB."""
_NEEDS = frozenset({"compiler"})


@dataclass(frozen=True)
class Builder:
    """Builds libraries, and remembers the last ones.

    Attributes:
        seconds: of wall time that a build may take.
    """

    programs: Programs
    seconds: float
    _built: dict[Extension, bytes | CandidateError] = field(default_factory=dict)

    def build(self, extension: Extension) -> bytes:
        """The shared library of `extension`: a Python module called `MODULE`.

        Raises:
            CandidateError: it does not compile, or takes too long. ProblemError: there is no compiler here.
        """
        if extension not in self._built:
            while len(self._built) >= _KEPT:
                del self._built[next(iter(self._built))]
            try:
                self._built[extension] = self._compiled(extension)
            except CandidateError as error:
                self._built[extension] = error
        found = self._built[extension]
        if isinstance(found, CandidateError):
            raise found
        return found

    def _compiled(self, extension: Extension) -> bytes:
        of = "CUDA" if extension.cuda else "C++"
        limits = Limits(  # the wall clock ends it first, and says so better than a compiler without CPU time
            wall_seconds=self.seconds, cpu_seconds=2 * self.seconds, memory_bytes=_MEMORY, output_bytes=_LIBRARY,
            needs=_NEEDS, file_bytes=_LARGEST,
        )  # fmt: skip
        try:
            with self.programs.open("", "trace_bench_compile", limits, SCRIPT) as program:
                library, said = program(
                    MODULE, extension.source, list(extension.flags), extension.cuda, list(extension.cuda_flags)
                )
        except CandidateError as error:
            if error.phase == "timeout":
                raise CandidateError("compile", f"load_inline's {of} is not built within {self.seconds:g} s") from error
            # Whatever ends a compiler is in what it compiles: it is too large, or needs too much memory.
            raise CandidateError("compile", f"the {of} of load_inline cannot be built: {error}") from error
        if library is None:
            raise ProblemError(f"the {of} of a kernel cannot be built: {said}")
        if not library:
            raise CandidateError("compile", f"the {of} of load_inline cannot be built:\n{said}", lines=True)
        return bytes(library)
