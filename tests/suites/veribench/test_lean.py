"""How a `lean` that hangs, crashes, or takes too much is dealt with: real processes, under the limits of a task."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.suites.veribench.support import program
from tests.worker.support import others_may_read, run
from trace_bench.suites.veribench.lean import UNAVAILABLE, VARIABLE, Lean, lean_here
from trace_bench.worker.problem import CandidateError, Limits, ProblemError, Programs

LIMITS = Limits(wall_seconds=5, cpu_seconds=5, memory_bytes=256 << 20, processes=64)
SAYS = """echo '{"severity":"error","pos":{"line":1,"column":4},"data":"unknown"}'"""
MakeLean = Callable[..., Lean]


@pytest.fixture
def make_lean(programs: Programs, tmp_path: Path) -> Iterator[MakeLean]:
    made: list[Lean] = []

    def make(script: str, limits: Limits = LIMITS) -> Lean:
        made.append(Lean(programs, limits, [str(program(tmp_path, script))], {"PATH": "/usr/bin:/bin"}))
        return made[-1]

    yield make
    for lean in made:
        lean.close()


def test_messages_and_files_come_back(make_lean: MakeLean) -> None:
    script = 'while [ "$1" != -o ]; do shift; done; cat >"$2"; ' + SAYS.replace("error", "warning")
    found = make_lean(script).elaborate("def f := 1")
    assert found.files == [b"def f := 1"]
    assert [(m.severity, m.line, m.text) for m in found.said] == [("warning", 1, "unknown")]


def test_a_file_with_errors_has_no_compiled_file(make_lean: MakeLean) -> None:
    found = make_lean(f"cat >/dev/null; {SAYS}; exit 1").elaborate("def f :=")
    assert list(found.files) == [] and found.said[0].severity == "error"


def test_a_file_that_never_ends_costs_its_time_and_no_more(make_lean: MakeLean, tmp_path: Path) -> None:
    lean = make_lean("cat >/dev/null; sleep 60", Limits(wall_seconds=1, cpu_seconds=5, memory_bytes=256 << 20))
    began = time.monotonic()
    with pytest.raises(CandidateError, match=r"not finished within 1 s: a definition, a proof or a test"):
        lean.elaborate("def f := 1")
    assert time.monotonic() - began < 10
    program(tmp_path, f"cat >/dev/null; {SAYS}; exit 1")
    lean.close()
    assert lean.elaborate("def f := 1").said


def test_a_crash_is_the_candidates(make_lean: MakeLean) -> None:
    with pytest.raises(CandidateError, match="Lean crashed on this file"):
        make_lean("cat >/dev/null; kill -SEGV $$").elaborate("def f := 1")


def test_all_that_it_starts_ends_with_it(make_lean: MakeLean, tmp_path: Path) -> None:
    lean = make_lean(f"cat >/dev/null; (sleep 30; touch {tmp_path}/late) & {SAYS}; exit 1")
    lean.elaborate("def f := 1")
    lean.close()
    assert not (tmp_path / "late").exists()


def test_a_program_that_cannot_answer_is_no_ones_score(make_lean: MakeLean) -> None:
    with pytest.raises(ProblemError, match="no toolchain"):
        make_lean(f"cat >/dev/null; echo no toolchain >&2; exit {UNAVAILABLE}").elaborate("def f := 1")


def test_silence_with_an_error_is_no_score(make_lean: MakeLean) -> None:
    with pytest.raises(ProblemError, match="says nothing"):
        make_lean("cat >/dev/null; exit 1").elaborate("def f := 1")


def test_no_network_and_no_look_at_other_processes(make_lean: MakeLean) -> None:
    code = "import socket, sys, fcntl\ntry: socket.socket()\nexcept PermissionError: sys.exit(3)"
    with pytest.raises(ProblemError, match="ended with 3"):
        make_lean(f'cat >/dev/null; exec {sys.executable} -c "{code}"').elaborate("def f := 1")


def test_a_missing_program_is_told() -> None:
    with pytest.raises(ProblemError, match=r"found no program 'lean'.*docs/how-to/lean.md"):
        lean_here({"PATH": "/nowhere"})
    assert lean_here({VARIABLE: "/opt/lean/bin/lean"}) == "/opt/lean/bin/lean"


def test_one_process_waits_ahead(make_lean: MakeLean, tmp_path: Path) -> None:
    """What a start takes is not paid when a file comes."""
    lean = make_lean(f"echo >>{tmp_path}/starts; cat >/dev/null; {SAYS}; exit 1")
    lean.prepare()
    lean.elaborate("def f := 1")
    lean.elaborate("def g := 1")
    end = time.monotonic() + 5
    while (tmp_path / "starts").read_text() != "\n\n\n" and time.monotonic() < end:
        time.sleep(0.01)
    assert (tmp_path / "starts").read_text() == "\n\n\n"


_JOB = """
from trace_bench.suites.veribench.lean import Lean

def build(context):
    def guide(query, response, reference):
        limits = Limits(wall_seconds=20, cpu_seconds=2, memory_bytes=256 << 20, processes=24)
        for script in {scripts!r}:
            lean = Lean(context.programs, limits, ["/bin/sh", "-c", script], {{"PATH": "/usr/bin:/bin"}})
            try:
                print("RESULT", lean.elaborate("def f := 1").said[0].text)
            except (CandidateError, ProblemError) as error:
                print("RESULT", type(error).__name__, str(error).replace(chr(10), " "))
            lean.close()
        return 1.0, ""
    return problem(guide)
"""
_GREEDY = f"""cat >/dev/null; {sys.executable} -c 'bytearray(1 << 30)' 2>/dev/null || kill -ABRT $$"""
_BOMB = "cat >/dev/null; bomb() { bomb | bomb & }; bomb 2>/dev/null; sleep 1; kill -ABRT $$"
_SPINS = "cat >/dev/null; while :; do :; done"


def test_memory_processes_and_time_are_limited_by_the_worker() -> None:
    """Each costs one candidate its score, and the next one is compiled as if nothing had been.

    Processes are limited where each candidate has a uid of its own, and a bomb is thrown nowhere else.
    """
    apart = os.geteuid() == 0 and others_may_read()
    scripts = [_GREEDY, _BOMB if apart else _GREEDY, _SPINS, f"cat >/dev/null; {SAYS}; exit 1"]
    with tempfile.TemporaryDirectory(prefix="trace-bench-lean-") as folder:
        Path(folder).chmod(0o755)
        got = run(
            Path(folder), _JOB.format(scripts=scripts), timeout=90, limits={"score_timeout": 90},
            uid_base=190_500 if apart else None, env={"PYTHONPATH": os.pathsep.join((folder, *sys.path))},
        )  # fmt: skip
    found = [line.partition(" ")[2] for line in got.log.splitlines() if line.startswith("RESULT ")][:4]
    assert len(found) == 4, got
    assert "Lean crashed" in found[0] and "Lean crashed" in found[1], found
    assert "CandidateError" in found[2] and ("CPU time" in found[2] or "takes too long" in found[2]), found
    assert found[3] == "unknown", found
