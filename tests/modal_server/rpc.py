"""Turns plain methods into the handlers of the client's service classes: records, makes trouble, names what is missing.

A method is called like its RPC. It is a coroutine ``(request, metadata) -> reply``, or an async generator of replies,
or, for a stream of requests, a coroutine that takes an async iterator of them.
"""

from __future__ import annotations

import contextlib
import inspect
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import Message
from grpclib.const import Cardinality, Handler, Status
from grpclib.exceptions import GRPCError
from modal_proto import api_pb2

from tests.modal_server.trouble import Meeting, Trouble

KEPT_CALLS = 100_000
KEPT_BYTES = 256
"""Of every bytes field of a recorded message."""
REDACTED = "[redacted]"


@dataclass(frozen=True)
class Call:
    """One call that arrived. Values of secrets are redacted, long data is cut."""

    rpc: str
    message: Any
    at: float
    """Seconds of the monotonic clock."""


class Record:
    """The calls of a server, oldest first, for any thread."""

    def __init__(self, keep: int = KEPT_CALLS) -> None:
        self._keep = keep
        self._calls: deque[Call] = deque(maxlen=keep)
        self._lock = threading.Lock()
        self.hear: Callable[[Message], None] | None = None
        """Given each message as it came, with its secrets and all of its data."""

    def add(self, rpc: str, message: Message) -> None:
        if self.hear is not None:
            self.hear(message)
        if not self._keep:
            return
        with self._lock:
            self._calls.append(Call(rpc, redacted(message), time.monotonic()))

    def __call__(self, rpc: str = "") -> list[Call]:
        """All calls, or those of `rpc`."""
        with self._lock:
            return [call for call in self._calls if not rpc or call.rpc == rpc]

    def count(self, rpc: str) -> int:
        return len(self(rpc))


def redacted(message: Message) -> Message:
    """A copy of `message` without values of environments and secrets, its data cut to `KEPT_BYTES`."""
    copy = type(message)()
    copy.CopyFrom(message)
    _redact(copy)
    return copy


def _redact(message: Message) -> None:
    secret = isinstance(message, api_pb2.StringMap)
    for field, value in list(message.ListFields()):
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if is_map:
            if secret or field.name in ("env_dict", "env", "cloud_bucket_mount_credentials"):
                _redact_map(value)
        elif field.message_type is not None:
            for part in value if field.is_repeated else [value]:
                _redact(part)
        elif isinstance(value, bytes) and len(value) > KEPT_BYTES:
            setattr(message, field.name, value[:KEPT_BYTES])


def _redact_map(entries: Any) -> None:
    for key in list(entries):
        if isinstance(entries[key], str):
            entries[key] = REDACTED
        else:
            entries[key].Clear()


class Service:
    """What a grpclib server is given: every RPC of `base`, served by the first of `parts` that has its name."""

    def __init__(self, base: type, parts: Iterable[object], record: Record, trouble: Trouble) -> None:
        self._record = record
        self._trouble = trouble
        names = base.__abstractmethods__  # type: ignore[attr-defined]
        empty = type(base.__name__, (base,), dict.fromkeys(names, _nothing))()
        self._mapping: dict[str, Handler] = {}
        for path, handler in empty.__mapping__().items():
            name = path.rpartition("/")[2]
            method = next((getattr(part, name) for part in parts if hasattr(part, name)), None)
            call = self._served(name, method, handler.cardinality) if method else _unimplemented(name)
            self._mapping[path] = Handler(call, handler.cardinality, handler.request_type, handler.reply_type)

    def __mapping__(self) -> Mapping[str, Handler]:
        return self._mapping

    def _served(self, name: str, method: Any, cardinality: Cardinality) -> Any:
        takes_stream = cardinality in (Cardinality.STREAM_UNARY, Cardinality.STREAM_STREAM)

        async def call(stream: Any) -> None:
            metadata = dict(stream.metadata or {})
            if takes_stream:
                meets = self._trouble.meet(name, None)
                await meets.before()
                with contextlib.suppress(_Broken):
                    reply = await method(_recorded(name, stream, self._record, meets), metadata)
                    await meets.after()
                    await stream.send_message(reply)
                return
            request = await stream.recv_message()
            self._record.add(name, request)
            meets = self._trouble.meet(name, request)
            await meets.before()
            if not inspect.isasyncgenfunction(method):
                reply = await method(request, metadata)
                await meets.after()
                await stream.send_message(reply)
                return
            async for reply in method(request, metadata):
                await stream.send_message(reply)
                if meets.breaks(reply):
                    await stream.cancel()
                    return

        return call


class _Broken(Exception):
    """The stream of requests was cut on purpose."""


async def _recorded(name: str, stream: Any, record: Record, meets: Meeting) -> AsyncIterator[Any]:
    async for request in stream:
        record.add(name, request)
        yield request
        if meets.breaks(request):
            await stream.cancel()
            raise _Broken


async def _nothing(self: Any, stream: Any) -> None:
    raise NotImplementedError


def _unimplemented(name: str) -> Any:
    async def call(stream: Any) -> None:
        raise GRPCError(Status.UNIMPLEMENTED, f"{name} is not served here")

    return call
