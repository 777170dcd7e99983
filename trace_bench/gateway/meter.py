"""Counts what a job spends and refuses what its budget does not hold."""

from __future__ import annotations

import threading

from trace_bench.artifacts.contract import Budget
from trace_bench.artifacts.records import LlmCall, Usage
from trace_bench.gateway.base import ProviderReply, Refusal
from trace_bench.gateway.cassettes import PROVIDER_FAILURE


class Meter:
    """Thread-safe. A call is reserved before it is made, so that parallel calls cannot overrun
    ``budget.calls``.

    Tokens and cost are known only afterwards: the calls that are under way when that limit is met still
    count, so the total may pass it by what they use.
    """

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._lock = threading.Lock()
        self._reserved = 0
        self._calls = 0
        self._prompt_tokens = 0
        self._completion_tokens = 0
        self._cost_usd = 0.0
        self._tries = 0
        self._reused = 0
        self._inert = 0
        self._refused = 0

    def restore(self, call: LlmCall) -> None:
        """Count a line of the cassette that an earlier attempt or controller wrote."""
        with self._lock:
            if call.reused_from is not None:
                self._reused += 1
                return
            self._tries += len(call.tries)
            if call.status != PROVIDER_FAILURE:
                self._add(call.prompt_tokens, call.completion_tokens, call.cost_usd, call.inert)

    def reserve(self) -> None:
        """Take one call from the budget.

        Raises:
            Refusal: 429 ``budget_exhausted``.
        """
        with self._lock:
            spent = (
                ("calls", self._calls + self._reserved, self._budget.calls),
                ("tokens", self._prompt_tokens + self._completion_tokens, self._budget.tokens),
                ("usd", self._cost_usd, self._budget.usd),
            )
            for name, used, limit in spent:
                if limit is not None and used >= limit:
                    self._refused += 1
                    raise Refusal(
                        429,
                        "budget_exhausted",
                        f"the job's budget of {limit} {name} is used up; training ends here",
                    )
            self._reserved += 1

    def release(self) -> None:
        """Give a reserved call back: no answer came of it."""
        with self._lock:
            self._reserved -= 1

    def fail(self, tries: int) -> None:
        """Give a reserved call back that was asked `tries` times in vain."""
        with self._lock:
            self._reserved -= 1
            self._tries += tries

    def settle(self, reply: ProviderReply) -> None:
        """Turn a reserved call into a counted one."""
        with self._lock:
            self._reserved -= 1
            self._tries += len(reply.tries)
            self._add(reply.prompt_tokens, reply.completion_tokens, reply.cost_usd, reply.inert)

    def reuse(self) -> None:
        """Count an answer that came from the cassette."""
        with self._lock:
            self._reused += 1

    def usage(self) -> Usage:
        with self._lock:
            return Usage(
                calls=self._calls,
                tries=self._tries,
                prompt_tokens=self._prompt_tokens,
                completion_tokens=self._completion_tokens,
                cost_usd=self._cost_usd,
                reused=self._reused,
                inert=self._inert,
                refused=self._refused,
            )

    def _add(self, prompt: int, completion: int, cost: float, inert: bool) -> None:
        self._calls += 1
        self._prompt_tokens += prompt
        self._completion_tokens += completion
        self._cost_usd += cost
        self._inert += int(inert)
