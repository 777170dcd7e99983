"""Sends one request to a provider through litellm. Imported in the provider process alone.

litellm prints, retries, drops fields, and counts tokens where a provider reports none. All of this is switched off
here: each request is one try, and fields that are left out and tokens that are estimated are reported.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import copy
import json
import math
import re
import time
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

import litellm
from litellm._internal_context import is_internal_call
from litellm.cost_calculator import get_usage_object
from litellm.integrations.custom_logger import CustomLogger
from litellm.litellm_core_utils.litellm_logging import Logging

from trace_bench.artifacts import jsonio
from trace_bench.artifacts.jsonio import sound
from trace_bench.display.text import quoted
from trace_bench.gateway import provider_http
from trace_bench.gateway.fields import CHAT, COMPLETIONS, EMBEDDINGS, PASSED, RESPONSES, STREAM
from trace_bench.gateway.prices import by_litellm, cost, known_price
from trace_bench.gateway.provider_errors import answered, error_in, is_network, mentions, remedy, word
from trace_bench.gateway.real import RealModel
from trace_bench.gateway.retries import TryFailed, retry_after
from trace_bench.gateway.usage import NOTHING, Counted, answer_text, counted_in, reported, with_usage

LITELLM_FIELDS: Mapping[str, frozenset[str]] = {
    path: (PASSED[path] | frozenset(STREAM)) - {"model", "top_logprobs" if path == RESPONSES else ""} for path in PASSED
}
"""Arguments of litellm. Any other field goes into the body as it is, and has no effect on litellm."""
NOT_DROPPED = frozenset(
    ("model", "messages", "input", "prompt", "tools", "max_tokens", "max_completion_tokens", "max_output_tokens", "n")
)
"""Without these it would be another request."""
_TIERS = ("flex", "priority")
"""Ways to serve a request that have prices of their own."""
MAX_ERROR = 300
"""Characters of a failure's text."""


@dataclass
class Call:
    """One call, over all its tries.

    Attributes:
        body: what is sent. Fields that the provider does not take are removed.
        dropped: names of the removed fields.
        added: names of the fields that the gateway set, not the client.
        suspected: those of them that a refusal named. An answer without them confirms it.
    """

    model: RealModel
    path: str
    body: dict[str, Any]
    added: frozenset[str] = frozenset()
    dropped: list[str] = field(default_factory=list)
    suspected: set[str] = field(default_factory=set)

    def drop(self, name: str) -> None:
        del self.body[name]
        self.dropped.append(name)


@dataclass(frozen=True)
class Answer:
    """Status 200, or the provider's refusal of this request (4xx). `body` has OpenAI's shape.

    Attributes:
        cost: US dollars; 0 if no price is known.
    """

    status: int
    body: Mapping[str, Any]
    counted: Counted = NOTHING
    estimated: bool = False
    cost: float = 0.0


_FUNCTIONS = {
    CHAT: litellm.acompletion,
    COMPLETIONS: litellm.atext_completion,
    RESPONSES: litellm.aresponses,
    EMBEDDINGS: litellm.aembedding,
}
_SENT: ContextVar[list[bool]] = ContextVar("sent")


class _Departures(CustomLogger):  # type: ignore[misc]  # litellm is not followed by the type checker
    """Notes that a request is about to be sent. What fails before that is the request's own fault."""

    def log_pre_api_call(self, model: Any, messages: Any, kwargs: Any) -> None:
        _SENT.get([]).append(True)


def _nothing(self: Logging, *args: object, **kwargs: object) -> None:
    """Replaces the methods that prepare litellm's log. `Caller` asks for the cost of an answer itself."""


async def _nothing_async(self: Logging, *args: object, **kwargs: object) -> None:
    """The same as a coroutine."""


class Caller:
    """Sends calls to providers. It is bound to one event loop."""

    def __init__(self, models: Sequence[RealModel]) -> None:
        warnings.simplefilter("ignore")  # pydantic's, about what providers send
        litellm.telemetry = False
        litellm.suppress_debug_info = True
        litellm.turn_off_message_logging = True
        litellm.drop_params = False
        litellm.num_retries = 0
        litellm.disable_hf_tokenizer_download = True
        litellm.callbacks = [_Departures()]
        # litellm computes a cost and copies every answer for its log, which takes a third of a call's processor time.
        Logging.response_cost_calculator = Logging.success_handler = _nothing
        Logging.async_success_handler = _nothing_async
        provider_http.restrict()
        self._secrets = tuple(model.api_key for model in models if model.api_key and len(model.api_key) >= 4)
        self._not_taken: dict[str, set[str]] = defaultdict(set)

    async def ask(self, call: Call) -> Answer:
        """Make one try.

        Raises:
            TryFailed: no answer. It holds what the provider reported as used.
        """
        noted = provider_http.noting()
        try:
            answer = await self._ask(call)
        except TryFailed as failure:
            failure.used = counted_in(noted)
            failure.cost = self._cost(call, failure.used)
            raise
        if answer.status == 200:
            return answer
        counted = counted_in(noted)
        return replace(answer, counted=counted, cost=self._cost(call, counted))

    async def _ask(self, call: Call) -> Answer:
        for name in self._not_taken[call.model.id] & call.body.keys() & call.added:
            call.drop(name)
        if call.model.stream and call.path == CHAT and call.body.get("n") in (None, 1):
            call.body.update(stream=True, stream_options={"include_usage": True})
        sent: list[bool] = []
        _SENT.set(sent)
        is_internal_call.set(True)  # marks the call as litellm's own, for which it starts no logging task
        while True:
            try:
                async with asyncio.timeout(call.model.timeout):
                    body, usage = await self._send(call)
                answer = await self._answer(call, body, usage)
                self._not_taken[call.model.id] |= call.suspected
                return answer
            except TryFailed:
                raise
            except TimeoutError:
                raise TryFailed(f"no answer within {call.model.timeout:g} seconds (llm.timeout)") from None
            except litellm.exceptions.UnsupportedParamsError as error:
                names = [n for n in call.body if n not in NOT_DROPPED and mentions(str(error), n)]
                if not names:
                    return self._refused(400, error)
                for name in names:
                    call.drop(name)
            except Exception as error:
                if not sent:
                    self._check_settings(call.model, error)
                if not sent and not is_network(error) and getattr(error, "status_code", 500) == 500:
                    return self._refused(400, error)  # litellm cannot word the request
                return self._refused(*self._failure(call, error))

    async def _send(self, call: Call) -> tuple[dict[str, Any], Any]:
        """The answer's body, with the usage that the provider reported, and litellm's object with that usage."""
        model, path = call.model, call.path
        body = copy.deepcopy({name: value for name, value in call.body.items() if name != "model"})
        arguments: dict[str, Any] = copy.deepcopy(dict(model.options))
        arguments.update({name: body.pop(name) for name in LITELLM_FIELDS[path] & body.keys()})
        if body:
            arguments["extra_body"] = {**arguments.get("extra_body", {}), **body}
        arguments.update(
            model=f"{model.provider}/{model.model}",
            api_key=model.api_key or ("none" if model.base_url else None),  # clients insist on a key
            api_base=model.base_url,
            timeout=model.timeout,
            max_retries=0,
        )
        if path != RESPONSES:
            arguments["num_retries"] = 0
        if path in (CHAT, RESPONSES):
            arguments["_skip_mcp_handler"] = True
        response = await _FUNCTIONS[path](**arguments)
        if call.body.get("stream"):
            chunks = [chunk async for chunk in response]
            log = getattr(response, "logging_obj", None)
            whole = litellm.stream_chunk_builder(chunks, messages=call.body.get("messages"), logging_obj=log)
            usage = _streamed_usage(response)
            return {**_plain(whole), "usage": None if usage is None else _plain(usage)}, usage
        answer = _plain(response)
        if path == RESPONSES:
            answer["id"] = _own_id(str(answer.get("id")))
        return answer, response

    def _cost(self, call: Call, counted: Counted, usage: Any = None) -> float:
        """US dollars for `counted`, by the config's prices or else by litellm, which prices more kinds of tokens.

        Args:
            usage: litellm's usage of which `counted` is a part, or its response with that usage.
        """
        model, tokens = call.model, {"prompt_tokens": counted.prompt, "completion_tokens": counted.completion}
        if by_litellm(model) and counted != NOTHING:
            with contextlib.suppress(Exception):  # litellm cannot price it: the table says what is known
                usage = litellm.Usage(**tokens) if usage is None else usage
                tier = getattr(usage, "service_tier", None)
                usage = usage if isinstance(usage, litellm.Usage) else get_usage_object(usage)
                parts = litellm.cost_per_token(
                    f"{model.provider}/{model.model}",
                    **tokens,
                    custom_llm_provider=model.provider,
                    usage_object=usage,
                    service_tier=tier if tier in _TIERS else None,
                )
                if math.isfinite(price := math.fsum(parts)) and price >= 0:
                    return price
        return cost(counted, known_price(model))

    async def _answer(self, call: Call, body: dict[str, Any], usage: Any) -> Answer:
        wanted = {RESPONSES: "output", EMBEDDINGS: "data"}.get(call.path, "choices")
        if not isinstance(body.get(wanted), list) or not body[wanted]:
            raise TryFailed(f"an answer without {wanted}", status=200)
        body = _pruned(sound(body))
        try:
            jsonio.loads(jsonio.dumps(body), max_depth=jsonio.MAX_DEPTH_INSIDE)
        except (ValueError, TypeError, RecursionError) as error:
            raise TryFailed(f"an answer that is not JSON: {error}"[:MAX_ERROR], status=200) from None
        counted = reported(call.path, body)
        if counted is not None:
            return Answer(200, body, counted, cost=self._cost(call, counted, usage))
        counted = await asyncio.to_thread(_estimate, call, body)
        body = with_usage(call.path, body, counted)
        return Answer(200, body, counted, estimated=True, cost=self._cost(call, counted))

    def _check_settings(self, model: RealModel, error: Exception) -> None:
        """Raises TryFailed if nothing was sent because the config lacks a setting."""
        text = self._text(error)
        if not model.api_key and ("credentials" in text or getattr(error, "status_code", None) == 401):
            raise TryFailed(remedy(model, 401), again=False)
        if model.base_url is None and "environment variable" in text:
            raise TryFailed(f"{model.provider} needs llm.base_url or llm.options. litellm says: {text}", again=False)
        if "LLM Provider NOT provided" in text:
            raise TryFailed(f"litellm knows no provider {model.provider!r}; correct llm.provider.", again=False)

    def _failure(self, call: Call, error: Exception) -> tuple[int, Exception]:
        """The status with which the provider refused the request, and the error.

        Raises:
            TryFailed: the failure has another cause than the request.
        """
        if (cut := provider_http.cut_off(error)) is not None:
            raise TryFailed(str(cut))
        status, headers = answered(error)
        text = self._text(error)
        after = retry_after(headers, time.time())
        if status == 429 and "insufficient_quota" in f"{error} {getattr(error, 'body', None)}":
            raise TryFailed(remedy(call.model, 402), status=status, again=False)
        if status is None or status < 300 or status in (408, 409, 425, 429) or status >= 500:
            why = text if status is None else f"{call.model.provider} answered {status}: {self._message(error)}"
            raise TryFailed(why[:MAX_ERROR], status=status, after=after)
        if status < 400 or status in (401, 402, 403, 404, 405):
            raise TryFailed(remedy(call.model, status), status=status, again=False)
        refused = [n for n in call.added - NOT_DROPPED if n in call.body and mentions(text, n)]
        if status in (400, 422) and refused:
            for name in refused:
                call.suspected.add(name)
                call.drop(name)
            raise TryFailed(f"asked again without {', '.join(sorted(refused))}: {text}"[:MAX_ERROR], status=status)
        return status, error

    def _refused(self, status: int, error: Exception) -> Answer:
        """The provider's refusal of the request, in OpenAI's shape."""
        given = _given(error)
        shown = {
            "message": word(given.get("message")) or self._text(error),
            "type": word(given.get("type")) or "invalid_request_error",
            "param": word(given.get("param")),
            "code": word(given.get("code")),
        }
        return Answer(status, json.loads(self._masked(json.dumps({"error": shown}))))

    def _message(self, error: Exception) -> str:
        """The provider's own words, on one line and without keys."""
        words = word(_given(error).get("message"))
        return self._text(Exception(words)) if words else self._text(error)

    def _text(self, error: Exception) -> str:
        """The message of `error` on one line, without keys."""
        text = re.sub(r"litellm\.\w+: |\w+Error: |\w+Exception - ", "", str(error).partition("Traceback (")[0])
        text = re.sub(r" ssl:(<[^>]*>|\w+)", "", text)  # aiohttp adds it to every address, also without TLS
        return quoted(self._masked(" ".join(text.split())) or type(error).__name__, MAX_ERROR)

    def _masked(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


def _given(error: Exception) -> Mapping[str, Any]:
    """The error object in a provider's answer, as OpenAI shapes it; empty where there is none."""
    given = getattr(error, "body", None)
    given = given if isinstance(given, dict) else error_in(str(error))
    inner = given.get("error", given)
    return inner if isinstance(inner, dict) else {}


def _plain(response: Any) -> dict[str, Any]:
    """litellm's response as JSON data, which may hold lone surrogates and numbers that are not finite."""
    plain: dict[str, Any] = response.model_dump(mode="json")
    return plain


def _pruned(body: dict[str, Any]) -> dict[str, Any]:
    """`body` without what litellm adds: nulls for missing fields, and fields for its own use."""
    kept = _without_nulls(body)
    for choice in kept.get("choices", ()):
        if isinstance(choice, dict):
            choice.pop("provider_specific_fields", None)
            if isinstance(message := choice.get("message"), dict):
                choice["message"] = _without_nulls(message, keep="content")
    if isinstance(kept.get("usage"), dict):
        kept["usage"] = _without_nulls(kept["usage"])
    return kept


def _without_nulls(part: Mapping[str, Any], keep: str = "") -> dict[str, Any]:
    own = "provider_specific_fields"
    return {name: value for name, value in part.items() if name == keep or (value is not None and name != own)}


def _streamed_usage(stream: Any) -> Any:
    """The usage that the provider sent in a stream; None if it sent none, where litellm would invent one.

    Raises:
        TryFailed: the stream ended before the answer did.
    """
    if getattr(stream, "received_finish_reason", None) is None:
        raise TryFailed("the stream ended before the answer did", status=200)
    found = [chunk.usage for chunk in getattr(stream, "chunks", ()) if getattr(chunk, "usage", None) is not None]
    return found[-1] if found else None


def _own_id(text: str) -> str:
    """The provider's id of a response, which litellm encodes in an id with provider and model."""
    try:
        inner = base64.b64decode(text.removeprefix("resp_"), validate=True).decode()
    except (ValueError, binascii.Error):
        return text
    return inner.partition("response_id:")[2] or text


def _estimate(call: Call, body: Mapping[str, Any]) -> Counted:
    """An estimate by litellm's tokenizer of the model, if it has one."""
    asked = {name: call.body[name] for name in ("instructions", "input", "prompt", "tools") if call.body.get(name)}
    prompt = _tokens(call.model, jsonio.dumps(asked) if asked else "", call.body.get("messages"))
    text = answer_text(call.path, body)
    return Counted(max(1, prompt), _tokens(call.model, text) if text else 0)


def _tokens(model: RealModel, text: str, messages: object = None) -> int:
    try:
        count = int(litellm.token_counter(model=model.model, messages=messages)) if messages else 0
        return count + (int(litellm.token_counter(model=model.model, text=text)) if text else 0)
    except Exception:  # an unusual message; four bytes a token is close enough for an estimate
        return -(-len((jsonio.dumps(messages) + text).encode("utf-8", "replace")) // 4)
