"""One job's cassette: whether its lines are in order and hold what they say, and what they come to."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from typing import NamedTuple

from trace_bench.artifacts.contract import Budget
from trace_bench.artifacts.records import JobMeta, LlmCall, ModelPrices, Usage
from trace_bench.artifacts.usage import NO_ANSWER, Tally, is_answer, is_lost, usage_of
from trace_bench.audit.claims import Book
from trace_bench.audit.reading import Folder, Unreadable, parsed
from trace_bench.gateway.cassettes import MAX_REFUSALS
from trace_bench.gateway.meter import OTHER, PHASES
from trace_bench.gateway.prices import cost
from trace_bench.gateway.real import Prices
from trace_bench.gateway.requests import request_hash
from trace_bench.gateway.usage import Counted, reported
from trace_bench.secrets import MASK

_STAMP_SLACK = 2.0
"""Seconds that a call may have begun after others had ended, for all that times say."""
_TOGETHER = 0.02
"""Seconds between the end of a call and the beginning of one that may have been asked before its answer came."""
_MISSED = re.compile(r"(\d{1,6}) LLM calls? (?:was|were) under way when the job ended")
_OF_SERVICE = re.compile(r"(?P<call>[a-z]+-\d+-[a-z0-9-]+)-\d+")
"""Ids of requests that a call of a service made; those of a sandbox are a phase and a number."""
_OURS = ("stub", "scripted")
"""Providers whose calls cost what no lock says."""


class Group(NamedTuple):
    """Calls that overlapped: tokens (prompt, completion) of all calls before, and of each of these."""

    before: tuple[int, int]
    calls: tuple[tuple[int, int], ...]


@dataclass
class Calls:
    """What the lines of a cassette come to.

    Attributes:
        usage, by_phase: as of `JobMeta`.
        refused: lines of refused calls.
        told_…: tokens and dollars of all lines that were asked for; an answer that was given again counts each time.
        whole: every line could be read.
        unanswered: attempts in which a call got no answer.
        groups: of calls that overlapped, in order.
        late: phase and use of those that ended when their attempt had.
        of_services: calls, prompt and completion tokens that each call of a service of the host has asked for, by
            attempt and the beginning of their ids.
    """

    usage: Usage = field(default_factory=Usage)
    by_phase: dict[str, Usage] = field(default_factory=dict)
    lines: int = 0
    refused: int = 0
    attempts: int = 0
    told_prompt: int = 0
    told_completion: int = 0
    told_usd: Fraction = Fraction(0)
    whole: bool = True
    unanswered: set[int] = field(default_factory=set)
    groups: list[Group] = field(default_factory=list)
    late: list[tuple[str, Usage]] = field(default_factory=list)
    of_services: dict[tuple[int, str], tuple[int, int, int]] = field(default_factory=dict)


@dataclass
class _Line:
    """What later lines may need of one."""

    request_hash: str
    status: int
    prompt: int
    completion: int
    reused: bool
    usd: float = 0.0


def read_cassette(
    folder: Folder, path: str, book: Book, *, meta: JobMeta | None, prices: Mapping[str, ModelPrices]
) -> Calls:
    """Check a cassette line by line, holding no body of a line after the next."""
    calls, tallies, whole = Calls(), dict[str, Tally](), Tally()
    ends = {a.number: _time(a.ended_at) for a in meta.attempts if a.ended_at} if meta is not None else {}
    known: list[_Line] = []
    spent: list[tuple[float, float, int, float]] = []
    times: list[tuple[float, float, int, int]] = []
    last_time, last_attempt = 0.0, 0
    try:
        for number, raw in enumerate(folder.lines(path), start=1):
            key = f"line {number}"
            try:
                call = parsed(LlmCall, raw)
            except Unreadable as error:
                book.wrong("files.schemas", path, key, str(error), "llm_call")
                calls.whole = False
                break
            calls.lines = number
            time = _time(call.t)
            book.equal("derivation.cassette", path, f"{key}: n", call.n, number)
            if call.attempt < last_attempt:
                book.wrong("derivation.cassette", path, f"{key}: attempt", call.attempt, f"{last_attempt} or more")
            # What nothing asked for in a replay has the time of the recording.
            if not call.unasked:
                if call.attempt == last_attempt and time < last_time:
                    book.wrong("derivation.cassette", path, f"{key}: t", call.t, "no earlier than the line before")
                last_time = time
            last_attempt = max(last_attempt, call.attempt)
            _check_line(call, path, key, book, known, prices, meta)
            phase = call.phase if call.phase in PHASES else OTHER
            tallies.setdefault(phase, Tally()).add(call)
            whole.add(call)
            if call.attempt in ends and time >= ends[call.attempt] - _STAMP_SLACK:
                calls.late.append((phase, usage_of([call])))
            calls.refused += call.refused
            source = known[call.reused_from - 1] if call.reused_from and call.reused_from < number else None
            lost = is_lost(call)  # nobody was told of an answer
            line = _Line(
                call.request_hash,
                call.status,
                source.prompt if source else 0 if lost else call.prompt_tokens,
                source.completion if source else 0 if lost else call.completion_tokens,
                call.reused_from is not None,
                source.usd if source else 0.0 if lost else call.cost_usd,
            )
            known.append(line)
            # What a service had asked is told with its answer, in a replay that gives the answer again as well.
            guest = _OF_SERVICE.fullmatch(call.request_id)
            if guest is not None and call.status < 500:
                place = (call.attempt, guest["call"])
                counted, prompt, completion = calls.of_services.get(place, (0, 0, 0))
                told = not call.refused
                calls.of_services[place] = (counted + told, prompt + line.prompt, completion + line.completion)
            if guest is not None or not call.unasked:
                calls.told_prompt += line.prompt
                calls.told_completion += line.completion
                calls.told_usd += Fraction(line.usd)
            if not call.unasked:
                times.append((time - call.latency, time, line.prompt, line.completion))
            if call.status == NO_ANSWER and not lost:
                calls.unanswered.add(call.attempt)
            if is_answer(call):
                began = time - call.latency
                spent.append((time, began, call.prompt_tokens + call.completion_tokens, call.cost_usd))
    except Unreadable as error:
        book.wrong("derivation.cassette", path, was=str(error), due="a cassette")
        calls.whole = False
    calls.attempts = last_attempt
    calls.groups = _grouped(times)
    calls.usage = whole.usage()
    calls.by_phase = {phase: tallies[phase].usage() for phase in (*PHASES, OTHER) if phase in tallies}
    if meta is not None and meta.mode != "replay":
        _check_budget(meta.budget, spent, calls, path, book)
    return calls


def _time(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _grouped(times: list[tuple[float, float, int, int]]) -> list[Group]:
    """Calls by when they began and ended."""
    groups: list[Group] = []
    before, open_calls, until = (0, 0), list[tuple[int, int]](), 0.0
    for began, ended, prompt, completion in sorted(times):
        if open_calls and began > until + _TOGETHER:
            groups.append(Group(before, tuple(open_calls)))
            before = (before[0] + sum(c[0] for c in open_calls), before[1] + sum(c[1] for c in open_calls))
            open_calls = []
        open_calls.append((prompt, completion))
        until = max(until, ended) if len(open_calls) > 1 else ended
    return [*groups, Group(before, tuple(open_calls))] if open_calls else groups


def _check_line(
    call: LlmCall,
    path: str,
    key: str,
    book: Book,
    known: list[_Line],
    prices: Mapping[str, ModelPrices],
    meta: JobMeta | None,
) -> None:
    if meta is not None and call.model != meta.model.id:
        book.wrong("derivation.cassette", path, f"{key}: model", call.model, meta.model.id)
    if call.reused_from is not None:
        _check_reuse(call, path, key, book, known)
        return
    if call.request is None:
        if not call.refused:
            book.wrong("derivation.cassette", path, f"{key}: request", None, "the request of a call that was asked")
    else:
        due = request_hash(call.request.method, call.request.path, call.request.body)  # type: ignore[arg-type]
        book.checked("derivation.cassette")
        if due != call.request_hash:
            if MASK in str(call.request.body):
                book.unknown("derivation.cassette", "secrets are masked in requests")
            else:
                book.wrong("derivation.cassette", path, f"{key}: request_hash", call.request_hash, due)
    if not is_answer(call):
        return
    _check_tokens(call, path, key, book)
    _check_source(call, path, key, book, meta)
    _check_cost(call, path, key, book, prices)


def _check_reuse(call: LlmCall, path: str, key: str, book: Book, known: list[_Line]) -> None:
    """It gives an earlier answer to the same request again, and counts for nothing."""
    book.checked("derivation.cassette")
    number = call.reused_from or 0
    if number > len(known):
        book.wrong("derivation.cassette", path, f"{key}: reused_from", number, f"at most {len(known)}")
        return
    source = known[number - 1]
    if source.request_hash != call.request_hash:
        book.wrong("derivation.cassette", path, f"{key}: reused_from", number, "a line with the same request")
    if source.reused:
        book.wrong("derivation.cassette", path, f"{key}: reused_from", number, "a line with an answer of its own")
    if call.prompt_tokens or call.completion_tokens or call.cost_usd:
        book.wrong("derivation.cassette", path, f"{key}: tokens", call.prompt_tokens + call.completion_tokens, 0)


def _check_tokens(call: LlmCall, path: str, key: str, book: Book) -> None:
    """Tokens are those of the usage in the answer, unless the gateway had to count them."""
    if call.request is None or not isinstance(call.response, dict) or call.status != 200:
        return
    found = reported(call.request.path, call.response)
    if found is None:
        return
    book.checked("derivation.answers")
    for name, due in (("prompt_tokens", found.prompt), ("completion_tokens", found.completion)):
        if getattr(call, name) != due:
            book.wrong("derivation.answers", path, f"{key}: {name}", getattr(call, name), due)


def _check_source(call: LlmCall, path: str, key: str, book: Book, meta: JobMeta | None) -> None:
    """Only a replay gives recorded answers, and no answer of the response cache was asked for."""
    if meta is not None and meta.mode != "replay":
        for name, none in (("replayed_from", None), ("unasked", False)):
            if getattr(call, name) != none:
                book.wrong("derivation.cassette", path, f"{key}: {name}", getattr(call, name), "nothing: no replay")
    if call.cached and call.tries and call.replayed_from is None:
        book.wrong("derivation.prices", path, f"{key}: tries", len(call.tries), "none, as the answer was cached")


def _check_cost(call: LlmCall, path: str, key: str, book: Book, prices: Mapping[str, ModelPrices]) -> None:
    if call.provider in _OURS and call.model in prices and call.replayed_from is None:
        book.wrong("derivation.prices", path, f"{key}: cost_usd", call.cost_usd, "no price, as no provider was paid")
    if call.provider in _OURS or call.replayed_from is not None:
        if call.provider == "stub" and call.replayed_from is None:
            book.equal("derivation.prices", path, f"{key}: cost_usd", call.cost_usd, 0.0)
        return
    price = prices.get(call.model)
    due = 0.0
    if price is not None and not call.cached:
        counted = Counted(call.prompt_tokens, call.completion_tokens, call.cached_tokens, call.reasoning_tokens)
        due = cost(counted, Prices(price.prompt, price.completion, price.cached))
    book.checked("derivation.prices")
    if abs(call.cost_usd - due) > 1e-12 * max(1.0, due):
        book.wrong("derivation.prices", path, f"{key}: cost_usd", call.cost_usd, due)


def _check_budget(
    budget: Budget, spent: list[tuple[float, float, int, float]], calls: Calls, path: str, book: Book
) -> None:
    """A call is let through while what others had spent when it began is below every limit."""
    if budget.calls is not None:
        book.checked("conduct.budgets")
        if calls.usage.calls > budget.calls:
            book.wrong("conduct.budgets", path, "calls", calls.usage.calls, f"at most {budget.calls}")
    for what, at, limit in (("tokens", 2, budget.tokens), ("usd", 3, budget.usd)):
        if limit is None:
            continue
        book.checked("conduct.budgets")
        before = 0.0
        done = sorted(spent)
        place = 0
        for line in sorted(spent, key=lambda one: one[1]):
            while place < len(done) and done[place][0] < line[1] - _STAMP_SLACK:
                before += done[place][at]
                place += 1
            if before >= limit:
                book.wrong("conduct.budgets", path, what, before, f"below {limit} when another call began")
                break


def check_usage(meta: JobMeta, calls: Calls, path: str, book: Book) -> None:
    """The record's sums against the lines."""
    if meta.failure is not None and meta.failure.kind == "damaged_cassette":
        book.unknown("derivation.usage", "a cassette was damaged when its job began")
        return
    book.checked("derivation.usage", len(Usage.model_fields))
    missed = _missed(meta)
    for key, was, due, late in _differences(meta, calls):
        # Those calls may be in the cassette, and not in the record: so much less at most, and no more.
        most = sum(sorted(late, reverse=True)[:missed])
        if due - most * (1 + 1e-9) <= was <= due:
            book.unknown("derivation.usage", "calls were under way when a job ended")
        else:
            book.wrong("derivation.usage", path, key, was, due)


def _missed(meta: JobMeta) -> int:
    """How many calls came to their end, if to any, after a job had been told to be over."""
    found = (_MISSED.match(warning) for warning in meta.warnings)
    return sum(int(match[1]) for match in found if match)


def _differences(meta: JobMeta, calls: Calls) -> list[tuple[str, float, float, list[float]]]:
    """Key, what the record says, what the lines come to, and the share of each late line in it."""
    found = []
    pairs = [("usage", meta.usage, calls.usage, [use for _, use in calls.late])]
    for phase in dict.fromkeys((*meta.usage_by_phase, *calls.by_phase)):
        was, due = meta.usage_by_phase.get(phase, Usage()), calls.by_phase.get(phase, Usage())
        pairs.append((f"usage_by_phase.{phase}", was, due, [use for of, use in calls.late if of == phase]))
    for name, was, due, late in pairs:
        for key in Usage.model_fields:
            one, other = getattr(was, key), getattr(due, key)
            if key == "refused" and calls.refused >= MAX_REFUSALS and one >= other:
                continue  # no more of them are recorded
            if one != other:
                found.append((f"{name}.{key}", one, other, [getattr(use, key) for use in late]))
    return found
