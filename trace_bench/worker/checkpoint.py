"""Keep the results of a search's evaluations, so that another attempt at the job need not repeat them.

A search is a function of its seed, of the model's answers, which the host keeps, and of evaluations. So its checkpoint
is no picture of a trainer's memory but the list of the results of its evaluations. With these, every algorithm
reaches the same point again by itself.

An evaluation is known by what was evaluated on which examples, and by how often that was asked before. What one may
not know by that alone is never kept, nor anything after it: an evaluation that asked a model (a replay must find the
same calls in the last attempt), or that drew from the process's own generators (the next one would draw others).
"""

from __future__ import annotations

import hashlib
import json
import math
import random
import socket
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from trace_bench.worker.problem import Value
from trace_bench.worker.reports import CHECKPOINT_LINE_BYTES
from trace_bench.worker.training import Rollout

ASKED = "an evaluation asked a model"
DREW = "an evaluation drew from the global generators"
LARGE = f"an evaluation has more than {CHECKPOINT_LINE_BYTES} bytes"


@dataclass(frozen=True)
class Known:
    """The result of one evaluation, and the seconds of training that had passed by then."""

    rollouts: list[Rollout]
    seconds: float


class Checkpoint:
    """The evaluations of one job: those of earlier attempts, and those of this one. Thread-safe.

    Args:
        lines: of earlier attempts, as `keep` wrote them and the host gave them back, with ``seconds``. What is none is
            counted in `damaged`.
        send: called with each new line.
        event: called with kind and fields of an event.

    Attributes:
        as_of: seconds of training after which the last evaluation was known that was found here; None once something
            had to be evaluated.
        found: examples whose evaluation was found here.
    """

    def __init__(self, lines: Iterable[str], send: Callable[[str], None], event: Callable[..., None]) -> None:
        self._send, self._event = send, event
        self._lock = threading.Lock()
        self._asked: Counter[str] = Counter()
        self._known: dict[tuple[str, int], Known] = {}
        self._ended = ""
        self.damaged = 0
        self.found = 0
        for line in lines:
            try:
                place, known = _read(line)
            except (ValueError, TypeError, KeyError, RecursionError, OverflowError):
                self.damaged += 1
            else:
                self._known.setdefault(place, known)
        self.as_of: float | None = 0.0 if self._known else None

    def ask(
        self, state_key: str, split: str, indices: Sequence[int], ids: Sequence[str]
    ) -> tuple[str, int, Known | None]:
        """Make the key of one evaluation, and look up its result.

        Args:
            ids: of the examples; what is known of others is not taken.
        """
        key = hashlib.sha256(json.dumps([state_key, split, list(indices)]).encode()).hexdigest()
        with self._lock:
            nth = self._asked[key]
            self._asked[key] += 1
            known = self._known.pop((key, nth), None)
            if known is None or [r.example_id for r in known.rollouts] != list(ids):
                self.as_of = None
                return key, nth, None
            if self.as_of is not None:
                self.as_of = max(self.as_of, known.seconds)
            self.found += len(ids)
            return key, nth, known

    def keep(self, key: str, nth: int, rollouts: Sequence[Rollout]) -> None:
        """Keep the result of an evaluation, unless `end` was called."""
        if self._ended:
            return
        given = {"key": key, "nth": nth, "rollouts": [asdict(r) for r in rollouts]}
        line = json.dumps(given, separators=(",", ":"))
        if len(line) > CHECKPOINT_LINE_BYTES:  # it is ASCII
            self.end(LARGE)
        else:
            self._send(line)

    def end(self, reason: str) -> None:
        """Stop recording."""
        with self._lock:
            first, self._ended = not self._ended, self._ended or reason
        if first:
            self._event("checkpoint.ended", reason=reason)


def _read(line: str) -> tuple[tuple[str, int], Known]:
    given = json.loads(line)
    rollouts = [Rollout(**fields) for fields in given["rollouts"]]
    for rollout in rollouts:
        if not isinstance(rollout.metrics, dict):
            raise ValueError("metrics are no object")
        for number in (rollout.score, *rollout.metrics.values()):
            if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
                raise ValueError("a score is no finite number")
        if not isinstance(rollout.example_id, str) or not isinstance(rollout.feedback, str):
            raise ValueError("a rollout has no example, or no feedback")
        if not isinstance(rollout.failed, bool) or not isinstance(rollout.transient, bool):
            raise ValueError("a rollout has neither failed nor not")
        if not isinstance(rollout.response, str | None):
            raise ValueError("a response is no text")
    return (str(given["key"]), int(given["nth"])), Known(rollouts, float(given["seconds"]))


class Watch:
    """Detects side effects of evaluations, model calls and random draws: see `trace_bench.worker.checkpoint`.

    Args:
        port: of the gateway.

    Attributes:
        asked: an evaluation has asked a model.
        drew: an evaluation has drawn from the global generators.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self._own = threading.local()
        self._at_work = 1  # building the problem is watched as well
        self._lock = threading.Lock()
        self.asked = self.drew = False
        # Every client comes by here, whichever loop or thread it has. An audit hook would hear more, and cost each
        # frame that a graph library looks at 2 µs.
        socket.socket.connect = self._watched(socket.socket.connect)  # type: ignore[method-assign]
        socket.socket.connect_ex = self._watched(socket.socket.connect_ex)  # type: ignore[method-assign]

    def built(self) -> None:
        """End the watch on the build of the problem. From here on only evaluations are watched."""
        self._at_work -= 1

    @contextmanager
    def own_call(self) -> Iterator[None]:
        """Do not attribute model calls in the block to an evaluation: the search itself makes them."""
        self._own.calls = True
        try:
            yield
        finally:
            self._own.calls = False

    @contextmanager
    def evaluation(self, checkpoint: Checkpoint) -> Iterator[None]:
        """Watch one evaluation, and end `checkpoint` if it called a model or drew random numbers."""
        before = _generators()
        with self._lock:
            self._at_work += 1
        try:
            yield
        finally:
            with self._lock:
                self._at_work -= 1
            if self.asked:
                checkpoint.end(ASKED)
            if _generators() != before:
                self.drew = True
                checkpoint.end(DREW)

    def _watched(self, connect: Callable[..., Any]) -> Callable[..., Any]:
        def watched(sock: socket.socket, address: Any) -> Any:
            if self._at_work and not getattr(self._own, "calls", False):
                self.asked = self.asked or (isinstance(address, tuple) and address[1:2] == (self._port,))
            return connect(sock, address)

        return watched


def _generators() -> tuple[Any, ...]:
    """State of Python's and NumPy's global generators: equal as long as nothing is drawn from them."""
    numpy: Any = sys.modules.get("numpy.random")
    if numpy is None or not hasattr(numpy, "get_state"):
        return (random.getstate(),)
    name, keys, *rest = numpy.get_state()
    return random.getstate(), name, keys.tobytes(), *rest


def digest_of(state: Mapping[str, Value]) -> str:
    """Equal for equal states only: 1 and 1.0 are different values."""
    return hashlib.sha256(repr(sorted(state.items())).encode("utf-8", "replace")).hexdigest()
