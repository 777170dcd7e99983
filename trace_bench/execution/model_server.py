"""The job's model for programs on the host: an OpenAI-compatible server on loopback, with a token for each call.

A program of a service, such as an agent, uses it as any provider. Its requests go through the scope of the job, which
checks, counts and records them like calls out of the job's sandbox.
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
class ModelAccess:
    """The access of one call of a service, and what was used with its token.

    Attributes:
        prefix: of the ids of its requests, unique in an attempt of the job.
        usage: sums over its requests, as the sandbox gets them.
        budget_ended: a request was refused because a budget was used up.
    """

    scope: Scope
    phase: str
    prefix: str
    usage: dict[str, int | float] = field(
        default_factory=lambda: {"llm_calls": 0, "prompt_tokens": 0, "completion_tokens": 0, "cost_usd": 0.0}
    )
    budget_ended: bool = False
    _numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def ask(self, method: str, path: str, body: bytes) -> LlmResponse:
        """Have the job's scope answer a request."""
        with self._lock:
            number = next(self._numbers)
        headers = {"content-type": "application/json"}
        request = LlmRequest(f"{self.prefix}-{number}", method, path, headers, body, phase=self.phase)
        response = self.scope.handle(request)
        with self._lock:
            self.usage["llm_calls"] += response.status < 500 and bool(response.usage)
            self.usage["prompt_tokens"] += int(response.usage.get("prompt_tokens", 0))
            self.usage["completion_tokens"] += int(response.usage.get("completion_tokens", 0))
            self.usage["cost_usd"] += float(response.usage.get("cost_usd", 0.0))
            self.budget_ended |= response.status == 429
        return response


class ModelServer:
    """Serves until `close`, on a port of its own."""

    def __init__(self) -> None:
        self._by_token: dict[str, ModelAccess] = {}
        self._lock = threading.Lock()
        self._server = _Server(self)
        threading.Thread(target=self._server.serve_forever, name="model-server", daemon=True).start()

    @contextmanager
    def access(self, scope: Scope, phase: str, prefix: str, model: str) -> Iterator[tuple[ModelAddress, ModelAccess]]:
        """An address and a token that are valid in the block."""
        token, access = f"tb-{secrets.token_hex(24)}", ModelAccess(scope, phase, prefix)
        with self._lock:
            self._by_token[token] = access
        try:
            yield ModelAddress(f"http://127.0.0.1:{self._server.server_port}/v1", token, model), access
        finally:
            with self._lock:
                del self._by_token[token]

    def close(self) -> None:
        """Stop serving; calls under way are cut off."""
        self._server.shutdown()
        self._server.server_close()

    def find_access(self, authorization: str) -> ModelAccess | None:
        """The access of the token in an ``Authorization`` header."""
        given = authorization.removeprefix("Bearer ").encode()
        with self._lock:
            known = list(self._by_token.items())
        return next((access for token, access in known if hmac.compare_digest(token.encode(), given)), None)


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, models: ModelServer) -> None:
        self.models = models
        super().__init__(("127.0.0.1", 0), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print nothing when a client goes away."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        self._serve()

    do_POST = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing: the job's cassette records the requests."""

    def _serve(self) -> None:
        access = self.server.models.find_access(self.headers.get("Authorization", ""))
        length = self.headers.get("Content-Length", "0")
        if access is None:
            answer = refused(Refusal(401, "bad_token", "this address serves calls of a service only"))
        elif not length.isascii() or not length.isdigit() or len(length) > 9 or int(length) > _LONGEST_BODY:
            answer = refused(
                Refusal(413, "body_too_large", f"a body has up to {_LONGEST_BODY} bytes and says how many")
            )
            self.close_connection = True
        else:
            answer = access.ask(self.command, self.path, self.rfile.read(int(length)))
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        self.wfile.write(answer.body)
