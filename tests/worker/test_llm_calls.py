"""What the supervisor passes on of a phase's calls, and what it does not."""

from __future__ import annotations

import json
from typing import Any

from trace_bench.worker.control_stream import Decoder, Mailbox
from trace_bench.worker.llm_calls import LlmCalls
from trace_bench.worker.relay import JSON, RelayRequest


def asked(header: str) -> tuple[list[int], int, list[str]]:
    """What a call with a header came to: statuses of answers, calls counted, and types of messages that a host read."""
    statuses: list[int] = []
    read: list[str] = []
    mailbox, decoder = Mailbox(), Decoder()

    def send(kind: str, fields: dict[str, Any], blob: bytes) -> None:
        read.extend(message.type for message in decoder.feed(mailbox.pack(kind, fields, blob)))

    def answer(status: int, body: bytes, content_type: str = JSON) -> None:
        json.loads(body)
        statuses.append(status)

    calls = LlmCalls(send)
    calls.ask("train", RelayRequest("POST", "/v1/chat/completions", {"x-trace-bench-slot": header}, b"{}"), answer)
    return statuses, calls.number, read


def test_a_request_that_no_message_can_hold_is_refused_and_not_sent() -> None:
    """A host drops what is larger, and takes nothing after it: the job would never end."""
    assert asked("\xff" * (3 << 20)) == ([431], 0, [])


def test_a_large_request_that_a_message_can_hold_is_passed_on() -> None:
    assert asked("x" * (7 << 20)) == ([], 1, ["llm.request"])
