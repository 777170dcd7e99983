"""The cassette: every answered call of a job, so that none is paid twice and a run can be replayed. Calls that the
provider gave no answer to are in it too, as evidence.

A line is found in three ways:

* by attempt and request id, for a request that was resent over a new connection;
* by slot and request hash, for the same place of the search in a later attempt, or a client's own retry;
* by request hash and how often this attempt has sent the request, for clients that cannot send slots. Equal requests
  are exchangeable, so the k-th equal request of a later attempt gets the k-th recorded answer.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from trace_bench.artifacts.calls import LlmCall
from trace_bench.artifacts.jsonio import explain
from trace_bench.artifacts.usage import NO_ANSWER
from trace_bench.artifacts.writers import Journal, Place
from trace_bench.errors import HarnessError

MAX_REFUSALS = 1000
"""Refusals that a cassette keeps: a replay needs them, but a sandbox may send any number of calls."""


def parse_line(path: Path, number: int, line: object) -> LlmCall:
    """Line `number` of the cassette at `path`.

    Raises:
        HarnessError: it is damaged, or out of order.
    """
    try:
        call = LlmCall.model_validate(line)
    except ValidationError as error:
        raise HarnessError(f"{path}, line {number}: {explain(error)}") from None
    if call.n != number or (call.reused_from or 0) >= number:
        raise HarnessError(f"{path}, line {number}: the lines are not in order; restore the file")
    return call


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class Cassette:
    """``llm.jsonl`` of one job, opened by the one controller that runs it. Thread-safe.

    Bodies stay on the disk until they are read; only keys are held in memory.
    """

    def __init__(self, path: Path, *, durable: bool = False) -> None:
        self._journal = Journal(path, durable=durable)
        self._lock = threading.Lock()
        self._places: list[Place] = []
        self._by_id: dict[tuple[int, str], int] = {}
        self._by_slot: dict[tuple[str, str], int] = {}
        self._unslotted: dict[str, list[int]] = defaultdict(list)
        self._repeated: Counter[tuple[int, str]] = Counter()
        self._unanswered: Counter[tuple[int, str, str]] = Counter()
        self._replayed: dict[int, int] = {}
        self.restored: tuple[LlmCall, ...] = self._restore(path)

    @property
    def path(self) -> Path:
        return self._journal.path

    @property
    def size(self) -> int:
        """Bytes of all lines."""
        with self._lock:
            return self._places[-1].offset + self._places[-1].size if self._places else 0

    def resent(self, attempt: int, request_id: str) -> LlmCall | None:
        """The line that answered this very request."""
        with self._lock:
            n = self._by_id.get((attempt, request_id))
        return None if n is None else self.read(n)

    def at_slot(self, slot: str, request_hash: str) -> int | None:
        """The line that answered the same request at the same place of the search."""
        with self._lock:
            return self._by_slot.get((slot, request_hash))

    def take(self, attempt: int, request_hash: str) -> tuple[int, int | None]:
        """How often this attempt has sent the request before, without a slot, and the recorded answer that is next."""
        with self._lock:
            k = self._repeated[attempt, request_hash]
            self._repeated[attempt, request_hash] += 1
            recorded = self._unslotted[request_hash]
            return k, recorded[k] if k < len(recorded) else None

    def unanswered(self, attempt: int, slot: str, request_hash: str) -> int:
        """How often this attempt has sent the request at this slot and got no answer that is reused."""
        with self._lock:
            return self._unanswered[attempt, slot, request_hash]

    def replayed_as(self, recorded: int | None) -> int | None:
        """The line that is of line `recorded` of a recorded cassette."""
        with self._lock:
            return None if recorded is None else self._replayed.get(recorded)

    @property
    def replayed(self) -> frozenset[int]:
        """The lines of the recorded cassette that lines of this one are of."""
        with self._lock:
            return frozenset(self._replayed)

    def read(self, n: int) -> LlmCall:
        """Line `n`, or the line that it was reused from."""
        call = LlmCall.model_validate(self._journal.read(self._places[n - 1]))
        return call if call.reused_from is None else self.read(call.reused_from)

    def add(self, fields: Mapping[str, Any]) -> LlmCall:
        """Append a line with `fields`, which gets the next number, and the time if `fields` have none.

        Raises:
            OSError: the disk does not take it. It is then in no file, and its answer may not be used.
        """
        with self._lock:
            call = LlmCall(**{"t": _now(), **fields, "n": len(self._places) + 1})
            try:
                place = self._journal.append(call)
            except OSError as error:
                why = f"{error.strerror or error}, so an LLM answer could not be recorded, and was not used"
                raise OSError(error.errno, why, str(self._journal.path)) from None
            self._places.append(place)
            self._index(call)
            return call

    def close(self) -> None:
        self._journal.close()

    def _restore(self, path: Path) -> tuple[LlmCall, ...]:
        found, calls = self._journal.found, []
        for number, (line, place) in enumerate(zip(found.lines, found.places, strict=True), start=1):
            call = parse_line(path, number, line)
            self._places.append(place)
            self._index(call)
            if call.slot is None and not call.unasked:
                self._repeated[call.attempt, call.request_hash] += 1
            calls.append(call.model_copy(update={"request": None, "response": None}))
        self._journal.forget()
        return tuple(calls)

    def _index(self, call: LlmCall) -> None:
        if call.replayed_from is not None:
            self._replayed.setdefault(call.replayed_from, call.n)
        if call.unasked:
            return
        if call.status == NO_ANSWER:
            return  # no answer at all: evidence of the tries alone
        self._by_id[call.attempt, call.request_id] = call.n
        if call.slot is not None and call.status != 200:
            self._unanswered[call.attempt, call.slot, call.request_hash] += 1
        if call.reused_from is not None or call.status != 200:
            return  # a refusal is no answer to reuse in a later attempt
        if call.slot is None:
            self._unslotted[call.request_hash].append(call.n)
        else:
            self._by_slot.setdefault((call.slot, call.request_hash), call.n)
