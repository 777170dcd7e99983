"""The host's records of calls to models and to services, and their sums; the rules are those of
`trace_bench.artifacts.contract`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, JsonValue

from trace_bench.artifacts.contract import Calls, Count, Json, Model, Seconds, Tokens, Usd, UtcTime

SCORE_PHASE = "score"
"""Phase of the calls of official scoring, which no budget of a job counts."""


class Usage(Model):
    """The usage of models as the gateway measured it."""

    calls: Calls = 0
    """Calls that a provider answered (discarded answers included) or the response cache answered."""
    tries: Count = 0
    """Number of requests to the provider, retries and requests of calls without an answer included."""
    prompt_tokens: Tokens = 0
    """Tokens of prompts."""
    completion_tokens: Tokens = 0
    """Tokens of answers."""
    cached_tokens: Tokens = 0
    """Prompt tokens from the cache of the provider, part of `prompt_tokens`."""
    reasoning_tokens: Tokens = 0
    """Reasoning tokens, part of `completion_tokens`."""
    cost_usd: Usd = 0.0
    """Cost of calls."""
    reused: Calls = 0
    """Calls answered from the job's own cassette; they cost nothing again."""
    cached: Calls = 0
    """Calls answered from the response cache, part of `calls`; their tokens count, but cost nothing."""
    inert: Calls = 0
    """Stub answers that change nothing."""
    refused: Calls = 0
    """Calls refused at the end of a budget."""
    estimated: Calls = 0
    """Calls whose provider reported no usage, so that the gateway counted the tokens itself."""

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.completion_tokens


class LlmRequestRecord(Model):
    """A request as the provider may see it: private headers are gone, the body is parsed JSON."""

    method: Literal["GET", "POST"]
    """Method of the request."""
    path: str
    """Path of the request, such as `/v1/chat/completions`."""
    body: Json
    """Body of the request."""


class LlmTry(Model):
    """One request to a provider. Tokens and dollars are of a discarded answer: those of the response are in the
    line."""

    status: Annotated[int, Field(ge=100, le=599)] | None = None
    """HTTP status; null where no HTTP answer came."""
    seconds: Seconds = 0.0
    """Time that the request took."""
    waited: Seconds = 0.0
    """Wait before the request."""
    error: str = ""
    """Reason that the request failed; empty if it succeeded."""
    prompt_tokens: Tokens = 0
    """Tokens of the prompt of a discarded answer."""
    completion_tokens: Tokens = 0
    """Tokens of a discarded answer."""
    cost_usd: Usd = 0.0
    """Cost of a discarded answer."""


class LlmCall(Model):
    """A line of ``llm.jsonl``, the cassette: one answered call, or one that the provider gave no answer to."""

    n: Annotated[int, Field(ge=1)]
    """Number of the line, from 1."""
    t: UtcTime
    """Time of the answer."""
    attempt: Annotated[int, Field(ge=1)] = 1
    """Number of the job's attempt that asked, from 1."""
    request_id: str
    """Id that the sandbox gave the request; unique in an attempt."""
    phase: str
    """Phase that asked: `build`, `train` or `score`."""
    slot: str | None
    """Place in the search; null from a client that cannot name it."""
    request_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """SHA-256 (hexadecimal) of the canonical request."""
    request: LlmRequestRecord | None
    """The request; null for a refused call."""
    response: JsonValue = None
    """Body of the answer, parsed; null where `reused_from` names the line that holds it."""
    status: Annotated[int, Field(ge=100, le=599)]
    """HTTP status of the answer; 502 for a call without an answer, 429 at the end of a budget."""
    provider: str
    """Provider that was asked."""
    model: str
    """Name of the model at its provider."""
    prompt_tokens: Tokens = 0
    """Tokens of the prompt."""
    completion_tokens: Tokens = 0
    """Tokens of the answer."""
    cached_tokens: Tokens = 0
    """Prompt tokens from the cache of the provider, part of `prompt_tokens`."""
    reasoning_tokens: Tokens = 0
    """Reasoning tokens, part of `completion_tokens`."""
    cost_usd: Usd = 0.0
    """Cost of the call."""
    latency: Seconds = 0.0
    """Time until the answer, waits between tries included."""
    inert: bool = False
    """A stub answer that changes nothing."""
    sent: Json = {}
    """Values that the gateway added to the body or changed in it, such as sampling and seed."""
    tries: tuple[LlmTry, ...] = ()
    """Every request to the provider; the answer to the last one is the response."""
    estimated: bool = False
    """The provider reported no usage, and the gateway counted the tokens. With status 502: the answer is lost, may have
    been paid, and the tokens are those that a budget sets aside."""
    cached: bool = False
    """The answer came from the response cache of earlier runs and cost nothing."""
    reused_from: Annotated[int, Field(ge=1)] | None = None
    """Number of the line that holds the same answer."""
    refused: bool = False
    """The gateway refused the call, for example at the end of a budget. No provider was asked."""
    replayed_from: Annotated[int, Field(ge=1)] | None = None
    """Number of the line in the recorded cassette from which answer, tokens, cost and latency come."""
    unasked: bool = False
    """A recorded line that no request of the replay asked for, since the attempt that made it was lost."""


class ServiceRecord(Model):
    """A line of ``services.jsonl``: one request of a job to a service of the host, and the answer."""

    n: Annotated[int, Field(ge=1)]
    """Number of the line, from 1."""
    t: UtcTime
    """Time of the answer."""
    attempt: Annotated[int, Field(ge=1)] = 1
    """Number of the job's attempt that asked, from 1."""
    service: str
    """Name of the service."""
    request_id: str
    """Id that the sandbox gave the request; unique in an attempt."""
    phase: str
    """Phase that asked: `build`, `train` or `score`."""
    request_hash: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    """SHA-256 (hexadecimal) of the service and the canonical request."""
    request: Json = {}
    """Body of the request."""
    status: Annotated[int, Field(ge=100, le=599)]
    """200 for an answer; 422 for a request that the task cannot take; 429 at the end of a budget; 502 where something
    that the service needs failed."""
    answer: Json = {}
    """Body of the answer; for another status the reason."""
    seconds: Seconds = 0.0
    """Time that the request took."""
    usage: Json = {}
    """Calls to the job's model that the service made, their tokens and dollars. They are lines of `llm.jsonl` too."""
    cost_usd: Usd = 0.0
    """Cost beyond `usage`."""
    folder: str = ""
    """Folder of the files that the service left, relative to the job; empty if there are none."""
    reused_from: Annotated[int, Field(ge=1)] | None = None
    """Number of the line that holds the answer, in this file or in the recorded run's."""
