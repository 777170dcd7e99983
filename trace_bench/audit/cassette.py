"""Checks the cassette and the services of a job line by line, and adds up its calls.

Tokens are added up twice: by the rules of `trace_bench.artifacts.usage`, which the gateway uses too, and by
`_own_tokens`, which shares no code with them.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import partial
from typing import NamedTuple

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.calls import SCORE_PHASE, LlmCall, ServiceRecord, Usage
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
PRICES, SERVICES, USAGE = "derivation.prices", "derivation.services", "derivation.usage"
_CLOCK_SLACK = 2.0
"""Seconds by which recorded times can be off."""
_OVERLAP = 0.02
"""Seconds between two calls below which the second may have begun before the answer to the first arrived."""
_MAX_SUMS = 1 << 11
"""Sums of overlapping calls beyond which these are not enumerated."""
_LATE = re.compile(r"(\d{1,6}) LLM calls? (?:was|were) under way when the job ended")
_OF_SERVICE = re.compile(r"(?P<call>[a-z]+-\d+-[a-z0-9-]+)-\d+")
"""Request ids of calls that a service made. Those of a sandbox are a phase and a number."""
_BUILT_IN = ("stub", "scripted")
"""Providers without prices in the lock."""


class Made(NamedTuple):
    """One call: when it ended and began, and the tokens and dollars that it cost."""

    ended: float
    began: float
    prompt: int
    completion: int
    usd: float


class _Line(NamedTuple):
    """What later lines can refer to."""

    request_hash: str
    reused: bool
    spent: Made


@dataclass
class Calls:
    """The sums over a cassette.

    Attributes:
        usage, by_phase: as in `JobMeta`.
        own_tokens: prompt and completion tokens, added up a second time.
        refused: lines of refused calls.
        attempts: the last attempt that made a call.
        prompt, completion, usd: the cost of its calls as reported to the job. A repeated answer counts each time.
        whole: every line could be read.
        unanswered: attempts in which a call got no answer.
        requested: calls that the job requested.
        late: phase and usage of calls that ended after their attempt.
        of_services: number, prompt and completion tokens of the calls that a service made, by attempt and the
            beginning of their request ids.
    """

    usage: Usage = field(default_factory=Usage)
    by_phase: dict[str, Usage] = field(default_factory=dict)
    own_tokens: tuple[int, int] | None = None
    lines: int = 0
    refused: int = 0
    attempts: int = 0
    prompt: int = 0
    completion: int = 0
    usd: Fraction = Fraction(0)
    whole: bool = True
    unanswered: set[int] = field(default_factory=set)
    requested: list[Made] = field(default_factory=list)
    late: list[tuple[str, Usage]] = field(default_factory=list)
    of_services: dict[tuple[int, str], tuple[int, int, int]] = field(default_factory=dict)

    def reachable(self) -> set[tuple[int, int]] | None:
        """Prompt and completion tokens that can have been spent at some time: by all earlier calls, and by a subset of
        calls that overlap; None if too many overlap."""
        every, group, total, until = {(0, 0)}, {(0, 0)}, (0, 0), float("-inf")
        for call in sorted(self.requested, key=lambda call: (call.began, call.ended)):
            if call.began > until + _OVERLAP:
                group = {total}
            group |= {(prompt + call.prompt, completion + call.completion) for prompt, completion in group}
            if len(group) > _MAX_SUMS:
                return None
            every |= group
            total = (total[0] + call.prompt, total[1] + call.completion)
            until = max(until, call.ended)
        return every


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
        self._own = (0, 0)
        self._lines: list[_Line] = []
        self._answers: list[Made] = []  # those that count in the job's budget
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
        calls.usage = self._total.usage()
        calls.own_tokens = self._own
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
        prompt, completion = _own_tokens(call)
        self._own = (self._own[0] + prompt, self._own[1] + completion)
        if call.attempt in self._ends and time >= self._ends[call.attempt] - _CLOCK_SLACK:
            calls.late.append((phase, usage_of([call])))
        spent = Made(time, time - call.latency, call.prompt_tokens, call.completion_tokens, call.cost_usd)
        if is_answer(call) and phase != SCORE_PHASE:
            self._answers.append(spent)
        if is_lost(call):  # its cost was not reported to the job
            spent = Made(spent.ended, spent.began, 0, 0, 0.0)
        elif call.status == NO_ANSWER:
            calls.unanswered.add(call.attempt)
        if call.reused_from and call.reused_from < number:
            spent = Made(spent.ended, spent.began, *self._lines[call.reused_from - 1].spent[2:])
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
            calls.requested.append(spent)

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
        at.equal(CASSETTE, f"{key}: model", call.model, self._meta.model.id)
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
        if not is_answer(call):
            return
        if call.request is not None and isinstance(call.response, dict) and call.status == 200:
            stated = reported(call.request.path, call.response)
            if stated is not None:
                at.equal(ANSWERS, f"{key}: prompt_tokens", call.prompt_tokens, stated.prompt)
                at.equal(ANSWERS, f"{key}: completion_tokens", call.completion_tokens, stated.completion)
        if self._meta.mode != "replay":  # only a replay gives recorded answers
            at.equal(CASSETTE, f"{key}: replayed_from", call.replayed_from, None)
            at.equal(CASSETTE, f"{key}: unasked", call.unasked, False)
        if call.replayed_from is None:
            if call.cached:
                at.check(not call.tries, PRICES, f"{key}: tries", len(call.tries), "none, as the answer was cached")
            self._check_cost(call, f"{key}: cost_usd")

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

    def _check_cost(self, call: LlmCall, key: str) -> None:
        at, price = self._at, self._prices.get(call.model)
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
        else:
            at.check(close, PRICES, key, call.cost_usd, expected)

    def _check_budget(self, budget: Budget) -> None:
        """A call may begin while what earlier calls had spent by then is below every limit. Those of scoring do not
        count."""
        calls, at = self._calls, self._at
        made = calls.usage.calls - calls.by_phase.get(SCORE_PHASE, Usage()).calls
        if budget.calls is not None:
            at.check(made <= budget.calls, BUDGETS, "calls", made, f"at most {budget.calls}")
        last = max((call.began for call in self._answers), default=0.0)
        earlier = [call for call in self._answers if call.ended < last - _CLOCK_SLACK]
        spent = {"tokens": float(sum(call.prompt + call.completion for call in earlier)),
                 "usd": float(sum(Fraction(call.usd) for call in earlier))}  # fmt: skip
        for name, limit in (("tokens", budget.tokens), ("usd", budget.usd)):
            if limit is not None:
                below = f"below {limit} when the last call began"
                at.check(not earlier or spent[name] < limit, BUDGETS, name, spent[name], below)


def _time(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def _own_tokens(call: LlmCall) -> tuple[int, int]:
    """Prompt and completion tokens that a call adds to its job, those of discarded answers included."""
    if call.refused or call.reused_from is not None:
        return 0, 0
    prompt, completion = call.prompt_tokens, call.completion_tokens
    for discarded in call.tries:
        prompt, completion = prompt + discarded.prompt_tokens, completion + discarded.completion_tokens
    return prompt, completion


def check_usage(meta: JobMeta, calls: Calls, at: Findings) -> None:
    """Compare the sums in the record with those over the cassette.

    Calls that ended after their job can be in the cassette and not in the record. A warning says how many these are
    at most, so that the record can lack no more than the most expensive late calls.
    """
    if meta.failure is not None and meta.failure.kind == "damaged_cassette":
        at.unknown(USAGE, "a cassette was damaged when its job began")
        return
    at.checked(USAGE, len(Usage.model_fields))
    if calls.own_tokens is not None:
        at.equal(USAGE, "tokens", [calls.usage.prompt_tokens, calls.usage.completion_tokens], calls.own_tokens)
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


def check_services(folder: Folder, at: Findings, calls: Calls) -> None:
    """Check the requests of a job to services of the host, and the model calls of these services."""
    lines: list[ServiceRecord] = []
    for number, line in JsonLines(folder, at, partial(parse_model, ServiceRecord), schema="service_call"):
        key = f"line {number}"
        at.equal(SERVICES, f"{key}: n", line.n, number)
        if line.request:
            expected = hashlib.sha256(jsonio.canonical([line.service, line.request])).hexdigest()
            at.equal(SERVICES, f"{key}: request_hash", line.request_hash, expected)
        if line.reused_from is not None:
            source = lines[line.reused_from - 1] if 0 < line.reused_from <= len(lines) else None
            if source is None or source.request_hash != line.request_hash or source.phase != line.phase:
                at.wrong(SERVICES, f"{key}: reused_from", line.reused_from, "a line with the same request and phase")
            elif source.answer != line.answer:
                at.wrong(SERVICES, f"{key}: answer", "another answer", f"that of line {source.n}")
        elif line.usage and calls.whole:
            made = calls.of_services.get((line.attempt, f"{line.request_id}-{line.service}"), (0, 0, 0))
            for name, value in zip(("llm_calls", "prompt_tokens", "completion_tokens"), made, strict=True):
                at.equal(SERVICES, f"{key}: usage.{name}", line.usage.get(name), value)
        lines.append(line)
