"""What the supervisor passes on of a phase's calls, and what it does not."""

from __future__ import annotations

import json
from typing import Any

import pytest

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


SLOTTED = {"x-trace-bench-slot": "step=1"}


@pytest.mark.parametrize(
    ("phase", "path", "headers", "status", "count"),
    [
        ("train", "/v1/chat/completions", SLOTTED, 200, 1),
        ("train", "/v1/chat/completions", SLOTTED, 400, 1),  # refused, and the search goes on
        ("train", "/v1/chat/completions", SLOTTED, 429, 0),  # the budget has ended
        ("train", "/v1/chat/completions", SLOTTED, 502, 0),
        ("train", "/v1/chat/completions", {}, 200, 0),  # of the program that is being improved
        ("train", "/v1/chat/completions", {"x-trace-bench-slot": "agent=train-3;answer"}, 200, 0),  # or agent
        ("train", "/v1/embeddings", SLOTTED, 200, 0),
        ("score", "/v1/chat/completions", SLOTTED, 200, 0),
    ],
)
def test_answers_to_the_search_are_counted_apart(
    phase: str, path: str, headers: dict[str, str], status: int, count: int
) -> None:
    calls = LlmCalls(lambda kind, fields, body: None)
    calls.ask(phase, RelayRequest("POST", path, headers, b"{}"), lambda *_: None)
    calls.answered({"id": f"{phase}-1", "status": status}, b"{}")
    assert (calls.search_answers, calls.answers) == (count, 1)
