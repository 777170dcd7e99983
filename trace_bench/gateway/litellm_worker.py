"""The provider process: ``python -m trace_bench.gateway.litellm_worker``, started by `ProviderProcess`.

Its stdin is a socket that carries JSON objects both ways (`multiprocessing.connection`):

* It reads first ``{"models", "limits_folder", "backoff"}``, and writes ``{"ready": version}`` once litellm is imported.
* It reads calls ``{"id", "model", "path", "body", "added", "tries"}``, any number at a time. ``record`` of a call says
  in which file it is recorded. It answers each call by ``{"id", "wait", "why"}`` before every wait, ``{"id", "try"}``
  after every try, and finally ``{"id", "status", "body", "counted", "estimated", "cost", "dropped"}`` or
  ``{"id", "error"}``.
* It writes ``{"alive": true}`` every few seconds, so that a process that hangs is noticed.

It ends when the socket is closed. It first waits for the answers to recorded requests that it has sent, and records
them (`trace_bench.gateway.pending`).
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib.metadata
import json
import os
import resource
from collections.abc import Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from trace_bench.artifacts.calls import LlmTry
from trace_bench.gateway.estimates import tokens_of
from trace_bench.gateway.host_limits import HostLimits
from trace_bench.gateway.pending import PendingFile
from trace_bench.gateway.real import MAX_MESSAGE, HostLimit, Message, RealModel, model_from
from trace_bench.gateway.retries import Backoff, GaveUp, TryFailed, persist
from trace_bench.secrets import known

if TYPE_CHECKING:
    from trace_bench.gateway.litellm_calls import Answer

ALIVE_EVERY = 5.0
"""Seconds."""
GRACE = 30.0
"""Seconds beyond the longest time limit of a request that its answer is waited for once the controller is gone."""
CANNOT_RECORD = (OSError, ValueError, TypeError, RecursionError)
"""A full disk, or an answer that is not JSON: the controller still gets the answer."""


def main() -> None:
    connection = Connection(0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump of the memory would hold the keys
    with contextlib.suppress(OSError):
        # Before the controller, should memory run out: this process is large, and can be replaced.
        Path("/proc/self/oom_score_adj").write_text("500")
    try:
        hello = json.loads(connection.recv_bytes())
    except (EOFError, OSError):
        return
    try:
        from trace_bench.gateway.litellm_calls import Caller
    except ImportError as error:
        connection.send_bytes(json.dumps({"broken": f"litellm cannot be imported: {error}"}).encode())
        return
    models = {model["id"]: model_from(model) for model in hello["models"]}
    known.add(model.api_key for model in models.values() if model.api_key)
    worker = Worker(connection, models, Path(hello["limits_folder"]), Backoff(*hello["backoff"]))
    worker.caller = Caller(list(models.values()))
    worker.write({"ready": importlib.metadata.version("litellm")})
    asyncio.run(worker.serve())
    os._exit(0)  # threads of libraries hold nothing that would be lost


class Worker:
    """Answers any number of calls at the same time, each by as many tries as its model allows."""

    caller: Any

    def __init__(self, connection: Connection, models: Mapping[str, RealModel], limits: Path, backoff: Backoff) -> None:
        self._connection = connection
        self._models = models
        self._backoff = backoff
        self._closed = asyncio.Event()
        self._running: set[asyncio.Task[None]] = set()
        self._sent: set[asyncio.Task[None]] = set()
        """Calls with a record whose request is on its way, or whose answer is being recorded."""
        self._limiters = {
            model.id: HostLimits(limits, f"{model.provider} {model.base_url} {model.api_key}", model.limits)
            for model in models.values()
            if model.limits != HostLimit()
        }

    async def serve(self) -> None:
        """Answer calls until the controller closes the connection or ends."""
        loop = asyncio.get_running_loop()
        loop.add_reader(self._connection.fileno(), self._read)
        while not self._closed.is_set():
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closed.wait(), ALIVE_EVERY)
            self.write({"alive": True})
        loop.remove_reader(self._connection.fileno())
        sent = set(self._sent)
        for task in self._running - sent:
            task.cancel()
        if sent:
            await asyncio.wait(sent, timeout=max(model.timeout for model in self._models.values()) + GRACE)

    def write(self, message: Message) -> None:
        """Send `message` to the controller, if that still exists.

        Raises:
            ValueError, TypeError, RecursionError: no message can hold it.
        """
        data = json.dumps(message).encode("ascii")
        if len(data) > MAX_MESSAGE:
            raise ValueError(f"a message of {len(data)} bytes is longer than {MAX_MESSAGE}")
        with contextlib.suppress(OSError):
            self._connection.send_bytes(data)

    def _read(self) -> None:
        try:
            call = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError):
            self._closed.set()
            asyncio.get_running_loop().remove_reader(self._connection.fileno())
            return
        task = asyncio.create_task(self._serve(call))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def _serve(self, call: Message) -> None:
        file = PendingFile(Path(call["record"]["path"]), call["record"]["head"]) if "record" in call else None
        try:
            answer = await self._answer(call, file)
            if file is not None:
                with contextlib.suppress(*CANNOT_RECORD):
                    await asyncio.to_thread(file.answered, answer)
            try:
                self.write({"id": call["id"], **answer})
            except (ValueError, TypeError, RecursionError) as error:
                # The caller waits for an answer, also if no message can hold it.
                self.write({"id": call["id"], "error": f"an answer that cannot be handed on: {error}"[:300]})
        finally:
            self._sent.discard(cast("asyncio.Task[None]", asyncio.current_task()))
            if file is not None:
                file.close()

    async def _answer(self, call: Message, file: PendingFile | None) -> Message:
        try:
            return await self._call(call, file)
        except GaveUp as why:
            return {"error": str(why)}
        except OSError as error:  # of the folder of limits or of the record; network errors fail a try
            return {"error": f"the provider process failed: {error}"}
        except Exception as error:
            return {"error": f"the provider process failed: {type(error).__name__}"}

    async def _call(self, message: Message, file: PendingFile | None) -> Message:
        from trace_bench.gateway.litellm_calls import Call

        number, model = message["id"], self._models[message["model"]]
        call = Call(model, message["path"], message["body"], frozenset(message["added"]))

        def on_try(made: LlmTry) -> None:
            if file is not None:
                with contextlib.suppress(OSError):
                    file.end_try(made)
            self.write({"id": number, "try": made.model_dump()})

        async def send() -> tuple[int, int, Answer]:
            task = cast("asyncio.Task[None]", asyncio.current_task())
            try:
                if file is not None:
                    self._sent.add(task)
                    await self._record_try(file)
                answer: Answer = await self.caller.ask(call)
                return answer.status, answer.counted.prompt + answer.counted.completion, answer
            except TryFailed as failure:
                self._sent.discard(task)
                failure.again = failure.again and not self._closed.is_set()
                raise

        answer = await persist(
            send,
            retries=model.retries,
            backoff=self._backoff,
            on_try=on_try,
            on_wait=lambda seconds, why: self.write({"id": number, "wait": seconds, "why": why}),
            before=message["tries"],
            limiter=self._limiters.get(model.id),
            tokens=tokens_of(call.body),
        )
        return {
            "status": answer.status,
            "body": answer.body,
            "counted": dataclasses.asdict(answer.counted),
            "estimated": answer.estimated,
            "cost": answer.cost,
            "dropped": call.dropped,
        }

    async def _record_try(self, file: PendingFile) -> None:
        """
        Raises:
            OSError: the try cannot be recorded.
            TryFailed: the controller is gone. Nothing more is sent.
        """
        gone = TryFailed("the controller ended before the request was sent", again=False)
        if self._closed.is_set():
            raise gone
        first = not file.begun
        await asyncio.to_thread(file.begin_try)
        if first and self._closed.is_set():
            file.discard()
            raise gone


if __name__ == "__main__":
    main()
