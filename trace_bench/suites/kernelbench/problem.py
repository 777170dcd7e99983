"""Builds the problem of a kernel: a module in KernelBench's format, to be rewritten so that it runs faster.

The folder holds ``task.toml`` with a table ``[kernel]``, and ``problem.py`` in KernelBench's own format (`Model`,
``get_inputs()``, ``get_init_inputs()``), which is trusted. Reference and candidate each run in a process of their own,
under one protocol: see `trace_bench.suites.kernelbench.bench`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.suites.code_task import PARAMETER, limits
from trace_bench.suites.kernelbench.bench import Bench
from trace_bench.suites.kernelbench.described import FILE_SIZES
from trace_bench.suites.kernelbench.devices import Device, device_of
from trace_bench.suites.kernelbench.lint import is_from_scratch
from trace_bench.suites.kernelbench.outputs import Unequal
from trace_bench.suites.kernelbench.reference import TOLERANCES, Reference
from trace_bench.suites.kernelbench.sources import parsed_constants, with_constants
from trace_bench.suites.kernelbench.timing import Speed
from trace_bench.suites.splits import SPLITS, Split, split_sizes
from trace_bench.suites.task_folder import place, scoring
from trace_bench.worker.problem import BuildContext, CandidateError, Example, Parameter, Problem, ProblemError

SLACK = 1e-3
"""Share of the shortest possible time that a measured one may lack."""


def build(context: BuildContext) -> Problem:
    """Build the problem of a kernel.

    Raises:
        ProblemError: files, spec or arguments are at fault; the message names the place.
    """
    kernel: Mapping[str, Any] = context.spec["kernel"]
    path = context.task_dir / "problem.py"
    source = _sized(path, kernel, str(context.eval_kwargs["size"]), str(context.eval_kwargs["constants"]))
    device = device_of(str(context.eval_kwargs["device"]))
    reference = Reference(source, place(path), str(kernel.get("precision", "float32")), device.name)
    table: Mapping[str, Any] = context.spec["candidates"]
    names = [*table.get("worse", ()), *table.get("alternatives", ())]
    names += [table["reference"]] if "reference" in table else []
    names += table.get("broken", ())
    programs = [_text(context.task_dir / name) for name in names]
    score = scoring(context)
    sizes = split_sizes(context)
    splits = {split: _examples(context, split, sizes[split]) for split in SPLITS}
    bench = Bench(
        context.programs,
        reference,
        limits(context),
        trials=int(context.eval_kwargs["trials"]),
        threads=int(context.eval_kwargs["threads"]),
        build_seconds=float(context.eval_kwargs["build_seconds"]),
        device=device,
    )
    return Problem(
        parameters=(
            Parameter(
                name=PARAMETER,
                value=_text(context.task_dir / table["template"]),
                kind="code",
                description="Python source that defines ModelNew",
                alternatives=tuple(programs),
                entry=context.spec["entry"],
                signature=context.spec["signature"].strip(),
            ),
        ),
        guide=KernelGuide(
            bench,
            peak=1e9 * float(context.eval_kwargs["peak_gb_per_s"]),
            peak_operations=1e12 * float(context.eval_kwargs["peak_tflops"]),
        ),
        train=splits["train"],
        validate=splits["validate"],
        test=splits["test"],
        objective=_objective(context.spec, source, reference, device),
        direction=score.direction,
        failure_score=score.failure,
        metadata={"entry": context.spec["entry"], "interaction": "kernel"},
    )


@dataclass(frozen=True)
class KernelGuide:
    """Scores a kernel by its speed-up over the reference.

    Attributes:
        peak: bytes that the device can move in a second; 0 where that is not declared.
        peak_operations: floating-point operations that it can do in a second, likewise.
    """

    bench: Bench
    peak: float = 0.0
    peak_operations: float = 0.0

    def __call__(self, query: Any, response: Any, reference: Any) -> tuple[float, str, dict[str, float]]:
        if not isinstance(response, str):
            raise CandidateError("compile", f"the kernel must be source text, not {type(response).__name__}")
        try:
            found = self.bench.measure(response)
        except Unequal as error:
            raise _judged(CandidateError("output", str(error))) from error
        except CandidateError as error:
            _judged(error)
            raise
        return found.speedup, _told(found), {
            "compiled": 1.0,
            "correct": 1.0,
            "from_scratch": float(is_from_scratch(response)),
            "speedup_low": found.low,
            "speedup_high": found.high,
            "milliseconds": 1e3 * found.candidate,
            "milliseconds_p10": 1e3 * found.candidate_p10,
            "milliseconds_p90": 1e3 * found.candidate_p90,
            "reference_milliseconds": 1e3 * found.reference,
            "reference_milliseconds_p10": 1e3 * found.reference_p10,
            "reference_milliseconds_p90": 1e3 * found.reference_p90,
            "impossible": float(found.candidate < self._shortest(found) * (1 - SLACK)),
        }  # fmt: skip

    def _shortest(self, found: Speed) -> float:
        """Seconds that a call takes at least, as far as peaks are declared: it moves its inputs and outputs once, and
        does the reference's operations."""
        moving = found.touched_bytes / self.peak if self.peak else 0.0
        return max(moving, self.bench.operations / self.peak_operations if self.peak_operations else 0.0)


def _judged(error: CandidateError) -> CandidateError:
    """`error` with the metrics of a kernel that failed: one that is wrong, or fails when called, did compile."""
    error.metrics = {"compiled": float(error.phase != "compile")}
    return error


def _told(found: Speed) -> str:
    text = (
        f"All outputs agree. Speed-up {found.speedup:.3f} (95 % interval {found.low:.3f} to {found.high:.3f}; higher "
        f"is better): the reference takes {1e3 * found.reference:.3f} ms, this kernel {1e3 * found.candidate:.3f} ms."
    )
    if found.is_resolved:
        return text
    return f"{text} Calls are too short to be told from the hand-over, which varies by {1e3 * found.resolution:.3f} ms."


def _examples(context: BuildContext, split: Split, count: int) -> tuple[Example, ...]:
    """Each is a measurement, on inputs that are drawn when it is made: there is nothing to hold out."""
    if split == "test" and context.test_seed is None:
        return ()
    return tuple(Example(id=f"{split}-{i}") for i in range(count))


def _sized(path: Path, kernel: Mapping[str, Any], size: str, constants: str) -> str:
    sized = {} if size == FILE_SIZES else kernel["sizes"][size]
    return with_constants(_text(path), {**sized, **parsed_constants(constants)}, place(path))


def _objective(spec: Mapping[str, Any], source: str, reference: Reference, device: Device) -> str:
    tolerance = TOLERANCES[reference.precision]
    where, built = ("a GPU", "C++ and CUDA are") if device.architecture else ("a CPU", "C++ is")
    return (
        f"{spec['statement'].strip()}\n\nThe reference:\n\n```python\n{source.strip()}\n```\n\n"
        f"It runs on {where}. Precision: {reference.precision}; absolute and relative tolerance {tolerance:g}. The "
        "score is the speed-up (time of the reference / time of ModelNew), and higher is better; a kernel that fails, "
        "or one of whose outputs is wrong, scores 0. Name all modules in import statements: a kernel runs without "
        f"network and files. {built} built from one call of torch.utils.cpp_extension.load_inline, whose arguments "
        "must stand in the source."
    )


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ProblemError(f"{place(path)} cannot be read as UTF-8: {error}") from error
