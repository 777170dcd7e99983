"""Checks the cassette of a job line by line, and adds up its calls."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from trace_bench.artifacts.calls import SCORE_PHASE, LlmCall, Usage
from trace_bench.artifacts.contract import Budget
from trace_bench.artifacts.records import JobMeta, ModelPrices
from trace_bench.artifacts.usage import NO_ANSWER, Tally, is_answer, is_lost, usage_of
from trace_bench.audit.claims import Findings
from trace_bench.audit.reading import Folder, JsonLines, parse_model
from trace_bench.gateway.cassettes import MAX_REFUSALS
from trace_bench.gateway.meter import OTHER, PHASES
from trace_bench.gateway.prices import cost
from trace_bench.gateway.real import Prices
from trace_bench.gateway.requests import request_hash
from trace_bench.gateway.usage import Counted, reported
from trace_bench.secrets import MASK

ANSWERS, BUDGETS, CASSETTE = "derivation.answers", "conduct.budgets", "derivation.cassette"
PRICES, USAGE = "derivation.prices", "derivation.usage"
_CLOCK_SLACK = 2.0
"""Seconds by which recorded times can be off."""
_OVERLAP = 0.02
"""Seconds between two calls below which the second may have begun before the answer to the first arrived."""
_LATE = re.compile(r"(\d{1,6}) LLM calls? (?:was|were) under way when the job ended")
_OF_SERVICE = re.compile(r"(?P<call>[a-z]+-\d+-[a-z0-9-]+)-\d+")
"""Request ids of calls that a service made. Those of a sandbox are a phase and a number."""
_BUILT_IN = ("stub", "scripted")
"""Providers without prices in the lock."""


class Spent(NamedTuple):
    """Tokens and dollars."""

    prompt: int = 0
    completion: int = 0
    usd: float = 0.0


class Group(NamedTuple):
    """Calls that overlapped: (prompt, completion) tokens of all calls before them, and of each of them."""

    before: tuple[int, int]
    calls: tuple[tuple[int, int], ...]


@dataclass
class Calls:
    """The sums over a cassette.

    Attributes:
        usage, by_phase: as in `JobMeta`.
        refused: lines of refused calls.
        attempts: the last attempt that made a call.
        prompt, completion, usd: the cost of its calls as reported to the job. A repeated answer counts each time.
        whole: every line could be read.
        unanswered: attempts in which a call got no answer.
        groups: calls that overlapped, in order.
        late: phase and usage of calls that ended after their attempt.
        of_services: number, prompt and completion tokens of the calls that a service made, by attempt and the
            beginning of their request ids.
    """

    usage: Usage = field(default_factory=Usage)
    by_phase: dict[str, Usage] = field(default_factory=dict)
    lines: int = 0
    refused: int = 0
    attempts: int = 0
    prompt: int = 0
    completion: int = 0
    usd: Fraction = Fraction(0)
    whole: bool = True
    unanswered: set[int] = field(default_factory=set)
    groups: list[Group] = field(default_factory=list)
    late: list[tuple[str, Usage]] = field(default_factory=list)
    of_services: dict[tuple[int, str], tuple[int, int, int]] = field(default_factory=dict)


class _Line(NamedTuple):
    """What later lines can refer to."""

    request_hash: str
    reused: bool
    spent: Spent


class _Interval(NamedTuple):
    """When a call ended and began, and what it spent."""

    ended: float
    began: float
    spent: Spent


def read_cassette(
    folder: Folder, at: Findings, meta: JobMeta, prices: Mapping[str, ModelPrices], own: bool = True
) -> Calls:
    """Check the cassette of the job `meta`, and add up its calls. No body of a call is kept.

    Args:
        own: `prices` are of the config, and not of litellm's table, for which litellm computes the cost.
    """
    reader = _Reader(at, meta, prices, own)
    lines = JsonLines(folder, at, partial(parse_model, LlmCall), schema="llm_call", claim=CASSETTE)
    for number, call in lines:
        reader.add(number, call)
    return reader.result(whole=lines.whole)


class _Reader:
    def __init__(self, at: Findings, meta: JobMeta, prices: Mapping[str, ModelPrices], own: bool) -> None:
        self._at, self._meta, self._prices, self._own_prices = at, meta, prices, own
        self._calls = Calls()
        self._tallies: dict[str, Tally] = {}
        self._total = Tally()
        self._lines: list[_Line] = []
        self._answers: list[_Interval] = []  # those that count in the job's budget
        self._requested: list[_Interval] = []
        self._last_time = 0.0
        self._ends = {a.number: _time(a.ended_at) for a in meta.attempts if a.ended_at}

    def add(self, number: int, call: LlmCall) -> None:
        key, time = f"line {number}", _time(call.t)
        self._check_order(number, call, key, time)
        self._check_call(call, key)
        self._count(number, call, time)

    def result(self, *, whole: bool) -> Calls:
        calls, tallies = self._calls, self._tallies
        calls.whole = whole
        calls.groups = _grouped(self._requested)
        calls.usage = self._total.usage()
        calls.by_phase = {phase: tallies[phase].usage() for phase in (*PHASES, OTHER) if phase in tallies}
        if self._meta.mode != "replay":
            self._check_budget(self._meta.budget)
        return calls

    # -- sums ----------------------------------------------------------------------------------------------------

    def _count(self, number: int, call: LlmCall, time: float) -> None:
        calls = self._calls
        calls.lines, calls.refused = number, calls.refused + call.refused
        phase = call.phase if call.phase in PHASES else OTHER
        self._tallies.setdefault(phase, Tally()).add(call)
        self._total.add(call)
        if call.attempt in self._ends and time >= self._ends[call.attempt] - _CLOCK_SLACK:
            calls.late.append((phase, usage_of([call])))
        spent = Spent(call.prompt_tokens, call.completion_tokens, call.cost_usd)
        if is_answer(call) and phase != SCORE_PHASE:
            self._answers.append(_Interval(time, time - call.latency, spent))
        if is_lost(call):  # its cost was not reported to the job
            spent = Spent()
        elif call.status == NO_ANSWER:
            calls.unanswered.add(call.attempt)
        if call.reused_from and call.reused_from < number:
            spent = self._lines[call.reused_from - 1].spent
        self._lines.append(_Line(call.request_hash, call.reused_from is not None, spent))
        # The cost of a service's calls is reported with the answer of the service, also when a replay repeats that.
        of_service = _OF_SERVICE.fullmatch(call.request_id)
        if of_service is not None and call.status < 500:
            place = (call.attempt, of_service["call"])
            count, prompt, completion = calls.of_services.get(place, (0, 0, 0))
            count += not call.refused
            calls.of_services[place] = (count, prompt + spent.prompt, completion + spent.completion)
        if of_service is not None or not call.unasked:
            calls.prompt += spent.prompt
            calls.completion += spent.completion
            calls.usd += Fraction(spent.usd)
        if not call.unasked:
            self._requested.append(_Interval(time, time - call.latency, spent))

    # -- checks --------------------------------------------------------------------------------------------------

    def _check_order(self, number: int, call: LlmCall, key: str, time: float) -> None:
        at, last_attempt = self._at, self._calls.attempts
        at.equal(CASSETTE, f"{key}: n", call.n, number)
        at.check(call.attempt >= last_attempt, CASSETTE, f"{key}: attempt", call.attempt, f"{last_attempt} or more")
        # In a replay, calls that the job did not request have the time of the recording.
        if not call.unasked:
            in_order = call.attempt != last_attempt or time >= self._last_time
            at.check(in_order, CASSETTE, f"{key}: t", call.t, "no earlier than the line before")
            self._last_time = time
        self._calls.attempts = max(last_attempt, call.attempt)

    def _check_call(self, call: LlmCall, key: str) -> None:
        at = self._at
        at.check(call.model == self._meta.model.id, CASSETTE, f"{key}: model", call.model, self._meta.model.id)
        if call.reused_from is not None:
            self._check_reuse(call, call.reused_from, key)
            return
        if call.request is None:
            at.check(call.refused, CASSETTE, f"{key}: request", None, "the request of the call")
        else:
            expected = request_hash(call.request.method, call.request.path, call.request.body)  # type: ignore[arg-type]
            if expected != call.request_hash and MASK in str(call.request.body):
                at.unknown(CASSETTE, "secrets are masked in requests")
            else:
                at.equal(CASSETTE, f"{key}: request_hash", call.request_hash, expected)
        if is_answer(call):
            self._check_tokens(call, key)
            self._check_source(call, key)
            self._check_cost(call, key)

    def _check_reuse(self, call: LlmCall, number: int, key: str) -> None:
        """The line repeats the answer of an earlier line to the same request, at no cost."""
        at, key = self._at, f"{key}: reused_from"
        if not at.check(number <= len(self._lines), CASSETTE, key, number, f"at most {len(self._lines)}"):
            return
        source = self._lines[number - 1]
        same_request = source.request_hash == call.request_hash
        at.check(same_request, CASSETTE, key, number, "a line with the same request")
        at.check(not source.reused, CASSETTE, key, number, "a line with an answer of its own")
        free = not (call.prompt_tokens or call.completion_tokens or call.cost_usd)
        at.check(free, CASSETTE, f"{key}: tokens", call.prompt_tokens + call.completion_tokens, 0)

    def _check_tokens(self, call: LlmCall, key: str) -> None:
        """Tokens are those of the usage in the answer, where it has one."""
        if call.request is None or not isinstance(call.response, dict) or call.status != 200:
            return
        found = reported(call.request.path, call.response)
        if found is not None:
            self._at.equal(ANSWERS, f"{key}: prompt_tokens", call.prompt_tokens, found.prompt)
            self._at.equal(ANSWERS, f"{key}: completion_tokens", call.completion_tokens, found.completion)

    def _check_source(self, call: LlmCall, key: str) -> None:
        """Only a replay gives recorded answers, and an answer from the response cache needed no request."""
        if self._meta.mode != "replay":
            for name, none in (("replayed_from", None), ("unasked", False)):
                value = getattr(call, name)
                self._at.check(value == none, CASSETTE, f"{key}: {name}", value, "nothing: the run is not a replay")
        if call.cached and call.replayed_from is None:
            self._at.check(not call.tries, PRICES, f"{key}: tries", len(call.tries), "none, as the answer was cached")

    def _check_cost(self, call: LlmCall, key: str) -> None:
        at, key = self._at, f"{key}: cost_usd"
        price = self._prices.get(call.model)
        if call.replayed_from is not None:
            return
        if call.provider in _BUILT_IN:
            at.check(price is None, PRICES, key, call.cost_usd, "no price, as no provider was paid")
            if call.provider == "stub":
                at.equal(PRICES, key, call.cost_usd, 0.0)
            return
        expected = 0.0
        if price is not None and not call.cached:
            counted = Counted(call.prompt_tokens, call.completion_tokens, call.cached_tokens, call.reasoning_tokens)
            expected = cost(counted, Prices(price.prompt, price.completion, price.cached))
        close = abs(call.cost_usd - expected) <= 1e-12 * max(1.0, expected)
        if not close and not self._own_prices and call.cost_usd > 0 < expected:
            at.unknown(PRICES, "litellm computed the cost of calls, with prices that the lock does not have")
            return
        at.check(close, PRICES, key, call.cost_usd, expected)

    def _check_budget(self, budget: Budget) -> None:
        """A call may begin while what earlier calls had spent by then is below every limit. Those of scoring do not
        count."""
        calls = self._calls
        at, made = self._at, calls.usage.calls - calls.by_phase.get(SCORE_PHASE, Usage()).calls
        if budget.calls is not None:
            at.check(made <= budget.calls, BUDGETS, "calls", made, f"at most {budget.calls}")
        ended = sorted(self._answers)
        for name, limit in (("tokens", budget.tokens), ("usd", budget.usd)):
            if limit is None:
                continue
            at.checked(BUDGETS)
            before, place = 0.0, 0
            for call in sorted(self._answers, key=lambda call: call.began):
                while place < len(ended) and ended[place].ended < call.began - _CLOCK_SLACK:
                    spent = ended[place].spent
                    before += spent.usd if name == "usd" else spent.prompt + spent.completion
                    place += 1
                if before >= limit:
                    at.wrong(BUDGETS, name, before, f"below {limit} when another call began")
                    break


def _time(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _grouped(calls: list[_Interval]) -> list[Group]:
    """Group calls that overlapped."""
    groups: list[Group] = []
    before, group, until = (0, 0), list[tuple[int, int]](), 0.0
    for call in sorted(calls, key=lambda call: (call.began, call.ended, call.spent)):
        if group and call.began > until + _OVERLAP:
            groups.append(Group(before, tuple(group)))
            before = (before[0] + sum(c[0] for c in group), before[1] + sum(c[1] for c in group))
            group = []
        group.append((call.spent.prompt, call.spent.completion))
        until = max(until, call.ended) if len(group) > 1 else call.ended
    return [*groups, Group(before, tuple(group))] if group else groups


def check_usage(meta: JobMeta, calls: Calls, at: Findings) -> None:
    """Compare the sums in the record with those over the cassette.

    Calls that ended after their job can be in the cassette and not in the record. A warning says how many these are
    at most, so that the record can lack no more than the most expensive late calls.
    """
    if meta.failure is not None and meta.failure.kind == "damaged_cassette":
        at.unknown(USAGE, "a cassette was damaged when its job began")
        return
    at.checked(USAGE, len(Usage.model_fields))
    missed = sum(int(match[1]) for warning in meta.warnings if (match := _LATE.match(warning)))
    pairs = [("usage", meta.usage, calls.usage, [usage for _, usage in calls.late])]
    for phase in dict.fromkeys((*meta.usage_by_phase, *calls.by_phase)):
        found, expected = meta.usage_by_phase.get(phase, Usage()), calls.by_phase.get(phase, Usage())
        pairs.append((f"usage_by_phase.{phase}", found, expected, [u for of, u in calls.late if of == phase]))
    for name, in_record, in_cassette, late in pairs:
        for key in Usage.model_fields:
            found, expected = getattr(in_record, key), getattr(in_cassette, key)
            if found == expected or (key == "refused" and found >= expected and calls.refused >= MAX_REFUSALS):
                continue  # beyond that number, refused calls are not recorded
            most = sum(sorted((getattr(usage, key) for usage in late), reverse=True)[:missed])
            if expected - most * (1 + 1e-9) <= found <= expected:
                at.unknown(USAGE, "calls were in progress when a job ended")
            else:
                at.wrong(USAGE, f"{name}.{key}", found, expected)
