"""Checks the history of a job, and the states that were saved from it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from trace_bench.artifacts.jsonio import dumps, loads
from trace_bench.artifacts.outputs import HistoryLine, States, WorkerResult
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.artifacts.yamlio import dump_state
from trace_bench.audit.cassette import Calls, Group
from trace_bench.audit.claims import Findings
from trace_bench.audit.reading import Folder, JsonLines, Unreadable, parse_model, parse_state
from trace_bench.records.integrity import scoring_used_model
from trace_bench.worker.objective import finite_mean

HISTORY, STATES = "derivation.history", "derivation.states"
_GROWING = ("evaluations", "llm_calls", "prompt_tokens", "completion_tokens", "cost_usd", "seconds")
_MAX_GROUP = 10
"""Overlapping calls beyond which the sums of all subsets are too many."""
_MAX_SPENT = 10_000
_NO_ROOM = "/out had no room"
"""Beginning of the warning that lines or states are missing."""


@dataclass
class History:
    """The content of a history.

    Attributes:
        best: of the lines that compare, the first with the best score; None if none compares.
        initial: the state of the first line.
        holds_best: a line has the saved best state.
        spent: (prompt, completion) tokens that lines state, with the first line that does.
        seen: the number and score of the first line that compares and has a saved state, by kind of state.
        whole: every line could be read.
    """

    last: HistoryLine | None = None
    best: HistoryLine | None = None
    initial: dict[str, Any] | None = None
    holds_best: bool = False
    spent: dict[tuple[int, int], int] = field(default_factory=dict)
    seen: dict[str, tuple[int, float]] = field(default_factory=dict)
    whole: bool = True


def read_history(folder: Folder, at: Findings, meta: JobMeta, saved: Mapping[str, Any]) -> History:
    """Check a history line by line.

    Args:
        saved: the saved states, by kind.
    """
    history = History()
    sign = 1.0 if meta.score_direction == "maximize" else -1.0
    lines = JsonLines(folder, at, partial(parse_model, HistoryLine), schema="history", claim=HISTORY)
    for number, line in lines:
        key = f"line {number}"
        for name in _GROWING if history.last is not None else ():
            now, before = getattr(line, name), getattr(history.last, name)
            if now < before:
                at.wrong(HISTORY, f"{key}: {name}", now, f"{before} or more")
        at.checked(HISTORY)
        if len(history.spent) < _MAX_SPENT:
            history.spent.setdefault((line.prompt_tokens, line.completion_tokens), number)
        if number == 1:
            history.initial = line.parameters
        if line.comparable and (history.best is None or sign * line.score > sign * history.best.score):
            history.best = line
        if meta.objective.mode != "pareto":
            best = line.score if history.best is None else history.best.score
            if line.best_score != best:
                at.wrong(HISTORY, f"{key}: best_score", line.best_score, best)
        for kind, state in saved.items():
            if line.parameters == state:
                history.holds_best = history.holds_best or kind == "best"
                if line.comparable:
                    history.seen.setdefault(kind, (number, line.score))
        history.last = line
    history.whole = lines.whole
    return history


def check_spent(history: History, row: Results, result: WorkerResult, calls: Calls, meta: JobMeta, at: Findings
                ) -> None:  # fmt: skip
    """Compare what the history says was spent with the row and the cassette.

    The last line states no more than these. Where every call had ended by then, it states exactly the same.
    """
    last = history.last
    if last is None:
        return
    most = f"at most {row.evaluations}"
    at.check(last.evaluations <= row.evaluations, HISTORY, "last line: evaluations", last.evaluations, most)
    if not calls.whole or calls.lines == 0:
        return
    # The calls of a service count when its answer arrives, and can overlap other calls.
    no_services = not calls.of_services
    one_attempt = calls.attempts == 1 and len(meta.attempts) == 1
    exact = no_services and one_attempt and last.llm_calls == result.llm_calls
    usd = float(calls.usd)
    rounding = 1e-9 * max(usd, 1e-6)
    sums = (("prompt_tokens", calls.prompt, 0.0), ("completion_tokens", calls.completion, 0.0),
            ("cost_usd", usd, rounding))  # fmt: skip
    for name, expected, slack in sums:
        found = getattr(last, name)
        if found > expected + slack or (exact and found < expected - slack):
            at.wrong(HISTORY, f"last line: {name}", found, expected if exact else f"at most {expected}")
    if no_services and one_attempt and meta.mode != "replay":
        for (prompt, completion), number in history.spent.items():
            if not _is_reachable(prompt, completion, calls.groups):
                key = f"line {number}: prompt_tokens, completion_tokens"
                at.wrong(HISTORY, key, [prompt, completion], "the sums of calls by then")


def _is_reachable(prompt: int, completion: int, groups: Sequence[Group]) -> bool:
    """Whether so many tokens can be spent at some time: by all calls of some groups, and a subset of the next."""
    for group in groups:
        if len(group.calls) > _MAX_GROUP:
            return True  # too many subsets
        rest = (prompt - group.before[0], completion - group.before[1])
        if rest[0] < 0:
            return False
        sums = {(0, 0)}
        for one, other in group.calls:
            sums |= {(a + one, b + other) for a, b in sums}
        if rest in sums:
            return True
    return not groups and not prompt and not completion


def check_seen_scores(history: History, result: WorkerResult, meta: JobMeta, at: Findings) -> None:
    """The score that the search saw for a saved state, on all examples of the selection split, is the score that the
    scorer found. A job where these differ has a flag."""
    if (
        "claim_differs" in meta.integrity_report.flags
        or meta.timing_sensitive
        or scoring_used_model(meta.usage_by_phase)
    ):
        return
    for kind, (number, seen) in history.seen.items():
        scores = getattr(result.scores, kind)
        if scores is None or scores.selection is None:
            continue
        split = "train" if scores.validate_ is None else "validate"
        sizes = [abs(example.score) for example in scores.examples if example.split == split]
        allowed = (meta.tolerance + 1e-12 * len(sizes)) * finite_mean(sizes) if sizes else 0.0
        close = abs(seen - scores.selection) <= 2 * allowed
        at.check(close, HISTORY, f"line {number}: score", seen, scores.selection)


def check_state_file(folder: Folder, at: Findings, expected: dict[str, Any] | None) -> bool:
    """Compare a published state with what the sandbox returned. Returns whether its schema was checked."""
    at.checked(STATES)
    try:
        data = folder.data(at.file)
    except Unreadable as error:
        at.wrong(STATES, found=str(error), expected="a state")
        return False
    if data is None or expected is None:
        if data is not None or expected is not None:
            at.wrong(STATES, found=None if data is None else "a state", expected=expected)
    elif data != _yaml_of(dumps(expected)):
        try:
            found = parse_state(data)
        except Unreadable as error:
            at.wrong("files.schemas", found=str(error), expected="state")
            return True
        if found != expected or [type(value) for value in found.values()] != [type(expected[name]) for name in found]:
            at.wrong(STATES, found=found, expected=expected)
    return data is not None


@lru_cache(maxsize=16)
def _yaml_of(state: str) -> bytes:
    """The file of a state that is given as JSON; empty if there is none."""
    try:
        return dump_state(loads(state)).encode()
    except (ValueError, RecursionError):
        return b""


def check_saved(history: History, states: States | None, result: WorkerResult, at: Findings) -> None:
    """Compare the saved states with the first and the best state of the history."""
    if states is None or not history.whole or history.last is None:
        return
    if any(warning.startswith(_NO_ROOM) for warning in result.warnings):
        at.unknown(STATES, "a sandbox had no room for all of its lines and states")
        return
    at.check(history.initial == states.initial, STATES, "initial", states.initial, history.initial)
    ended = result.status == "ok" and (result.stop_point is None or not result.stop_point.killed)
    if states.best is None or history.best is None or not ended:
        return
    if not history.holds_best:
        for claim in (STATES, HISTORY):  # either of them was changed
            at.wrong(claim, "best", states.best, "a state of the history")
    claimed, best = result.integrity.claims.get("best"), history.last.best_score
    if claimed is not None and claimed.score != best:
        at.wrong(STATES, "integrity.claims.best.score", claimed.score, best)
