from __future__ import annotations

import sys

from trace_bench.worker.problem import CandidateError
from trace_bench.worker.sentences import sentence, visible


def test_what_moves_a_cursor_or_hides_text_is_shown() -> None:
    text = "a\x1b[2J\nb\r\x00\x9b1m\u202eevil\u200b\ud800"
    assert visible(text) == "a\\x1b[2J\\nb\\r\\x00\\x9b1m\\u202eevil\\u200b\\ud800"
    assert visible("two\nlines\tö 你 \x1b", lines=True) == "two\nlines\tö 你 \\x1b"


def test_a_failure_reads_the_same_in_every_process_and_on_every_machine() -> None:
    said = f"TypeError: <f at 0x7f2a5b3c1d80> and {sys.prefix}/lib/x.py, not 0x1F or /etc/passwd"
    error = CandidateError("call", said)
    assert str(error) == "call failed: TypeError: <f at 0x…> and …/lib/x.py, not 0x1F or /etc/passwd"
    assert CandidateError("call", error.message).message == error.message


def test_a_sentence_has_a_bounded_length() -> None:
    assert len(sentence("x" * 100_000, 2000)) == 2000


def test_what_a_compiler_says_may_keep_its_lines() -> None:
    error = CandidateError("compile", "line 1: error\n  ⊢ 1 = 2\x1b[0m", lines=True)
    assert error.message == "line 1: error\n  ⊢ 1 = 2\\x1b[0m"
    assert CandidateError("compile", "a\nb").message == "a\\nb"
