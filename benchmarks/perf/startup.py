"""How long commands take that do nothing, against `python -c pass`. Wanted: well under half a second.

python benchmarks/perf/startup.py [--rounds 15]
"""

from __future__ import annotations

import argparse
import sys

from timing import TRACE_BENCH, interleaved, load, process, show


def _completion(*words: str) -> float:
    asked = {
        "_TRACE_BENCH_COMPLETE": "complete_bash",
        "COMP_WORDS": "\n".join(("trace-bench", *words)),
        "COMP_CWORD": str(len(words)),
    }
    return process("env", *(f"{name}={value}" for name, value in asked.items()), TRACE_BENCH)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    cases = {"python -c pass": lambda: [process(sys.executable, "-c", "pass")]}
    for words in ("--version", "--help", "tasks", "trainers"):
        cases[f"trace-bench {words}"] = lambda w=words: [process(TRACE_BENCH, w)]
    for words in (("ru",), ("run", "-t", ""), ("trainers", ""), ("show", "")):
        cases[f"completion of {' '.join(words)}"] = lambda w=words: [_completion(*w)]
    print(load())
    show(interleaved(cases, rounds), "python -c pass")


if __name__ == "__main__":
    main()
