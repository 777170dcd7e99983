"""The server itself: a loopback port, a thread with a loop, and what a client needs to reach it."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import socket
import tempfile
import threading
import weakref
from collections.abc import Coroutine, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, TypeVar

import modal
from grpclib.server import Server
from modal._utils.grpc_utils import custom_detail_codec  # the client's own: it reads no other
from modal_proto import api_pb2
from modal_proto.api_grpc import ModalClientBase
from modal_proto.task_command_router_grpc import TaskCommandRouterBase

from tests.modal_server.control import Control
from tests.modal_server.engines import Engine, Keeping, ProcessEngine
from tests.modal_server.router import Router
from tests.modal_server.rpc import KEPT_CALLS, Record, Service
from tests.modal_server.sandboxes import Sandboxes
from tests.modal_server.sandboxes_v1 import SandboxesV1
from tests.modal_server.sandboxes_v2 import SandboxesV2
from tests.modal_server.state import Sandbox, State
from tests.modal_server.stdio import Watcher
from tests.modal_server.trouble import Starts, Trouble

Mode = Literal["process", "docker"]
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
    """A server on 127.0.0.1.

    As a context manager it ends its sandboxes and removes its state on the way out. `start` and `stop` leave both: a
    server that is started on the same `state` (and `port`) finds its sandboxes again.

    In process mode `isolated` sandboxes have a root, a process tree and a network of their own, where the host allows
    it; else they share the host's.

    >>> with ModalServer() as server, server.client() as client:
    ...     app = modal.App.lookup("an-app", create_if_missing=True, client=client)
    """

    def __init__(
        self,
        mode: Mode = "process",
        *,
        port: int = 0,
        state: Path | None = None,
        starts: Starts | None = None,
        images: Mapping[str, str] | None = None,
        variables: Mapping[str, str] | None = None,
        isolated: bool = True,
        kept_calls: int = KEPT_CALLS,
        credentials: tuple[str, str] = ("ak-loopback", "as-loopback"),
        engine: Engine | None = None,
    ) -> None:
        self.mode = mode
        self._own_engine = engine
        self.port = port
        self.state = state or Path(tempfile.mkdtemp(prefix="modal-server-"))
        self._isolated = isolated
        self._own_state = state is None
        self.starts = starts or Starts()
        self.images = dict(images or {})
        """Docker mode: references of a registry -> tags that the local engine has."""
        self.variables = dict(variables or {})
        """Process mode: what images set in the environment, such as PATH."""
        self.credentials = credentials
        self.trouble = Trouble()
        self.calls = Record(kept_calls)
        """What was called, secrets redacted: ``server.calls("SandboxCreateV2")``."""
        self._thread: threading.Thread | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def environment(self) -> dict[str, str]:
        """Variables by which another process's client finds this server and no other."""
        return {
            "MODAL_SERVER_URL": self.url,
            "MODAL_TOKEN_ID": self.credentials[0],
            "MODAL_TOKEN_SECRET": self.credentials[1],
            "MODAL_CONFIG_PATH": "/nonexistent",
        }

    @property
    def private(self) -> bool:
        """Process mode: whether sandboxes have a root, a process tree and a network of their own."""
        return self._keeping.private

    def client(self) -> modal.Client:
        """A client of this server, to be used as a context manager and passed as ``client=``."""
        return modal.Client(self.url, api_pb2.CLIENT_TYPE_CLIENT, self.credentials)

    def start(self) -> ModalServer:
        ready = threading.Event()
        failure: list[BaseException] = []

        def run() -> None:
            try:
                asyncio.run(self._serve(ready))
            except BaseException as error:
                failure.append(error)
                ready.set()

        self._thread = threading.Thread(target=run, name="modal-server", daemon=True)
        self._thread.start()
        ready.wait()
        if failure:
            raise failure[0]
        return self

    def stop(self) -> None:
        """Close the port; the sandboxes stay."""
        if self._thread and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._over.set)
            self._thread.join()
        self._thread = None

    def __enter__(self) -> ModalServer:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()

    def end(self) -> None:
        """Kill the sandboxes, then stop; remove the state if it is this server's own."""
        if self._thread is None:
            self.start()
        with contextlib.suppress(RuntimeError):
            self._call(self._end_all())
        self.stop()
        if self._own_state:
            shutil.rmtree(self.state, ignore_errors=True)

    def sandboxes(self) -> list[Sandbox]:
        """All of them, oldest first, ended ones too. To look at, not to change."""
        return sorted(self._state.sandboxes.values(), key=lambda sandbox: sandbox.created_at)

    def running(self) -> list[Sandbox]:
        return [sandbox for sandbox in self.sandboxes() if sandbox.running]

    def vanish(self, sandbox_id: str) -> None:
        """Lose a sandbox without a trace."""
        self._call(self._sandboxes.vanish(self._sandboxes.get(sandbox_id)))

    def cut(self, sandbox_id: str) -> None:
        """End the commands that run in a sandbox, and nothing else of it."""

        async def end() -> None:
            sandbox = self._sandboxes.get(sandbox_id)
            await self._sandboxes.kill_commands(sandbox)

        self._call(end())

    def terminate(self, sandbox_id: str) -> None:
        """End a sandbox, as somebody else of the workspace may."""
        self._call(self._sandboxes.terminate(self._sandboxes.get(sandbox_id)))

    def _call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    async def _serve(self, ready: threading.Event) -> None:
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()
        self._state = State(self.state)
        self._keeping = Keeping(self.state, self._isolated and self.mode == "process")
        await self._keeping.open()
        watcher = Watcher()
        engine = self._own_engine or self._engine()
        self._sandboxes = Sandboxes(self._state, engine, watcher, self.starts)
        self._sandboxes.resume()
        control = Control(self._state, engine, self.credentials)
        listener = self._listen()
        parts: list[Any] = [
            control,
            SandboxesV2(self._sandboxes, control, self.url),
            SandboxesV1(self._sandboxes, control, self.url),
        ]
        router = Router(self._sandboxes, control)
        server = _Closing(
            [
                Service(ModalClientBase, parts, self.calls, self.trouble),
                Service(TaskCommandRouterBase, [router], self.calls, self.trouble),
            ]
        )
        await server.start(sock=listener)
        ready.set()
        await self._over.wait()
        server.close()
        self._sandboxes.close()
        await server.wait_closed()
        watcher.close()
        self._keeping.close()

    def _listen(self) -> socket.socket:
        listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        self.port = int(listener.getsockname()[1])
        return listener

    def _engine(self) -> Engine:
        if self.mode == "process":
            return ProcessEngine(self._keeping, self.variables)
        from tests.modal_server.docker_engine import DockerEngine  # process mode does without the engine's client

        return DockerEngine(self._keeping, self._state.images, self.state, self.images)

    async def _end_all(self) -> None:
        await self._sandboxes.end_all()
        await self._keeping.ask(do="stop")
