"""What is appended to a file, and what Lean's messages say to the optimizer."""

from __future__ import annotations

import json

from trace_bench.suites.veribench.harness import HiddenTest, Message, appended, messages, told, values

TESTS = (HiddenTest("train_1", "f 1", "2"), HiddenTest("train_2", "f 2", "3"))
WHOLE = appended("def f (n : Nat) : Nat := n\n\ntheorem t : f 1 = 1 := rfl\n\n", TESTS, TESTS)


def test_lines_of_tests_and_values_are_known() -> None:
    lines = WHOLE.text.split("\n")
    assert WHOLE.last_line == 3 and lines[2].startswith("theorem t")
    for number, test in WHOLE.stated.items():
        assert lines[number - 1].startswith(f"theorem _root_.TraceBench.{test.name} : ({test.call}) = ")
    for number, test in WHOLE.shown.items():
        assert lines[number - 1].endswith(f"#eval ({test.call})")


def test_messages_are_json_lines_and_all_else_is_passed_over() -> None:
    said = {"severity": "error", "pos": {"line": 3, "column": 4}, "data": "no"}
    hostile = ["{", "[]", "null", '{"severity": 1}', json.dumps({**said, "pos": {"line": "x", "column": 1}})]
    assert messages("\n".join(["printed by a candidate", *hostile, json.dumps(said)])) == [Message("error", 3, 4, "no")]


def test_errors_come_first_with_their_place() -> None:
    said = [
        Message("warning", 1, 4, "declaration uses `sorry`"),
        Message("error", 3, 10, "type mismatch\n⊢ f 1 = 1\n\nHint: a long explanation"),
        Message("information", 1, 0, "not told"),
        Message("warning", 5, 0, "of a test, and not told"),
    ]
    assert told(said, WHOLE) == (
        "line 3, column 11: error: type mismatch\n⊢ f 1 = 1\nline 1, column 5: warning: declaration uses `sorry`"
    )


def test_an_error_of_a_test_names_the_test_and_any_line_may_come() -> None:
    said = [Message("error", 5, 0, "unknown identifier"), *(Message("error", n, 0, "x") for n in (-5, 10**9))]
    found = told(said, WHOLE)
    assert "the test (f 1) = (2): error: unknown identifier" in found and "behind the file: error: x" in found


def test_long_messages_and_many_messages_are_shortened() -> None:
    assert len(told([Message("error", 1, 0, "x" * 100_000)], WHOLE)) < 2000
    assert "and 92 more messages" in told([Message("error", 1, 0, "x")] * 100, WHOLE)


def test_values_belong_to_their_tests() -> None:
    line = min(WHOLE.shown)
    said = [Message("information", line, 0, "1"), Message("information", 1, 0, "9"), Message("error", line + 1, 0, "7")]
    assert values(said, WHOLE) == {"train_1": "1"}
