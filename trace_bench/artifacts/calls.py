"""The host's records of calls to models and to services, and their sums; the rules are those of
`trace_bench.artifacts.contract`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from trace_bench.artifacts.contract import (
    Count,
    Json,
    Model,
    Seconds,
    Usd,
    UtcTime,
)


class Usage(Model):
    """The usage of models as the gateway measured it.

    Attributes:
        calls: those that a provider answered, also with what was discarded, or that the response cache did.
        tries: requests that the provider got for them, and for calls that it gave no answer to.
        cached_tokens: of the prompt tokens, those that the provider had in its cache.
        reasoning_tokens: of the completion tokens, those of reasoning.
        reused: calls answered from the job's own cassette; they cost nothing again.
        cached: those of the calls that were answered from the response cache; their tokens count, but cost nothing.
        inert: stub answers that change nothing.
        refused: calls that met the end of a budget.
        estimated: calls whose provider reported no usage, so that the gateway counted the tokens itself.
    """

    calls: Count = 0
    tries: Count = 0
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    cached_tokens: Count = 0
    reasoning_tokens: Count = 0
    cost_usd: Usd = 0.0
    reused: Count = 0
    cached: Count = 0
    inert: Count = 0
    refused: Count = 0
    estimated: Count = 0

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class LlmRequestRecord(Model):
    """A request as the provider may see it: private headers are gone, the body is parsed JSON."""

    method: Literal["GET", "POST"]
    path: str
    body: Json


class LlmTry(Model):
    """One request to a provider. `status` is None where no HTTP answer came; `waited` seconds passed before it. Tokens
    and dollars are of an answer that was discarded: those of the response are in the line."""

    status: Annotated[int, Field(ge=100, le=599)] | None = None
    seconds: Seconds = 0.0
    waited: Seconds = 0.0
    error: str = ""
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    cost_usd: Usd = 0.0


class LlmCall(Model):
    """A line of ``llm.jsonl``, the cassette: one answered call, or one that the provider gave no answer to.

    Attributes:
        n: 1-based number of the line.
        attempt: attempt of the job that asked.
        request_id: as the sandbox numbered it; unique in an attempt.
        slot: place in the search, or None from a client that cannot say.
        request_hash: SHA-256 of the canonical request, hex.
        response: the body, parsed; None when `reused_from` names the line that holds it.
        latency: seconds the provider took, waits between tries included.
        inert: a stub answer that changes nothing.
        sent: what the gateway added to the body or changed in it before it went to the provider (sampling, seed).
        tries: every request to the provider for it; the last one's answer is the response.
        cached_tokens: of the prompt tokens, those that the provider had in its cache.
        reasoning_tokens: of the completion tokens, those of reasoning.
        estimated: the provider reported no usage; the tokens are the gateway's own count. With status 502: the request
            was sent and its answer is lost; it may have been paid, and the tokens are those that a budget sets aside.
        cached: the answer came from the response cache of earlier runs, and cost nothing.
        refused: the gateway refused the call, for example at the end of a budget. No provider was asked, and
            `request` is not kept.
        replayed_from: line of the recorded cassette that the answer, its tokens, cost and latency are of.
        unasked: a recorded line that no request of the replay was for, since the attempt that made it was lost.
    """

    n: Annotated[int, Field(ge=1)]
    t: UtcTime
    attempt: Annotated[int, Field(ge=1)] = 1
    request_id: str
    phase: str
    slot: str | None
    request_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    request: LlmRequestRecord | None
    response: JsonValue = None
    status: Annotated[int, Field(ge=100, le=599)]
    provider: str
    model: str
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    cached_tokens: Count = 0
    reasoning_tokens: Count = 0
    cost_usd: Usd = 0.0
    latency: Seconds = 0.0
    inert: bool = False
    sent: Json = {}
    tries: tuple[LlmTry, ...] = ()
    estimated: bool = False
    cached: bool = False
    reused_from: Annotated[int, Field(ge=1)] | None = None
    refused: bool = False
    replayed_from: Annotated[int, Field(ge=1)] | None = None
    unasked: bool = False


class ServiceRecord(Model):
    """A line of ``services.jsonl``: one request of a job to a service of the host, and what came of it.

    Attributes:
        request_id: as the sandbox numbered it; unique in an attempt.
        request_hash: SHA-256 of service and canonical request, hex.
        status: 200 for an answer; 422: the task cannot be asked so; 429: a budget ended; 502: what the service
            needs failed.
        answer: its body; for another status what was said.
        seconds: that it took.
        usage: calls to the job's model that it made, their tokens and dollars. They stand in ``llm.jsonl`` too.
        cost_usd: beyond that.
        reused_from: line that holds the answer, of this file or of the recorded run's.
    """

    n: Annotated[int, Field(ge=1)]
    t: UtcTime
    attempt: Annotated[int, Field(ge=1)] = 1
    service: str
    request_id: str
    phase: str
    request_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    request: Json = {}
    status: Annotated[int, Field(ge=100, le=599)]
    answer: Json = {}
    seconds: Seconds = 0.0
    usage: Json = {}
    cost_usd: Usd = 0.0
    folder: str = ""
    reused_from: Annotated[int, Field(ge=1)] | None = None
