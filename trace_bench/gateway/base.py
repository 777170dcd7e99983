"""Types that the gateway and its providers share.

The gateway is the only way out of a sandbox. It knows the job behind a request; a provider knows how to get
an answer, and sees neither the sandbox's headers nor, unless it is the stub, the private hints in them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Protocol, runtime_checkable

from trace_bench.artifacts.calls import LlmCall, LlmRequestRecord, LlmTry
from trace_bench.artifacts.contract import ModelRef
from trace_bench.display.text import quoted
from trace_bench.errors import Boundary, SandboxError, TraceBenchError
from trace_bench.gateway.pending import Head, PendingRecord

SLOT_HEADER = "x-trace-bench-slot"
VARIABLES_HEADER = "x-trace-bench-variables"
PRIVATE_PREFIX = "x-trace-bench-"


@dataclass(frozen=True)
class LlmRequest:
    """A call as it leaves a sandbox: message ``llm.request`` of the job contract.

    Attributes:
        id: the sandbox's number for it, unique in an attempt; a resent request has the same.
        headers: of the client, names in any case.
    """

    id: str
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes
    phase: str = "train"

    @property
    def size(self) -> int:
        """Characters and bytes of all that a sandbox sent."""
        named = sum(len(name) + len(value) for name, value in self.headers.items())
        return len(self.id) + len(self.method) + len(self.path) + len(self.phase) + named + len(self.body)


@dataclass(frozen=True)
class LlmResponse:
    """What goes back into the sandbox: message ``llm.response``.

    Attributes:
        content_type: ``application/json``, or ``text/event-stream`` if the request asks for events.
        inert: a stub answer that changes nothing.
        usage: ``prompt_tokens``, ``completion_tokens`` and ``cost_usd`` of the answer, also when it came from the
            cassette (`Usage` of the scope says what was paid for); empty for a refusal.
    """

    status: int
    body: bytes
    inert: bool = False
    usage: Mapping[str, int | float] = field(default_factory=dict)
    content_type: str = "application/json"


@dataclass(frozen=True)
class Hints:
    """The private headers of our own proposer, for the stub only."""

    slot: str | None
    variables: str | None
    """As received: base64 of zlib of JSON. The stub decodes it."""


@dataclass(frozen=True)
class ProviderRequest:
    """A checked call on its way to a provider.

    Attributes:
        path: starts with ``/v1/``.
        seed: of the job.
        draw: how often this attempt of the job has sent the same request before and may get another answer now.
        sample_seed: a seed to send: another one for each repetition of a request, the same in every attempt.
        number: of a call without a slot: how many of them the job has made so far, this one included; else 0.
        record: where a `Recovering` provider records the call while it is under way.
    """

    path: str
    body: Mapping[str, Any]
    model: ModelRef
    seed: int
    request_hash: str
    hints: Hints | None = None
    sample_seed: int = 0
    job_id: str = ""
    draw: int = 0
    phase: str = "train"
    number: int = 0
    record: PendingRecord | None = None


@dataclass(frozen=True)
class ProviderReply:
    """A provider's answer. `status` is 200, or the provider's own refusal (4xx) to be passed on as it is.

    Attributes:
        cached: it comes from the response cache, or came from there when it was recorded.
        latency: seconds that it took when it was recorded; None for a new answer.
        replayed_from: line of the recorded cassette that it is of.
    """

    status: int
    body: Mapping[str, Any]
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    inert: bool = False
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    estimated: bool = False
    cached: bool = False
    sent: Mapping[str, Any] = field(default_factory=dict)
    tries: tuple[LlmTry, ...] = ()
    latency: float | None = None
    replayed_from: int | None = None

    def line_of(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """The fields of a cassette's line that hold the request to `path` and this reply, but for the latency."""
        same = {name: getattr(self, name) for name in _SAME_IN_LINE}
        request = LlmRequestRecord(method="POST", path=path, body=dict(body))
        return {**same, "sent": dict(self.sent), "request": request, "response": dict(self.body)}

    @classmethod
    def from_line(cls, line: LlmCall) -> ProviderReply:
        """The recorded reply in `line`."""
        same = {name: getattr(line, name) for name in _SAME_IN_LINE}
        body = line.response if isinstance(line.response, dict) else {}
        return cls(**{**same, "body": body, "latency": line.latency, "replayed_from": line.n})


_SAME_IN_LINE = tuple(one.name for one in fields(ProviderReply) if one.name not in ("body", "latency"))
"""Fields of a reply that have the same name in a line of the cassette."""


class Provider(Protocol):
    """Gets answers from one LLM service. Called from many threads at once."""

    name: str
    paid: bool
    """True if an answer costs money: its cassette line is then flushed to the disk before the sandbox gets it."""
    uses_hints: bool
    """True if it uses the private headers of a request. Only built-in models get them."""
    quick: bool
    """True if an answer takes only computing time, so that no other call has to go on meanwhile."""

    def complete(self, request: ProviderRequest) -> ProviderReply:
        """Answer `request`, retrying as the service asks for.

        Raises:
            ProviderError: no answer could be had. It is an infrastructure failure, never a score of zero.
            Refusal: the request cannot be answered; the sandbox gets the reason.
            NotRecorded: in a replay.
        """


@runtime_checkable
class Recovering(Protocol):
    """A provider whose calls are sent by another process, which records an answer before it hands it on."""

    def recover(self, head: Head, answer: Mapping[str, Any] | None, tries: tuple[LlmTry, ...]) -> ProviderReply:
        """The reply to a call that an earlier process has sent.

        Args:
            head: what that process recorded of the call.
            answer: what it recorded of the answer; None if that is lost. The reply then has status 502, and the tokens
                and the cost that a budget sets aside for such a call, marked as estimated.

        Raises:
            ProviderError: the answer is that there was none.
        """


class ProviderError(TraceBenchError):
    """A provider could not be reached, timed out, or answered with a failure of its own. `tries` says how often."""

    boundary = Boundary.PROVIDER

    def __init__(self, message: str, *, tries: tuple[LlmTry, ...] = ()) -> None:
        super().__init__(message)
        self.tries = tries


class SessionEnded(SandboxError):
    """The sandbox of a call is gone, so that nothing waits for the answer."""

    recorded_kind = "nobody_waits"
    """The kind of failure in the files of a run."""


class NotRecorded(TraceBenchError):
    """A replayed job sent a request that its recording does not hold. It is not the same job any more, and ends.

    Attributes:
        difference: how the request differs from the nearest recorded one, whole.
    """

    boundary = Boundary.TRAINER

    def __init__(self, message: str, difference: str) -> None:
        super().__init__(message)
        self.difference = difference


class Refusal(Exception):
    """The gateway itself refuses a request; becomes an error body in OpenAI's shape.

    Attributes:
        status: HTTP status.
        code: a word for programs, e.g. ``budget_exhausted``.
        message: one sentence for people.
        param: the key of the request that is at fault.
    """

    def __init__(self, status: int, code: str, message: str, *, param: str | None = None) -> None:
        message = quoted(message, 600)  # it may quote the request
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param

    def body(self) -> dict[str, Any]:
        kind = "invalid_request_error" if self.status < 429 else "trace_bench_error"
        return {"error": {"message": self.message, "type": kind, "param": self.param, "code": self.code}}


@dataclass(frozen=True)
class GatewayLimits:
    """Bounds on what a sandbox may send."""

    body_bytes: int = 8 << 20
    header_bytes: int = 6 << 20
    cassette_bytes: int = 4 << 30
    """Of a job's cassette, beyond which no call is answered: it is on the host's disk, and calls may be free."""
