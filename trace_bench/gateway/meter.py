"""Counts what jobs spend, and refuses calls that exceed the budget of a job or of its run.

All counts are sums over lines of the cassette, so that a job whose cassette is read again has the very same numbers,
and no order of calls changes a sum.

**What a budget counts.** That of a job counts its search; official scoring, which is the same for every search and must
not end with it, counts in the budget of the run alone.

**What a budget guarantees.** A call begins while the amount spent, plus the amount that calls under way are expected to
spend, is below every limit. So the number of calls is exact. Tokens and dollars of an answer are known only afterwards:
the total may exceed its limit by the last answer, and by the errors of the estimates of calls under way with it. A
call that is held back only by the estimates of others waits until one of them ends, and is refused if the limit is
reached then.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import Protocol

from trace_bench.artifacts.calls import SCORE_PHASE, LlmCall, Usage
from trace_bench.artifacts.contract import Budget
from trace_bench.artifacts.usage import Tally, dollars_of, is_counted, tokens_of
from trace_bench.gateway.base import Refusal, SessionEnded

PHASES = ("build", "train", SCORE_PHASE)
OTHER = "other"
"""Counts calls of all other phases: their names came from a sandbox."""
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
    """What calls spend, or are expected to spend. Dollars are exact."""

    calls: int = 0
    tokens: int = 0
    usd: Fraction = Fraction(0)

    def __add__(self, other: Amount) -> Amount:
        return Amount(self.calls + other.calls, self.tokens + other.tokens, self.usd + other.usd)

    def __sub__(self, other: Amount) -> Amount:
        return Amount(self.calls - other.calls, self.tokens - other.tokens, self.usd - other.usd)


NOTHING = Amount()


@dataclass(frozen=True)
class Hold:
    """What was set aside for a call, and the budgets that it counts in."""

    accounts: tuple[Account, ...]
    expected: Amount

    def settle(self, spent: Amount) -> None:
        """End the call, which spent `spent`."""
        for account in self.accounts:
            account.settle(self.expected, spent)


class Account:
    """The state of one budget. Thread-safe.

    Args:
        owner: ``job`` or ``run``; for messages.
    """

    def __init__(self, owner: str, limits: Limits) -> None:
        self._owner = owner
        self._limits = [(unit, limit) for unit in UNITS if (limit := getattr(limits, unit)) is not None]
        self.needs_estimates = any(unit != "calls" for unit, _ in self._limits)
        """Whether the budget needs estimates of calls."""
        self._changed = threading.Condition()
        self._spent = NOTHING
        self._held = NOTHING

    def hold(self, expected: Amount, stopped: Callable[[], bool]) -> None:
        """Set aside what a call is expected to spend. Waits while only other calls under way hold it back.

        Args:
            stopped: whether the session of the call has ended; checked again on `wake`.

        Raises:
            Refusal: 429 ``budget_exhausted``: a limit is reached.
            SessionEnded: the session has ended, whether the budget has room or not.
        """
        with self._changed:
            while True:
                if reached := self._reached(self._spent):
                    raise Refusal(429, "budget_exhausted", f"{reached}; training ends here")
                if stopped():
                    raise SessionEnded("the session ended before the call was made")
                if not self._reached(self._spent + self._held):
                    break
                self._changed.wait()
            self._held += expected

    def wake(self) -> None:
        """Have waiting calls check whether their session has ended."""
        with self._changed:
            self._changed.notify_all()

    def settle(self, expected: Amount, spent: Amount) -> None:
        """End a call that `expected` was set aside for, and that spent `spent`."""
        with self._changed:
            self._held -= expected
            self._spent += spent
            self._changed.notify_all()

    def used_up(self) -> str | None:
        """Which limit is reached, as a sentence; None if none is."""
        with self._changed:
            return self._reached(self._spent)

    def price(self) -> Fraction:
        """US dollars per token so far."""
        with self._changed:
            return self._spent.usd / self._spent.tokens if self._spent.tokens else Fraction(0)

    def _reached(self, amount: Amount) -> str | None:
        for unit, limit in self._limits:
            if getattr(amount, unit) >= limit:
                shown = f"{limit:g}" if unit == "usd" else str(limit)
                return f"the {self._owner}'s budget of {shown} {unit} is used up"
        return None


class RunMeter(Account):
    """The budget of a whole run, shared by all its jobs. The amounts of finished jobs count too."""

    def __init__(self, limits: Limits) -> None:
        super().__init__("run", limits)
        self._known: set[str] = set()

    def restore(self, job_id: str, usage: Usage) -> None:
        """Count what `job_id` has spent so far. Only the first call for a job counts."""
        with self._changed:
            new = job_id not in self._known
            self._known.add(job_id)
        if new:
            self.settle(NOTHING, Amount(usage.calls, usage.total_tokens, Fraction(usage.cost_usd)))


class Meter:
    """Counts what one job spends. Thread-safe.

    Args:
        before: the lines that the job's cassette already holds.
        run: the budget that it shares with all jobs of its run.
    """

    def __init__(
        self, budget: Budget, *, before: Iterable[LlmCall] = (), run: RunMeter | None = None, job_id: str = ""
    ) -> None:
        self._job, self._run = Account("job", budget), run
        self._lock = threading.Lock()
        self._tallies: dict[str, Tally] = {}
        self.stopped = False
        """The session has ended, so that no call may begin."""
        self.cut_by_run = False
        """The run's budget refused a call of this job."""
        self.needs_estimates = any(account.needs_estimates for account in self._accounts())
        """Whether a budget needs estimates of calls."""
        for call in before:
            self.note(call)
            if call.phase != SCORE_PHASE:
                self._job.settle(NOTHING, spent_by(call))
        if run is not None:
            run.restore(job_id, self.usage())

    def hold(self, phase: str, tokens: int = 0, usd: float | None = None) -> Hold:
        """Set aside one call of about `tokens` tokens and `usd` dollars (None: the mean price so far).

        Raises:
            Refusal: 429 ``budget_exhausted``, of the job or of its run.
            SessionEnded: `stop` was called before the call could begin.
        """
        price = self._job.price() * tokens if usd is None else Fraction(usd)
        expected = Amount(1, tokens, price)
        held: tuple[Account, ...] = ()
        for account in self._accounts(phase):
            try:
                account.hold(expected, lambda: self.stopped)
            except BaseException as error:
                Hold(held, expected).settle(NOTHING)
                if isinstance(error, Refusal):
                    self.cut_by_run = self.cut_by_run or account is self._run
                    self.refuse(phase)
                raise
            held = (*held, account)
        return Hold(held, expected)

    def stop(self) -> None:
        """Let no further call begin: the session has ended. Calls under way go on."""
        self.stopped = True
        for account in self._accounts():
            account.wake()

    def settle(self, hold: Hold, call: LlmCall) -> None:
        """End a call that `hold` was set aside for; `call` is its line in the cassette."""
        self.note(call)
        hold.settle(spent_by(call))

    def note(self, call: LlmCall) -> None:
        """Count a line that spent nothing: an answer from the cassette."""
        with self._lock:
            self._tally(call.phase).add(call)

    def recover(self, call: LlmCall) -> None:
        """Count a line of a call that an earlier process has sent, or that has no answer and may have been paid."""
        self.settle(Hold(self._accounts(call.phase), NOTHING), call)

    def refuse(self, phase: str) -> None:
        """Count a call that was refused by a budget: its own, or, in a replay, that of the recorded run."""
        with self._lock:
            self._tally(phase).refused += 1

    def usage(self, phase: str | None = None) -> Usage:
        """What the job, or one phase of it, has spent."""
        with self._lock:
            if phase is not None:
                return self._tallies.get(phase, Tally()).usage()
            whole = Tally()
            for tally in self._tallies.values():
                whole.join(tally)
            return whole.usage()

    def by_phase(self) -> dict[str, Usage]:
        """What each phase that made a call has spent, in the order of a job."""
        with self._lock:
            return {phase: self._tallies[phase].usage() for phase in (*PHASES, OTHER) if phase in self._tallies}

    def _accounts(self, phase: str = "") -> tuple[Account, ...]:
        """The budgets that calls of `phase` count in."""
        job = () if phase == SCORE_PHASE else (self._job,)
        return job if self._run is None else (*job, self._run)

    def _tally(self, phase: str) -> Tally:
        return self._tallies.setdefault(phase if phase in PHASES else OTHER, Tally())


def spent_by(call: LlmCall) -> Amount:
    """The amount of a line of a cassette for a budget: nothing if it was answered before."""
    if call.reused_from is not None:
        return NOTHING
    return Amount(int(is_counted(call)), sum(tokens_of(call)), dollars_of(call))
