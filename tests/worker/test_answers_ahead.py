"""A candidate that writes frames of its own: each answers one question, and none that was not asked yet."""

from __future__ import annotations

import json
from pathlib import Path

from tests.worker.support import run
from tests.worker.test_candidates import probe

SEND = """
import os, struct, sys
def frame(value, nonce, op=3):
    body = b"i" + struct.pack("<q", value)
    os.write(3, struct.pack("<IBQ", len(body), op, nonce) + body)
"""


def ask(folder: Path, source: str) -> list[object]:
    """What ``f(1)`` and then ``f(2)`` of one instance come to."""
    code = (
        "from trace_bench.worker.problem import *\n"
        "def twice(programs, source):\n    seen = []\n"
        "    with programs.open(source, 'f', Limits(wall_seconds=5.0)) as program:\n"
        "        for x in (1, 2):\n"
        "            try:\n                seen.append(program(x))\n"
        "            except CandidateError as error:\n                seen.append(str(error))\n"
        "    return seen\n"
    )
    (folder / "asking.py").write_text(code)
    builder = f"""
    import json
    from asking import twice
    def build(context):
        def guide(query, response, reference):
            print("RESULT", json.dumps(twice(context.programs, {source!r})))
            return 1.0, ""
        return problem(guide)
    """
    got = run(folder, builder)
    lines = [line for line in got.log.splitlines() if line.startswith("RESULT")]
    assert lines, (got.result, got.log)
    found: list[object] = json.loads(lines[0].removeprefix("RESULT "))
    return found


def test_two_answers_to_one_question_are_a_failure_and_not_an_answer_to_the_next(tmp_path: Path) -> None:
    twice = SEND + "def f(x):\n    frame(100, sys._getframe(1).f_locals['nonce'])\n    return 200\n"
    first, second = ask(tmp_path, twice)
    assert first == 100 and "an answer that was not asked for" in str(second)


def test_an_answer_sent_ahead_under_a_guessed_number_is_refused(tmp_path: Path) -> None:
    ahead = SEND + (
        "def f(x):\n    nonce = sys._getframe(1).f_locals['nonce']\n    frame(x, nonce)\n"
        "    for guess in (0, 1, 2, nonce + 1, nonce - 1):\n        frame(999, guess % 2**64)\n    return 999\n"
    )
    first, second = ask(tmp_path, ahead)
    assert first == 1 and str(second).startswith("output failed")


def test_frames_sent_while_the_source_loads_answer_nothing(tmp_path: Path) -> None:
    early = SEND + "for n in range(3):\n    frame(7, 0)\n    frame(7, 0, op=5)\ndef f(x): return x\n"
    first, second = ask(tmp_path, early)
    assert str(first) == str(second) and "output failed" in str(first)


def test_a_source_that_cannot_be_read_costs_its_own_process_only(tmp_path: Path) -> None:
    deep = "def f(x): return " + "[" * 150 + "]" * 150
    wide = "x = " + "-" * 100_000 + "1\ndef f(x): return x"
    got = probe(tmp_path, deep=deep, wide=wide, nul="\x00", good="def f(x): return x + 1")
    assert got["good"] == ["ok", 2]
    assert got["deep"][0] in ("output", "compile") and got["wide"][0] in ("compile", "memory", "died")
    assert got["nul"][0] == "compile"
