"""Candidates live in processes of their own; whatever they do is a CandidateError with a sentence, or data."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any

import pytest

from tests.worker.support import run

PROBE = """
import json
LIMITS = Limits(
    wall_seconds={wall}, cpu_seconds={cpu}, memory_bytes=256 << 20, output_bytes=1 << 20, needs=frozenset({needs!r})
)
SOURCES = json.loads({sources!r})

def call(context, source, *args):
    try:
        with context.programs.open(source, "f", LIMITS) as program:
            return ["ok", program(*args)]
    except CandidateError as error:
        return [error.phase, error.message, error.line]

def build(context):
    def guide(query, response, reference):
        print("RESULT", json.dumps({{name: call(context, source, 1) for name, source in SOURCES.items()}}))
        return 1.0, ""
    return problem(guide)
"""


def probe(
    folder: Path,
    cpu: float = 10,
    wall: float = 2.0,
    env: dict[str, str] | None = None,
    needs: tuple[str, ...] = (),
    **sources: str,
) -> dict[str, Any]:
    texts = json.dumps({name: textwrap.dedent(source) for name, source in sources.items()})
    got = run(folder, PROBE.format(sources=texts, cpu=cpu, wall=wall, needs=needs), env=env)
    lines = [line for line in got.log.splitlines() if line.startswith("RESULT")]
    assert lines, (got.result, got.log, got.stderr)
    return json.loads(lines[0].removeprefix("RESULT "))


def test_data_goes_in_and_comes_out(tmp_path: Path) -> None:
    got = probe(tmp_path, f="def f(x): return {'a': [x, 2.5, None, 'ü']}")
    assert got["f"] == ["ok", {"a": [1, 2.5, None, "ü"]}]


WRITE = """
import os
def f(x): os.write(os.open("/tmp/trace-bench-test-file", os.O_CREAT | os.O_WRONLY), b"abc")
"""


BAD_ERROR = """
import os, struct, sys
def f(x):
    nonce = sys._getframe(1).f_locals["nonce"]
    body = b"m" + struct.pack("<I", 1) + b"s" + struct.pack("<I", 5) + b"phase"
    body += b"l" + struct.pack("<I", 0)
    os.write(3, struct.pack("<IBQ", len(body), 4, nonce) + body)
    return x
"""


@pytest.mark.parametrize(
    ("source", "phase", "words", "line"),
    [
        ("def f(x:\n  pass", "compile", "SyntaxError", 1),
        ("x = 1", "compile", "does not define a function named f", None),
        ("f = 3", "compile", "does not define a function named f", None),
        ("import nowhere\ndef f(x): pass", "compile", "ModuleNotFoundError", 1),
        ("def f(x):\n    y = x\n    return y / 0", "call", "ZeroDivisionError", 3),
        ("def f(x): raise SystemExit(3)", "call", "SystemExit", 1),
        ("def f(x): return f(x)", "call", "RecursionError", 1),
        ("def f(x):\n    while True: pass", "timeout", "2 s of wall time", None),
        ("import os\ndef f(x): os._exit(3)", "died", "exited with code 3", None),
        ("import os\ndef f(x): os.kill(os.getpid(), 11)", "died", "SIGSEGV", None),
        ("import os\ndef f(x): os.kill(os.getpid(), 40)", "died", "signal 40", None),
        ("import os\ndef f(x): os.kill(os.getpid(), 9)", "died", "SIGKILL", None),
        ("def f(x): return bytearray(1 << 30)", "memory", "MemoryError", 1),
        ("def f(x): return 'x' * (2 << 20)", "output", "the limit is", None),
        (BAD_ERROR, "call", "unknown error", None),
        ("def f(x): return {k * (2**61 - 1): 0 for k in range(1, 99)}", "output", "64 bits", None),
        ("def f(x): return lambda: 0", "output", "cannot cross", None),
        ("def f(x):\n    a = []\n    a.append(a)\n    return a", "output", "nested", None),
        ("import socket\ndef f(x): socket.socket()", "call", "PermissionError", None),
        ("import os\ndef f(x): return os.memfd_create('x')", "call", "PermissionError", None),
        (WRITE, "call", "PermissionError", None),
        ("import os\ndef f(x): os.fork()", "call", "PermissionError", None),
        ("import os\ndef f(x): os.abort()", "died", "SIGABRT", None),
    ],
)  # fmt: skip
def test_each_misdeed_is_one_error_with_phase_sentence_and_line(
    tmp_path: Path, source: str, phase: str, words: str, line: int | None
) -> None:
    got = probe(tmp_path, f=source)["f"]
    assert got[0] == phase and words in got[1]
    if line is not None:
        assert got[2] == line


@pytest.fixture(autouse=True)
def _tidy() -> Any:
    yield
    Path("/tmp/trace-bench-test-file").unlink(missing_ok=True)


def test_cpu_time_counts_apart_from_wall_time(tmp_path: Path) -> None:
    spin = """
    import threading
    def f(x):
        end = [False]
        def work():
            while not end[0]: sum(range(1000))
        threads = [threading.Thread(target=work) for _ in range(2)]
        [t.start() for t in threads]
        threads[0].join()
    """
    got = probe(tmp_path, cpu=1, wall=60.0, f=spin)["f"]
    assert got[0] == "timeout" and "CPU time" in got[1]


def test_a_program_that_ignores_the_signal_of_its_cpu_limit_is_told_the_same(tmp_path: Path) -> None:
    deaf = """
    import signal
    def f(x):
        signal.signal(signal.SIGXCPU, signal.SIG_IGN)
        while True: pass
    """
    got = probe(tmp_path, cpu=1, wall=60.0, f=deaf)["f"]
    assert got[:2] == ["timeout", "the program used more than 1 s of CPU time"]


def test_the_environment_is_empty_and_no_descriptor_leaks(tmp_path: Path) -> None:
    look = """
    import os
    def f(x):
        paths = [f"/proc/self/fd/{n}" for n in os.listdir("/proc/self/fd")]
        fds = [os.readlink(path) for path in paths if os.path.exists(path)]
        return [dict(os.environ), sorted({fd.split(":")[0] for fd in fds})]
    """
    env, kinds = probe(tmp_path, env={"OPENAI_API_KEY": "not-a-key"}, needs=("files",), f=look)["f"][1]
    assert env == {}
    assert set(kinds) <= {"/dev/null", "socket"}


def test_a_candidate_cannot_find_the_job_in_the_memory_it_was_forked_with(tmp_path: Path) -> None:
    """The spawner must not have read the job: a fork inherits its parent's memory."""
    search = """
    import re
    def f(x):
        needle = ("job_id" + "\\x22:").encode()
        hits = 0
        for line in open("/proc/self/maps"):
            span, mode = line.split()[:2]
            if "r" not in mode or "[v" in line:
                continue
            low, high = (int(v, 16) for v in span.split("-"))
            try:
                with open("/proc/self/mem", "rb", 0) as memory:
                    memory.seek(low)
                    hits += memory.read(high - low).count(needle + b"\\x22" + b"0" * 12)
            except (OSError, ValueError, OverflowError):
                pass
        return hits
    """
    assert probe(tmp_path, needs=("files",), f=search)["f"] == ["ok", 0]


def test_what_one_candidate_patches_the_next_one_does_not_see(tmp_path: Path) -> None:
    got = probe(
        tmp_path,
        env={"TRACE_BENCH_PRELOAD": "numpy"},
        a="import numpy as np\nnp.sum = lambda *a: 999.0\ndef f(x): return np.sum([1.0])",
        b="import numpy as np\ndef f(x): return float(np.sum([1.0]))",
    )
    assert got == {"a": ["ok", 999.0], "b": ["ok", 1.0]}


def test_random_numbers_inside_a_candidate_follow_the_seed_of_the_job(tmp_path: Path) -> None:
    source = "import random\ndef f(x): return random.random()"
    assert probe(tmp_path, f=source) == probe(tmp_path, f=source)
    late = "def f(x):\n import numpy\n return numpy.random.random()"
    assert probe(tmp_path, f=late)["f"][0] == "ok"
    assert probe(tmp_path, f=late) == probe(tmp_path, f=late)


def test_the_processes_that_a_task_declares_end_with_the_candidate(tmp_path: Path) -> None:
    marker = "tb-grandchild"
    source = f"""
    import ctypes, os, time
    def f(x):
        if os.fork() == 0:
            ctypes.CDLL(None).prctl(15, b"{marker}", 0, 0, 0)
            time.sleep(60)
        time.sleep(0.3)
        return 1
    """
    assert probe(tmp_path, needs=("processes",), f=source)["f"] == ["ok", 1]
    alive = [p for p in Path("/proc").glob("[0-9]*/comm") if marker in _read(p)]
    assert alive == []


def _read(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def test_a_policy_keeps_its_state_between_calls_of_one_instance_only(tmp_path: Path) -> None:
    code = """
    SOURCE = "n = 0\\ndef f(x):\\n    global n\\n    n += x\\n    return n"
    def build(context):
        def guide(query, response, reference):
            seen = []
            for _ in range(2):
                with context.programs.open(SOURCE, "f") as program:
                    seen.append([program(1), program(1)])
            print("RESULT", seen)
            return 1.0, ""
        return problem(guide)
    """
    assert "RESULT [[1, 2], [1, 2]]" in run(tmp_path, code).log


def test_after_a_failure_every_further_call_repeats_it(tmp_path: Path) -> None:
    code = """
    def build(context):
        def guide(query, response, reference):
            with context.programs.open("def f(x): return 1 / x", "f") as program:
                for value in (0, 1):
                    try:
                        program(value)
                    except CandidateError as error:
                        print("RESULT", error)
            return 1.0, ""
        return problem(guide)
    """
    lines = [x for x in run(tmp_path, code).log.splitlines() if x.startswith("RESULT")]
    assert len(set(lines)) == 1 and len(lines) % 2 == 0 and "ZeroDivisionError" in lines[0]


def test_fit_calls_a_program_with_whole_vectors_many_times(tmp_path: Path) -> None:
    """The way of a skeleton whose parameters are fitted: arrays in, an array out, one process an instance."""
    code = """
    import numpy as np
    SOURCE = "import numpy as np\\ndef f(x, p): return p[0] * x + p[1]"
    def build(context):
        def guide(query, response, reference):
            x = np.linspace(-1.0, 1.0, 1000)
            goal, p = 2.0 * x - 1.0, np.zeros(2)
            with context.programs.open(SOURCE, "f") as program:
                for _ in range(200):
                    rest = program(x, p) - goal
                    p = p - np.array([np.mean(rest * x) * 3.0, np.mean(rest)])
            print("RESULT", np.round(p, 6).tolist())
            return 1.0, ""
        return problem(guide)
    """
    assert "RESULT [2.0, -1.0]" in run(tmp_path, code, env={"TRACE_BENCH_PRELOAD": "numpy"}).log


def test_a_program_that_imports_nothing_takes_arrays_where_no_image_has_loaded_numpy(tmp_path: Path) -> None:
    """The local backend starts sandboxes without TRACE_BENCH_PRELOAD."""
    code = """
    import numpy as np
    def build(context):
        def guide(query, response, reference):
            with context.programs.open("def f(x): return -x", "f") as program:
                print("RESULT", program(np.arange(3)).tolist())
            return 1.0, ""
        return problem(guide)
    """
    assert "RESULT [0, -1, -2]" in run(tmp_path, code).log


@pytest.mark.parametrize("names", [["f2py.__main__"], [f"a{i:060d}" for i in range(6000)]])
def test_what_a_program_imports_is_not_what_the_spawner_imports(tmp_path: Path, names: list[str]) -> None:
    """The one name is a program that ends its process; the many do not fit into a message."""
    source = "\n".join(f"import numpy.{name}" for name in names) + "\ndef f(x): return x"
    got = probe(tmp_path, bad=source, good="def f(x): return x + 1")
    assert got["bad"][0] == "compile"
    assert got["good"] == ["ok", 2]


def test_a_program_that_sleeps_through_its_calls_comes_to_an_end(tmp_path: Path) -> None:
    code = """
    from trace_bench.worker.problem import CandidateError
    SOURCE = "import time\\ndef f(x): time.sleep(0.4)"
    def build(context):
        def guide(query, response, reference):
            limits = Limits(wall_seconds=1.0, cpu_seconds=0.1)
            with context.programs.open(SOURCE, "f", limits) as program:
                try:
                    for called in range(1000):
                        program(1)
                except CandidateError as error:
                    print("RESULT", called < 10, error)
            return 1.0, ""
        return problem(guide)
    """
    assert (
        "RESULT True timeout failed: its answers took more than 1.5 s of wall time together" in run(tmp_path, code).log
    )
