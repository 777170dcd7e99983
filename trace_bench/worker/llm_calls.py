"""The LLM calls of a job in the supervisor: those that wait for the host, and the sums over those answered."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from trace_bench.worker.control_stream import fits
from trace_bench.worker.loopback import OF_AGENT, ONE_REQUEST, SLOT
from trace_bench.worker.relay import EVENTS, JSON, Answer, RelayRequest

MAX_WAITING = 48 << 20
"""Bytes of LLM calls that the host has not answered yet."""
MAX_CALLS_WAITING = 256
SERVICES = "/services/"
"""What the path of a request to a service of the host begins with: an answer may have asked the model many times."""
_LARGE = 1 << 20
"""Characters of method, path and headers from which on they may be too large for a message: six bytes each at most."""


class LlmCalls:
    """Passes calls of phases on to the host and its answers back.

    Args:
        send: called with kind, fields and body of each message for the host.

    Attributes:
        number: requests passed on so far.
        calls: those of them to the model, and the calls of it that services made for the others.
        answers: those of them that the host has answered.
        search_answers: answers to chat calls that name their place in the search, so not of the program it improves.
        provider_failed: an answer has said so (status 500 and above).
    """

    def __init__(self, send: Callable[[str, dict[str, Any], bytes], None]) -> None:
        self._send = send
        self._waiting: dict[str, tuple[dict[str, Any], bytes, Answer, int]] = {}
        self._asked: dict[str, float] = {}
        """When each call of the model that waits was made (monotonic), the oldest first."""
        self._answered = 0.0
        """When the model answered last."""
        self._tokens = {"prompt_tokens": 0, "completion_tokens": 0}
        self._cost_usd = 0.0
        self._inert = self._good = 0
        self.number = 0
        self.calls = 0
        self.answers = 0
        self.search_answers = 0
        self.provider_failed = False

    @property
    def all_inert(self) -> bool:
        """Whether there were calls, and the stub model could change nothing for any of them."""
        return bool(self._inert) and self._inert == self._good

    @property
    def spent(self) -> dict[str, Any]:
        """Answered calls, tokens and US dollars so far, by their names in ``state_history.jsonl``."""
        return {"llm_calls": self.answers, **self._tokens, "cost_usd": self._cost_usd}

    def waited(self, phase: str, now: float) -> float:
        """Seconds until `now` for which a call of the model by `phase` has waited and none was answered; 0 if none
        waits. While other calls are answered, the model is at work, and what waits is no reason to do nothing."""
        asked = next((made for number, made in self._asked.items() if number.startswith(f"{phase}-")), now)
        return now - max(asked, min(self._answered, now))

    def ask(self, phase: str, request: RelayRequest, answer: Answer) -> None:
        """Ask the host; `answer` is called when its answer comes, or at once with 503 if too much waits already."""
        waiting = sum(size for *_, size in self._waiting.values())
        if len(self._waiting) >= MAX_CALLS_WAITING or waiting + request.size > MAX_WAITING:
            answer(503, b'{"error": {"message": "too many calls wait for an answer", "code": "overloaded"}}')
            return
        number = f"{phase}-{self.number + 1}"
        fields = {
            "id": number,
            "phase": phase,
            "method": request.method,
            "path": request.path,
            "headers": request.headers,
        }
        if request.size - len(request.body) > _LARGE and not fits(fields):
            answer(431, b'{"error": {"message": "the request\'s headers are too large", "code": "too_large"}}')
            return
        self.number += 1
        self.calls += not request.path.startswith(SERVICES)
        self._waiting[number] = (fields, request.body, answer, request.size)
        if not request.path.startswith(SERVICES):
            self._asked[number] = time.monotonic()
        self._send("llm.request", fields, request.body)

    def ask_again(self) -> None:
        """Ask a new controller what the last one took but may not have answered."""
        for fields, body, *_ in list(self._waiting.values()):
            self._send("llm.request", fields, body)

    def answered(self, header: dict[str, Any], body: bytes) -> None:
        """Take an ``llm.response`` of the host."""
        waiting = self._waiting.pop(header["id"], None)
        if waiting is None:
            # Asked of two controllers, answered by both.
            return
        usage = header.get("usage") or {}
        self.search_answers += _is_search(waiting[0]) and int(header["status"]) in (200, *ONE_REQUEST)
        if waiting[0]["path"].startswith(SERVICES):
            self.answers += int(usage.get("llm_calls", 0))
            self.calls += int(usage.get("llm_calls", 0))
        else:
            self.answers += 1
            self._asked.pop(header["id"], None)
            self._answered = time.monotonic()
            self._inert += bool(header.get("inert"))
            self._good += int(header["status"]) < 400
        for key in self._tokens:
            self._tokens[key] += int(usage.get(key, 0))
        self._cost_usd += float(usage.get("cost_usd", 0.0))
        status = int(header["status"])
        self.provider_failed = self.provider_failed or status >= 500
        # A host of this contract's first days says nothing of it: its answers are JSON.
        waiting[2](status, body, EVENTS if header.get("content_type") == EVENTS else JSON)


def _is_search(request: dict[str, Any]) -> bool:
    """Return True if a trainer sent the chat call `request` for its search."""
    slots = [str(value) for name, value in request["headers"].items() if name.lower() == SLOT.lower()]
    in_search = any(not slot.startswith(OF_AGENT) for slot in slots)
    return request["phase"] == "train" and in_search and str(request["path"]).endswith("/chat/completions")
