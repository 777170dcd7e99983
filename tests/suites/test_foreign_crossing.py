"""What foreign evaluators may give to programs, and get from them, beside plain data."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.forking import ForkingSpawner
from trace_bench.suites.llm4ad.compat import crossing
from trace_bench.suites.llm4ad.compat.candidate import Candidate
from trace_bench.suites.llm4ad.compat.session import Session
from trace_bench.worker.problem import CandidateError, ProblemError, Programs


@pytest.fixture
def called(programs: Programs) -> Callable[..., Any]:
    """``called(source, *arguments, **keywords)``: what the function ``f`` of `source` answers."""
    session = Session(programs, Path(), 256 << 20, in_scorer=False, executes=False)

    def call(source: str, *arguments: Any, **keywords: Any) -> Any:
        with Candidate(session, "import math", source, "f", 20.0) as candidate:
            return candidate(*arguments, **keywords)

    return call


def test_sets_ranges_and_keys_that_are_tuples_arrive_as_they_are(called: Callable[..., Any]) -> None:
    given = {
        "sets": [{1, 2}, frozenset({(3, 4)})],
        "range": range(2, 10, 3),
        "arcs": {(1, 2): 5.0, (2, 3): {7}},
        "plain": {1: [None, "x"]},
    }
    source = "def f(given, *rest):\n    return repr(given)\n"
    assert called(source, given) == repr(given)
    checks = (
        "def f(given):\n"
        "    given['sets'][0].add(9)\n"
        "    return [type(x).__name__ for x in given['sets']] + [len(given['range']), given['arcs'][1, 2]]\n"
    )
    assert called(checks, given) == ["set", "frozenset", 3, 5.0]
    assert given["sets"][0] == {1, 2}, "a copy"


@pytest.mark.parametrize(
    ("answer", "arrives"),
    [
        ("{3, 1, 2}", [1, 2, 3]),
        ("range(3)", [0, 1, 2]),
        ("{'a': 1}.keys()", ["a"]),
        ("{'chosen': {2, 1}, 'rest': [range(2)]}", {"chosen": [1, 2], "rest": [[0, 1]]}),
        ("[1, (2, 3)]", [1, (2, 3)]),
    ],
)
def test_sets_and_ranges_of_an_answer_arrive_as_lists(called: Callable[..., Any], answer: str, arrives: Any) -> None:
    assert called(f"def f(x):\n    return {answer}\n", 0) == arrives


def test_an_object_that_holds_the_function_is_copied_with_the_same_function(programs: Programs) -> None:
    session = Session(programs, Path(), 256 << 20, in_scorer=False, executes=False)
    source = "count = 0\ndef f():\n    global count\n    count += 1\n    return count\n"
    with Candidate(session, "", source, "f", 20.0) as candidate:
        holder = {"do": candidate}
        assert holder["do"]() == 1, "its process has a connection, which cannot be copied"
        for copied in (copy.deepcopy(holder), copy.copy(holder), {"do": copy.copy(candidate)}):
            assert copied["do"] is candidate
        assert copy.deepcopy(holder)["do"]() == 2


def test_an_answer_that_is_no_data_still_fails(called: Callable[..., Any]) -> None:
    with pytest.raises(CandidateError, match=r"output failed: .*object cannot cross"):
        called("def f(x):\n    return [object()]\n", 0)


def test_a_program_that_takes_any_keyword_gets_them_by_name(called: Callable[..., Any]) -> None:
    assert called("def f(**kwargs):\n    return kwargs\n", a=1, b={2}) == {"a": 1, "b": [2]}
    assert called("def f(a, **rest):\n    return [a, rest]\n", 1, b=2) == [1, {"b": 2}]
    assert called("def f(a, *, b):\n    return [a, b]\n", b=2, a=1) == [1, 2]
    with pytest.raises(CandidateError, match="call failed at line 2: KeyError: 'c'"):
        called("def f(**kwargs):\n    return kwargs['c']\n", a=1)


def test_a_program_that_answers_plainly_is_called_directly(
    called: Callable[..., Any], spawner: ForkingSpawner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crossing, "_WRAPPER", "raise RuntimeError('the wrapper is there')\n")
    assert called("def f(x):\n    return [x]\n", 1) == [1]
    with pytest.raises(CandidateError, match="the wrapper is there"):
        called("def f(x):\n    return {x}\n", 1)


def test_an_argument_that_is_no_data_is_the_evaluators_fault(called: Callable[..., Any]) -> None:
    loop: list[Any] = []
    loop.append(loop)
    for value in (object(), {object()}, loop):
        with pytest.raises(ProblemError, match="the evaluator calls f with what no other process can be given"):
            called("def f(x):\n    return 1\n", value)
