"""Every row of the table in docs/design/attribution.md, and every kind of failure that there is."""

from __future__ import annotations

import ast
import functools
import importlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trace_bench
from trace_bench.artifacts.outputs import Failure
from trace_bench.artifacts.records import AttemptEvidence
from trace_bench.errors import Boundary, Interrupted, TraceBenchError
from trace_bench.execution.attempt_outcome import is_fatal
from trace_bench.execution.attribution import attributed, is_retried
from trace_bench.execution.evidence import kind_of

SOURCES = Path(trace_bench.__file__).parent
TABLE = SOURCES.parent / "docs" / "reference" / "failures.md"
PHASES = ("build", "train", "score")
NOTED = Failure(boundary=Boundary.TRAINER, kind="out_of_memory", message="the train process was killed")


@pytest.mark.parametrize(
    ("seen", "kind", "words"),
    [
        ({"state": "removed", "error": "sandbox_gone"}, "sandbox_gone", "removed from outside"),
        ({"state": "running", "error": "sandbox_gone"}, "stream_lost", "stream ended while the sandbox was running"),
        ({"state": "running", "error": "sandbox_silent", "message": "not heard"}, "sandbox_silent", "not heard"),
        ({"state": None, "error": "stream_timeout", "message": "not taken"}, "stream_timeout", "not taken"),
        ({"state": "created", "error": "sandbox", "message": "the engine refused"}, "sandbox", "refused"),
        ({"error": "protocol", "message": "no number", "exit_code": 137, "oom_killed": True}, "protocol", "no number"),
        ({"exit_code": 77}, "out_of_disk", "disk was full"),
        ({"exit_code": 75}, "lease_ended", "no controller"),
        ({"exit_code": 137, "oom_killed": True}, "out_of_memory", "supervisor was killed for want of memory"),
        ({"exit_code": 74, "oom_killed": True}, "out_of_memory", "starts all others was killed for want of memory"),
        ({"exit_code": 74, "oom_killed": False}, "sandbox_died", "exit code 74 before"),
        ({"exit_code": 137, "oom_killed": False}, "sandbox_died", "from outside, and not for want of memory"),
        ({"exit_code": 1, "oom_killed": True}, "sandbox_died", "which need not be why"),
        ({"exit_code": 70, "oom_killed": False, "engine_error": "runc"}, "sandbox_died", "exit code 70 (runc)"),
        ({"exit_code": 0}, "sandbox_died", "exit code 0"),
        ({"exit_code": 0, "error": ""}, "no_result", "without a result"),
        ({"exit_code": None, "error": ""}, "no_result", "without a result"),
        ({"exit_code": 137, "oom_killed": True, "error": ""}, "out_of_memory", "for want of memory"),
        ({"exit_code": 137, "oom_killed": False, "error": ""}, "sandbox_died", "from outside"),
        ({"exit_code": 1, "last_words": "ValueError: x"}, "sandbox_died", "its last words: ValueError: x"),
        ({"exit_code": 1, "phase": "train"}, "sandbox_died", "in phase train"),
    ],
)
def test_a_sandbox_without_a_result_is_attributed_by_all_that_is_known(
    seen: dict[str, Any], kind: str, words: str
) -> None:
    failure = attributed(AttemptEvidence(**{"state": "exited", "error": "sandbox_gone", **seen}))
    assert (failure.boundary, failure.kind) == (Boundary.SANDBOX, kind)
    assert words in failure.message
    assert is_retried(failure.boundary, failure.kind)


@pytest.mark.parametrize("code", [0, 1, 74, 77, 137, None])
@pytest.mark.parametrize("state", ["exited", "running"])
def test_what_the_supervisor_noted_before_it_ended_is_the_cause(code: int | None, state: Any) -> None:
    seen = AttemptEvidence(error="sandbox_gone", state=state, exit_code=code, oom_killed=True, failure=NOTED)
    failure = attributed(seen)
    assert (failure.boundary, failure.kind) == (Boundary.TRAINER, "out_of_memory")
    assert failure.message.startswith("the train process was killed; then the sandbox ended")
    assert not is_retried(failure.boundary, failure.kind), "the trainer's own failure is never a retry"


@pytest.mark.parametrize(
    ("state", "code", "oom", "kind"),
    [
        ("removed", None, None, "sandbox_gone"),
        ("removed", 137, True, "sandbox_gone"),
        ("exited", 137, False, "sandbox_died"),
    ],
)
def test_who_ends_a_sandbox_from_outside_takes_what_was_to_be_scored(
    state: Any, code: int | None, oom: bool | None, kind: str
) -> None:
    seen = AttemptEvidence(error="sandbox_gone", state=state, exit_code=code, oom_killed=oom, failure=NOTED)
    failure = attributed(seen)
    assert (failure.boundary, failure.kind) == (Boundary.SANDBOX, kind)
    assert is_retried(failure.boundary, failure.kind)


# ----------------------------------------------------------------------------------------------------- all the kinds


@functools.cache
def rows() -> list[tuple[str, Boundary, str]]:
    """The reference's table: kind, boundary, retried; one for each boundary."""
    found = []
    for line in TABLE.read_text(encoding="utf-8").splitlines():
        match = re.fullmatch(r"\| `(\w+)` \| ([\w, ]+) \| (yes|no|ends) \| .+ \|", line)
        if match:
            found += [(match[1], Boundary(boundary), match[3]) for boundary in match[2].split(", ")]
    return found


def kinds_of(tree: ast.AST) -> Iterator[str]:
    """Kinds of failure that a module names where it makes one."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict):
            given = {k.value: v for k, v in zip(node.keys, node.values, strict=True) if isinstance(k, ast.Constant)}
            if "boundary" in given and "kind" in given:
                yield from words(given["kind"])
        elif isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            named = {keyword.arg: keyword.value for keyword in node.keywords}
            if name in ("Failure", "send") and "boundary" in named and "kind" in named:
                yield from words(named["kind"])
            elif name in ("PhaseFailure", "_fail", "fail") and len(node.args) == 3:
                yield from words(node.args[1])
        elif isinstance(node, ast.FunctionDef) and node.name == "_sandbox_failure":
            for inner in ast.walk(node):
                if isinstance(inner, ast.Return) and isinstance(inner.value, ast.Tuple):
                    yield from words(inner.value.elts[0])


def words(node: ast.AST) -> Iterator[str]:
    """What a constant, or a text with the name of a phase in it, can be."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        ending = "".join(str(part.value) for part in node.values if isinstance(part, ast.Constant))
        known = {kind for kind, _, _ in rows()}
        unknown = [phase + ending for phase in PHASES if phase + ending not in known]
        # Nothing limits the time of training but `job_timeout`.
        yield from (phase + ending for phase in PHASES if (phase, ending) != ("train", "_timeout"))
        assert unknown in ([], ["train_timeout"])


def errors() -> set[type[TraceBenchError]]:
    """Errors that end an attempt under their own name."""
    modules = (
        "trace_bench.sandbox.errors",
        "trace_bench.execution.session",
        "trace_bench.gateway.base",
    )
    found = [
        value for name in (*modules, "trace_bench.errors") for value in vars(importlib.import_module(name)).values()
    ]
    kinds = {e for e in found if isinstance(e, type) and issubclass(e, TraceBenchError) and e is not TraceBenchError}
    return {e for e in kinds if e.boundary.is_infrastructure}


@functools.cache
def produced() -> set[str]:
    in_sources = {kind for path in SOURCES.rglob("*.py") for kind in kinds_of(ast.parse(path.read_text("utf-8")))}
    return in_sources | {kind_of(error.__new__(error)) for error in errors() if not error.__name__.startswith("_")}


def test_every_kind_of_failure_stands_in_the_reference() -> None:
    known = {kind for kind, _, _ in rows()}
    lacking = produced() - known
    assert lacking == set(), f"docs/reference/failures.md has no row for {sorted(lacking)}"
    assert len(produced()) > 30, "the search finds them"


def test_the_reference_has_no_kind_that_nothing_produces() -> None:
    text = "\n".join(path.read_text("utf-8") for path in SOURCES.rglob("*.py"))
    assert [kind for kind, _, _ in rows() if kind not in produced() and f'"{kind}"' not in text] == []


@pytest.mark.parametrize(("kind", "boundary", "retried"), rows())
def test_only_infrastructure_is_retried_and_only_where_it_may_help(kind: str, boundary: Boundary, retried: str) -> None:
    if not boundary.is_infrastructure:
        assert retried == "no"
    if retried != "ends":
        assert is_retried(boundary, kind) is (retried == "yes")


def test_errors_that_end_the_run_are_those_that_say_so() -> None:
    ends = {kind for kind, _, retried in rows() if retried == "ends"}
    ending = [error for e in errors() if is_fatal(error := e.__new__(e)) and not isinstance(error, Interrupted)]
    assert set(map(kind_of, ending)) == ends
