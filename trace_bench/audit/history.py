"""Checks the history of a job, and the states that were saved from it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from trace_bench.artifacts.jsonio import dumps, loads
from trace_bench.artifacts.outputs import HistoryLine, States, WorkerResult
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.artifacts.yamlio import dump_state
from trace_bench.audit.cassette import Calls
from trace_bench.audit.claims import Findings
from trace_bench.audit.reading import Folder, JsonLines, Unreadable, parse_model, parse_state
from trace_bench.audit.scores import mean
from trace_bench.errors import HarnessError
from trace_bench.records.integrity import scoring_used_model

HISTORY, STATES = "derivation.history", "derivation.states"
_GROWING = ("evaluations", "llm_calls", "prompt_tokens", "completion_tokens", "cost_usd", "seconds")
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
        at.checked(HISTORY)
        for name in _GROWING if history.last is not None else ():
            now, before = getattr(line, name), getattr(history.last, name)
            if now < before:
                at.wrong(HISTORY, f"{key}: {name}", now, f"{before} or more")
        if len(history.spent) < _MAX_SPENT:
            history.spent.setdefault((line.prompt_tokens, line.completion_tokens), number)
        if number == 1:
            history.initial = line.parameters
        if line.comparable and (history.best is None or sign * line.score > sign * history.best.score):
            history.best = line
        best = line.score if history.best is None else history.best.score
        if meta.objective.mode != "pareto" and line.best_score != best:
            at.wrong(HISTORY, f"{key}: best_score", line.best_score, best)
        for kind, state in saved.items():
            if line.parameters == state:
                history.holds_best = history.holds_best or kind == "best"
                if line.comparable:
                    history.seen.setdefault(kind, (number, line.score))
        history.last = line
    history.whole = lines.whole
    return history


def check_history(
    history: History, states: States | None, row: Results, result: WorkerResult, calls: Calls, meta: JobMeta,
    at: Findings,
) -> None:  # fmt: skip
    """Compare a history with the row, the cassette, the saved states and the official scores."""
    if history.last is not None:
        _check_spent(history, history.last, row, result, calls, meta, at)
        if states is not None and history.whole:
            _check_saved(history, history.last, states, result, at)
    _check_seen_scores(history, result, meta, at)


def _check_spent(
    history: History, last: HistoryLine, row: Results, result: WorkerResult, calls: Calls, meta: JobMeta, at: Findings
) -> None:
    """The last line states no more than row and cassette. Where every call had ended by then, it states the same."""
    most = f"at most {row.evaluations}"
    at.check(last.evaluations <= row.evaluations, HISTORY, "last line: evaluations", last.evaluations, most)
    if not calls.whole or calls.lines == 0:
        return
    # The calls of a service count when its answer arrives, and can overlap other calls.
    one_after_another = not calls.of_services and calls.attempts == len(meta.attempts) == 1
    exact = one_after_another and last.llm_calls == result.llm_calls
    usd = float(calls.usd)
    sums = (("prompt_tokens", calls.prompt, 0.0), ("completion_tokens", calls.completion, 0.0),
            ("cost_usd", usd, 1e-9 * max(usd, 1e-6)))  # fmt: skip
    for name, expected, slack in sums:
        found = getattr(last, name)
        if found > expected + slack or (exact and found < expected - slack):
            at.wrong(HISTORY, f"last line: {name}", found, expected if exact else f"at most {expected}")
    reachable = calls.reachable() if one_after_another and meta.mode != "replay" else None
    for spent, number in history.spent.items() if reachable is not None else ():
        if reachable is not None and spent not in reachable:
            key = f"line {number}: prompt_tokens, completion_tokens"
            at.wrong(HISTORY, key, list(spent), "the sums of calls by then")


def _check_seen_scores(history: History, result: WorkerResult, meta: JobMeta, at: Findings) -> None:
    """The score that the search saw for a saved state, on all examples of the selection split, is the score that the
    scorer found. A job where these differ has a flag."""
    flagged = "claim_differs" in meta.integrity_report.flags
    if flagged or meta.timing_sensitive or scoring_used_model(meta.usage_by_phase):
        return
    for kind, (number, seen) in history.seen.items():
        scores = getattr(result.scores, kind)
        if scores is None or scores.selection is None:
            continue
        split = "train" if scores.validate_ is None else "validate"
        sizes = [abs(example.score) for example in scores.examples if example.split == split]
        allowed = (meta.tolerance + 1e-12 * len(sizes)) * mean(sizes) if sizes else 0.0
        close = abs(seen - scores.selection) <= 2 * allowed
        at.check(close, HISTORY, f"line {number}: score", seen, scores.selection)


def _check_saved(history: History, last: HistoryLine, states: States, result: WorkerResult, at: Findings) -> None:
    """Compare the saved states with the first and the best state of the history."""
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
    claimed = result.integrity.claims.get("best")
    if claimed is not None and claimed.score != last.best_score:
        at.wrong(STATES, "integrity.claims.best.score", claimed.score, last.best_score)


def check_state_file(folder: Folder, at: Findings, expected: dict[str, Any] | None) -> None:
    """Compare a published state with what the sandbox returned."""
    at.checked(STATES)
    try:
        data = folder.data(at.file)
        same = data is not None and expected is not None and data == _yaml_of(dumps(expected))
        found = None if data is None or same else parse_state(data)
    except Unreadable as error:
        for claim in (STATES, "files.schemas"):
            at.wrong(claim, found=str(error), expected="a state")
        return
    if (data is None) != (expected is None):
        at.wrong(STATES, found=None if data is None else "a state", expected=expected)
    elif found is not None and expected is not None:
        types = [[type(state.get(name)) for name in expected] for state in (found, expected)]
        if found != expected or types[0] != types[1]:
            at.wrong(STATES, found=found, expected=expected)


@lru_cache(maxsize=16)
def _yaml_of(state: str) -> bytes:
    """The file of a state that is given as JSON; empty if there is none."""
    try:
        return dump_state(loads(state)).encode()
    except (HarnessError, ValueError, RecursionError):
        return b""
