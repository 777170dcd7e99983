"""A small provider that speaks OpenAI's API over real HTTP, for tests: it can be told to misbehave, request by request.

    with OpenAIServer() as server:
        server.script(failing(503), rate_limited("1"), PLAIN)   # the next three requests; then everything is plain
        ... ask server.url + "/chat/completions" ...
        server.requests[0].body["temperature"]

Its *brain* turns a request's body into text. The one it has by default answers the prompts of OptoPrime, so that
numbers move towards what the feedback asks for and known functions become better ones; to anything else it says
"pong". ``python -m tests.gateway.openai_server [PORT]`` runs it by itself.
"""

from __future__ import annotations

import contextlib
import json
import re
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Literal

Brain = Callable[[Mapping[str, Any]], str]
BETTER = Path(__file__).parents[2] / "benchmarks/LLM4AD/benchmark_tasks/circle_packing/programs/reference.py"


@dataclass(frozen=True)
class Asked:
    """One request, as it arrived. Names of `headers` are in lower case; `body` is {} where it is no JSON object."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Mapping[str, Any]


@dataclass(frozen=True)
class Behaviour:
    """What one request meets.

    Attributes:
        headers: further ones of the answer.
        body: instead of the honest one; a text is sent as it is, and need not be JSON.
        text: the model's words, instead of the brain's.
        delay: seconds before the first byte.
        hold: waits for this before the first byte.
        trickle: seconds between blanks that are sent in place of an answer, until the client has had enough.
        drop: closes the connection: before any byte, in the middle of the body (of a stream, too), or reset at once.
        usage: "honest", or what stands there instead; None leaves it out.
        finish: ``finish_reason``; "length" cuts the text in half as well.
        tools: the answer calls the first of the request's tools with these arguments.
        then: changes the honest body before it is sent; of a stream, its usage.
        raw: send "\\udc80" to "\\udcff" as the one byte that is not UTF-8.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | str | None = None
    text: str | None = None
    delay: float = 0.0
    hold: threading.Event | None = None
    trickle: float = 0.0
    drop: Literal["before", "middle", "reset"] | None = None
    usage: Mapping[str, Any] | Literal["honest"] | None = "honest"
    finish: str = "stop"
    tools: Mapping[str, Any] | None = None
    then: Callable[[dict[str, Any]], Any] | None = None
    raw: bool = False


PLAIN = Behaviour()
MALFORMED = Behaviour(body='{"id": "chatcmpl-1", "choices": [{"mess')
EMPTY_CHOICES = Behaviour(then=lambda body: body.update(choices=[]))
NO_USAGE = Behaviour(usage=None)
CUT_SHORT = Behaviour(drop="middle")
DROPPED = Behaviour(drop="before")
OUT_OF_TOKENS = Behaviour(finish="length")


def slow(seconds: float) -> Behaviour:
    return Behaviour(delay=seconds)


def rate_limited(retry_after: str | None = None) -> Behaviour:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return replace(failing(429, "Rate limit reached", kind="rate_limit_exceeded"), headers=headers)


def failing(status: int, message: str = "it does not work", *, kind: str = "server_error") -> Behaviour:
    """An error in OpenAI's shape."""
    error = {"message": message, "type": kind, "param": None, "code": kind}
    return Behaviour(status=status, body={"error": error})


class OpenAIServer:
    """Serves on loopback from threads of its own, from `start` (or ``with``) to `close`.

    Attributes:
        answer: the brain; may be replaced at any time.
        requests: everything that was asked so far, in order of arrival.
        choose: behaviour of a request that the script does not reach, for tests that tell requests apart.
    """

    def __init__(self, answer: Brain | None = None, *, host: str = "127.0.0.1", port: int = 0) -> None:
        self.answer: Brain = answer or optimize
        self.requests: list[Asked] = []
        self.choose: Callable[[Asked], Behaviour] = lambda asked: PLAIN
        self._script: deque[Behaviour] = deque()
        self._lock = threading.Lock()
        self._server = _Server((host, port), _Handler)
        self._server.owner = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        """The base URL, as clients want it."""
        return f"http://{self._server.server_address[0]!s}:{self.port}/v1"

    def reset(self) -> None:
        """Forget requests, script, brain and choice."""
        with self._lock:
            self.requests.clear()
            self._script.clear()
            self.answer, self.choose = optimize, lambda asked: PLAIN

    def script(self, *behaviours: Behaviour) -> None:
        """Append what the next requests meet."""
        with self._lock:
            self._script.extend(behaviours)

    def asked(self, path: str | None = None) -> list[Asked]:
        """The requests so far, or those for one path (``/v1/…``)."""
        with self._lock:
            return [r for r in self.requests if path in (None, r.path)]

    def meet(self, asked: Asked) -> Behaviour:
        """Note a request, and say what it meets."""
        with self._lock:
            self.requests.append(asked)
            if asked.method == "POST" and self._script:
                return self._script.popleft()
        return self.choose(asked)

    def start(self) -> OpenAIServer:
        self._thread.start()
        return self

    def close(self) -> None:
        """Stop listening. Requests that are held are left to themselves."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> OpenAIServer:
        return self.start()

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Server(ThreadingHTTPServer):
    owner: OpenAIServer
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no news."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Server

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: tests look at `OpenAIServer.requests`."""

    def do_GET(self) -> None:
        self._serve(b"")

    def do_POST(self) -> None:
        self._serve(self.rfile.read(int(self.headers.get("Content-Length") or 0)))

    def _serve(self, data: bytes) -> None:
        body: Any = None
        with contextlib.suppress(ValueError):
            body = json.loads(data)
        body = body if isinstance(body, dict) else {}
        path = self.path.partition("?")[0]
        headers = {name.lower(): value for name, value in self.headers.items()}
        behaviour = self.server.owner.meet(Asked(self.command, path, headers, body))
        if behaviour.hold is not None:
            behaviour.hold.wait()
        if behaviour.delay:
            threading.Event().wait(behaviour.delay)
        if behaviour.trickle:
            return self._trickle(behaviour)
        if behaviour.drop in ("before", "reset"):
            return self._drop(reset=behaviour.drop == "reset")
        if behaviour.body is not None:
            said = behaviour.body if isinstance(behaviour.body, str) else json.dumps(behaviour.body)
            return self._send(behaviour, said)
        make = _ANSWERS.get((self.command, path))
        if make is None:
            missing = failing(404, f"there is no {self.command} {path}", kind="invalid_request_error")
            return self._send(missing, json.dumps(missing.body))
        text = behaviour.text if behaviour.text is not None else self.server.owner.answer(body)
        if behaviour.tools is not None and not body.get("tools"):
            behaviour = replace(behaviour, tools=None)
        if behaviour.finish == "length":
            text = text[: len(text) // 2]
        honest = make(body, text, behaviour)
        if behaviour.then is not None:
            behaviour.then(honest)
        if body.get("stream") and (events := _STREAMS.get(path)):
            return self._stream(behaviour, list(events(honest, body)))
        self._send(behaviour, json.dumps(honest, ensure_ascii=not behaviour.raw))

    def _send(self, behaviour: Behaviour, text: str) -> None:
        data = text.encode(errors="surrogateescape")
        self.send_response_only(behaviour.status)
        for name, value in {
            "Date": self.date_time_string(),
            "Content-Type": "application/json",
            **behaviour.headers,
        }.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if behaviour.drop == "middle":
            self.wfile.write(data[: len(data) // 2])
            return self._drop()
        self.wfile.write(data)

    def _stream(self, behaviour: Behaviour, events: list[str]) -> None:
        self.send_response_only(behaviour.status)
        for name, value in {
            "Date": self.date_time_string(),
            "Content-Type": "text/event-stream",
            **behaviour.headers,
        }.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        if behaviour.drop == "middle":
            events = events[: len(events) // 2]
        for event in events:
            data = event.encode()
            self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
            self.wfile.flush()
        if behaviour.drop == "middle":
            return self._drop()
        self.wfile.write(b"0\r\n\r\n")

    def _trickle(self, behaviour: Behaviour) -> None:
        self.send_response_only(behaviour.status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        with contextlib.suppress(OSError):
            while True:
                self.wfile.write(b"1\r\n \r\n")
                self.wfile.flush()
                threading.Event().wait(behaviour.trickle)

    def _drop(self, *, reset: bool = False) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.wfile.flush()
            if reset:  # a linger of no seconds makes the kernel answer with RST
                self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            else:
                self.connection.shutdown(socket.SHUT_RDWR)
            self.connection.close()


# ------------------------------------------------------------------------------------------------ honest answers


def _tokens(text: str) -> int:
    return -(-len(text) // 4)


def _prompt(body: Mapping[str, Any]) -> str:
    return json.dumps(body.get("messages") or body.get("input") or body.get("prompt") or "")


def _usage(body: Mapping[str, Any], said: str, behaviour: Behaviour, names: tuple[str, str]) -> dict[str, Any]:
    if behaviour.usage == "honest":
        prompt, completion = _tokens(_prompt(body)), _tokens(said)
        return {"usage": {names[0]: prompt, names[1]: completion, "total_tokens": prompt + completion}}
    return {} if behaviour.usage is None else {"usage": dict(behaviour.usage)}


def _chat(body: Mapping[str, Any], text: str, behaviour: Behaviour) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
    finish = behaviour.finish
    if behaviour.tools is not None:
        called = {"name": body["tools"][0]["function"]["name"], "arguments": json.dumps(behaviour.tools)}
        message.update(content=None, tool_calls=[{"id": "call_1", "type": "function", "function": called}])
        finish = "tool_calls"
    count = body.get("n") or 1
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": body.get("model"),
        "choices": [{"index": i, "message": message, "logprobs": None, "finish_reason": finish} for i in range(count)],
        **_usage(body, text * count, behaviour, ("prompt_tokens", "completion_tokens")),
    }


def _completion(body: Mapping[str, Any], text: str, behaviour: Behaviour) -> dict[str, Any]:
    return {
        "id": "cmpl-1",
        "object": "text_completion",
        "created": 1,
        "model": body.get("model"),
        "choices": [{"index": 0, "text": text, "logprobs": None, "finish_reason": behaviour.finish}],
        **_usage(body, text, behaviour, ("prompt_tokens", "completion_tokens")),
    }


def _response(body: Mapping[str, Any], text: str, behaviour: Behaviour) -> dict[str, Any]:
    said = {"type": "output_text", "text": text, "annotations": []}
    message = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed", "content": [said]}
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "model": body.get("model"),
        "output": [message],
        "parallel_tool_calls": True,
        "temperature": body.get("temperature", 1.0),
        "tool_choice": "auto",
        "tools": [],
        "top_p": body.get("top_p", 1.0),
        **_usage(body, text, behaviour, ("input_tokens", "output_tokens")),
    }


def _embedding(body: Mapping[str, Any], text: str, behaviour: Behaviour) -> dict[str, Any]:
    given = body.get("input")
    inputs = given if isinstance(given, list) else [given]
    usage = _usage(body, "", behaviour, ("prompt_tokens", "completion_tokens"))
    if behaviour.usage == "honest":
        del usage["usage"]["completion_tokens"]
    return {
        "object": "list",
        "data": [
            {"object": "embedding", "index": i, "embedding": [float(len(str(item))), 0.5, -0.5]}
            for i, item in enumerate(inputs)
        ],
        "model": body.get("model"),
        **usage,
    }


def _anthropic(body: Mapping[str, Any], text: str, behaviour: Behaviour) -> dict[str, Any]:
    """Another provider's API, for what is not OpenAI's."""
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model"),
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        **_usage(body, text, behaviour, ("input_tokens", "output_tokens")),
    }


def _models(body: Mapping[str, Any], text: str, behaviour: Behaviour) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "tests"}]}


_ANSWERS: dict[tuple[str, str], Callable[[Mapping[str, Any], str, Behaviour], dict[str, Any]]] = {
    ("POST", "/v1/chat/completions"): _chat,
    ("POST", "/v1/completions"): _completion,
    ("POST", "/v1/responses"): _response,
    ("POST", "/v1/embeddings"): _embedding,
    ("POST", "/v1/messages"): _anthropic,
    ("GET", "/v1/models"): _models,
}


# ------------------------------------------------------------------------------------------------------- streams


def _data(event: Mapping[str, Any]) -> str:
    return f"data: {json.dumps(event)}\n\n"


def _pieces(text: str, count: int = 5) -> list[str]:
    size = max(1, -(-len(text) // count))
    return [text[i : i + size] for i in range(0, len(text), size)]


def _wants_usage(body: Mapping[str, Any]) -> bool:
    return bool((body.get("stream_options") or {}).get("include_usage"))


def _chat_events(honest: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[str]:
    head = {**{k: honest[k] for k in ("id", "created", "model")}, "object": "chat.completion.chunk"}
    for choice in honest["choices"]:
        message, index = choice["message"], choice["index"]
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if "tool_calls" in message else ""}]
        deltas += [{"content": piece} for piece in _pieces(message["content"] or "")]
        for n, call in enumerate(message.get("tool_calls", ())):
            name = {"name": call["function"]["name"], "arguments": ""}
            deltas.append({"tool_calls": [{"index": n, "id": call["id"], "type": "function", "function": name}]})
            for piece in _pieces(call["function"]["arguments"]):
                deltas.append({"tool_calls": [{"index": n, "function": {"arguments": piece}}]})
        for delta in deltas:
            yield _data({**head, "choices": [{"index": index, "delta": delta, "finish_reason": None}]})
        yield _data({**head, "choices": [{"index": index, "delta": {}, "finish_reason": choice["finish_reason"]}]})
    if _wants_usage(body) and "usage" in honest:
        yield _data({**head, "choices": [], "usage": honest["usage"]})
    yield "data: [DONE]\n\n"


def _completion_events(honest: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[str]:
    head = {k: honest[k] for k in ("id", "created", "model", "object")}
    choice = honest["choices"][0]
    for piece in _pieces(choice["text"]):
        yield _data({**head, "choices": [{"index": 0, "text": piece, "finish_reason": None}]})
    yield _data({**head, "choices": [{"index": 0, "text": "", "finish_reason": choice["finish_reason"]}]})
    if _wants_usage(body) and "usage" in honest:
        yield _data({**head, "choices": [], "usage": honest["usage"]})
    yield "data: [DONE]\n\n"


def _response_events(honest: Mapping[str, Any], body: Mapping[str, Any]) -> Iterator[str]:
    message = honest["output"][0]
    text = message["content"][0]["text"]
    place = {"item_id": message["id"], "output_index": 0, "content_index": 0}
    begun = {**honest, "status": "in_progress", "output": [], "usage": None}
    empty = {**message, "status": "in_progress", "content": []}
    part = {**message["content"][0], "text": ""}
    events: list[dict[str, Any]] = [
        {"type": "response.created", "response": begun},
        {"type": "response.output_item.added", "output_index": 0, "item": empty},
        {"type": "response.content_part.added", **place, "part": part},
        *({"type": "response.output_text.delta", **place, "delta": piece} for piece in _pieces(text)),
        {"type": "response.output_text.done", **place, "text": text},
        {"type": "response.content_part.done", **place, "part": message["content"][0]},
        {"type": "response.output_item.done", "output_index": 0, "item": message},
        {"type": "response.completed", "response": honest},
    ]
    for number, event in enumerate(events):
        yield f"event: {event['type']}\n" + _data({**event, "sequence_number": number})


_STREAMS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any]], Iterator[str]]] = {
    "/v1/chat/completions": _chat_events,
    "/v1/completions": _completion_events,
    "/v1/responses": _response_events,
}


# ------------------------------------------------------------------------------------------------ the default brain


def optimize(body: Mapping[str, Any]) -> str:
    """An answer to OptoPrime's prompt that makes things better, or "pong" (in JSON where JSON is asked for)."""
    prompt = "\n".join(str(message.get("content")) for message in body.get("messages") or ())
    _, found, instance = prompt.rpartition("#Variables\n")
    if not found:
        wants_json = (body.get("response_format") or {}).get("type") in ("json_object", "json_schema")
        return '{"answer": "pong"}' if wants_json else "pong"
    variables = instance.partition("\n\n#")[0]
    suggestion = {**_better_numbers(variables, instance), **_better_code(variables)}
    return json.dumps({"reasoning": "The feedback says where to go.", "answer": "", "suggestion": suggestion})


def _better_numbers(variables: str, feedback: str) -> dict[str, float]:
    """Three quarters of the way that the feedback ("too small by 3.0") asks for."""
    told = re.search(r"too (small|large) by ([-+.\de]*\d)", feedback)
    if told is None:
        return {}
    step = 0.75 * float(told[2]) * (1 if told[1] == "small" else -1)
    numbers = re.finditer(r"^\((?:float|int)\) (\w+)=(\S+)$", variables, re.MULTILINE)
    return {number[1]: float(number[2]) + step for number in numbers}


def _better_code(variables: str) -> dict[str, str]:
    sources = re.finditer(r"^\(code\) (\w+):(?=[^\0]*?def pack_circles\()", variables, re.MULTILINE)
    return {source[1]: BETTER.read_text() for source in sources}


def main() -> None:
    server = OpenAIServer(port=int(sys.argv[1]) if len(sys.argv) > 1 else 0).start()
    print(server.url, flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        threading.Event().wait()
    server.close()


if __name__ == "__main__":
    main()
