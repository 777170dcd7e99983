"""Sums over the lines of a cassette: the one place that says what counts as what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from fractions import Fraction

from trace_bench.artifacts.calls import LlmCall, Usage

NO_ANSWER = 502
"""Status of a line whose call has no answer. No provider's answer is passed on with it."""


def usage_of(calls: Iterable[LlmCall]) -> Usage:
    """The usage of all lines of a cassette, in any order; dollars are the exact sum, rounded once."""
    tally = Tally()
    for call in calls:
        tally.add(call)
    return tally.usage()


def is_answer(call: LlmCall) -> bool:
    """Return True if a provider, or the response cache, answered the call."""
    return call.reused_from is None and call.status < 500 and not call.refused


def is_counted(call: LlmCall) -> bool:
    """Return True if a provider answered the call: with an answer, or with a discarded answer whose tokens it
    reported."""
    return is_answer(call) or any(made.prompt_tokens or made.completion_tokens for made in call.tries)


def tokens_of(call: LlmCall) -> tuple[int, int]:
    """Tokens of prompts and answers, discarded answers included."""
    prompt = call.prompt_tokens + sum(made.prompt_tokens for made in call.tries)
    return prompt, call.completion_tokens + sum(made.completion_tokens for made in call.tries)


def dollars_of(call: LlmCall) -> Fraction:
    """US dollars, discarded answers included."""
    return sum((Fraction(made.cost_usd) for made in call.tries), Fraction(call.cost_usd))


def is_lost(call: LlmCall) -> bool:
    """Return True if the provider's answer is lost: it may have been paid, and its tokens are an estimate."""
    return call.reused_from is None and call.status == NO_ANSWER and call.estimated


@dataclass
class Tally:
    """A sum that goes on; fields as of `Usage`."""

    calls: int = 0
    tries: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    reused: int = 0
    cached: int = 0
    inert: int = 0
    refused: int = 0
    estimated: int = 0
    cost: Fraction = field(default_factory=Fraction)

    def add(self, call: LlmCall) -> None:
        if call.reused_from is not None:
            self.reused += 1
            return
        if call.refused:
            self.refused += call.status == 429
            return
        self.tries += len(call.tries)
        prompt, completion = tokens_of(call)
        self.cost += dollars_of(call)
        self.prompt_tokens += prompt
        self.completion_tokens += completion
        self.cached_tokens += call.cached_tokens
        self.reasoning_tokens += call.reasoning_tokens
        self.estimated += call.estimated
        self.calls += is_counted(call)
        if is_answer(call):
            self.cached += call.cached
            self.inert += call.inert

    def join(self, other: Tally) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def usage(self) -> Usage:
        counts = {name: value for name, value in vars(self).items() if name != "cost"}
        return Usage(cost_usd=float(self.cost), **counts)
