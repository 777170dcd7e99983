"""A provider that attacks: it sends the key elsewhere, answers without end, or kills the process that asks it."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import importlib.util
import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.openai_server import OpenAIServer
from trace_bench.artifacts.contract import ModelRef
from trace_bench.gateway import litellm_worker
from trace_bench.gateway.base import ProviderError, ProviderReply, ProviderRequest
from trace_bench.gateway.litellm_worker import Worker
from trace_bench.gateway.provider_process import ProviderProcess
from trace_bench.gateway.real import HostLimit, Message, RealModel
from trace_bench.gateway.retries import Backoff

pytestmark = pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed")

KEY = "sk-tests-0123456789abcdef"
QUICKLY = Backoff(first=0.01, cap=0.02)
CHAT = "/v1/chat/completions"
PING = {"messages": [{"role": "user", "content": "ping"}]}
PROVIDERS = {"openai": "m", "anthropic": "claude-sonnet-4-5", "gemini": "gemini-2.5-flash", "azure": "m"}


def _models(url: str) -> list[RealModel]:
    found = []
    for provider, model in PROVIDERS.items():
        address = f"{url}/v1" if provider == "openai" else url
        options = {"api_version": "2024-10-21"} if provider == "azure" else {}
        found.append(RealModel(provider, provider, model, address, KEY, retries=1, timeout=60, options=options))
    return [*found, replace(found[0], id="streamed", stream=True)]


class Raw:
    """A server that writes what it is told to write, and notes whom it was asked by."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str]] = []
        self.answer: Callable[[BaseHTTPRequestHandler], None] = lambda handler: None
        raw = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, format: str, *args: Any) -> None:
                """Silent."""

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                raw.asked.append((self.path, str(self.headers)))
                self.close_connection = True
                with contextlib.suppress(OSError):  # the other end has had enough
                    raw.answer(self)

            do_GET = do_POST

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                """A client that went away is no news."""

        self._server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


def _head(handler: BaseHTTPRequestHandler, status: int, **headers: str) -> None:
    handler.send_response(status)
    for name, value in headers.items():
        handler.send_header(name.replace("_", "-"), value)
    handler.end_headers()


@pytest.fixture(scope="module")
def raw() -> Iterator[Raw]:
    server = Raw()
    yield server
    server.close()


@pytest.fixture(scope="module")
def process(raw: Raw, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ProviderProcess]:
    with ProviderProcess(_models(raw.url), tmp_path_factory.mktemp("limits"), backoff=QUICKLY) as started:
        yield started


def _ask(process: ProviderProcess, model: str = "openai", path: str = CHAT, **body: Any) -> ProviderReply:
    request = ProviderRequest(path, {"model": model, **(body or PING)}, ModelRef(id=model), 7, "0" * 64)
    return process.provider(model).complete(request)


def _until(what: Callable[[], bool], seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.01)


@pytest.mark.parametrize("status", [302, 307, 308])
@pytest.mark.parametrize("model", PROVIDERS)
def test_no_key_and_no_request_follows_a_redirect(raw: Raw, process: ProviderProcess, model: str, status: int) -> None:
    elsewhere = Raw()
    port = elsewhere.url.rpartition(":")[2]
    raw.answer = lambda h: _head(h, status, Location=f"http://localhost:{port}{h.path}", Content_Length="0")
    try:
        with pytest.raises(ProviderError, match=f"answered {status}; correct llm.base_url") as caught:
            _ask(process, model)
    finally:
        elsewhere.close()
    assert elsewhere.asked == []
    assert [t.status for t in caught.value.tries] == [status]


def _endless(handler: BaseHTTPRequestHandler) -> None:
    _head(handler, 200, Content_Type="application/json")
    while True:
        handler.wfile.write(b" " * (1 << 20))


def _endless_events(handler: BaseHTTPRequestHandler) -> None:
    _head(handler, 200, Content_Type="text/event-stream")
    while True:
        handler.wfile.write(b'data: {"choices": [{"index": 0, "delta": {"content": "%s"}}]}\n\n' % (b"x" * (1 << 20)))


def _bomb(handler: BaseHTTPRequestHandler) -> None:
    packed = gzip.compress(b'{"x": "' + b"a" * (64 << 20) + b'"}')
    sizes = {"Content_Length": str(len(packed)), "Content_Encoding": "gzip"}
    _head(handler, 200, Content_Type="application/json", **sizes)
    handler.wfile.write(packed)


@pytest.mark.parametrize(
    ("model", "answer"),
    [("openai", _endless), ("openai", _bomb), ("anthropic", _endless), ("streamed", _endless_events)],
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
        _head(handler, status, Content_Type="application/json", Content_Length=str(len(deep)))
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
        _head(handler, 200, Content_Type="application/json", Content_Length=str(len(body)))
        handler.wfile.write(body)

    raw.answer = answer
    with pytest.raises(ProviderError, match="nested deeper than 56 levels") as caught:
        _ask(process)
    assert [t.status for t in caught.value.tries] == [200, 200]


@pytest.mark.slow
def test_a_folder_of_limits_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "limits").write_text("no folder")
    model = RealModel("m", "openai", "m", "http://127.0.0.1:9/v1", KEY, limits=HostLimit(concurrent=1))
    with (
        ProviderProcess([model], tmp_path / "limits", backoff=QUICKLY) as process,
        pytest.raises(ProviderError, match=f"Not a directory: '{tmp_path}/limits/"),
    ):
        _ask(process, "m")


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, PING),
        ("/v1/completions", {"prompt": "ping"}),
        ("/v1/responses", {"input": "ping"}),
        ("/v1/embeddings", {"input": ["ping"]}),
    ],
)
def test_every_request_that_leaves_is_a_try(
    raw: Raw, process: ProviderProcess, path: str, body: dict[str, Any]
) -> None:
    raw.asked.clear()
    raw.answer = lambda h: _head(h, 503, Content_Length="0")
    with pytest.raises(ProviderError) as caught:
        _ask(process, "openai", path, **body)
    assert len(raw.asked) == len(caught.value.tries) == 2


def test_nothing_is_fetched_from_the_network_of_this_host(raw: Raw, process: ProviderProcess) -> None:
    raw.asked.clear()
    raw.answer = lambda h: _head(h, 500, Content_Length="0")
    for model in PROVIDERS:
        part = {"type": "image_url", "image_url": {"url": f"{raw.url}/picture.png"}}
        with contextlib.suppress(ProviderError):  # what comes of it is the provider's business
            _ask(process, model, messages=[{"role": "user", "content": [part]}])
    assert [path for path, _ in raw.asked if "picture" in path] == []
    # litellm refuses addresses of this network by itself, as long as nobody allows them; this refuses them all.
    assert b"MAX_IMAGE_URL_DOWNLOAD_SIZE_MB=0" in Path(f"/proc/{process.pid}/environ").read_bytes().split(b"\0")


@pytest.mark.slow
def test_no_signal_leaves_a_call_without_an_end(raw: Raw, process: ProviderProcess) -> None:
    held = threading.Event()
    raw.asked.clear()
    raw.answer = lambda h: (held.wait(60), _head(h, 503, Content_Length="0"))[1]
    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(_ask, process)
        _until(lambda: len(raw.asked) == 1)
        assert process.pid is not None
        held.set()
        os.kill(process.pid, signal.SIGRTMIN + 5)  # has a number and no name
        with pytest.raises(ProviderError) as caught:
            future.result(60)
    assert caught.value.tries[0].error == "the process that asks the providers ended (signal 39)"


@pytest.mark.slow
def test_a_process_that_does_not_read_holds_up_no_end(tmp_path: Path) -> None:
    with OpenAIServer() as server, ThreadPoolExecutor(1) as pool:
        process = ProviderProcess(_models(server.url.removesuffix("/v1"))[:1], tmp_path, backoff=QUICKLY)
        _ask(process)
        pid = process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        more_than_a_pipe_holds = [{"role": "user", "content": "ping" * 100_000}]
        future = pool.submit(lambda: _ask(process, messages=more_than_a_pipe_holds))
        _until(lambda: process._child is not None and process._child._writing.locked())
        closing = threading.Thread(target=process.close, daemon=True)
        closing.start()
        closing.join(30)  # half of what a silent process is given
        assert not closing.is_alive()
        with pytest.raises(ProviderError, match="the run ended before an answer came"):
            future.result(30)
    assert not Path(f"/proc/{pid}").exists()


def test_the_process_leaves_no_dump_of_its_memory(process: ProviderProcess, raw: Raw) -> None:
    raw.answer = lambda h: _head(h, 400, Content_Length="0")
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
