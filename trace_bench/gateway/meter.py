"""Counts what jobs spend, and refuses what the budget of a job or of its run does not hold.

All that is counted is counted from lines of the cassette, so that a job whose cassette is read again has the very same
numbers, and no order of calls changes a sum.

**What a budget promises.** A call is let through while what has been spent, and what calls under way are expected to
spend, is below every limit. So calls are exact. Tokens and dollars of an answer are known only afterwards: the total
may pass its limit by the last answer, and by what the answers that were under way with it exceeded their estimates. A
call that only the estimates of others keep out waits until one of them ends; it is refused if nothing is left then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from trace_bench.artifacts.contract import Budget
from trace_bench.artifacts.records import LlmCall, Usage
from trace_bench.artifacts.usage import Tally, is_answer
from trace_bench.gateway.base import NobodyWaits, Refusal

PHASES = ("build", "train", "score")
OTHER = "other"
"""Where calls of a phase that is none of these are counted: its name came from a sandbox."""
UNITS = ("calls", "tokens", "usd")


class Limits(Protocol):
    """Limits of a budget; None is none. `Budget` and the config's ``budget.run`` have them."""

    @property
    def calls(self) -> int | None: ...
    @property
    def tokens(self) -> int | None: ...
    @property
    def usd(self) -> float | None: ...


@dataclass(frozen=True)
class Amount:
    """What calls spend, or are expected to. Dollars are exact."""

    calls: int = 0
    tokens: int = 0
    usd: Fraction = Fraction(0)

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.calls + other.calls, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.calls - other.calls, self.tokens - other.tokens, self.usd - other.usd)


NOTHING = Amount()


class Account:
    """What one budget has left. Thread-safe.

    Args:
        whose: ``job`` or ``run``; for sentences.
    """

    def __init__(self, whose: str, limits: Limits) -> None:
        self._whose = whose
        self._limits = [(unit, limit) for unit in UNITS if (limit := getattr(limits, unit)) is not None]
        self.wants_estimates = any(unit != "calls" for unit, _ in self._limits)
        """Whether what a call may come to matters to it."""
        self._changed = threading.Condition()
        self._spent = NOTHING
        self._held = NOTHING

    def restore(self, spent: Amount) -> None:
        """Count what was spent before."""
        with self._changed:
            self._spent += spent

    def hold(self, expected: Amount, left: Callable[[], bool]) -> None:
        """Set aside what a call is expected to spend. Waits while only other calls under way are in its way.

        Args:
            left: whether the session of the call has ended; `wake` has it looked at.

        Raises:
            Refusal: 429 ``budget_exhausted``: a limit is reached.
            NobodyWaits: the session has ended, whether there is room now or not.
        """
        with self._changed:
            while True:
                if reached := self._is_met(self._spent):
                    raise Refusal(429, "budget_exhausted", f"{self._sentence(*reached)}; training ends here")
                if left():
                    raise NobodyWaits("the session ended before the call was made")
                if not self._is_met(self._spent + self._held):
                    break
                self._changed.wait()
            self._held += expected

    def wake(self) -> None:
        """Have those that wait look whether they still want to."""
        with self._changed:
            self._changed.notify_all()

    def settle(self, expected: Amount, spent: Amount) -> None:
        """A call is over: `expected` was set aside for it, `spent` is what it came to."""
        with self._changed:
            self._held -= expected
            self._spent += spent
            self._changed.notify_all()

    def used_up(self) -> str | None:
        """The sentence that says which limit is reached, if one is."""
        with self._changed:
            reached = self._is_met(self._spent)
        return self._sentence(*reached) if reached else None

    def price(self) -> Fraction:
        """US dollars per token so far."""
        with self._changed:
            return self._spent.usd / self._spent.tokens if self._spent.tokens else Fraction(0)

    def _is_met(self, amount: Amount) -> tuple[str, float] | None:
        return next(((unit, limit) for unit, limit in self._limits if getattr(amount, unit) >= limit), None)

    def _sentence(self, unit: str, limit: float) -> str:
        return (
            f"the {self._whose}'s budget of {limit:g} {unit} is used up"
            if unit == "usd"
            else (f"the {self._whose}'s budget of {limit} {unit} is used up")
        )


class RunMeter:
    """The budget of a whole run, shared by all its jobs; what finished jobs have spent counts too."""

    def __init__(self, limits: Limits) -> None:
        self.account = Account("run", limits)
        self._known: set[str] = set()
        self._lock = threading.Lock()

    def restore(self, job_id: str, usage: Usage) -> None:
        """Count what `job_id` has spent so far; once for each job, whatever is said later."""
        with self._lock:
            if job_id in self._known:
                return
            self._known.add(job_id)
        self.account.restore(amount_of(usage))

    def used_up(self) -> str | None:
        """The sentence that says which limit is reached, if one is."""
        return self.account.used_up()


@dataclass(frozen=True)
class Hold:
    """What was set aside for one call under way."""

    expected: Amount


class Meter:
    """What one job spends. Thread-safe.

    Args:
        before: what the job's cassette already holds.
        run: the budget that it shares with all jobs of its run.
    """

    def __init__(
        self, budget: Budget, *, before: Iterable[LlmCall] = (), run: RunMeter | None = None, job_id: str = ""
    ) -> None:
        self._account = Account("job", budget)
        self._run = run
        self._lock = threading.Lock()
        self._tallies: dict[str, Tally] = {}
        self.left = False
        """Nobody wants answers any more."""
        self.cut_by_run = False
        """The run's budget kept a call of this job out."""
        for call in before:
            self._tally(call.phase).add(call)
            self._account.restore(spent_by(call))
        if run is not None:
            run.restore(job_id, self.usage())

    @property
    def wants_estimates(self) -> bool:
        """Whether what a call may come to matters to a budget."""
        return self._account.wants_estimates or (self._run is not None and self._run.account.wants_estimates)

    def hold(self, phase: str, tokens: int = 0, usd: float | None = None) -> Hold:
        """Set aside one call of about `tokens` tokens and `usd` dollars; None is the price of the tokens so far.

        Raises:
            Refusal: 429 ``budget_exhausted``, of the job or of its run.
            NobodyWaits: `leave` was called before the call had its place.
        """
        price = self._account.price() * tokens if usd is None else Fraction(usd)
        expected = Amount(1, tokens, price)
        try:
            self._account.hold(expected, lambda: self.left)
        except Refusal:
            self.refuse(phase)
            raise
        if self._run is not None:
            try:
                self._run.account.hold(expected, lambda: self.left)
            except BaseException as error:
                self._account.settle(expected, NOTHING)
                if isinstance(error, Refusal):
                    self.cut_by_run = True
                    self.refuse(phase)
                raise
        return Hold(expected)

    def leave(self) -> None:
        """Let no further call begin: the session has ended. Calls under way go on."""
        self.left = True
        self._account.wake()
        if self._run is not None:
            self._run.account.wake()

    def settle(self, hold: Hold, call: LlmCall) -> None:
        """The call is over, and `call` is its line in the cassette."""
        with self._lock:
            self._tally(call.phase).add(call)
        self._settle(hold, spent_by(call))

    def release(self, hold: Hold) -> None:
        """The call is over, and no line came of it."""
        self._settle(hold, NOTHING)

    def note(self, call: LlmCall) -> None:
        """Count a line that nothing was set aside for: an answer from the cassette, or a call without an answer."""
        with self._lock:
            self._tally(call.phase).add(call)

    def recover(self, call: LlmCall) -> None:
        """Count a line of a call that an earlier process has asked."""
        self.note(call)
        self._account.restore(spent_by(call))
        if self._run is not None:
            self._run.account.restore(spent_by(call))

    def usage(self, phase: str | None = None) -> Usage:
        """All that was counted, or that of one phase."""
        with self._lock:
            if phase is not None:
                return self._tallies.get(phase, Tally()).usage()
            whole = Tally()
            for tally in self._tallies.values():
                whole.join(tally)
            return whole.usage()

    def by_phase(self) -> dict[str, Usage]:
        """The phases that asked for anything, in the order of a job."""
        with self._lock:
            return {phase: self._tallies[phase].usage() for phase in (*PHASES, OTHER) if phase in self._tallies}

    def _settle(self, hold: Hold, spent: Amount) -> None:
        self._account.settle(hold.expected, spent)
        if self._run is not None:
            self._run.account.settle(hold.expected, spent)

    def refuse(self, phase: str) -> None:
        """Count a call that met the end of a budget: its own, or, in a replay, that of the recorded run."""
        with self._lock:
            self._tally(phase).refused += 1

    def _tally(self, phase: str) -> Tally:
        return self._tallies.setdefault(phase if phase in PHASES else OTHER, Tally())


def amount_of(usage: Usage) -> Amount:
    """What `usage` counts against a budget."""
    return Amount(usage.calls, usage.total_tokens, Fraction(usage.cost_usd))


def spent_by(call: LlmCall) -> Amount:
    """What a line of a cassette counts against a budget: nothing if it was answered before."""
    if call.reused_from is not None:
        return NOTHING
    return Amount(int(is_answer(call)), call.prompt_tokens + call.completion_tokens, Fraction(call.cost_usd))
