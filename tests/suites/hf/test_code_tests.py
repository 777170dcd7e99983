"""Programs are tested as the published harnesses of HumanEval and MBPP test them, and can touch no test."""

from __future__ import annotations

import builtins
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.suites.hf.code_problems import (
    BY_LENGTH,
    EXTENT,
    HALVES,
    INTERLEAVE,
    PROBLEMS,
    UNPACK_RUNS,
    Written,
    humaneval,
    mbpp,
)
from tests.worker.support import run
from trace_bench.suites.hf.code_tests import CodeCase, CodeVerdict, extract_program, run_tests
from trace_bench.worker.problem import ProblemError, Programs


def judged(programs: Programs, response: str, case: CodeCase, seconds: float = 10.0) -> CodeVerdict:
    return run_tests(programs, extract_program(response, case), case, seconds)


def entry_of(problem: Written) -> str:
    return problem.case.entry


@pytest.mark.parametrize("problem", PROBLEMS, ids=entry_of)
def test_right_programs_pass_and_wrong_ones_fail(programs: Programs, problem: Written) -> None:
    for response in problem.right:
        verdict = judged(programs, response, problem.case)
        assert verdict == (True, 1.0, *["The program passes all tests."] * 2), response
    for response in problem.wrong:
        verdict = judged(programs, response, problem.case)
        assert (verdict.passed, verdict.score) == (False, 0.0), response


@pytest.mark.parametrize("problem", PROBLEMS, ids=entry_of)
def test_verdicts_are_those_of_one_process_that_runs_program_and_tests(problem: Written, tmp_path: Path) -> None:
    """What the published harnesses do; but for `size_of`, whose tests use a module that a program has to import."""
    case = problem.case
    for response in (*problem.right, *problem.wrong):
        text = "\n".join((case.setup, extract_program(response, case), *case.tests))
        if case.style == "humaneval":
            text += f"\ncheck({case.entry})\n"
        (tmp_path / "joined.py").write_text(text)
        passed = subprocess.run([sys.executable, tmp_path / "joined.py"], capture_output=True).returncode == 0
        assert passed == (response in problem.right and "__sizeof__" not in response), response


RESPONSES = {
    "prose around a block": ("Sure:\n\n```python\ndef f(x):\n    return x + 1\n```\nIt adds one.", 6),
    "no block": ("def f(x):\n    return x + 1", 6),
    "the body alone": ("    return x + 1", 6),
    "a body in a block": ("```\n    y = x\n    return y + 1\n```", 6),
    "a body that lost its first indentation": ("y = x\n    return y + 1", 6),
    "a body that lost all indentation": ("y = x\nreturn y + 1", 6),
    "an indented block": ("1. First\n   ```py\n   def f(x):\n       return x + 1\n   ```", 6),
    "a block that does not end": ("```python\ndef f(x):\n    return x + 1\n", 6),
    "tildes": ("~~~python\ndef f(x):\n    return x + 1\n~~~", 6),
    "a test of its own in a longer block": (
        "```python\ndef f(x): return x + 1\n```\nUse it:\n"
        "```python\nfor i in range(3):\n    print(f(i), f(i + 1), f(2))\n```",
        6,
    ),
    "the last of two drafts": ("```\ndef f(x): return x\n```\nBetter:\n```\ndef f(x): return x + 1\n```", 6),
    "a helper of the prompt": ("```\ndef f(x):\n    return one() + x\n```", 6),
    "a future import": ("from __future__ import annotations\ndef f(x: Nothing):\n    return x + 1", 6),
    "a lambda": ("f = lambda x: x + 1", 6),
    "an annotated variable": ("f: object = lambda x: x + 1", 6),
    "line ends of Windows": ("Here:\r\n```python\r\ndef f(x):\r\n    return x + 1\r\n```\r\nDone.", 6),
    "the whole prompt again": ("def one():\n    return 1\n\ndef f(x):\n    ''' Add one. '''\n    return x + one()", 6),
}
ADD = humaneval(
    "f",
    'def one():\n    return 1\n\n\ndef f(x):\n    """ Add one. """\n',
    "def check(candidate):\n    assert candidate(5) == 6\n",
)


@pytest.mark.parametrize(("response", "answer"), RESPONSES.values(), ids=RESPONSES)
def test_a_program_is_found_in_a_response(response: str, answer: int) -> None:
    variables: dict[str, Any] = {}
    builtins.exec(extract_program(response, ADD), variables)
    assert variables["f"](5) == answer


def test_without_the_function_the_longest_block_is_the_program() -> None:
    case = mbpp("f", "", "assert f(1) == 2")
    assert extract_program("```\na = 1\n```\n```\nb = 2\nc = 3\n```", case) == "b = 2\nc = 3\n"
    assert extract_program("I do not know.", ADD) == "I do not know."


def test_a_remark_names_the_test_the_answer_and_the_line(programs: Programs) -> None:
    wrong = judged(programs, "    return first + second\n", INTERLEAVE)
    assert wrong.remark == (
        "The program fails its tests. Failed test: assert candidate([1, 2, 3], [9]) == [1, 9, 2, 3]. "
        "interleave([1, 2, 3], [9]) returned [1, 2, 3, 9]."
    )
    raising = judged(programs, "    return first[3]\n", INTERLEAVE)
    assert raising.remark == (
        "The program fails its tests: interleave([1, 2, 3], [9]) raised IndexError: list index out of range "
        "(line 9 reads: return first[3]). Failed test: assert candidate([1, 2, 3], [9]) == [1, 9, 2, 3]."
    )
    one = judged(programs, "    return first if not second else [1, 9, 2, 3][:2 * len(first)]\n", INTERLEAVE)
    assert "Failed test: assert candidate([], [4, 5]) == [4, 5]. interleave([], [4, 5]) returned []." in one.remark
    mistyped = judged(programs, "def halves(a):\n    return a", HALVES)
    assert "Failed test: assert halves([1, 2, 3]) == ([1, 2], [3]). halves([1, 2, 3]) returned [1, 2, 3]." in (
        mistyped.remark
    )
    empty = judged(programs, "    return {1: 2}", BY_LENGTH)
    assert "by_length(['a', 'bb', 'c']) returned {1: 2}" in empty.remark
    silent = judged(programs, "    return 1, 3", EXTENT)
    assert "extent((0.5,)) returned (1, 3)" in silent.remark
    none = judged(programs, "def other(): pass", HALVES)
    assert none.remark == none.held_out_remark == "The program does not define a function named halves."


SECRET = "a7c0e41d"
HELD_OUT = mbpp("f", "", f"assert f('{SECRET}') == '{SECRET}!'", f"assert f('{SECRET}') != 3, '{SECRET}'")


@pytest.mark.parametrize(
    ("source", "remark"),
    [
        ("def f(x): return x", "The program fails its tests: an answer is wrong."),
        ("def f(x): raise KeyError(x)", "The program fails its tests: it raised KeyError."),
        ("def f(x): raise type(x, (Exception,), {})(x)", "The program fails its tests: it raised Exception."),
        ("def f(x): raise SystemExit(x)", "The program fails its tests: it tried to end its process."),
        ("def f(x): return [f, x]", "The program fails its tests: an answer is wrong."),
        ("def f(x):\n a = [x]\n a.append(a)\n return a", "The program fails its tests: it raised RecursionError."),
        ("def f(x): return x * (1 << 22)", "The program fails its tests: an answer is no plain data, or too large."),
        ("def f(x): return {'\\0': [x, [x]]}", "The program fails its tests: an answer is wrong."),
        ("def trace_bench_call(*a): return ['answered', {'\\0': a}]", "The program fails its tests."),
        ("def f(x: return x", "The program fails its tests: it cannot be loaded."),
    ],
)
def test_a_remark_for_held_out_examples_has_nothing_of_a_test(programs: Programs, source: str, remark: str) -> None:
    verdict = run_tests(programs, source, HELD_OUT)
    assert not verdict.passed and SECRET not in verdict.held_out_remark
    assert verdict.held_out_remark == remark


BROKEN = {
    "a text that is not Python": (mbpp("f", "", "assert f(1) =="), "they are not Python"),
    "no check": (humaneval("f", "def f(x):\n    '''One.'''\n", "x = 1\n"), "they fail on their own: NameError"),
    "no call": (mbpp("f", "", "assert 1 + 1 == 2"), "they never call it"),
    "a failure before a call": (mbpp("f", "", "assert unknown and f(1)"), "they fail on their own: NameError"),
    "an argument that is a function": (mbpp("f", "", "assert f(print)"), "a value of type builtin_function_or_method"),
    "a module that is not there": (mbpp("f", "", "assert f(1)", setup="import nowhere"), "nowhere"),
    "no tests": (mbpp("f", ""), "they never call it"),
}


@pytest.mark.parametrize(("case", "words"), BROKEN.values(), ids=BROKEN)
def test_tests_that_cannot_run_are_the_tasks_fault(programs: Programs, case: CodeCase, words: str) -> None:
    with pytest.raises(ProblemError, match=f"the tests of f cannot be used: .*{words}"):
        run_tests(programs, "def f(x): return x", case)


def test_time_is_that_of_all_calls_together(programs: Programs) -> None:
    slow = "import time\ndef unpack_runs(runs):\n    time.sleep(0.05)\n    return ''.join(a * n for a, n in runs)"
    verdict = run_tests(programs, slow, UNPACK_RUNS, 0.5)
    assert verdict.held_out_remark == "The program fails its tests: its calls take more than 0.5 s together."
    assert judged(programs, slow, UNPACK_RUNS).passed


def test_a_program_may_use_any_name_of_its_own_and_none_of_the_harness(programs: Programs) -> None:
    names = [name for name in dir(builtins) if name.isidentifier() and not name.startswith("_") and name != "len"]
    mine = "".join(f"{name} = 0\n" for name in names if name not in ("None", "True", "False"))
    right = "def halves(a): return a[:(len(a) + 1) // 2], a[(len(a) + 1) // 2:]"
    assert run_tests(programs, f"{mine}{right}", HALVES).passed
    borrowed = run_tests(programs, "def halves(a): return sys, collections", HALVES)
    assert "NameError: name 'sys' is not defined" in borrowed.remark


ANNOTATED = "def halves(a: List[int]): return a[:(len(a) + 1) // 2], a[(len(a) + 1) // 2:]"


@pytest.mark.parametrize(
    ("source", "passes"),
    [
        (ANNOTATED, False),
        (f"import functools\n@functools.cache\n{ANNOTATED}", False),
        (f"class A:\n  @staticmethod\n  {ANNOTATED}\nhalves = A().halves", False),
        (f"class A:\n  a: List\n{ANNOTATED.replace(': List[int]', '')}", False),
        (f"b: List = 3\n{ANNOTATED.replace(': List[int]', '')}", False),
        (f"from typing import List\n{ANNOTATED}", True),
        (f"from __future__ import annotations\n{ANNOTATED}", True),
        (ANNOTATED.replace("List[int]", "'List[int]'"), True),
        (ANNOTATED.replace("List[int]", "print('one') or 3"), True),
    ],
)
def test_an_annotation_must_be_defined_as_in_any_module(programs: Programs, source: str, passes: bool) -> None:
    verdict = run_tests(programs, source, HALVES)
    assert verdict.passed == passes
    assert passes or "an annotation cannot be evaluated (NameError: name 'List' is not defined)" in verdict.remark


def mark(name: str, *parts: Any) -> dict[str, Any]:
    return {"\0": [name, list(parts)]}


ON = "f(f({}))"
"""A test that passes an answer on."""
MARKS: dict[str, tuple[Any, str]] = {
    "an iterator over a deque": ({"\0": ["iterator", mark("deque", 1)]}, ON),
    "an iterator over a view": ({"\0": ["iterator", mark("values", 1)]}, ON),
    "an iterator over bytes": ({"\0": ["iterator", b"ab"]}, ON),
    "an iterator over an iterator": ({"\0": ["iterator", mark("iterator", 1)]}, "next(f(1)) == f(f(1))"),
    "a set of a text": ({"\0": ["set", "ab"]}, ON),
    "keys of a dict": ({"\0": ["keys", {"a": 1}]}, ON),
    "a mark of another name": (mark("eval", "1"), ON),
    "a mark with a name that is none": ({"\0": [["set"], [1]]}, ON),
    "a mark without parts": ({"\0": ["set"]}, ON),
    "a mark that is a text": ({"\0": "ab"}, ON),
    "a mark beside a key": ({**mark("set", 1), "a": 1}, ON),
    "a mark in a mark": ({"\0": [mark("set"), [1]]}, ON),
    "a set of lists": (mark("set", [1]), ON),
    "a dict of numbers": (mark("dict", 1), ON),
    "a dict of texts": (mark("dict", "ab"), ON),
    "a dict of triples": (mark("items", (1, 2, 3)), ON),
    "a dict of dicts": (mark("dict", (mark("dict"), 1)), ON),
    "a large byte": (mark("bytearray", 256), ON),
    "a huge range": (mark("range", 0, 1 << 9000, 1), "list(f(1))"),
    "a huge range's length": (mark("range", 0, 1 << 9000, 1), "len(f(1)) == f(1)"),
    "a range without a step": (mark("range", 0, 1, 0), ON),
    "a range of texts": (mark("range", "0", "1", "1"), ON),
    "a range to nowhere": (mark("range"), ON),
    "a complex text": (mark("complex", "1+2j", 0.0), ON),
    "a complex nan": (mark("complex", float("nan"), 0.0), "f(f(1)) == f(1)"),
    "a signal of decimal": (mark("Decimal", "sNaN"), "f(f(1)) == f(1)"),
    "a set of signals": (mark("set", mark("Decimal", "sNaN")), ON),
    "a decimal of a tuple": (mark("Decimal", (0, (1,), 5)), ON),
    "a decimal that is none": (mark("Decimal", "x"), ON),
    "a fraction of nothing": (mark("Fraction", 1, 0), ON),
    "a fraction of a text": (mark("Fraction", "1", 2), ON),
    "an object": (mark("object", "name", True), ON),
    "an object with an odd truth": (mark("object", "name", 2), "bool(f(1)) and f(1) == 1"),
    "an iterator of an item": (mark("items", (1, 2)), "f(iter(f(1)))"),
    "an iterator of a deque that a test makes": (mark("deque", 1), "f(iter(f(1)))"),
    "a method of an answer": ("text", "f(f(1).upper)"),
    "a type of an answer": (1, "f(type(f(1)))"),
    "an error with a number that has no text": ((1 << 12000) + 1, "{}[f(1)]"),
    "a text that is half a character": ("\ud800", "f(f(1)) == 1"),
}


@pytest.mark.parametrize(("answer", "test"), MARKS.values(), ids=MARKS)
def test_nothing_that_follows_from_an_answer_is_the_tasks_fault(programs: Programs, answer: Any, test: str) -> None:
    source = f"# decimal, fractions\nnan = float('nan')\ndef trace_bench_call(*a): return ['answered', {answer!r}]"
    case = mbpp("f", "", f"assert {test.format(1)} == '{SECRET}'")
    verdict = run_tests(programs, source, case)
    assert not verdict.passed and verdict.score == 0.0 and verdict.remark.startswith("The program fails its tests")
    assert SECRET not in verdict.held_out_remark and "\0" not in verdict.remark


MADE = (
    "an iterator over an iterator", "an object", "a type of an answer", "a method of an answer",
    "an iterator of an item", "a complex nan", "a text that is half a character", "a signal of decimal",
    "an error with a number that has no text", "an iterator of a deque that a test makes", "a huge range",
    "a huge range's length",
)  # fmt: skip
"""Those of `MARKS` that a value has."""


@pytest.mark.parametrize("name", sorted(set(MARKS) - set(MADE)))
def test_a_mark_that_no_value_has_is_no_answer(programs: Programs, name: str) -> None:
    source = f"# decimal, fractions\ndef trace_bench_call(*a): return ['answered', {MARKS[name][0]!r}]"
    verdict = run_tests(programs, source, mbpp("f", "", "assert [f(1)]"))  # true of any answer
    assert not verdict.passed and "with its answers, they stop" in verdict.remark


@pytest.mark.parametrize(
    "value",
    [
        *("{1, (2, 3)}", "frozenset({1})", "deque([[1]])", "bytearray(b'ab')", "{(1, 2): {3: 4}}", "range(True)"),
        *("1j", "Decimal('1.50')", "Decimal('NaN')", "Fraction(1, 3)", "{1: 2}.keys()", "{1: 2}.items()", "iter([1])"),
        *("iter({1: 2})", "reversed([1])", "{'a': {'b': [None, 1.5, b'c']}}", "{1: 2}.values()"),
    ],
)
def test_an_answer_of_a_listed_type_can_be_passed_on(programs: Programs, value: str) -> None:
    setup = "from collections import deque\nfrom decimal import Decimal\nfrom fractions import Fraction\n"
    case = mbpp("f", "", f"def text(x): return repr(list(x) if hasattr(x, '__next__') else x)\n"
                f"assert text(f(f({value}))) == text({value})", setup=setup)  # fmt: skip
    verdict = run_tests(programs, "# decimal, fractions\ndef f(x): return x", case)
    assert verdict.passed, verdict.remark


# Programs that try to pass without computing what is asked. The right answer is a text that is in the tests alone.
PREFIX, REST = "key-", "9f31c7"
KEY = PREFIX + REST
GUARDED = mbpp("f", "", f"assert f('x') == '{KEY}'", f"assert f('y') == ['{KEY}', 2]")
FIND = f"""
def found(values):
    for value in values:
        if isinstance(value, str) and value.endswith({REST!r}) and value.startswith({PREFIX!r}):
            return value
"""
ATTACKS = {
    "print PASS": "def f(x):\n    print('PASS')\n    print('[\"passed\"]')",
    "exit with 0 at import": "import sys\nsys.exit(0)",
    "end the process at import": "import os\nos._exit(0)",
    "exit with 0 in the call": "import sys\ndef f(x): sys.exit(0)",
    "end the process in the call": "import os\ndef f(x): os._exit(0)",
    "raise SystemExit": "def f(x): raise SystemExit",
    "raise AssertionError": "def f(x): raise AssertionError",
    "raise StopIteration": "def f(x): raise StopIteration",
    "patch builtins": """
import builtins
builtins.AssertionError = builtins.NameError = None
builtins.isinstance = builtins.all = builtins.any = lambda *a: True
def f(x): return x
""",
    "patch unittest": """
import unittest
unittest.TestCase.assertEqual = lambda *a: None
def f(x): return x
""",
    "equal to everything": """
class Same:
    def __eq__(self, other): return True
    def __ne__(self, other): return False
    def __hash__(self): return 0
    def __bool__(self): return True
def f(x): return Same()
""",
    "a text equal to everything": """
class Same(str):
    def __eq__(self, other): return True
    __hash__ = str.__hash__
    def __str__(self): return Same("x")
def f(x): return Same("x")
""",
    "a number equal to everything": """
class Same(int):
    def __eq__(self, other): return True
    __hash__ = int.__hash__
def f(x): return Same(0)
""",
    "a list equal to everything": """
class Same(list):
    def __eq__(self, other): return True
def f(x): return Same()
""",
    "a proxy of its class": """
class Fake:
    __class__ = str
    def __eq__(self, other): return True
def f(x): return Fake()
""",
    "look at frames": f"""
import sys
{FIND}
def f(x):
    frame = sys._getframe()
    while frame:
        for scope in (frame.f_locals, frame.f_globals):
            got = found(list(scope.values()))
            if got: return got
        frame = frame.f_back
""",
    "look at all objects": f"""
import gc
{FIND}
def f(x):
    for each in gc.get_objects():
        got = found(gc.get_referents(each))
        if got: return got
""",
    "take the tests' functions": """
def f(x):
    return trace_bench_step("start", "f") if "trace_bench_tests" in globals() else trace_bench_tests()
""",
    "start tests of its own": """
trace_bench_tests = lambda: None
def f(x): return trace_bench_step("start", "f")
""",
    "answer in the harness's place": """
def trace_bench_call(*args): return ["passed"]
def f(x): pass
""",
    "answer as the tests' process": """
def trace_bench_call(*args): return ["answered", ["passed"]]
def f(x): pass
""",
    "an answer that is no answer": """
def trace_bench_call(*args): return ["passed", True, 1.0]
def f(x): pass
""",
    "a marked value that cannot be made": """
def trace_bench_call(*args): return ["answered", {"\\0": ["eval", ["1"]]}]
def f(x): pass
""",
    "an exception that is a name of Python's": """
def trace_bench_call(*args): return ["raised", [["print", "SystemExit", "BaseException"], "x"], 1]
def f(x): pass
""",
    "write to the socket": """
import os
def f(x):
    for fd in range(10):
        try: os.write(fd, b'["passed"]')
        except OSError: pass
""",
    "an endless loop": "def f(x):\n    while True: pass",
    "an endless loop at import": "while True: pass",
    "an endless generator": "def f(x):\n    while True: yield 1",
    "a memory bomb": "def f(x):\n    a = [0] * (1 << 26)\n    while True: a = a + a",
    "an endless answer": "def f(x): return [0] * (1 << 24)",
    "an answer that holds the tests up": """
def trace_bench_call(*args): return ["answered", {"\\0": ["set", [n * (2**61 - 1) for n in range(60000)]]}]
def f(x): pass
""",
    "recursion without an end": "def f(x): return f(x)",
    "a thread that goes on": """
import threading, time
def f(x):
    threading.Thread(target=lambda: time.sleep(99)).start()
""",
    "a child": "import os\ndef f(x): return os.fork()",
    "a file": f"def f(x): return open('/proc/self/environ').read() or '{REST}'",
}
HONEST = {
    "honest": f"def f(x): return '{KEY}' if x == 'x' else ['{KEY}', 2]",
}
WORKER = """
import json
from dataclasses import replace
from trace_bench.suites.hf.code_tests import CodeCase, run_tests

class Reading:
    "Programs that may read files, their own memory among them."
    def __init__(self, programs): self.programs = programs
    def open(self, source, entry, limits, support):
        needs = frozenset({{"files"}}) if source else limits.needs
        return self.programs.open(source, entry, replace(limits, needs=needs), support)

def build(context):
    programs = Reading(context.programs) if {reading} else context.programs
    def guide(query, response, reference):
        for name, source, *case in json.loads({work!r}):
            case[2] = tuple(case[2])
            print("RESULT", json.dumps([name, *run_tests(programs, source, CodeCase(*case), {seconds})]), flush=True)
        return 1.0, ""
    return problem(guide)
"""


def in_a_worker(
    folder: Path, work: dict[str, tuple[str, CodeCase]], seconds: float = 1.0, *, reading: bool = False
) -> dict[str, CodeVerdict]:
    """Verdicts of a real worker, whose candidates are forked from a process that has seen no test."""
    text = json.dumps([[name, source, *vars(case).values()] for name, (source, case) in work.items()])
    got = run(folder, WORKER.format(work=text, seconds=seconds, reading=reading))
    lines = [line.removeprefix("RESULT ") for line in got.log.splitlines() if line.startswith("RESULT ")]
    assert len(lines) % len(work) == 0 and lines, (got.result, got.log[-3000:], got.stderr)
    return {name: CodeVerdict(*verdict) for name, *verdict in map(json.loads, lines)}


def test_no_program_passes_by_force(tmp_path: Path) -> None:
    verdicts = in_a_worker(tmp_path, {name: (source, GUARDED) for name, source in (HONEST | ATTACKS).items()})
    assert set(verdicts) == {*HONEST, *ATTACKS}
    assert {name for name, verdict in verdicts.items() if verdict.passed} == {"honest"}
    assert {verdict.score for name, verdict in verdicts.items() if name != "honest"} == {0.0}


SEARCH = f"""
import re
def f(x):
    with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb", 0) as memory:
        for line in maps:
            low, high = (int(end, 16) for end in line.split()[0].split("-"))
            if " r" not in line or "[v" in line or high - low > 1 << 26:
                continue
            try:
                memory.seek(low)
                page = memory.read(high - low)
            except (OSError, ValueError, OverflowError):
                continue
            for at in re.finditer(b"{REST}", page):
                if page[at.start() - {len(PREFIX)}:at.start()] == b"{PREFIX}":  # the whole key is not in this source
                    return "found"
"""


def test_no_test_is_in_the_memory_of_a_program(tmp_path: Path) -> None:
    """The second case shows that the program finds what is there."""
    cases = {
        "in the tests": (SEARCH, mbpp("f", "", f"assert f('x') == 'found', '{KEY}'")),
        "in an argument": (SEARCH, mbpp("f", "", f"assert f('{KEY}') == 'found'")),
    }
    verdicts = in_a_worker(tmp_path, cases, 20.0, reading=True)
    assert {name: verdict.passed for name, verdict in verdicts.items()} == {
        "in the tests": False,
        "in an argument": True,
    }
    assert verdicts["in the tests"].held_out_remark == "The program fails its tests: an answer is wrong."


def test_a_program_is_found_in_prose_and_with_a_fence_in_its_docstring() -> None:
    case = CodeCase("f", "Write f.", ("assert f() == 1",), style="mbpp")
    plain = "def f():\n    return 1\n"
    assert extract_program(f"Sure! Here it is:\n\n{plain}\nHope it helps.", case) == plain
    documented = 'def f():\n    """Doc.\n\n```\nf()\n```\n    """\n    return 1\n'
    assert extract_program(f"```python\n{documented}```\n", case) == documented
    # As a run of before was read: up to the first fence.
    assert extract_program(f"```python\n{documented}```\n", case, 1) == 'def f():\n    """Doc.\n\n'
