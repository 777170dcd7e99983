"""The provider of a replay: it answers each job as the same job was answered when it was recorded.

A call is found by its slot and canonical request. A client that cannot send slots gets the recorded answers to its
request in their order, since equal requests are exchangeable. A request that is not recorded ends the job.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.calls import LlmCall
from trace_bench.errors import HarnessError
from trace_bench.gateway.base import NotRecorded, ProviderError, ProviderReply, ProviderRequest, Refusal
from trace_bench.gateway.cassettes import MAX_REFUSALS
from trace_bench.gateway.differences import distance, first_difference, whole_difference
from trace_bench.gateway.recorded import Entry, RecordedCalls


@dataclass(frozen=True)
class RecordedJob:
    """Where the recorded calls of a job are, and how they are replayed.

    Attributes:
        stopped: its training was ended before it had finished.
        phase: replay the calls of this phase alone; None for all.
    """

    cassette: Path
    stopped: bool = False
    phase: str | None = None


class ReplayProvider:
    """Answers from cassettes.

    Args:
        recorded: returns the recording of a job, by its id.
        keep: number of jobs whose index is held in memory at a time.
    """

    name = "replay"
    paid = False
    uses_hints = True
    quick = True

    def __init__(self, recorded: Callable[[str], RecordedJob], *, keep: int = 16) -> None:
        self._recorded = recorded
        self._keep = keep
        self._indexes: OrderedDict[str, RecordedCalls] = OrderedDict()
        self._lock = threading.Lock()

    def complete(self, request: ProviderRequest) -> ProviderReply:
        """The recorded answer, with its tokens, cost and latency.

        Raises:
            Refusal: the recorded job was refused here, or its training had been ended.
            NotRecorded: the recorded job did not send this request.
            ProviderError: the cassette was removed or damaged in the meantime.
        """
        recorded = self._recorded(request.job_id)
        try:
            calls = self._index(request.job_id, recorded)
            line = calls.read(self._find(request, recorded, calls))
        except HarnessError as error:
            raise ProviderError(str(error)) from error
        if line.refused:
            raise _refusal(line)
        return ProviderReply.from_line(line)

    def _find(self, request: ProviderRequest, recorded: RecordedJob, calls: RecordedCalls) -> Entry:
        slot = request.hints.slot if request.hints else None
        entries = calls.at((slot, request.request_hash))
        if request.draw < len(entries):
            return entries[request.draw]
        if entries and (slot is not None or entries[-1].refused):
            return entries[-1]
        if slot is not None and slot not in calls.slots and recorded.stopped:
            if calls.refusals >= MAX_REFUSALS:
                raise Refusal(429, "budget_exhausted", "the job's budget was used up here when it was recorded")
            raise Refusal(429, "training_stopped", "training was ended here when it was recorded")
        raise _not_recorded(request, slot, calls, len(entries))

    def _index(self, job_id: str, recorded: RecordedJob) -> RecordedCalls:
        with self._lock:
            calls = self._indexes.pop(job_id, None) or RecordedCalls(recorded.cassette, recorded.phase)
            self._indexes[job_id] = calls
            while len(self._indexes) > self._keep:
                self._indexes.popitem(last=False)
            return calls


def unasked(recorded: RecordedJob, replayed: frozenset[int]) -> list[LlmCall]:
    """Recorded answers that count although no request of the replay was for them: those of failed attempts, and, where
    training was ended, those of calls that were under way at that time.

    Args:
        replayed: the lines that there were requests for.

    Raises:
        HarnessError: as `RecordedCalls`.
    """
    calls = RecordedCalls(recorded.cassette)
    entries = [*calls.of_failed_attempts(), *(calls.answers() if recorded.stopped else ())]
    return [calls.read(entry) for entry in entries if entry.n not in replayed]


def _refusal(line: LlmCall) -> Refusal:
    error = line.response.get("error") if isinstance(line.response, dict) else None
    given = error if isinstance(error, dict) else {}
    code, message, param = given.get("code", "refused"), given.get("message", ""), given.get("param")
    return Refusal(line.status, str(code), str(message), param=param if isinstance(param, str) else None)


def _not_recorded(request: ProviderRequest, slot: str | None, calls: RecordedCalls, times: int) -> NotRecorded:
    """The error about a request that `calls` do not hold; it names the nearest one that they hold."""
    place = f"the request at slot {slot}" if slot is not None else "a request without a slot"
    what = f"{place} (hash {request.request_hash[:12]})"
    asked = dict(request.body)
    nearest, near = (None, "") if times else _nearest(request, slot, calls)
    if nearest is None or nearest.request is None:
        message = f"{what} is not recorded in {calls.path}, which holds no calls"
        if times:
            often = "once" if times == 1 else f"{times} times"
            message = f"{what} was recorded {often} in {calls.path}, and is asked once more"
        return NotRecorded(message, f"{message}\n\n{jsonio.dumps(asked, indent=2)}\n")
    how = first_difference(asked, nearest.request.body)
    if how == "they are equal":
        how = f"it asked {nearest.request.path}" if nearest.request.path != request.path else "equal, at another slot"
    message = f"{what} is not recorded in {calls.path}; nearest is line {nearest.n} ({near}): {how}"
    return NotRecorded(message, f"{message}\n\n{whole_difference(asked, nearest.request.body)}")


def _nearest(request: ProviderRequest, slot: str | None, calls: RecordedCalls) -> tuple[LlmCall | None, str]:
    """The recorded call that differs least from `request`, and where it is."""
    same = [entry for entry in calls.slots.get(slot or "", ()) if not entry.refused]
    best: LlmCall | None = None
    least = -1
    for entry in same or calls.answers():
        line = calls.read(entry)
        if line.request is None:
            continue
        apart = distance(dict(request.body), line.request.body)
        if best is None or apart < least:
            best, least = line, apart
    if best is None:
        return None, ""
    return best, "same slot" if same else f"slot {best.slot}" if best.slot is not None else "without a slot"
