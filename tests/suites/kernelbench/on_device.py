"""Checks of every claim about measured kernels on this machine's CPU or GPU, for people who have one.

    scripts/check-gpu                                # on a GPU; writes docs/examples/kernelbench/
    python -m tests.suites.kernelbench.on_device     # the same checks on the CPU

It needs PyTorch (with cuda-bindings for a GPU) and nothing else that is not in this checkout. Kernels run under the
real worker, without a container; as root each process has a uid of its own, if others may read checkout and Python.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.suites.kernelbench.attacks import HONEST, PROBLEMS, all_attacks, source_of
from tests.worker.support import others_may_read, run
from trace_bench.suites.kernelbench.sources import with_constants
from trace_bench.worker import hardware

ROOT = Path(__file__).parents[3]
STARTERS = sorted(path.parent for path in (ROOT / "benchmarks" / "kernelbench").glob("*/*/task.toml"))
_UID_BASE = 190_000
_JOB = """
import json
from trace_bench.suites.kernelbench.bench import Bench
from trace_bench.suites.kernelbench.devices import device_of
from trace_bench.suites.kernelbench.outputs import Unequal
from trace_bench.suites.kernelbench.reference import Reference

SOURCES = {sources!r}

def build(context):
    def guide(query, response, reference):
        try:
            device = device_of({device!r})
            limits = Limits(wall_seconds={seconds}, cpu_seconds=600, memory_bytes=8 << 30, processes=128,
                            needs=frozenset({{"machine_code"}}))
            bench = Bench(context.programs, Reference({problem!r}, "problem.py", "float32", device.name), limits,
                          {trials}, 1, device=device)
            for source in SOURCES:
                print("RESULT", json.dumps(measured(bench, source)))
        except Exception as error:
            print("RESULT", json.dumps({{"failed": f"{{type(error).__name__}}: {{error}}"}}))
        return 1.0, ""
    return problem(guide)

def measured(bench, source):
    began = time.monotonic()
    try:
        found = bench.measure(source)
    except (Unequal, CandidateError) as error:
        return {{"refused": str(error), "took": time.monotonic() - began}}
    return {{"speedup": found.speedup, "low": found.low, "high": found.high, "milliseconds": 1e3 * found.candidate,
             "reference_milliseconds": 1e3 * found.reference, "handover_milliseconds": 1e3 * found.handover,
             "resolved": found.is_resolved, "took": time.monotonic() - began}}
"""
Found = Mapping[str, Any]


@dataclass(frozen=True)
class Verdict:
    """What one check has found.

    Attributes:
        held: None if it could not be tried.
    """

    claim: str
    of: str
    held: bool | None
    said: str


def measure(device: str, problem: str, sources: Sequence[str], *, trials: int = 27, seconds: float = 60) -> list[Found]:
    """What the judge says of each of `sources` against `problem`. The job ends with the first that is not the kernel's
    own failure (``failed``)."""
    code = _JOB.format(sources=list(sources), device=device, problem=problem, seconds=seconds, trials=trials)
    kept = ("LD_LIBRARY_PATH", "CUDA_VISIBLE_DEVICES", "CUDA_HOME")
    env = {name: os.environ[name] for name in kept if name in os.environ}
    if device == "cpu":
        env |= {"TRITON_INTERPRET": "1", "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.tcache_count=0"}
    patience = 60 + len(sources) * (120 + 4 * seconds)
    with tempfile.TemporaryDirectory(prefix="trace-bench-kernels-") as folder:
        Path(folder).chmod(0o755)
        got = run(
            Path(folder), code, timeout=patience, limits={"score_timeout": patience},
            uid_base=_UID_BASE if os.geteuid() == 0 and others_may_read() else None,
            env={**env, "TRACE_BENCH_PRELOAD": "numpy,torch", "PYTHONPATH": os.pathsep.join((folder, *sys.path))},
        )  # fmt: skip
    found = [json.loads(line.partition(" ")[2]) for line in got.log.splitlines() if line.startswith("RESULT ")]
    failure = (got.result or {}).get("failure") or got.stderr[-500:]
    return found or [{"failed": f"the job said nothing: {failure}"}]


def starters(device: str, wanted: int) -> Iterator[Verdict]:
    """The programs that come with each problem are right, wrong, or cheat in vain."""
    names = ("template", "alternative", "faster", "slower", "wrong", "cheating")
    for folder in STARTERS[:wanted]:
        sources = [(folder / f"{name}.py").read_text() for name in names]
        found = measure(device, _problem(folder, device), sources)
        for name, one in zip(names, found, strict=False):
            if name == "wrong":
                held = "is wrong in trial" in one.get("refused", "")
            elif name == "cheating":
                held = "refused" in one or one.get("low", 9.0) < 1.5
            else:
                held = "speedup" in one
            yield Verdict("starters", f"{folder.parent.name}/{folder.name}/{name}.py", held, _said(one))
        if len(found) < len(names):
            yield Verdict("starters", folder.name, False, _said(found[-1]))


_TOLERANCES = {"causal_attention": 0.05, "layer_norm": 0.25}
"""Relative, by problem. Where outputs are large, their copy is a part of both times, and ratios are too near to 1."""


def timing(device: str, wanted: int) -> Iterator[Verdict]:
    """A reference is as fast as itself, and candidates of known ratios have these ratios."""
    for folder in [path for path in STARTERS if path.name in _TOLERANCES]:
        problem = _problem(folder, device)
        model = problem.partition("def get_inputs")[0]
        name = f"{folder.parent.name}/{folder.name}"
        found = measure(device, problem, [f"{model}\n\nclass ModelNew(Model):\n    pass\n"] * wanted)
        inside = sum(one.get("low", 9) <= 1 <= one.get("high", 0) for one in found)
        speedups = [one["speedup"] for one in found if "speedup" in one]
        said = f"1 is in {inside} of {wanted} intervals"
        if speedups:
            said += f"; speed-ups {min(speedups):.3f} to {max(speedups):.3f}; {_said(found[0])}"
        yield Verdict("a reference is as fast as itself", name, inside >= 0.9 * wanted, said)
        for factor in (2, 3):
            repeated = (
                f"{model}\n\nclass ModelNew(Model):\n    def forward(self, *inputs):\n"
                f"        for _ in range({factor - 1}):\n            super().forward(*inputs)\n"
                "        return super().forward(*inputs)\n"
            )
            found = measure(device, problem, [repeated] * max(3, wanted // 4))
            speedups = [one["speedup"] for one in found if "speedup" in one]
            median = statistics.median(speedups) if speedups else 0.0
            tolerance = _TOLERANCES[folder.name]
            held = abs(median * factor - 1) <= tolerance
            said = f"{median:.3f}, expected {1 / factor:.3f}" if speedups else _said(found[-1])
            yield Verdict(f"a known ratio within {tolerance:.0%}", f"{name}, {factor} times the work", held, said)


def attacks(device: str, wanted: int) -> Iterator[Verdict]:
    """No kernel that cheats earns more than its honest work, and the next kernel is judged as ever."""
    for attack in [one for one in all_attacks() if device == "cuda" or not one.gpu][:wanted]:
        found = measure(
            device, PROBLEMS[attack.problem], [source_of(attack)] * attack.runs, trials=attack.trials,
            seconds=attack.wall_seconds,
        )  # fmt: skip
        last = found[-1]
        held = "refused" in last or last.get("low", 9.0) <= attack.fair
        yield Verdict("attacks", attack.name, held, _said(last))
        if attack.wall_seconds < 10:
            after = measure(device, PROBLEMS["steps"], [HONEST], trials=9)
            yield Verdict("after an attack", attack.name, "speedup" in after[0], _said(after[0]))


CUDA_SOURCE = '''
import torch
from torch.utils.cpp_extension import load_inline

SOURCE = r"""
__global__ void kernel(const float* x, const float* y, float* out, float slope, long count) {
    long i = blockIdx.x * (long)blockDim.x + threadIdx.x;
    if (i < count) out[i] = fmaxf(x[i], 0.0f) * slope + y[i];
}
torch::Tensor run(torch::Tensor x, torch::Tensor y, double slope) {
    auto out = torch::empty_like(x);
    kernel<<<(x.numel() + 255) / 256, 256>>>(
        x.data_ptr<float>(), y.data_ptr<float>(), out.data_ptr<float>(), (float)slope, x.numel());
    return out;
}
"""
HEADER = "torch::Tensor run(torch::Tensor x, torch::Tensor y, double slope);"
made = load_inline("made", HEADER, SOURCE, functions=["run"])


class ModelNew(torch.nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x, y):
        return made.run(x, y, self.slope)
'''
FUSED = """
import torch


class Model(torch.nn.Module):
    def __init__(self, slope):
        super().__init__()
        self.slope = slope

    def forward(self, x, y):
        return torch.relu(x) * self.slope + y


def get_inputs():
    return [torch.randn(4096, 4096), torch.randn(4096, 4096)]


def get_init_inputs():
    return [0.5]
"""
_BAD = "class ModelNew(torch.nn.Module):\n    def __init__(self, slope):\n        super().__init__()\n"
FAILURES = {
    "an illegal access": CUDA_SOURCE.replace("out[i] =", "out[i + (1L << 40)] ="),
    "a kernel that never ends": CUDA_SOURCE.replace("if (i < count)", "while (x[0] != 1e30f || i < count)"),
    "more memory than there is": f"import torch\n{_BAD}\n    def forward(self, x, y):\n"
    "        return x + torch.empty(1 << 45, device=x.device)[:1]\n",
    "all memory, kept": f"import torch\n{_BAD}        self.kept = []\n\n    def forward(self, x, y):\n"
    "        while True:\n            self.kept.append(torch.empty(1 << 28, device=x.device))\n",
}


def failures(device: str, wanted: int) -> Iterator[Verdict]:
    """CUDA is built and measured; a kernel that breaks costs itself its score, and the GPU can be used afterwards."""
    if device != "cuda":
        yield Verdict("CUDA", "all", None, "this machine's CPU is checked")
        return
    (fused,) = measure(device, FUSED, [CUDA_SOURCE])
    yield Verdict("CUDA", "a fused kernel", "speedup" in fused, _said(fused))
    for name, source in list(FAILURES.items())[:wanted]:
        found = measure(device, FUSED, [source, CUDA_SOURCE], seconds=20)
        yield Verdict("failures", name, "refused" in found[0], _said(found[0]))
        yield Verdict("the next kernel", f"after {name}", "speedup" in found[-1], _said(found[-1]))


CHECKS: Mapping[str, tuple[Callable[[str, int], Iterator[Verdict]], int]] = {
    "starters": (starters, 16), "timing": (timing, 20), "attacks": (attacks, 1000), "failures": (failures, 100),
}  # fmt: skip


def _problem(folder: Path, device: str) -> str:
    source = (folder / "problem.py").read_text()
    if device == "cuda":
        return source
    sizes = tomllib.loads((folder / "task.toml").read_text())["kernel"]["sizes"]["cpu"]
    return with_constants(source, sizes, folder.name)


def _said(found: Found) -> str:
    if "speedup" not in found:
        return str(found.get("refused") or found.get("failed"))
    return (
        f"speed-up {found['speedup']:.3f} ({found['low']:.3f} to {found['high']:.3f}), "
        f"{found['reference_milliseconds']:.3f} ms to {found['milliseconds']:.3f} ms, hand-over "
        f"{found['handover_milliseconds']:.3f} ms; judged in {found['took']:.1f} s"
        + ("" if found["resolved"] else "; too short to be told from the hand-over")
    )


def page(device: str, verdicts: Sequence[Verdict]) -> str:
    """All verdicts as Markdown."""
    seen = hardware.described(folders=sys.path)
    machine = ", ".join(filter(None, (*seen["gpus"], seen["cpu"], seen["driver"] and f"driver {seen['driver']}")))
    lines = [
        f"# Kernels on {machine}",
        "",
        f"{time.strftime('%Y-%m-%d')}, PyTorch {seen['torch']}, device `{device}`, "
        "without a container. `held`: as claimed.",
        "",
        "| check | of | held | what the judge said |", "|---|---|---|---|",
    ]  # fmt: skip
    words = {True: "yes", False: "**no**", None: "not tried"}
    for one in verdicts:
        said = one.said.replace("|", "\\|").replace("\n", " ")[:300]
        lines.append(f"| {one.claim} | {one.of} | {words[one.held]} | {said} |")
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--only", nargs="+", choices=tuple(CHECKS), default=tuple(CHECKS))
    parser.add_argument(
        "--at-most", type=int, help="of each check: so many problems, measurements, attacks and failures"
    )
    parser.add_argument("--out", type=Path, help="folder for the verdicts, as Markdown and JSON lines")
    arguments = parser.parse_args()
    verdicts: list[Verdict] = []
    for name in arguments.only:
        check, wanted = CHECKS[name]
        for verdict in check(arguments.device, arguments.at_most or wanted):
            verdicts.append(verdict)
            word = {True: "held  ", False: "BROKEN", None: "-     "}[verdict.held]
            print(word, verdict.claim, verdict.of, verdict.said, sep="  ", flush=True)
            if arguments.out is not None:
                arguments.out.mkdir(parents=True, exist_ok=True)
                (arguments.out / f"{arguments.device}.md").write_text(page(arguments.device, verdicts))
                lines = "".join(json.dumps(asdict(one)) + "\n" for one in verdicts)
                (arguments.out / f"{arguments.device}.jsonl").write_text(lines)
    broken = sum(verdict.held is False for verdict in verdicts)
    print(f"{len(verdicts) - broken} held or could not be tried, {broken} broken")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
