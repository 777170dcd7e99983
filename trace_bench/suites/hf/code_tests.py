"""Runs a program that a model wrote against the tests of HumanEval or MBPP: pass or fail.

The tests are in one disposable process and the program is in another one; `run_tests` passes plain data between them.
So a program can neither read nor change its tests (``docs/design/code-tests.md``). The tests and their semantics are
those of Chen et al. 2021, "Evaluating Large Language Models Trained on Code" (HumanEval), and Austin et al. 2021,
"Program Synthesis with Large Language Models" (MBPP, of which the sanitized part has ``test_imports``).
"""

from __future__ import annotations

import ast
import builtins
import re
import sys
import textwrap
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal, NamedTuple, cast

from trace_bench.worker import fences
from trace_bench.worker.answer_text import READER
from trace_bench.worker.problem import CandidateError, Limits, ProblemError, Program, Programs
from trace_bench.worker.sentences import sentence
from trace_bench.worker.source_scan import imported, parse

DEFAULT_SECONDS = 10.0
CALL, STEP = "trace_bench_call", "trace_bench_step"
_LEAST_SECONDS = 10.0
"""Time that the tests' own process has for a step: its start may be slow where the program's limit is short."""
_QUOTED = 300
_FENCE = re.compile(r"^[ \t]*(```+|~~~+)[^\n]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.DOTALL | re.MULTILINE)
_FUTURE = re.compile(r"^from __future__ import [^\n]*\n?", re.MULTILINE)
_FAILS = "The program fails its tests"
_WRONG = "an answer is wrong"


@dataclass(frozen=True)
class CodeCase:
    """A problem: a function to write, and its tests.

    Attributes:
        entry: name of the function.
        prompt: what the model is shown: of HumanEval the head of the function, after functions that it may use; of MBPP
            a sentence.
        tests: of HumanEval one text that defines ``check(candidate)``; of MBPP ``assert`` statements that call `entry`.
        setup: source that runs before the tests (``test_imports`` of MBPP). The program finds its imports too.
    """

    entry: str
    prompt: str
    tests: tuple[str, ...]
    setup: str = ""
    style: Literal["humaneval", "mbpp"] = "humaneval"


class CodeVerdict(NamedTuple):
    """Whether a program passes its tests.

    Attributes:
        score: 1.0 if it passes all of them, else 0.0.
        remark: why it fails, with the test and the answer: for training examples.
        held_out_remark: the same without anything of a test, and without text that the program chose after it saw one.
    """

    passed: bool
    score: float
    remark: str
    held_out_remark: str


def extract_program(response: str, case: CodeCase, reader: int = READER) -> str:
    """The program in a model's `response`.

    It is the one that defines the function (`trace_bench.worker.fences.program`), else the longest block, else the
    whole text. For HumanEval, the prompt stands before it, so that its imports and functions are there; and a block may
    be the body alone.

    Args:
        reader: version of the rules by which answers are read.
    """
    if reader == 1:
        blocks = [found[2] for found in _FENCE.finditer(response.replace("\r\n", "\n"))] or [response]
        of_first = [textwrap.dedent(block) for block in blocks if _defines(block, case.entry)]
        defining, code = bool(of_first), of_first[-1] if of_first else max(blocks, key=len)
    else:
        found_program = fences.program(response, case.entry)
        defining = found_program is not None
        blocks = [block.source for block in fences.blocks(response)] or [response]
        code = max(blocks, key=len) if found_program is None else found_program.source
    if case.style == "mbpp":
        return code
    if defining:
        future = "".join(_FUTURE.findall(code))  # has to come first
        return f"{future}{_completed(case.prompt).rstrip()}\n\n\n{_FUTURE.sub('', code)}"
    for body in _bodies(code):
        program = f"{case.prompt.rstrip()}\n{body}"
        if (tree := parse(program)) is not None and not _returns(tree):
            return program
    return code


def run_tests(programs: Programs, source: str, case: CodeCase, timeout_seconds: float = DEFAULT_SECONDS) -> CodeVerdict:
    """Run the tests of `case` on the program `source`.

    Args:
        timeout_seconds: wall time for all calls of the program together, and CPU time for its process.

    Raises:
        ProblemError: the tests themselves are at fault: they do not compile, fail before they call the program, never
            call it, or call it first with what is not data. Nothing that follows from an answer raises it.
    """
    tests = _tests_source(case)
    limits = Limits(wall_seconds=timeout_seconds, cpu_seconds=timeout_seconds)
    seconds = max(timeout_seconds, _LEAST_SECONDS)
    numbers = "".join(f"\nimport {name}" for name in ("decimal", "fractions") if name in source)  # types of answers
    with programs.open("", STEP, Limits(wall_seconds=seconds, cpu_seconds=seconds), tests.text + numbers) as stepped:
        first = _first_call(case, stepped)
        with programs.open(source, CALL, limits, f"{_harness()}\n{_imports_of(case.setup)}") as program:
            return _Run(case, tests, stepped, program, source, timeout_seconds).verdict(first)


def _first_call(case: CodeCase, stepped: Program) -> Any:
    """Run the tests to their first call, before there is a program.

    Raises:
        ProblemError: they do not come to one.
    """
    try:
        event = stepped("start", case.entry)
    except CandidateError as error:
        raise _broken(case, str(error)) from error
    match event:
        case ["call", *_]:
            return event
        case ["broken", why]:
            raise _broken(case, why)
        case ["failed", _, error, *_]:
            raise _broken(case, f"they fail on their own: {error}")
    raise _broken(case, "they never call it")


def _broken(case: CodeCase, why: str) -> ProblemError:
    return ProblemError(f"the tests of {case.entry} cannot be used: {sentence(why, 500)}")


class _Tests(NamedTuple):
    """The source of the tests' process: `text`, whose lines after the first `before` are those of `own`."""

    text: str
    own: str
    before: int


@dataclass
class _Run:
    """One program and its tests, each in its process, asked by turns. Whatever happens from the first call on is the
    program's doing."""

    case: CodeCase
    tests: _Tests
    stepped: Program
    program: Program
    source: str
    timeout_seconds: float
    spent: float = 0.0
    raised: tuple[str, int | None] = ("", None)
    """The exception that the program raised last, as text, and its line."""

    def verdict(self, event: Any) -> CodeVerdict:
        """The verdict; `event` is the first call of the tests."""
        while not isinstance(event, CodeVerdict):
            if event[0] == "call":
                answer = self._call(event[1], event[2])
                event = answer if isinstance(answer, CodeVerdict) else self._step(*answer)
            else:
                event = self._end(*event)
        return event

    def _step(self, happened: str, value: Any) -> Any:
        try:
            return self.stepped(happened, value)
        except CandidateError as error:
            # An answer is none, is too large for them, or has them compute for too long.
            return _failed(f"{_FAILS}: with its answers, they stop ({error}).", f"{_FAILS}.")

    def _call(self, arguments: Any, named: Any) -> CodeVerdict | tuple[str, Any]:
        """The answer of the program as the tests' process takes it, or the verdict on a program that has none."""
        began = time.monotonic()
        try:
            answer = self.program(self.case.entry, arguments, named)
        except CandidateError as error:
            return self._without_answer(error)
        self.spent += time.monotonic() - began
        if self.spent > self.timeout_seconds:
            late = f"{_FAILS}: its calls take more than {self.timeout_seconds:g} s together."
            return _failed(late, late)
        match answer:
            case ["answered", value]:
                return "answered", value
            case ["raised", [[*names], str(text)], line] if all(isinstance(name, str) for name in names[:50]):
                self.raised = ": ".join(filter(None, (*names[:1], text))), line if type(line) is int else None
                return "raised", [names[:50], text]
            case ["unloadable", str(why)]:
                full = f"{_FAILS}: an annotation cannot be evaluated ({sentence(why, _QUOTED)})."
                return _failed(full, f"{_FAILS}: {_PHASES['compile']}.")
            case ["missing"]:
                missing = f"The program does not define a function named {self.case.entry}."
                return _failed(missing, missing)
        return _failed(f"{_FAILS}: its process gave no answer.", f"{_FAILS}: its process gave no answer.")

    def _without_answer(self, error: CandidateError) -> CodeVerdict:
        full = f"{_FAILS}: {error}{self._line(error.line)}."
        return _failed(full, f"{_FAILS}: {_PHASES[error.phase]}.")

    def _end(self, kind: str, *details: Any) -> CodeVerdict:
        if kind == "broken":
            return _failed(f"{_FAILS}: with its answers, {sentence(details[0], _QUOTED)}.", f"{_FAILS}: {_WRONG}.")
        if kind == "passed":
            return CodeVerdict(True, 1.0, "The program passes all tests.", "The program passes all tests.")
        lines, error, own, arguments, answer = details
        call = f"{self.case.entry}({sentence(arguments, _QUOTED)})"
        statement = _statement(self.tests, lines)
        where = f" Failed test: {sentence(statement, _QUOTED)}." if statement else ""
        if own:
            said, line = self.raised
            return _failed(
                f"{_FAILS}: {call} raised {sentence(said, _QUOTED)}{self._line(line)}.{where}",
                f"{_FAILS}: it raised {error.partition(':')[0]}.",  # a class of Python's own
            )
        why = "" if error == "AssertionError" else f" with {sentence(error, _QUOTED)}"
        return _failed(f"{_FAILS}{why}.{where} {call} returned {sentence(answer, _QUOTED)}.", f"{_FAILS}: {_WRONG}.")

    def _line(self, line: int | None) -> str:
        lines = self.source.splitlines()
        if line is None or not 1 <= line <= len(lines) or not (code := lines[line - 1].strip()):
            return ""
        return f" (line {line} reads: {sentence(code, 160)})"


_PHASES = {
    "compile": "it cannot be loaded",
    "timeout": "it takes too long",
    "memory": "it needs too much memory",
    "output": "an answer is no plain data, or too large",
    "died": "its process ended",
    "call": "it tried to end its process",
}


def _failed(remark: str, held_out_remark: str) -> CodeVerdict:
    return CodeVerdict(False, 0.0, remark, held_out_remark)


@cache
def _harness() -> str:
    return files("trace_bench.suites.hf").joinpath("code_harness.py").read_text(encoding="utf-8")


def _tests_source(case: CodeCase) -> _Tests:
    """Raises ProblemError if the tests do not parse."""
    if case.style == "humaneval":
        head = f"{_harness()}\n\ndef trace_bench_tests():\n    check({case.entry})\n\n"
        own = f"{case.setup}\n{_completed(case.prompt)}\n" + "\n".join(case.tests)
    else:
        head = _harness() + "\n"
        # Written anew from the syntax trees, as a text with line breaks cannot be indented.
        tree = ast.parse("def trace_bench_tests():\n    pass")
        statements = [statement for test in case.tests for statement in _parsed(test, case).body]
        cast(ast.FunctionDef, tree.body[0]).body += statements
        own = f"{case.setup}\n{_standard_imports(tree, case)}\n{ast.unparse(tree)}\n"
    _parsed(own, case)
    return _Tests(head + own, own, head.count("\n"))


def _parsed(text: str, case: CodeCase) -> ast.Module:
    tree = parse(text)
    if tree is None:
        raise ProblemError(f"the tests of {case.entry} cannot be used: they are not Python")
    return tree


def _completed(prompt: str) -> str:
    """`prompt`, whose last function may lack a body."""
    return prompt if parse(prompt) is not None else f"{prompt.rstrip()}\n    pass\n"


def _standard_imports(tree: ast.Module, case: CodeCase) -> str:
    """Imports of modules that the tests use and leave to the program to import: one task of MBPP does."""
    bound = {name for node in ast.walk(_parsed(case.setup, case)) for name, _ in imported(node)}
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    left = sorted((names & sys.stdlib_module_names) - bound - {case.entry} - set(dir(builtins)))
    return "".join(f"import {name}\n" for name in left)


def _imports_of(setup: str) -> str:
    """The import statements of `setup`."""
    tree = parse(setup)
    found = [] if tree is None else [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
    return "\n".join(map(ast.unparse, found))


def _statement(tests: _Tests, lines: list[int]) -> str:
    """The statement of the tests that a traceback with `lines` first reaches."""
    inside = [line - tests.before for line in lines if line > tests.before]
    tree = parse(tests.own)
    if not inside or tree is None:
        return ""
    found = ""
    for node in ast.walk(tree):  # outer statements first
        if isinstance(node, ast.stmt) and node.lineno <= inside[0] <= (node.end_lineno or node.lineno):
            found = "" if hasattr(node, "body") else ast.unparse(node)
    return found


def _defines(code: str, entry: str) -> bool:
    """Whether the top level of `code` binds `entry`. Of code that does not parse, a line that begins its function."""
    tree = parse(textwrap.dedent(code))
    if tree is None:
        return re.search(rf"^[ \t]*(?:async[ \t]+)?def[ \t]+{re.escape(entry)}\b", code, re.MULTILINE) is not None
    return any(entry in _bound(statement) for statement in tree.body)


def _bound(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield statement.name
    elif isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        yield from (target.id for target in targets if isinstance(target, ast.Name))
    elif isinstance(statement, ast.Import | ast.ImportFrom):
        yield from (name for name, _ in imported(statement))


def _bodies(code: str) -> Iterator[str]:
    """`code` as the body of a function: as it is, with the first line's indentation restored, or indented."""
    code = code.strip("\n")
    if code[:1].isspace():
        yield code
    else:
        tree = parse(code)
        if tree is None:
            yield f"    {code}"
        elif _returns(tree):
            yield textwrap.indent(code, "    ")


def _returns(tree: ast.Module) -> bool:
    """Whether a ``return`` stands outside of all functions."""
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.Return):
            return True
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            left += ast.iter_child_nodes(node)
    return False
