"""Handlers from plain methods for the service classes of Modal's client: each call is recorded and may meet trouble."""

from __future__ import annotations

import inspect
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grpclib.const import Handler, Status
from grpclib.exceptions import GRPCError

from tests.modal_server.trouble import Trouble


@dataclass(frozen=True)
class Call:
    """One call that arrived."""

    rpc: str
    message: Any
    at: float
    """Seconds of the monotonic clock."""


class Handlers:
    """What a grpclib server is given: every RPC of `base`, served by the method of `service` with its name.

    A method is a coroutine ``(request) -> reply``, or an async generator of replies.

    Args:
        credentials: id and secret of the token that every call must carry; None if calls need no token.
    """

    def __init__(
        self, base: type, service: object, credentials: tuple[str, str] | None, calls: list[Call], trouble: Trouble
    ) -> None:
        self._credentials = credentials
        self._calls = calls
        self._trouble = trouble
        names = base.__abstractmethods__  # type: ignore[attr-defined]
        empty = type(base.__name__, (base,), dict.fromkeys(names, _nothing))()
        self._mapping: dict[str, Handler] = {}
        for path, handler in empty.__mapping__().items():
            name = path.rpartition("/")[2]
            call = self._handler(name, getattr(service, name, None))
            self._mapping[path] = Handler(call, handler.cardinality, handler.request_type, handler.reply_type)

    def __mapping__(self) -> Mapping[str, Handler]:
        return self._mapping

    def _handler(self, name: str, method: Any) -> Any:
        async def call(stream: Any) -> None:
            if method is None:
                raise GRPCError(Status.UNIMPLEMENTED, f"{name} is not served here")
            tokens = tuple((stream.metadata or {}).get(f"x-modal-token-{part}") for part in ("id", "secret"))
            if self._credentials is not None and tokens != self._credentials:
                raise GRPCError(Status.UNAUTHENTICATED, "Token missing or invalid")
            request = await stream.recv_message()
            self._calls.append(Call(name, request, time.monotonic()))
            actions = self._trouble.meet(name, request)
            for action in actions:
                await action.before()
            if inspect.isasyncgenfunction(method):
                async for reply in method(request):
                    await stream.send_message(reply)
                return
            reply = await method(request)
            for action in actions:
                await action.after()
            await stream.send_message(reply)

        return call


async def _nothing(self: Any, stream: Any) -> None:
    raise NotImplementedError
