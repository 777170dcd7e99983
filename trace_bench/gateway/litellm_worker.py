"""The provider process: ``python -m trace_bench.gateway.litellm_worker``, started by `ProviderProcess`.

It reads frames from stdin and writes frames to what was its stdout:

* first ``{"models", "limits_folder", "backoff"}``; it says ``{"ready": version}`` once litellm is imported;
* then calls ``{"id", "model", "path", "body", "added", "tries"}``, any number at a time, each answered by
  ``{"id", "wait", "why"}`` before every wait, ``{"id", "try"}`` after every try, and in the end by
  ``{"id", "status", "body", "counted", "estimated", "dropped"}`` or ``{"id", "error"}``. ``keep`` of a call says where
  it is written down;
* and ``{"alive": true}`` every few seconds, so that a process that hangs is noticed.

It ends when stdin does. Requests with ``keep`` that were sent are waited for first, so that their answers are written
down (`trace_bench.gateway.asked`); no other process is left behind by a controller that was killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib.metadata
import os
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

from trace_bench.artifacts.records import LlmTry
from trace_bench.gateway import frames
from trace_bench.gateway.asked import AskedFile
from trace_bench.gateway.estimates import tokens_of
from trace_bench.gateway.host_limits import HostLimits
from trace_bench.gateway.real import HostLimit, RealModel, model_from
from trace_bench.gateway.retries import Backoff, GaveUp, TryFailed, persist
from trace_bench.secrets import known

ALIVE_EVERY = 5.0
"""Seconds."""
AFTER_ITS_TIME = 30.0
"""Seconds beyond the longest time limit of a request for which one is waited for once the controller is gone."""


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
    known.add(model.api_key for model in models.values() if model.api_key)
    worker = Worker(sink, models, Path(hello["limits_folder"]), Backoff(*hello["backoff"]))
    worker.caller = Caller(list(models.values()))
    _send(sink, {"ready": importlib.metadata.version("litellm")})
    asyncio.run(worker.serve(source))
    os._exit(0)  # threads of libraries have nothing that would be lost


class Worker:
    """Answers calls at the same time, each by as many tries as its model allows."""

    caller: Any
    _alone = False
    """The controller is gone."""

    def __init__(self, sink: BinaryIO, models: Mapping[str, RealModel], limits: Path, backoff: Backoff) -> None:
        self._sink = sink
        self._models = models
        self._backoff = backoff
        self._sent: set[asyncio.Task[None]] = set()
        """Calls whose request is on its way, or whose answer is being written down."""
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
        self._alone = True
        sent = set(self._sent)
        for task in running - sent:
            task.cancel()
        if sent:
            longest = max(model.timeout for model in self._models.values())
            await asyncio.wait(sent, timeout=longest + AFTER_ITS_TIME)

    async def _say_alive(self) -> None:
        while True:
            await asyncio.sleep(ALIVE_EVERY)
            _send(self._sink, {"alive": True})

    async def _serve(self, frame: frames.Frame) -> None:
        number = frame["id"]
        kept = _Kept(frame["keep"]) if "keep" in frame else None
        try:
            answer = await self._answer(frame, kept)
            if kept is not None:
                await kept.answered(answer)
            try:
                _send(self._sink, {"id": number, **answer})
            except (frames.BrokenFrame, ValueError, TypeError, RecursionError) as error:
                # The caller waits for an answer, also if no frame can hold it.
                _send(self._sink, {"id": number, "error": f"an answer that cannot be handed on: {error}"[:300]})
        finally:
            self._sent.discard(cast("asyncio.Task[None]", asyncio.current_task()))
            if kept is not None:
                kept.close()

    async def _answer(self, frame: frames.Frame, kept: _Kept | None) -> frames.Frame:
        try:
            return await self._ask(frame, kept)
        except GaveUp as why:
            return {"error": str(why)}
        except OSError as error:  # of the folder of limits, or of the calls; what the network does is a try's affair
            return {"error": f"the provider process failed: {error}"}
        except Exception as error:
            return {"error": f"the provider process failed: {type(error).__name__}"}

    async def _ask(self, frame: frames.Frame, kept: _Kept | None) -> frames.Frame:
        from trace_bench.gateway.litellm_calls import Answer, Call

        model = self._models[frame["model"]]
        call = Call(model, frame["path"], frame["body"], frozenset(frame["added"]))

        async def ask() -> tuple[int, int, Answer]:
            result: tuple[int, int, Answer] = await self.caller.ask(call)
            return result

        async def ask_and_keep() -> tuple[int, int, Answer]:
            """Once the controller is gone nothing is sent, and what is sent is waited for."""
            task = cast("asyncio.Task[None]", asyncio.current_task())
            self._sent.add(task)
            try:
                if kept is not None:
                    await kept.before_a_try(lambda: self._alone)
                return await ask()
            except TryFailed as failure:
                self._sent.discard(task)
                failure.again = failure.again and not self._alone
                raise

        def tried(made: LlmTry) -> None:
            if kept is not None:
                kept.tried(made)
            _send(self._sink, {"id": frame["id"], "try": made.model_dump()})

        answer = await persist(
            ask if kept is None else ask_and_keep,
            retries=model.retries,
            backoff=self._backoff,
            on_try=tried,
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


class _Kept:
    """A call that is written down: its file is made before it is sent for the first time."""

    def __init__(self, keep: Mapping[str, Any]) -> None:
        self._path, self._head = Path(keep["path"]), keep["head"]
        self._file: AskedFile | None = None
        self._last: LlmTry | None = None

    async def before_a_try(self, alone: Callable[[], bool]) -> None:
        """
        Raises:
            OSError: it cannot be written down. TryFailed: the controller is gone, and nothing more is to be sent.
        """
        if alone():
            raise _gone()
        if self._file is not None:
            await asyncio.to_thread(self._file.again)
            return
        self._file = await asyncio.to_thread(AskedFile, self._path, self._head)
        if alone():
            self._file.discard()
            self._file = None
            raise _gone()

    # A full disk keeps no answer from the controller: what is not written down there counts as lost.

    def tried(self, made: LlmTry) -> None:
        self._last = None if made.error else made
        if self._file is not None and made.error:
            with contextlib.suppress(OSError):
                self._file.failed(made)

    async def answered(self, answer: frames.Frame) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError, ValueError, TypeError, RecursionError):  # the latter as of frames
                await asyncio.to_thread(self._file.answered, answer, self._last)

    def close(self) -> None:
        if self._file is not None:
            self._file.close()


def _gone() -> TryFailed:
    return TryFailed("the controller ended before the request was sent", again=False)


def _send(sink: BinaryIO, frame: frames.Frame) -> None:
    with contextlib.suppress(BrokenPipeError):  # the controller is gone, as stdin says too
        sink.write(frames.encode(frame))
        sink.flush()


if __name__ == "__main__":
    main()
