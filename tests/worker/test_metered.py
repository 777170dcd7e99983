"""The CPU time of a call is read from outside the candidate's process, which cannot change it."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests.worker.test_timed import probe
from trace_bench.worker.reaper import Candidate, Reaper, Tally

SPIN = """
    import os, threading, time
    clock = time.process_time
    def spin(seconds):
        end = clock() + seconds
        while clock() < end:
            pass
"""


def test_a_call_that_computes_is_measured_whatever_the_program_does_to_its_clocks(tmp_path: Path) -> None:
    source = SPIN + (
        "    time.process_time = time.perf_counter = time.monotonic = lambda: 0.0\n"
        "    def f(seconds):\n        spin(seconds)\n        return 'done'\n"
    )
    answer, seconds = probe(tmp_path, source, "program.metered(0.3)", shared=0)
    assert answer == "done" and 0.25 <= seconds < 1


def test_a_call_that_sleeps_has_used_no_time(tmp_path: Path) -> None:
    _, seconds = probe(tmp_path, "import time\ndef f(): time.sleep(0.4)", "program.metered()", shared=0)
    assert 0 <= seconds < 0.1


def test_each_call_has_its_own_time_and_starting_and_loading_have_none(tmp_path: Path) -> None:
    source = SPIN + "    spin(0.3)\n    def f(seconds):\n        spin(seconds)\n"
    found = probe(tmp_path, source, "[program.metered(s)[1] for s in (0, 0.2, 0)] + [program(0.2)]", shared=0)
    assert found[0] < 0.1 and 0.15 <= found[1] < 0.7 and found[2] < 0.1 and found[3] is None


def test_other_threads_of_the_program_count(tmp_path: Path) -> None:
    source = SPIN + (
        "    def f():\n        thread = threading.Thread(target=spin, args=(0.3,))\n"
        "        thread.start()\n        thread.join()\n"
    )
    _, seconds = probe(tmp_path, source, "program.metered()", shared=0)
    assert 0.25 <= seconds < 1


def test_a_program_cannot_leave_its_work_to_another_process(tmp_path: Path) -> None:
    source = SPIN + (
        "    def f():\n        pid = os.fork()\n        if not pid:\n            spin(0.3)\n            os._exit(0)\n"
        "        os.waitpid(pid, 0)\n"
    )
    kind, said = probe(tmp_path, source, "program.metered()", shared=0)
    assert kind == "CandidateError" and "call failed" in said


@pytest.mark.parametrize("need", ["processes", "compiler"])
def test_a_program_that_may_fork_is_not_metered(tmp_path: Path, need: str) -> None:
    kind, said = probe(tmp_path, "def f(): pass", "program.metered()", shared=0, needs=(need,))
    assert kind == "ProblemError" and "cannot be metered" in said


def test_a_program_that_fails_while_it_is_metered_is_a_failure(tmp_path: Path) -> None:
    found = probe(tmp_path, "import os\ndef f(): os._exit(3)", "program.metered()", shared=0)
    assert found == ["CandidateError", "died failed: the process exited with code 3 before it answered"]


def test_time_of_a_process_that_has_ended_is_not_lost() -> None:
    reaper = Reaper(lambda *_: True, lambda *_: None)
    pid = os.fork()
    if pid == 0:
        end = time.process_time() + 0.2
        while time.process_time() < end:
            pass
        os._exit(0)
    candidate = Candidate(pid, None, 10, Tally())
    reaper.add(candidate)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    before = reaper.cpu_seconds(candidate)
    reaper.collect()
    after = reaper.cpu_seconds(candidate)
    assert before is not None and after is not None
    assert 0.15 <= before <= 1 and after == pytest.approx(before, abs=0.05)
