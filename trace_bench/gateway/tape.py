"""What one job asked when it was recorded: its cassette, read for a replay and never written.

Only keys and places are held in memory; bodies are read from the disk when they are asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.records import LlmCall
from trace_bench.artifacts.writers import Place, is_torn
from trace_bench.errors import HarnessError
from trace_bench.gateway.requests import request_hash

Key = tuple[str | None, str]
"""Slot, if the client could name one, and request hash."""
_INFRASTRUCTURE = 500
"""Statuses from here on are a provider's failures, which no replay repeats."""


class Entry(NamedTuple):
    """One line of the cassette, the one that it was reused from where there is one."""

    n: int
    place: Place
    status: int
    refused: bool


@dataclass(frozen=True)
class _Line:
    request_id: str
    key: Key
    entry: Entry
    phase: str


class Tape:
    """The calls of one recorded job.

    The last attempt is what the job's result is of, and its lines name what it reused of earlier ones. An attempt
    that took up a sandbox in the middle, after its controller had died, goes on with the one before it.

    Args:
        phase: the calls of this one alone are to be made again; None for all.

    Attributes:
        slots: lines at each place of the search, oldest first.

    Raises:
        HarnessError: the file is missing or damaged; the sentence names it, and the line.
    """

    def __init__(self, path: Path, phase: str | None = None) -> None:
        self.path = path
        self._phase = phase
        self.slots: dict[str, list[Entry]] = defaultdict(list)
        self.refusals = 0
        self._by_key: dict[Key, list[Entry]] = defaultdict(list)
        self._answered: dict[int, Entry] = {}
        self._told: set[int] = set()
        self._index()

    def at(self, key: Key) -> list[Entry]:
        """What was answered to the request `key`, in the order in which it was asked."""
        return self._by_key.get(key, [])

    def read(self, entry: Entry) -> LlmCall:
        """The line with its bodies.

        Raises:
            HarnessError: the file has changed or gone.
        """
        try:
            with self.path.open("rb") as file:
                file.seek(entry.place.offset)
                return LlmCall.model_validate(jsonio.loads(file.read(entry.place.size)))
        except (OSError, ValueError) as error:
            raise HarnessError(f"{self.path}, line {entry.n}: it has changed while it was replayed: {error}") from None

    def calls(self) -> Iterator[Entry]:
        """Every answer of the last attempt, and no refusal, by line."""
        return (self._answered[n] for n in sorted(self._told))

    def left_over(self) -> Iterator[Entry]:
        """Answers that were paid for by attempts that came to nothing, by line."""
        return (entry for n, entry in sorted(self._answered.items()) if n not in self._told)

    # -- reading it ------------------------------------------------------------------------------------------------

    def _index(self) -> None:
        trace: dict[str, _Line] = {}
        attempt, now = 0, dict[str, _Line]()
        hashes: dict[int, str] = {}
        for call, place in read_calls(self.path):
            if call.attempt != attempt:
                trace = _gone_on(trace, now)
                attempt, now = call.attempt, {}
            if call.reused_from is not None:
                source = self._answered.get(call.reused_from)
                if source is None:
                    raise HarnessError(f"{self.path}, line {call.n}: there is no answer on line {call.reused_from}")
            else:
                source = Entry(call.n, place, call.status, call.refused)
                hashes[call.n] = _hash_of(call)
            self.refusals += call.refused
            if source.status < _INFRASTRUCTURE:
                if not source.refused:
                    self._answered[source.n] = source
                if not call.unasked:
                    now[call.request_id] = _Line(call.request_id, (call.slot, hashes[source.n]), source, call.phase)
        for line in _gone_on(trace, now).values():
            if self._phase not in (None, line.phase):
                continue
            self._by_key[line.key].append(line.entry)
            if line.key[0] is not None:
                self.slots[line.key[0]].append(line.entry)
            if not line.entry.refused:
                self._told.add(line.entry.n)


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
                    call = LlmCall.model_validate(jsonio.loads(raw))
                except (jsonio.JsonError, ValidationError) as error:
                    if isinstance(error, jsonio.JsonError) and is_torn(raw + file.read()):
                        return
                    why = error if isinstance(error, jsonio.JsonError) else jsonio.explain(error)
                    raise HarnessError(f"{path}, line {number}: {why}") from None
                if call.n != number or (call.reused_from or 0) >= number:
                    raise HarnessError(f"{path}, line {number}: the lines are not in order")
                if call.reused_from is None and not isinstance(call.response, dict):
                    raise HarnessError(f"{path}, line {number}: it holds no answer")
                yield call, Place(offset, len(raw))
                offset += len(raw)
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror or error}") from None


def _hash_of(call: LlmCall) -> str:
    """Of the request as it is there: one that somebody has changed is another one. Of a refused one the hash is all."""
    if call.request is None:
        return call.request_hash
    return request_hash("POST", call.request.path, call.request.body)


def _gone_on(before: dict[str, _Line], now: dict[str, _Line]) -> dict[str, _Line]:
    """The calls of one sandbox: those of an attempt, after those of the one before it if that was cut off in the same
    sandbox, which then numbers its requests on."""
    if not before or not now:
        return now or before
    # The smallest, not the first: calls that overlap are answered in any order.
    return {**before, **now} if min(map(_number, now)) > min(map(_number, before)) else now


def _number(request_id: str) -> int:
    """The number in ``train-7``; 0, as of a new sandbox, where there is none."""
    digits = request_id.rpartition("-")[2]
    return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 19 else 0
