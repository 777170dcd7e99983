"""The provider of a replay: it asks nobody, and answers each job as the same job was answered when it was recorded.

A call is found by its slot and canonical request; from a client that cannot send slots, by the request alone, in the
order in which it was asked: equal requests are exchangeable. What the recording does not hold ends the job.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.records import LlmCall
from trace_bench.errors import HarnessError
from trace_bench.gateway.asking import MAX_REFUSALS
from trace_bench.gateway.base import NotRecorded, ProviderError, ProviderReply, ProviderRequest, Refusal
from trace_bench.gateway.differences import distance, first_difference, whole_difference
from trace_bench.gateway.tape import Entry, Tape


@dataclass(frozen=True)
class Recorded:
    """The recorded calls of one job.

    Attributes:
        stopped: its training was ended before it had come to its end.
        phase: the phase whose calls alone are made again; None for all.
    """

    cassette: Path
    stopped: bool = False
    phase: str | None = None


class ReplayProvider:
    """Answers from cassettes.

    Args:
        recorded: what there is of a job, by its id.
        keep: jobs whose index is held in memory at a time.
    """

    name = "replay"
    paid = False
    wants_hints = True
    quick = True

    def __init__(self, recorded: Callable[[str], Recorded], *, keep: int = 16) -> None:
        self._recorded = recorded
        self._keep = keep
        self._tapes: OrderedDict[str, Tape] = OrderedDict()
        self._lock = threading.Lock()

    def complete(self, request: ProviderRequest) -> ProviderReply:
        """The recorded answer, with its tokens, cost and latency.

        Raises:
            Refusal: the recorded job was refused here, or its training had been ended.
            NotRecorded: it asked nothing of the kind.
            ProviderError: the cassette was taken away or damaged in the meantime.
        """
        recorded = self._recorded(request.job_id)
        try:
            tape = self._tape(request.job_id, recorded)
            entry = self._find(request, recorded, tape)
            line = tape.read(entry)
        except HarnessError as error:
            raise ProviderError(str(error)) from error
        body = line.response if isinstance(line.response, dict) else {}
        if line.refused:
            raise _refusal(line)
        return ProviderReply(
            status=line.status,
            body=body,
            prompt_tokens=line.prompt_tokens,
            completion_tokens=line.completion_tokens,
            cost_usd=line.cost_usd,
            inert=line.inert,
            cached_tokens=line.cached_tokens,
            reasoning_tokens=line.reasoning_tokens,
            estimated=line.estimated,
            cached=line.cached,
            sent=line.sent,
            tries=line.tries,
            latency=line.latency,
            replayed_from=line.n,
        )

    def _find(self, request: ProviderRequest, recorded: Recorded, tape: Tape) -> Entry:
        slot = request.hints.slot if request.hints else None
        entries = tape.at((slot, request.request_hash))
        if request.draw < len(entries):
            return entries[request.draw]
        if entries and (slot is not None or entries[-1].refused):
            return entries[-1]
        if slot is not None and slot not in tape.slots and recorded.stopped:
            if tape.refusals >= MAX_REFUSALS:
                raise Refusal(429, "budget_exhausted", "the job's budget was used up here when it was recorded")
            raise Refusal(429, "training_stopped", "training was ended here when it was recorded")
        raise _not_recorded(request, slot, tape, len(entries))

    def _tape(self, job_id: str, recorded: Recorded) -> Tape:
        with self._lock:
            tape = self._tapes.pop(job_id, None) or Tape(recorded.cassette, recorded.phase)
            self._tapes[job_id] = tape
            while len(self._tapes) > self._keep:
                self._tapes.popitem(last=False)
            return tape


def unasked(recorded: Recorded, replayed: frozenset[int]) -> list[LlmCall]:
    """Recorded answers that count although no request was for them: of attempts that came to nothing, and, where
    training was ended, of calls that were under way then. Nobody has read those.

    Args:
        replayed: the lines that there were requests for.

    Raises:
        HarnessError: as `Tape`.
    """
    tape = Tape(recorded.cassette)
    entries = [*tape.left_over(), *(tape.calls() if recorded.stopped else ())]
    return [tape.read(entry) for entry in entries if entry.n not in replayed]


def _refusal(line: LlmCall) -> Refusal:
    body = line.response if isinstance(line.response, dict) else {}
    error = body.get("error")
    told = error if isinstance(error, dict) else {}
    param = told.get("param")
    return Refusal(
        line.status,
        str(told.get("code", "refused")),
        str(told.get("message", "")),
        param=param if isinstance(param, str) else None,
    )


def _not_recorded(request: ProviderRequest, slot: str | None, tape: Tape, times: int) -> NotRecorded:
    """What is said of a request that `tape` does not hold; the nearest one that it holds is looked for."""
    place = f"the request at slot {slot}" if slot is not None else "a request without a slot"
    what = f"{place} (hash {request.request_hash[:12]})"
    if times:
        often = "once" if times == 1 else f"{times} times"
        message = f"{what} was recorded {often} in {tape.path}, and is asked once more"
        return NotRecorded(message, f"{message}\n\n{jsonio.dumps(dict(request.body), indent=2)}\n")
    nearest, near = _nearest(request, slot, tape)
    if nearest is None or nearest.request is None:
        message = f"{what} is not recorded in {tape.path}, which holds no calls"
        return NotRecorded(message, f"{message}\n\n{jsonio.dumps(dict(request.body), indent=2)}\n")
    body = nearest.request.body
    how = first_difference(dict(request.body), body)
    if how == "they are equal":
        how = f"it asked {nearest.request.path}" if nearest.request.path != request.path else "equal, at another slot"
    message = f"{what} is not recorded in {tape.path}; nearest is line {nearest.n} ({near}): {how}"
    return NotRecorded(message, f"{message}\n\n{whole_difference(dict(request.body), body)}")


def _nearest(request: ProviderRequest, slot: str | None, tape: Tape) -> tuple[LlmCall | None, str]:
    same = [entry for entry in tape.slots.get(slot or "", ()) if not entry.refused]
    best: LlmCall | None = None
    least = -1
    for entry in same or tape.calls():
        line = tape.read(entry)
        if line.request is None:
            continue
        apart = distance(dict(request.body), line.request.body)
        if best is None or apart < least:
            best, least = line, apart
    if best is None:
        return None, ""
    return best, "same slot" if same else f"slot {best.slot}" if best.slot is not None else "without a slot"
