"""The job's model for what runs on the host: an OpenAI-compatible server on loopback, one token for each call.

A program of a service, such as an agent, asks it as it would ask any provider. What it asks goes through the scope of
the job: it is checked, counted, held against the budgets and recorded like a call out of the job's sandbox.
"""

from __future__ import annotations

import hmac
import itertools
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from trace_bench.gateway.base import GatewayLimits, LlmRequest, LlmResponse, Refusal
from trace_bench.gateway.replies import refused
from trace_bench.gateway.server import Scope
from trace_bench.suites.service import ModelAddress

_LONGEST_BODY = GatewayLimits().body_bytes


@dataclass
class Guest:
    """One call of a service for as long as it lasts, and what was asked with its token.

    Attributes:
        prefix: of the ids of its requests, unique in an attempt of the job.
        answered, prompt_tokens, completion_tokens, cost_usd: sums over its requests.
        budget_ended: a request was refused since a budget was used up.
        failed: a request got no answer from the provider.
    """

    scope: Scope
    phase: str
    prefix: str
    answered: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    budget_ended: bool = False
    failed: bool = False
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, method: str, path: str, body: bytes) -> LlmResponse:
        """Have the job's scope answer."""
        with self._lock:
            number = next(self._numbers)
        headers = {"content-type": "application/json"}
        request = LlmRequest(f"{self.prefix}-{number}", method, path, headers, body, phase=self.phase)
        response = self.scope.handle(request)
        with self._lock:
            self.answered += response.status < 500 and bool(response.usage)
            self.prompt_tokens += int(response.usage.get("prompt_tokens", 0))
            self.completion_tokens += int(response.usage.get("completion_tokens", 0))
            self.cost_usd += float(response.usage.get("cost_usd", 0.0))
            self.budget_ended |= response.status == 429
            self.failed |= response.status >= 500
        return response

    @property
    def usage(self) -> dict[str, int | float]:
        """As the sandbox is told."""
        return {
            "llm_calls": self.answered,
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "cost_usd": self.cost_usd,
        }


class ModelDoor:
    """Serves from its making until `close`, on a port of its own."""

    def __init__(self) -> None:
        self._guests: dict[str, Guest] = {}
        self._lock = threading.Lock()
        self._server = _Server(self)
        threading.Thread(target=self._server.serve_forever, name="model-door", daemon=True).start()

    @contextmanager
    def guest(self, scope: Scope, phase: str, prefix: str, model: str) -> Iterator[tuple[ModelAddress, Guest]]:
        """A token for the block; it opens nothing afterwards."""
        token, guest = f"tb-{secrets.token_hex(24)}", Guest(scope, phase, prefix)
        with self._lock:
            self._guests[token] = guest
        try:
            yield ModelAddress(f"http://127.0.0.1:{self._server.server_port}/v1", token, model), guest
        finally:
            with self._lock:
                del self._guests[token]

    def close(self) -> None:
        """Stop serving; calls under way are cut off."""
        self._server.shutdown()
        self._server.server_close()

    def _guest(self, authorization: str) -> Guest | None:
        given = authorization.removeprefix("Bearer ").encode()
        with self._lock:
            known = list(self._guests.items())
        return next((guest for token, guest in known if hmac.compare_digest(token.encode(), given)), None)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, door: ModelDoor) -> None:
        self.door = door
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that has gone away is no concern of the controller's terminal."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: what is asked stands in the job's cassette."""

    def _serve(self) -> None:
        guest = self.server.door._guest(self.headers.get("Authorization", ""))
        length = self.headers.get("Content-Length", "0")
        if guest is None:
            answer = refused(Refusal(401, "bad_token", "this door is open for a call of a service alone"))
        elif not length.isascii() or not length.isdigit() or len(length) > 9 or int(length) > _LONGEST_BODY:
            answer = refused(
                Refusal(413, "body_too_large", f"a body has up to {_LONGEST_BODY} bytes and says how many")
            )
            self.close_connection = True
        else:
            answer = guest.ask(self.command, self.path, self.rfile.read(int(length)))
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)
