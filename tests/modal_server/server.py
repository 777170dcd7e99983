"""The server itself: a loopback port, a thread with a loop, and what a client needs to reach it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
import subprocess
import threading
import weakref
from collections.abc import Coroutine, Mapping
from typing import Any, Literal, TypeVar

import modal
from grpclib.server import Server
from modal._utils.grpc_utils import custom_detail_codec  # the client's own: it reads no other
from modal_proto import api_pb2
from modal_proto.api_grpc import ModalClientBase
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

from tests.modal_server.engines import DockerEngine, Engine, ProcessEngine
from tests.modal_server.rpc import Call, Handlers
from tests.modal_server.service import Sandbox, Service
from tests.modal_server.trouble import Starts, Trouble

T = TypeVar("T")


class _Closing(Server):
    """A grpclib server whose close also cuts the connections that clients hold."""

    def __init__(self, handlers: list[Any]) -> None:
        super().__init__(handlers, status_details_codec=custom_detail_codec)
        self._protocols: weakref.WeakSet[Any] = weakref.WeakSet()

    def _protocol_factory(self) -> Any:
        protocol = super()._protocol_factory()
        self._protocols.add(protocol)
        return protocol

    def close(self) -> None:
        super().close()
        for protocol in list(self._protocols):
            if getattr(protocol, "connection", None) is not None:
                protocol.connection._transport.abort()


class ModalServer:
    """A server on 127.0.0.1. As a context manager it ends its sandboxes on the way out; `stop` leaves them.

    Args:
        mode: processes of this host in namespaces, which takes root, or containers of the local Docker engine.
        images: docker mode: references of a registry, and the engine's names for them.
        variables: process mode: what images set in the environment, such as PATH.
        engine: runs the sandboxes instead.

    >>> with ModalServer() as server, server.client() as client:
    ...     app = modal.App.lookup("an-app", create_if_missing=True, client=client)
    """

    def __init__(
        self,
        mode: Literal["process", "docker"] = "process",
        *,
        starts: Starts | None = None,
        images: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
        engine: Engine | None = None,
    ) -> None:
        self._engine = engine or (DockerEngine(images or {}) if mode == "docker" else ProcessEngine(variables or {}))
        self.starts = starts or Starts()
        self.trouble = Trouble()
        self.credentials = ("ak-loopback", "as-loopback")
        self.port = 0
        self._calls: list[Call] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="modal-server", daemon=True)
        self._server: _Closing | None = None

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which another process's client finds this server and no other."""
        return {
            "MODAL_SERVER_URL": f"http://127.0.0.1:{self.port}",
            "MODAL_TOKEN_ID": self.credentials[0],
            "MODAL_TOKEN_SECRET": self.credentials[1],
            "MODAL_CONFIG_PATH": "/nonexistent",
        }

    @property
    def private(self) -> bool:
        """True if process mode works here."""
        test = ["unshare", "--mount", "--pid", "--net", "--fork", "true"]
        works = shutil.which("nsenter") and os.geteuid() == 0 and subprocess.run(test, check=False).returncode == 0
        return bool(works)

    def client(self) -> modal.Client:
        """A client of this server, to be used as a context manager and passed as ``client=``."""
        return modal.Client(self.environment["MODAL_SERVER_URL"], api_pb2.CLIENT_TYPE_CLIENT, self.credentials)

    def __enter__(self) -> ModalServer:
        self._thread.start()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._service.end())
        self.stop()
        self._call(self._settle())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def start(self) -> None:
        """Open the port."""
        self._call(self._open())

    def stop(self) -> None:
        """Close the port and cut all connections; the sandboxes stay."""
        self._call(self._close())

    def calls(self, rpc: str = "") -> list[Call]:
        """All calls so far, or those of `rpc`."""
        return [call for call in list(self._calls) if not rpc or call.rpc == rpc]

    def sandboxes(self) -> list[Sandbox]:
        """All of them, ended ones too. To look at, not to change."""
        return list(self._service.sandboxes.values())

    def running(self) -> list[Sandbox]:
        return [sandbox for sandbox in self.sandboxes() if sandbox.running]

    def vanish(self, sandbox_id: str) -> None:
        """Lose a sandbox without a trace."""
        self._call(self._service.vanish(self._service.get(sandbox_id)))

    def cut(self, sandbox_id: str) -> None:
        """End the commands that run in a sandbox, and nothing else of it."""
        for command in self._service.get(sandbox_id).commands.values():
            self._loop.call_soon_threadsafe(command.kill)

    def terminate(self, sandbox_id: str) -> None:
        """End a sandbox, as somebody else of the workspace may."""
        self._call(self._service.terminate(self._service.get(sandbox_id)))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _open(self) -> None:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        if not self.port:
            self.port = int(listener.getsockname()[1])
            self._service = Service(self._engine, self.starts, self.environment["MODAL_SERVER_URL"])
        control = Handlers(ModalClientBase, self._service, self.credentials, self._calls, self.trouble)
        router = Handlers(TaskCommandRouterBase, self._service, None, self._calls, self.trouble)
        self._server = _Closing([control, router])
        await self._server.start(sock=listener)

    async def _settle(self) -> None:
        """Wait for what goes on, such as the end of a process that was killed."""
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        if tasks:
            await asyncio.wait(tasks, timeout=5)

    async def _close(self) -> None:
        assert self._server is not None
        self._server.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._server.wait_closed(), 5)
