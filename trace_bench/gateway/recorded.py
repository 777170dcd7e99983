"""The recorded calls of one job: its cassette, read for a replay and never written.

Only keys and places are held in memory; bodies are read from the disk when they are needed.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.calls import LlmCall
from trace_bench.artifacts.writers import Place, is_torn
from trace_bench.errors import HarnessError
from trace_bench.gateway.cassettes import parse_line
from trace_bench.gateway.requests import request_hash

Key = tuple[str | None, str]
"""Slot, or None from a client that sends none, and request hash."""


class Entry(NamedTuple):
    """One line of the cassette, or the line that it was reused from."""

    n: int
    place: Place
    status: int
    refused: bool


@dataclass(frozen=True)
class _Line:
    key: Key
    entry: Entry
    phase: str


class RecordedCalls:
    """The calls of one recorded job.

    The job's result is of its last attempt, and the lines of that attempt name what it reused of earlier ones. An
    attempt that took over a running sandbox, after its controller had died, continues the attempt before it.

    Args:
        phase: replay the calls of this phase alone; None for all.

    Attributes:
        slots: entries at each slot of the search, oldest first.

    Raises:
        HarnessError: the file is missing or damaged; the message names it, and the line.
    """

    def __init__(self, path: Path, phase: str | None = None) -> None:
        self.path = path
        self.slots: dict[str, list[Entry]] = defaultdict(list)
        self.refusals = 0
        self._by_key: dict[Key, list[Entry]] = defaultdict(list)
        self._answers: dict[int, Entry] = {}
        self._of_result: set[int] = set()
        for line in self._read_attempts().values():
            if phase not in (None, line.phase):
                continue
            self._by_key[line.key].append(line.entry)
            if line.key[0] is not None:
                self.slots[line.key[0]].append(line.entry)
            if not line.entry.refused:
                self._of_result.add(line.entry.n)

    def at(self, key: Key) -> list[Entry]:
        """What was answered to the request `key`, in the order in which it was sent."""
        return self._by_key.get(key, [])

    def read(self, entry: Entry) -> LlmCall:
        """The line with its bodies.

        Raises:
            HarnessError: the file has changed or is gone.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(entry.place.offset)
                return LlmCall.model_validate(jsonio.loads(file.read(entry.place.size)))
        except (OSError, ValueError) as error:
            raise HarnessError(f"{self.path}, line {entry.n}: it has changed while it was replayed: {error}") from None

    def answers(self) -> Iterator[Entry]:
        """Every answer of the last attempt, and no refusal, by line."""
        return (self._answers[n] for n in sorted(self._of_result))

    def of_failed_attempts(self) -> Iterator[Entry]:
        """Answers that earlier attempts paid for and the last one did not use, by line."""
        return (entry for n, entry in sorted(self._answers.items()) if n not in self._of_result)

    def _read_attempts(self) -> dict[str, _Line]:
        """The lines of the last attempt, by request id."""
        before, now = dict[str, _Line](), dict[str, _Line]()
        attempt = 0
        hashes: dict[int, str] = {}
        for call, place in read_calls(self.path):
            if call.attempt != attempt:
                before, now, attempt = _continued(before, now), {}, call.attempt
            if call.reused_from is not None:
                source = self._answers.get(call.reused_from)
                if source is None:
                    raise HarnessError(f"{self.path}, line {call.n}: no answer on line {call.reused_from}")
            else:
                source = Entry(call.n, place, call.status, call.refused)
                hashes[call.n] = _hash_of(call)
            self.refusals += call.refused
            if source.status >= 500:
                continue  # a failure of the provider, which no replay repeats
            if not source.refused:
                self._answers[source.n] = source
            if not call.unasked:
                now[call.request_id] = _Line((call.slot, hashes[source.n]), source, call.phase)
        return _continued(before, now)


def read_calls(path: Path) -> Iterator[tuple[LlmCall, Place]]:
    """The lines of a cassette one after another, with their places; an unfinished end is left out.

    Raises:
        HarnessError: it is missing, or damaged.
    """
    try:
        with path.open("rb") as file:
            offset = 0
            for number, raw in enumerate(file, start=1):
                try:
                    line = jsonio.loads(raw)
                except jsonio.JsonError as error:
                    if is_torn(raw + file.read()):
                        return
                    raise HarnessError(f"{path}, line {number}: {error}") from None
                call = parse_line(path, number, line)
                if call.reused_from is None and not isinstance(call.response, dict):
                    raise HarnessError(f"{path}, line {number}: it holds no answer")
                yield call, Place(offset, len(raw))
                offset += len(raw)
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror or error}") from None


def _hash_of(call: LlmCall) -> str:
    """The hash of the recorded request, so that a request that was edited is another one. A refused call has only its
    hash."""
    if call.request is None:
        return call.request_hash
    return request_hash("POST", call.request.path, call.request.body)


def _continued(before: dict[str, _Line], now: dict[str, _Line]) -> dict[str, _Line]:
    """The calls of one sandbox: those of an attempt, after those of the attempt before if that was cut off in the same
    sandbox, which then continues to number its requests."""
    if not before or not now:
        return now or before
    # The smallest number, not the first: calls that overlap are answered in any order.
    return {**before, **now} if min(map(_number, now)) > min(map(_number, before)) else now


def _number(request_id: str) -> int:
    """The number in ``train-7``; 0, as of a new sandbox, where there is none."""
    digits = request_id.rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else 0
