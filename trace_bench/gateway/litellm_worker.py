"""The provider process: ``python -m trace_bench.gateway.litellm_worker``, started by `ProviderProcess`.

It reads frames from stdin and writes frames to what was its stdout:

* first ``{"models", "limits_folder", "backoff"}``; it says ``{"ready": version}`` once litellm is imported;
* then calls ``{"id", "model", "path", "body", "added", "tries"}``, any number at a time, each answered by
  ``{"id", "wait", "why"}`` before every wait, ``{"id", "try"}`` after every try, and in the end by
  ``{"id", "status", "body", "counted", "estimated", "dropped"}`` or ``{"id", "error"}``;
* and ``{"alive": true}`` every few seconds, so that a process that hangs is noticed.

It ends when stdin does: no process is left behind by a controller that was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib.metadata
import os
import resource
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from trace_bench.gateway import frames
from trace_bench.gateway.estimates import tokens_of
from trace_bench.gateway.host_limits import HostLimits
from trace_bench.gateway.real import HostLimit, RealModel, model_from
from trace_bench.gateway.retries import Backoff, GaveUp, persist

ALIVE_EVERY = 5.0
"""Seconds."""


def main() -> None:
    source = os.fdopen(os.dup(0), "rb", buffering=0)
    sink = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the frames
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a dump of the memory would hold the keys
    with contextlib.suppress(OSError):
        # Before the controller, should memory run out: this process is large, and can be replaced.
        Path("/proc/self/oom_score_adj").write_text("500")
    hello = frames.read(source)
    if hello is None:
        return
    try:
        from trace_bench.gateway.litellm_calls import Caller
    except ImportError as error:
        _send(sink, {"broken": f"litellm cannot be imported: {error}"})
        return
    models = {model["id"]: model_from(model) for model in hello["models"]}
    worker = Worker(sink, models, Path(hello["limits_folder"]), Backoff(*hello["backoff"]))
    worker.caller = Caller(list(models.values()))
    _send(sink, {"ready": importlib.metadata.version("litellm")})
    asyncio.run(worker.serve(source))
    os._exit(0)  # threads of libraries have nothing that would be lost


class Worker:
    """Answers calls at the same time, each by as many tries as its model allows."""

    caller: Any

    def __init__(self, sink: BinaryIO, models: Mapping[str, RealModel], limits: Path, backoff: Backoff) -> None:
        self._sink = sink
        self._models = models
        self._backoff = backoff
        self._limiters = {
            model.id: HostLimits(limits, f"{model.provider} {model.base_url} {model.api_key}", model.limits)
            for model in models.values()
            if model.limits != HostLimit()
        }

    async def serve(self, source: BinaryIO) -> None:
        reader = asyncio.StreamReader(limit=1 << 20)
        loop = asyncio.get_running_loop()
        await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), source)
        running = {asyncio.create_task(self._say_alive())}
        while (frame := await frames.read_async(reader)) is not None:
            task = asyncio.create_task(self._serve(frame))
            running.add(task)
            task.add_done_callback(running.discard)
        for task in running:
            task.cancel()

    async def _say_alive(self) -> None:
        while True:
            await asyncio.sleep(ALIVE_EVERY)
            _send(self._sink, {"alive": True})

    async def _serve(self, frame: frames.Frame) -> None:
        number = frame["id"]
        try:
            answer = await self._ask(frame)
        except GaveUp as why:
            answer = {"error": str(why)}
        except OSError as error:  # of the folder of limits; what the network does is a try's own affair
            answer = {"error": f"the provider process failed: {error}"}
        except Exception as error:
            answer = {"error": f"the provider process failed: {type(error).__name__}"}
        try:
            _send(self._sink, {"id": number, **answer})
        except (frames.BrokenFrame, ValueError, TypeError, RecursionError) as error:
            # Nobody may be left waiting for an answer that no frame can hold.
            _send(self._sink, {"id": number, "error": f"an answer that cannot be handed on: {error}"[:300]})

    async def _ask(self, frame: frames.Frame) -> frames.Frame:
        from trace_bench.gateway.litellm_calls import Answer, Call

        model = self._models[frame["model"]]
        call = Call(model, frame["path"], frame["body"], frozenset(frame["added"]))

        async def ask() -> tuple[int, int, Answer]:
            result: tuple[int, int, Answer] = await self.caller.ask(call)
            return result

        answer = await persist(
            ask,
            retries=model.retries,
            backoff=self._backoff,
            on_try=lambda tried: _send(self._sink, {"id": frame["id"], "try": tried.model_dump()}),
            on_wait=lambda seconds, why: _send(self._sink, {"id": frame["id"], "wait": seconds, "why": why}),
            before=frame["tries"],
            limiter=self._limiters.get(model.id),
            tokens=tokens_of(call.body),
        )
        return {
            "status": answer.status,
            "body": answer.body,
            "counted": dataclasses.asdict(answer.counted),
            "estimated": answer.estimated,
            "dropped": call.dropped,
        }


def _send(sink: BinaryIO, frame: frames.Frame) -> None:
    try:
        sink.write(frames.encode(frame))
        sink.flush()
    except BrokenPipeError:
        os._exit(0)  # the controller is gone


if __name__ == "__main__":
    main()
