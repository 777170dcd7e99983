"""One job's history and states: what the search saw, line by line, and what was saved of it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from trace_bench.artifacts.jsonio import dumps, loads
from trace_bench.artifacts.layout import JobLayout
from trace_bench.artifacts.outputs import HistoryLine, States, WorkerResult
from trace_bench.artifacts.records import JobMeta, Results, Usage
from trace_bench.artifacts.yamlio import dump_state
from trace_bench.audit.cassette import Calls, Group
from trace_bench.audit.claims import Book
from trace_bench.audit.files import state_of
from trace_bench.audit.reading import Folder, Unreadable, parsed

_GROWING = ("evaluations", "llm_calls", "prompt_tokens", "completion_tokens", "cost_usd", "seconds")
_MOST_TOGETHER = 10
"""Calls that overlap, beyond which there are too many sums of some of them."""
_MOST_SPENT = 10_000
_NO_ROOM = "/out had no room"
"""How the warning begins that says that lines or states are lacking."""


@dataclass
class Course:
    """What a history comes to.

    Attributes:
        best: of the lines that compare, the first with the best score; None if none does.
        initial: the state of the first line.
        holds_best: a line has the saved best state.
        spent: tokens (prompt, completion) that lines say were spent, and the first line that does.
        seen: by saved state, the first line that compares and has it, and its score.
    """

    lines: int = 0
    last: HistoryLine | None = None
    best: HistoryLine | None = None
    initial: dict[str, Any] | None = None
    holds_best: bool = False
    whole: bool = True
    spent: dict[tuple[int, int], int] = field(default_factory=dict)
    seen: dict[str, tuple[int, float]] = field(default_factory=dict)


def read_history(folder: Folder, path: str, book: Book, meta: JobMeta, saved: Mapping[str, Any]) -> Course:
    """Check a history line by line.

    Args:
        saved: the saved states, by kind.
    """
    course = Course()
    sign = 1.0 if meta.score_direction == "maximize" else -1.0
    try:
        for number, raw in enumerate(folder.lines(path), start=1):
            key = f"line {number}"
            try:
                line = parsed(HistoryLine, raw)
            except Unreadable as error:
                book.wrong("files.schemas", path, key, str(error), "history")
                course.whole = False
                break
            course.lines = number
            book.checked("derivation.history")
            for name in _GROWING if course.last is not None else ():
                one, other = getattr(line, name), getattr(course.last, name)
                if one < other:
                    book.wrong("derivation.history", path, f"{key}: {name}", one, f"{other} or more")
            if len(course.spent) < _MOST_SPENT:
                course.spent.setdefault((line.prompt_tokens, line.completion_tokens), number)
            if number == 1:
                course.initial = line.parameters
            if line.comparable and (course.best is None or sign * line.score > sign * course.best.score):
                course.best = line
            if meta.objective.mode != "pareto":
                due = line.score if course.best is None else course.best.score
                if line.best_score != due:
                    book.wrong("derivation.history", path, f"{key}: best_score", line.best_score, due)
            for kind, state in saved.items():
                if line.parameters == state:
                    course.holds_best = course.holds_best or kind == "best"
                    if line.comparable:
                        course.seen.setdefault(kind, (number, line.score))
            course.last = line
    except Unreadable as error:
        book.wrong("derivation.history", path, was=str(error), due="a history")
        course.whole = False
    return course


def check_course(
    course: Course, row: Results, result: WorkerResult | None, calls: Calls, meta: JobMeta, path: str, book: Book
) -> None:
    """What was spent by the last line is no more than the row, and the cassette, say; where every call had come back by
    then, it is exactly that."""
    last = course.last
    if last is None or result is None:
        return
    book.checked("derivation.history")
    if last.evaluations > row.evaluations:
        book.wrong("derivation.history", path, "last line: evaluations", last.evaluations, f"at most {row.evaluations}")
    if not calls.whole or calls.lines == 0:
        return
    # What a service has asked counts once its answer has come, and may have been asked beside other calls.
    alone = not calls.of_services
    exact = alone and last.llm_calls == result.llm_calls and calls.attempts == 1 and len(meta.attempts) == 1
    for name, due in (("prompt_tokens", calls.told_prompt), ("completion_tokens", calls.told_completion)):
        was = getattr(last, name)
        if was > due or (exact and was != due):
            book.wrong("derivation.history", path, f"last line: {name}", was, due if exact else f"at most {due}")
    if alone and calls.attempts == 1 and len(meta.attempts) == 1 and meta.mode != "replay":
        for (prompt, completion), number in course.spent.items():
            if not _is_reachable(prompt, completion, calls.groups):
                key = f"line {number}: prompt_tokens, completion_tokens"
                book.wrong("derivation.history", path, key, [prompt, completion], "sums of calls by then")
    usd = float(calls.told_usd)
    rounding = 1e-9 * max(usd, 1e-6)
    if last.cost_usd > usd + rounding or (exact and last.cost_usd < usd - rounding):
        book.wrong("derivation.history", path, "last line: cost_usd", last.cost_usd, usd if exact else f"at most {usd}")


def _is_reachable(prompt: int, completion: int, groups: Sequence[Group]) -> bool:
    """Whether that many tokens can have been spent at some time: by all calls of some groups, and any of the next."""
    for group in groups:
        if len(group.calls) > _MOST_TOGETHER:
            return True  # too many ways
        left = (prompt - group.before[0], completion - group.before[1])
        if left[0] < 0:
            return False
        sums = {(0, 0)}
        for one, other in group.calls:
            sums |= {(a + one, b + other) for a, b in sums}
        if left in sums:
            return True
    return not groups and not prompt and not completion


def check_found(course: Course, result: WorkerResult, meta: JobMeta, path: str, book: Book) -> None:
    """What the search saw of a saved state, on all examples of the selection split, is what the scorer found; a job of
    which that is not so says it with a flag."""
    if "claim_differs" in meta.integrity_report.flags or meta.timing_sensitive:
        return
    scoring = meta.usage_by_phase.get("score", Usage())
    if scoring.calls or scoring.reused or scoring.refused:
        return
    for kind, (number, seen) in course.seen.items():
        scores = getattr(result.scores, kind)
        if scores is None or scores.selection is None:
            continue
        split = "train" if scores.validate_ is None else "validate"
        sizes = [abs(example.score) for example in scores.examples if example.split == split]
        allowed = (meta.tolerance + 1e-12 * len(sizes)) * (math.fsum(sizes) / len(sizes)) if sizes else 0.0
        book.checked("derivation.history")
        if abs(seen - scores.selection) > 2 * allowed:
            book.wrong("derivation.history", path, f"line {number}: score", seen, scores.selection)


def check_states(
    folder: Folder, root: JobLayout, at: str, states: States | None, result: WorkerResult | None, book: Book
) -> list[str]:
    """Published states against what the sandbox handed back; returns the files that were read."""
    read = []
    for kind, place in (("initial", root.initial_state), ("best", root.best_state), ("final", root.final_state)):
        path = f"{at}/{place.relative_to(root.root).as_posix()}"
        due = getattr(states, kind) if states is not None else None
        book.checked("derivation.states")
        try:
            data = folder.data(path)
        except Unreadable as error:
            book.wrong("derivation.states", path, was=str(error), due="a state")
            continue
        if data is None:
            if due is not None:
                book.wrong("derivation.states", path, was=None, due=due)
            continue
        read.append(path)
        if due is None:
            book.wrong("derivation.states", path, was="a state", due=None)
            continue
        if _written(due) == data:
            continue
        try:
            was = state_of(data)
        except Unreadable as error:
            book.wrong("files.schemas", path, was=str(error), due="state")
            continue
        if was != due or [type(value) for value in was.values()] != [type(due[name]) for name in was]:
            book.wrong("derivation.states", path, was=was, due=due)
    return read


def check_saved(course: Course, states: States | None, result: WorkerResult | None, at: str, book: Book) -> None:
    """Saved states against the history: the first and the best of it."""
    if states is None or result is None or not course.whole or not course.lines:
        return
    if any(warning.startswith(_NO_ROOM) for warning in result.warnings):
        book.unknown("derivation.states", "a sandbox had no room for all of its lines and states")
        return
    book.checked("derivation.states")
    if course.initial is not None and course.initial != states.initial:
        book.wrong("derivation.states", at, "initial", states.initial, course.initial)
    ended = result.status == "ok" and (result.stop_point is None or not result.stop_point.killed)
    if states.best is None or course.best is None or not ended:
        return
    if not course.holds_best:
        for name in ("derivation.states", "derivation.history"):  # one of them was changed
            book.wrong(name, at, "best", states.best, "a state of the history")
    claim = result.integrity.claims.get("best")
    if claim is not None and course.last is not None and claim.score != course.last.best_score:
        book.wrong("derivation.states", at, "integrity.claims.best.score", claim.score, course.last.best_score)


def _written(state: dict[str, Any]) -> bytes:
    """The file of `state`."""
    return _dumped(dumps(state))


@lru_cache(maxsize=16)
def _dumped(text: str) -> bytes:
    try:
        return dump_state(loads(text)).encode()
    except (ValueError, RecursionError):
        return b""
