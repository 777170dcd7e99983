"""How long importing the graph library takes, through our one door and as it comes.

Run it as `python benchmarks/perf/graph_import.py`. Each import happens in a fresh interpreter; the bare interpreter's
start is subtracted. "as it comes" puts empty packages in the place of litellm, openai, black and graphviz, so that the
difference is that of `inspect.stack` alone: with the real packages it takes seconds more.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

ROUNDS = 9
STUBS = (
    "import sys, types\n"
    "class M(types.ModuleType):\n"
    "    def __getattr__(self, name):\n"
    "        if name.startswith('__'): raise AttributeError(name)\n"
    "        return object\n"
    "for n in ('litellm', 'openai', 'black', 'graphviz'): sys.modules[n] = M(n)\n"
)
CASES = {
    "bare interpreter": "pass",
    "door": "from trace_bench.worker import graph; graph.load()",
    "as it comes": STUBS + "import opto.optimizers.optoprime",
}


def seconds(code: str) -> float:
    started = time.perf_counter()
    subprocess.run([sys.executable, "-I", "-c", code], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


def main() -> None:
    medians = dict.fromkeys(CASES, 0.0)
    runs: dict[str, list[float]] = {name: [] for name in CASES}
    for code in CASES.values():
        seconds(code)  # files into the page cache, byte code onto disk
    for _ in range(ROUNDS):
        for name, code in CASES.items():
            runs[name].append(seconds(code))
    for name, taken in runs.items():
        medians[name] = statistics.median(taken)
        print(f"{name:17} median {medians[name]:.3f} s   min {min(taken):.3f} s   max {max(taken):.3f} s   n={ROUNDS}")
    bare = medians["bare interpreter"]
    print(f"import of the graph library: {medians['door'] - bare:.3f} s (wanted: at most 0.4 s)")
    print(f"ratio door / as it comes:    {(medians['door'] - bare) / (medians['as it comes'] - bare):.2f}")


if __name__ == "__main__":
    main()
