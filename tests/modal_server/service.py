"""The RPCs that Modal's client sends for the backend. A GPU makes it use the older family, whose names lack ``V2``."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import json
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from google.protobuf.message import Message
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from modal_proto import api_pb2
from modal_proto import task_command_router_pb2 as pb

from tests.modal_server.engines import Command, Engine, EngineError
from tests.modal_server.trouble import Starts

BUILDER = "2025.06"
Result = api_pb2.GenericResult
_DONE = Result(status=Result.GENERIC_STATUS_SUCCESS)


@dataclass
class Sandbox:
    """A sandbox; `status` is a `GenericResult.GenericStatus`, 0 while it runs."""

    app_id: str
    definition: api_pb2.Sandbox
    tags: dict[str, str]
    id: str = field(default_factory=lambda: f"sb-{secrets.token_hex(11)}")
    created_at: float = field(default_factory=time.time)
    started_at: float | None = None
    status: int = 0
    code: int = 0
    main: Command | None = None
    commands: dict[str, Command] = field(default_factory=dict)
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def task_id(self) -> str:
        return self.id.replace("sb-", "ta-")

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def running(self) -> bool:
        return not self.status

    @property
    def blocked(self) -> bool:
        return self.definition.network_access.network_access_type == api_pb2.NetworkAccess.BLOCKED

    @property
    def result(self) -> api_pb2.GenericResult:
        return Result(status=Result.GenericStatus.ValueType(self.status), exitcode=self.code)

    @property
    def handle(self) -> api_pb2.SandboxHandleMetadata:
        return api_pb2.SandboxHandleMetadata(result=self.result, app_id=self.app_id)

    def settle(self, status: int, code: int) -> None:
        """Note the end, which ends all of its commands."""
        self.status, self.code = self.status or status, code
        for command in self.commands.values():
            command.kill()
        self.ended.set()


class Service:
    """The service: what is known is kept in memory."""

    def __init__(self, engine: Engine, starts: Starts, url: str) -> None:
        self._engine = engine
        self._starts = starts
        self._url = url
        self._images: dict[str, str] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._terminated: set[str] = set()
        self.sandboxes: dict[str, Sandbox] = {}

    # -- the workspace -------------------------------------------------------------------------------------------

    async def ClientHello(self, request: Message) -> Message:
        return api_pb2.ClientHelloResponse(image_builder_version=BUILDER)

    async def AuthTokenGet(self, request: Message) -> Message:
        return api_pb2.AuthTokenGetResponse(token=_jwt())

    async def EnvironmentGetOrCreate(self, request: Any) -> Message:
        name = request.deployment_name or "main"
        settings = api_pb2.EnvironmentSettings(image_builder_version=BUILDER)
        return api_pb2.EnvironmentGetOrCreateResponse(
            environment_id=f"en-{name}", metadata=api_pb2.EnvironmentMetadata(name=name, settings=settings)
        )

    async def AppGetOrCreate(self, request: Any) -> Message:
        return api_pb2.AppGetOrCreateResponse(app_id=f"ap-{request.environment_name or 'main'}-{request.app_name}")

    async def ImageGetOrCreate(self, request: Any) -> Message:
        (line,) = request.image.dockerfile_commands
        image_id = "im-" + secrets.token_hex(8)
        self._images[image_id] = line.removeprefix("FROM ")
        return api_pb2.ImageGetOrCreateResponse(image_id=image_id)

    async def ImageJoinStreaming(self, request: Any) -> Any:
        result = _DONE
        try:
            await self._engine.prepare(self._images[request.image_id])
        except EngineError as error:
            result = Result(status=Result.GENERIC_STATUS_FAILURE, exception=str(error))
        yield api_pb2.ImageJoinStreamingResponse(result=result, entry_id="1", eof=True)

    # -- the life of a sandbox -----------------------------------------------------------------------------------

    async def SandboxCreateV2(self, request: Any) -> Message:
        if request.definition.resources.gpu_config.gpu_type:
            raise GRPCError(Status.INVALID_ARGUMENT, "GPUs are not supported by V2 Sandboxes")
        sandbox, start = self._create(request)
        await asyncio.shield(start)
        access = api_pb2.CommandRouterAccess(url=self._url, jwt=_jwt())
        return api_pb2.SandboxCreateV2Response(
            sandbox_id=sandbox.id, task_id=sandbox.task_id, metadata=sandbox.handle, command_router_access=access
        )

    async def SandboxCreate(self, request: Any) -> Message:
        sandbox, start = self._create(request)
        await asyncio.shield(start)
        return api_pb2.SandboxCreateResponse(sandbox_id=sandbox.id, metadata=sandbox.handle)

    def _create(self, request: Any) -> tuple[Sandbox, asyncio.Task[None]]:
        """Reserve the name and begin the start, which goes on even if the caller does not wait for it."""
        same = [one for one in self.sandboxes.values() if one.name == request.definition.name]
        if any(one.running and one.app_id == request.app_id for one in same):
            raise GRPCError(Status.ALREADY_EXISTS, f"a sandbox called {request.definition.name!r} is running")
        self._starts.admit()
        sandbox = Sandbox(request.app_id, request.definition, {tag.tag_name: tag.tag_value for tag in request.tags})
        self.sandboxes[sandbox.id] = sandbox
        return sandbox, self._keep(self._start(sandbox, *self._starts.draw()))

    async def _start(self, sandbox: Sandbox, seconds: float, fails: bool) -> None:
        await asyncio.sleep(seconds)
        try:
            if fails:
                raise EngineError("the start failed")
            image = self._images[sandbox.definition.image_id]
            sandbox.main = await self._engine.start(sandbox.id, sandbox.definition, image, sandbox.tags)
        except Exception as error:
            sandbox.settle(Result.GENERIC_STATUS_INIT_FAILURE, 1)
            raise GRPCError(Status.INTERNAL, str(error)) from error
        sandbox.started_at = time.time()
        self._keep(self._watch(sandbox, sandbox.main))

    async def _watch(self, sandbox: Sandbox, main: Command) -> None:
        code = await main.wait()
        await self._engine.forget(sandbox.id)
        done = Result.GENERIC_STATUS_FAILURE if code else Result.GENERIC_STATUS_SUCCESS
        sandbox.settle(Result.GENERIC_STATUS_TERMINATED if sandbox.id in self._terminated else done, code)

    async def SandboxWaitV2(self, request: Any) -> Message:
        sandbox = self.get(request.sandbox_id)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(sandbox.ended.wait(), request.timeout)
        self.get(request.sandbox_id)
        return api_pb2.SandboxWaitResponse(result=sandbox.result, metadata=sandbox.handle)

    async def SandboxTerminateV2(self, request: Any) -> Message:
        await self.terminate(self.get(request.sandbox_id))
        return api_pb2.SandboxTerminateResponse()

    async def terminate(self, sandbox: Sandbox) -> None:
        if sandbox.running and sandbox.main is not None:
            self._terminated.add(sandbox.id)
            await self._engine.kill(sandbox.id, sandbox.main)
            await sandbox.ended.wait()

    async def vanish(self, sandbox: Sandbox) -> None:
        """Lose it without a trace."""
        del self.sandboxes[sandbox.id]
        await self.terminate(sandbox)

    async def SandboxListV2(self, request: Any) -> Message:
        wanted = {tag.tag_name: tag.tag_value for tag in request.tags}
        running = [
            one
            for one in self.sandboxes.values()
            if one.running
            and one.app_id == request.app_id
            and wanted.items() <= one.tags.items()
            and (not request.before_timestamp or one.created_at < request.before_timestamp)
        ]
        page = sorted(running, key=lambda one: -one.created_at)[:100]
        infos = [api_pb2.SandboxInfo(id=one.id, created_at=one.created_at, app_id=one.app_id, name=one.name,
                 task_info=api_pb2.TaskInfo(id=one.task_id, sandbox_id=one.id)) for one in page]  # fmt: skip
        return api_pb2.SandboxListResponse(sandboxes=infos)

    async def SandboxTagsGetV2(self, request: Any) -> Message:
        tags = self.get(request.sandbox_id).tags
        return api_pb2.SandboxTagsGetResponse(
            tags=[api_pb2.SandboxTag(tag_name=name, tag_value=value) for name, value in tags.items()]
        )

    async def SandboxGetTaskIdV2(self, request: Any) -> Message:
        sandbox = self.get(request.sandbox_id)
        reply = api_pb2.SandboxGetTaskIdResponse(task_id=sandbox.task_id)
        if not sandbox.running:
            reply.task_result.CopyFrom(sandbox.result)
        return reply

    async def SandboxGetCommandRouterAccess(self, request: Any) -> Message:
        return api_pb2.SandboxGetCommandRouterAccessResponse(jwt=_jwt(), url=self._url)

    async def TaskGetCommandRouterAccess(self, request: Any) -> Message:
        return api_pb2.TaskGetCommandRouterAccessResponse(jwt=_jwt(), url=self._url)

    SandboxWait, SandboxTerminate, SandboxList = SandboxWaitV2, SandboxTerminateV2, SandboxListV2
    SandboxTagsGet, SandboxGetTaskId = SandboxTagsGetV2, SandboxGetTaskIdV2

    # -- commands in a sandbox -----------------------------------------------------------------------------------

    async def TaskExecStart(self, request: Any) -> Message:
        """A second call with the same id does nothing."""
        sandbox = self.get(request.task_id)
        if not sandbox.running or sandbox.main is None:
            raise GRPCError(Status.NOT_FOUND, f"sandbox {sandbox.id} is not running")
        if request.exec_id not in sandbox.commands:
            try:
                command = await self._engine.execute(sandbox.id, sandbox.main, list(request.command_args))
            except EngineError as error:
                raise GRPCError(Status.NOT_FOUND, str(error)) from error
            sandbox.commands[request.exec_id] = command
        return pb.TaskExecStartResponse()

    async def TaskExecStdioRead(self, request: Any) -> Any:
        async for data in self._command(request).read(request.offset):
            yield pb.TaskExecStdioReadResponse(data=data)

    async def TaskExecStdinWrite(self, request: Any) -> Message:
        try:
            await self._command(request).write(request.offset, request.data, request.eof)
        except EngineError as error:
            raise GRPCError(Status.FAILED_PRECONDITION, str(error)) from error
        return pb.TaskExecStdinWriteResponse()

    async def TaskExecWait(self, request: Any) -> Message:
        return pb.TaskExecWaitResponse(code=await self._command(request).wait())

    def get(self, sandbox_id: str) -> Sandbox:
        """By its id or its task's. Raises GRPCError: there is none."""
        sandbox = self.sandboxes.get(sandbox_id.replace("ta-", "sb-"))
        if sandbox is None:
            raise GRPCError(Status.NOT_FOUND, f"no sandbox {sandbox_id}")
        return sandbox

    def _command(self, request: Any) -> Command:
        """A command of a running sandbox: they go with it. Streams of theirs that are open run to their end."""
        sandbox = self.get(request.task_id)
        if not sandbox.running or request.exec_id not in sandbox.commands:
            raise GRPCError(Status.NOT_FOUND, f"no command {request.exec_id}")
        return sandbox.commands[request.exec_id]

    def _keep(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(self) -> None:
        """Terminate all sandboxes."""
        await asyncio.gather(*(self.terminate(sandbox) for sandbox in list(self.sandboxes.values())))


def _jwt() -> str:
    """An unsigned token of the right shape."""
    parts = [{"alg": "none", "typ": "JWT"}, {"exp": int(time.time() + 3600)}]
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*coded, "unsigned"])
