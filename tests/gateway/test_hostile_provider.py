"""A provider that attacks: it sends the key elsewhere, answers without end, or kills the process that asks it."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import importlib.util
import json
import multiprocessing
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.conftest import HOSTILE, QUICKLY
from tests.gateway.raw_server import Raw, head
from trace_bench.artifacts.contract import ModelRef
from trace_bench.gateway import litellm_worker
from trace_bench.gateway.base import ProviderError, ProviderReply, ProviderRequest
from trace_bench.gateway.litellm_worker import Worker
from trace_bench.gateway.provider_process import ProviderProcess
from trace_bench.gateway.real import Message

pytestmark = pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")

CHAT = "/v1/chat/completions"
PING = {"messages": [{"role": "user", "content": "ping"}]}


def _ask(process: ProviderProcess, model: str = "raw-openai", path: str = CHAT, **body: Any) -> ProviderReply:
    request = ProviderRequest(path, {"model": model, **(body or PING)}, ModelRef(id=model), 7, "0" * 64)
    return process.provider(model).complete(request)


@pytest.mark.parametrize("model", HOSTILE)
@pytest.mark.parametrize("status", [302, 308])
def test_no_key_and_no_request_follows_a_redirect(raw: Raw, process: ProviderProcess, model: str, status: int) -> None:
    elsewhere = Raw()
    port = elsewhere.url.rpartition(":")[2]
    raw.answer = lambda h: head(h, status, Location=f"http://localhost:{port}{h.path}", Content_Length="0")
    try:
        with pytest.raises(ProviderError, match=f"answered {status}; correct llm.base_url") as caught:
            _ask(process, f"raw-{model}")
    finally:
        elsewhere.close()
    assert elsewhere.asked == []
    assert [t.status for t in caught.value.tries] == [status]


def _endless(handler: BaseHTTPRequestHandler) -> None:
    head(handler, 200, Content_Type="application/json")
    while True:
        handler.wfile.write(b" " * (1 << 20))


def _endless_events(handler: BaseHTTPRequestHandler) -> None:
    head(handler, 200, Content_Type="text/event-stream")
    while True:
        handler.wfile.write(b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % (b"x" * (1 << 20)))


def _bomb(handler: BaseHTTPRequestHandler) -> None:
    packed = gzip.compress(b'{"x": "' + b"a" * (64 << 20) + b'"}')
    sizes = {"Content_Length": str(len(packed)), "Content_Encoding": "gzip"}
    head(handler, 200, Content_Type="application/json", **sizes)
    handler.wfile.write(packed)


@pytest.mark.parametrize(
    ("model", "answer"),
    [("raw-openai", _endless), ("raw-openai", _bomb), ("raw-anthropic", _endless), ("raw-streamed", _endless_events)],
)
def test_an_answer_without_end_costs_its_own_try_alone(
    raw: Raw, process: ProviderProcess, model: str, answer: Callable[[BaseHTTPRequestHandler], None]
) -> None:
    raw.answer = answer
    with pytest.raises(ProviderError, match="an answer of more than 33554432 bytes") as caught:
        _ask(process, model)
    assert len(caught.value.tries) == 2


@pytest.mark.parametrize("status", [200, 400])
def test_depth_overflows_nothing(raw: Raw, process: ProviderProcess, status: int) -> None:
    deep = b'{"error": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"

    def answer(handler: BaseHTTPRequestHandler) -> None:
        head(handler, status, Content_Type="application/json", Content_Length=str(len(deep)))
        handler.wfile.write(deep)

    raw.answer = answer
    if status == 400:
        assert _ask(process).status == 400
    else:
        with pytest.raises(ProviderError) as caught:
            _ask(process)
        assert len(caught.value.tries) == 2


def test_an_answer_that_no_cassette_could_be_read_with_is_none(raw: Raw, process: ProviderProcess) -> None:
    deep = b"[" * 60 + b"]" * 60
    choice = b'{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "x"}}'
    body = b'{"id": "1", "object": "chat.completion", "created": 1, "choices": [%s], "x": %s}' % (choice, deep)

    def answer(handler: BaseHTTPRequestHandler) -> None:
        head(handler, 200, Content_Type="application/json", Content_Length=str(len(body)))
        handler.wfile.write(body)

    raw.answer = answer
    with pytest.raises(ProviderError, match="nested deeper than 56 levels") as caught:
        _ask(process)
    assert [t.status for t in caught.value.tries] == [200, 200]


def test_nothing_is_fetched_from_the_network_of_this_host(raw: Raw, process: ProviderProcess) -> None:
    raw.asked.clear()
    raw.answer = lambda h: head(h, 500, Content_Length="0")
    for model in HOSTILE:
        part = {"type": "image_url", "image_url": {"url": f"{raw.url}/picture.png"}}
        with contextlib.suppress(ProviderError):  # what comes of it is the provider's business
            _ask(process, f"raw-{model}", messages=[{"role": "user", "content": [part]}])
    assert [path for path, _ in raw.asked if "picture" in path] == []
    # litellm refuses addresses of this network by itself, as long as nobody allows them; this refuses them all.
    assert b"MAX_IMAGE_URL_DOWNLOAD_SIZE_MB=0" in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")


def test_the_process_leaves_no_dump_of_its_memory(process: ProviderProcess, raw: Raw) -> None:
    raw.answer = lambda h: head(h, 400, Content_Length="0")
    _ask(process)
    limits = Path(f"/proc/{process.pid}/limits").read_text().splitlines()
    assert next(line for line in limits if line.startswith("Max core file size")).split()[4:6] == ["0", "0"]


def test_an_answer_that_no_message_holds_is_an_error_and_no_silence(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ours, theirs = multiprocessing.Pipe()
    worker = Worker(theirs, {}, tmp_path, QUICKLY)

    async def too_long(call: Message, file: object) -> Message:
        return {"body": "x" * 1000}

    monkeypatch.setattr(worker, "_call", too_long)
    monkeypatch.setattr(litellm_worker, "MAX_MESSAGE", 500)
    asyncio.run(worker._serve({"id": 3}))
    assert ours.poll(10)
    answer = json.loads(ours.recv_bytes())
    assert answer["id"] == 3
    assert answer["error"].startswith("an answer that cannot be handed on")
