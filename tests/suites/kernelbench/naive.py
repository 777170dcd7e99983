"""Harnesses that believe too much. An attack that earns no credit here proves nothing where it is stopped.

`in_process` is the harness of many leaderboards: model, candidate, clock and comparison share one process. `trusting`
has the protocol of our judge, and believes what the candidate's side of it says.

    python -m tests.suites.kernelbench.naive first_result
"""

from __future__ import annotations

import atexit
import gc
import json
import math
import mmap
import os
import resource
import select
import signal
import statistics
import sys
import time
import types
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from unittest.mock import patch

SEED = 42
PATIENCE = 5.0
"""Seconds that `trusting` waits until an output is there."""


@dataclass(frozen=True)
class Options:
    """What a harness does carelessly.

    Attributes:
        checks: calls that are compared and not timed.
        repeats: calls that are timed.
        fresh_inputs: each call has inputs of its own; otherwise all have the same.
        made_ahead: the inputs of all calls lie in one list before the first call.
        recheck: outputs of timed calls are compared as well.
        reference_first: the reference is called before the candidate.
        copied: the expected output is a copy, and the memory of the original is free. The next
            torch.empty_like gets it, as PyTorch's allocator for GPUs has it; that for CPUs writes into what is free.
        checker: ``allclose``, ``difference`` (the largest absolute one), or ``nan`` (NaN equals NaN).
        statistic: of the times: ``median`` or ``sorted`` (the middle of the sorted list).
        tolerance: absolute and relative.
        runs: evaluations of the same source; the last one counts.
        trusting: which of the two harnesses.
    """

    checks: int = 3
    repeats: int = 9
    fresh_inputs: bool = True
    made_ahead: bool = False
    recheck: bool = False
    reference_first: bool = True
    copied: bool = False
    checker: str = "allclose"
    statistic: str = "median"
    tolerance: float = 1e-4
    runs: int = 1
    trusting: bool = False


def conclude(problem: str, source: str, options: Options, seconds: float = 60.0) -> dict[str, Any] | None:
    """The verdict on `source`: ``correct`` and ``speedup``. None if the harness ended without one."""
    harness = trusting if options.trusting else in_process
    found = None
    for _ in range(options.runs):
        found = forked(lambda: harness(problem, source, options), seconds)
    return found


def forked(function: Callable[[], dict[str, Any]], seconds: float, *, bare: bool = True) -> dict[str, Any] | None:
    """What `function` returns, called in a child process, without the files that are open here if it is to be `bare`.
    The last line of JSON on its standard output is believed."""
    theirs, ours = os.pipe()
    pid = os.fork()
    if pid == 0:
        _child(function, ours, bare)
    os.close(ours)
    text = _read(theirs, time.monotonic() + seconds)
    os.close(theirs)
    with suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    for line in reversed(text.decode(errors="replace").splitlines()):
        with suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                return found
    return None


def _child(function: Callable[[], dict[str, Any]], pipe: int, bare: bool) -> None:
    code = 1
    try:
        os.setsid()
        os.dup2(pipe, 1)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        if bare:
            os.closerange(3, 256)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        atexit._clear()
        said = json.dumps(function())
        os.write(1, f"{said}\n".encode())
        atexit._run_exitfuncs()
        code = 0
    except BaseException as error:
        if os.environ.get("NAIVE_DEBUG"):
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(code)


def _read(pipe: int, deadline: float) -> bytes:
    text = b""
    while (left := deadline - time.monotonic()) > 0 and select.select([pipe], [], [], left)[0]:
        piece = os.read(pipe, 1 << 16)
        if not piece:
            break
        text += piece
    return text


def in_process(problem: str, source: str, options: Options) -> dict[str, Any]:
    """Model and candidate, clock and comparison, in this process."""
    import torch

    gc.freeze()  # an attack that goes through all objects finds those of the harness, and not those of all modules
    own: dict[str, Any] = {"__name__": "problem"}
    exec(problem, own)
    torch.manual_seed(SEED)
    model = own["Model"](*own["get_init_inputs"]())
    torch.manual_seed(SEED)
    theirs: dict[str, Any] = {"__name__": "candidate"}
    with torch.no_grad():
        exec(source, theirs)
        new = theirs["ModelNew"](*own["get_init_inputs"]())
        count = options.checks + options.repeats
        upcoming = [_inputs(own, n) for n in range(count)] if options.made_ahead else []

        def inputs_of(call: int) -> Any:
            if upcoming:
                return upcoming[call]
            return _inputs(own, call) if options.fresh_inputs else same

        same = _inputs(own, 0)
        for call in range(options.checks):
            if not _agrees(model, new, inputs_of(call), options):
                return {"correct": False, "speedup": 0.0}
        reference_times, times = [], []
        for call in range(options.checks, count):
            inputs = inputs_of(call)
            began = time.perf_counter()
            model(*inputs)
            reference_times.append(time.perf_counter() - began)
        for call in range(options.checks, count):
            inputs = inputs_of(call)
            ref_out = model(*inputs) if options.recheck else None
            began = time.perf_counter()
            out = new(*inputs)
            times.append(time.perf_counter() - began)
            if options.recheck and not _equal(ref_out, out, options):
                return {"correct": False, "speedup": 0.0}
    return {"correct": True, "speedup": _middle(reference_times, options) / max(_middle(times, options), 1e-9)}


def _inputs(own: dict[str, Any], call: int) -> Any:
    import torch

    torch.manual_seed(SEED + call)
    return own["get_inputs"]()


def _agrees(model: Any, new: Any, inputs: Any, options: Options) -> bool:
    if not options.reference_first:
        out = new(*inputs)
        return _equal(model(*inputs), out, options)
    ref_out = model(*inputs)
    if not options.copied:
        return _equal(ref_out, new(*inputs), options)
    expected = ref_out.clone()
    with patch("torch.empty_like", lambda like: ref_out):
        out = new(*inputs)
    return _equal(expected, out, options)


def _equal(expected: Any, found: Any, options: Options) -> bool:
    import torch

    if isinstance(expected, (list, tuple)):
        return all(_equal(a, b, options) for a, b in zip(expected, found, strict=True))
    if options.checker == "difference":
        return bool((expected - found).abs().max() <= options.tolerance)
    tolerance = options.tolerance
    return torch.allclose(expected, found, rtol=tolerance, atol=tolerance, equal_nan=options.checker == "nan")


def _middle(times: list[float], options: Options) -> float:
    return statistics.median(times) if options.statistic == "median" else sorted(times)[len(times) // 2]


def trusting(problem: str, source: str, options: Options) -> dict[str, Any]:
    """The protocol of our judge in this process. The number of values in an answer is believed; outputs of the checked
    calls are compared some time later, with ``recheck`` those of the timed ones too."""
    import torch

    from trace_bench.suites.kernelbench.reference import Reference, aligned

    reference = Reference(problem, "problem.py", "float32")
    made = reference.init_inputs(SEED)
    torch.manual_seed(SEED)
    with torch.no_grad():
        model = reference._module.Model(*made.arguments)
        inputs = [reference.inputs(SEED + call) for call in range(options.checks + options.repeats)]
        expected = [model(*one.tensors.values()) for one in inputs]
    place = inputs[0].size
    memory = mmap.mmap(-1, place + aligned(expected[0].numel() * expected[0].element_size()))
    entries = [_entry(*one, made.arguments, memory) for one in ((problem, "Model"), (source, "ModelNew"))]
    times: list[list[float]] = [[], []]
    for call, (one, right) in enumerate(zip(inputs, expected, strict=True)):
        for entry, seconds in zip(entries, times, strict=True):
            one.fill(torch.frombuffer(memory, dtype=torch.uint8))
            memory[place:] = bytes(len(memory) - place)
            began = time.perf_counter()
            told = entry("run", one.arguments, place)
            seconds.append(time.perf_counter() - began)
            if math.prod(told["tensors"][0][1]) != right.numel():
                return {"correct": False, "speedup": 0.0}
        if options.recheck or call < options.checks:
            found = torch.frombuffer(memory, dtype=right.dtype, count=right.numel(), offset=place).view(right.shape)
            end = time.monotonic() + PATIENCE
            while not _equal(right, found, options):
                if time.monotonic() > end:
                    return {"correct": False, "speedup": 0.0}
                time.sleep(0.01)
    ours, theirs = (_middle(one[options.checks :], options) for one in times)
    return {"correct": True, "speedup": ours / max(theirs, 1e-9)}


def _entry(source: str, name: str, arguments: list[Any], memory: mmap.mmap) -> Any:
    module = types.ModuleType("candidate")
    sys.modules["candidate"] = module
    module.__dict__["shared_memory"] = memory
    harness = files("trace_bench.suites.kernelbench").joinpath("harness.py").read_text(encoding="utf-8")
    exec(compile(harness, "<support>", "exec"), module.__dict__)
    exec(compile(source, "<candidate>", "exec"), module.__dict__)
    entry = module.__dict__["trace_bench_kernel"]
    entry("make", name, arguments, SEED, 1, "float32")
    return entry


def main() -> None:
    """Print the verdict on the attack that the command line names."""
    from tests.suites.kernelbench.attacks import PROBLEMS, all_attacks, source_of

    attack = next(a for a in all_attacks() if a.name == sys.argv[1])
    print(json.dumps(conclude(PROBLEMS[attack.problem], source_of(attack), attack.options)))


if __name__ == "__main__":
    main()
