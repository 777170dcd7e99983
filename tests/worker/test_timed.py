"""A program that is timed computes only while the clock runs: its process is stopped before and after."""

from __future__ import annotations

import json
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.worker.support import run

PROBE = """
import json, pathlib, time
from dataclasses import replace
LIMITS = Limits(
    wall_seconds=5, cpu_seconds=10, memory_bytes=256 << 20, shared_bytes={shared}, needs=frozenset({needs!r}),
    file_bytes=4096,
)
SOURCE = {source!r}
FILES = {{"library_path": pathlib.Path({library!r}).read_bytes()}} if {library!r} else {{}}

def build(context):
    def guide(query, response, reference):
        try:
            with context.programs.open(SOURCE, "f", LIMITS, {support!r}, FILES) as program:
                found = (lambda program: {expression})(program)
        except (CandidateError, ProblemError) as error:
            found = [type(error).__name__, str(error)]
        print("RESULT", json.dumps(found))
        return 1.0, ""
    return problem(guide)
"""


def probe(
    folder: Path,
    source: str,
    expression: str,
    *,
    shared: int = 4096,
    needs: tuple[str, ...] = (),
    support: str = "",
    library: str = "",
) -> Any:
    text = PROBE.format(
        source=textwrap.dedent(source), expression=expression, shared=shared, needs=needs, support=support,
        library=library,
    )  # fmt: skip
    got = run(folder, text)
    lines = [line for line in got.log.splitlines() if line.startswith("RESULT")]
    assert lines, (got.result, got.log, got.stderr)
    return json.loads(lines[0].removeprefix("RESULT "))


WRITE = "lambda memory: memory.__setitem__(0, 7)"
COUNTING = """
    import os, signal, threading, time
    def count():
        while True:
            shared_memory[8:16] = (int.from_bytes(shared_memory[8:16], "little") + 1).to_bytes(8, "little")
            {meanwhile}
    def f():
        if threading.active_count() == 1:
            for _ in range(2):
                threading.Thread(target=count, daemon=True).start()
        time.sleep(0.05)
"""
COUNTED = (
    f"[program.timed({WRITE}), bytes(program.shared[8:16]) != bytes(8), "
    "[bytes(program.shared[8:16]) == (time.sleep(0.1), bytes(program.shared[8:16]))[1] for _ in range(3)]]"
)


def test_shared_memory_goes_in_and_comes_out_and_the_clock_is_the_callers(tmp_path: Path) -> None:
    source = """
        import time
        time.perf_counter = time.monotonic = lambda: 0.0
        def f(x):
            shared_memory[1] = shared_memory[0] + x
            time.sleep(0.2)
            return "done"
    """
    answer, seconds, byte = probe(tmp_path, source, f"[*program.timed({WRITE}, 3), program.shared[1]]")
    assert (answer, byte) == ("done", 10)
    assert 0.2 <= seconds < 2


def test_threads_that_go_on_do_nothing_once_the_answer_is_there(tmp_path: Path) -> None:
    (_, seconds), counted, still = probe(tmp_path, COUNTING.format(meanwhile="pass"), COUNTED)
    assert counted and still == [True, True, True] and seconds >= 0.05


def test_a_program_cannot_go_on_by_itself(tmp_path: Path) -> None:
    undone = "os.kill(os.getpid(), signal.SIGCONT)"
    found = probe(tmp_path, COUNTING.format(meanwhile=undone), COUNTED)
    assert found[0] == "CandidateError" or found[2] == [True, True, True]


def test_what_is_written_before_the_clock_runs_is_seen_by_nobody(tmp_path: Path) -> None:
    source = """
        import threading, time
        seen = []
        def watch():
            while not shared_memory[0]:
                pass
            seen.append(time.perf_counter())
        threading.Thread(target=watch, daemon=True).start()
        def f():
            while not seen:
                pass
            return seen[0]
    """
    fill = "lambda memory: (memory.__setitem__(0, 7), time.sleep(0.3), filled.append(time.perf_counter()))"
    expression = f"(lambda filled: program.timed({fill})[0] >= filled[0])([])"
    assert probe(tmp_path, source, expression) is True


def test_an_untimed_call_after_a_timed_one_is_answered(tmp_path: Path) -> None:
    assert probe(tmp_path, "def f(): return 1", f"[program.timed({WRITE})[0], program(), program()]") == [1, 1, 1]


def test_a_program_that_dies_while_it_is_timed_is_a_failure(tmp_path: Path) -> None:
    found = probe(tmp_path, "import os\ndef f(): os._exit(3)", f"program.timed({WRITE})")
    assert found == ["CandidateError", "died failed: the process exited with code 3 before it answered"]


def test_shared_memory_beyond_all_bounds_is_refused_with_a_sentence(tmp_path: Path) -> None:
    kind, said = probe(tmp_path, "def f(): pass", f"program.timed({WRITE})", shared=1 << 41)
    assert kind == "ProblemError" and "no candidate process could be started" in said


def test_support_runs_behind_the_source(tmp_path: Path) -> None:
    support = "globals()['g'] = lambda: value + 1\ndef f(): return g()\n"
    assert probe(tmp_path, "value = 4", "program()", support=support) == 5


def test_memory_can_be_made_executable_only_by_a_task_that_needs_it(tmp_path: Path) -> None:
    source = """
        import ctypes, mmap
        def f():
            made = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
            return len(made)
    """
    assert probe(tmp_path, source, "program()", needs=("machine_code",)) == 4096
    kind, said = probe(tmp_path, source, "program()")
    assert kind == "CandidateError" and "PermissionError" in said


LOADS = """
    import ctypes
    def f():
        return ctypes.CDLL(library_path).PyInit__ctypes is not None
"""


def test_a_library_that_comes_with_a_program_is_loaded_only_if_it_may_read_and_execute(tmp_path: Path) -> None:
    spec = find_spec("_ctypes")
    assert spec is not None and spec.origin is not None
    for needs in ((), ("files",), ("machine_code",)):
        kind, said = probe(tmp_path, LOADS, "program()", needs=needs, library=spec.origin)
        assert kind == "CandidateError" and "OSError" in said, (needs, said)
    assert probe(tmp_path, LOADS, "program()", needs=("files", "machine_code"), library=spec.origin) is True


@pytest.mark.parametrize(
    "source",
    ["def f(): return subprocess.run(['/bin/echo', 'x'], capture_output=True).stdout.decode()",
     "def f(): fd = os.memfd_create('x'); return os.write(fd, bytes(4096)) + os.write(fd, bytes(4096))"],
)  # fmt: skip
def test_only_a_program_that_compiles_starts_others_and_writes_files_up_to_a_size(tmp_path: Path, source: str) -> None:
    def said(*needs: str) -> Any:
        return probe(tmp_path, f"import os, subprocess\n{source}", "program()", needs=needs)

    assert said("files", "processes")[0] == "CandidateError"
    found = said("files", "processes", "compiler")
    assert found == "x\n" if "echo" in source else "File too large" in found[1], found
