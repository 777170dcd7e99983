"""The task command router: commands in a sandbox, their stdin and output, and a V2 sandbox's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

from grpclib.const import Status
from grpclib.exceptions import GRPCError
from modal_proto import task_command_router_pb2 as pb

from tests.modal_server.control import Control, claims_of
from tests.modal_server.sandboxes import Sandboxes
from tests.modal_server.state import Sandbox
from tests.modal_server.stdio import Stdio

Metadata = Mapping[str, Any]


class Router:
    def __init__(self, sandboxes: Sandboxes, control: Control) -> None:
        self._sandboxes = sandboxes
        self._control = control

    async def TaskExecStart(self, request: pb.TaskExecStartRequest, metadata: Metadata) -> pb.TaskExecStartResponse:
        sandbox = self._sandbox(request.task_id, metadata)
        if not request.exec_id or "/" in request.exec_id:
            raise GRPCError(Status.INVALID_ARGUMENT, "exec_id is missing")
        env = self._control.environment_of(request.secret_ids, request.secret_sources)
        await self._sandboxes.execute(
            sandbox,
            request.exec_id,
            list(request.command_args),
            env,
            request.workdir or None,
            request.timeout_secs if request.HasField("timeout_secs") else None,
        )
        return pb.TaskExecStartResponse()

    async def TaskExecStdioRead(self, request: pb.TaskExecStdioReadRequest, metadata: Metadata) -> Any:
        stdio = self._command(request, metadata)
        stdout = request.file_descriptor == pb.TASK_EXEC_STDIO_FILE_DESCRIPTOR_STDOUT
        async for data in stdio.read("stdout" if stdout else "stderr", request.offset):
            yield pb.TaskExecStdioReadResponse(data=data)

    async def TaskExecStdinWrite(
        self, request: pb.TaskExecStdinWriteRequest, metadata: Metadata
    ) -> pb.TaskExecStdinWriteResponse:
        sandbox = self._sandbox(request.task_id, metadata)
        stdio = self._command(request, metadata)
        await self._sandboxes.write(sandbox, stdio, request.offset, request.data, request.eof)
        return pb.TaskExecStdinWriteResponse()

    async def TaskExecStdinWriteStream(
        self, requests: AsyncIterator[pb.TaskExecStdinWriteStreamRequest], metadata: Metadata
    ) -> pb.TaskExecStdinWriteStreamResponse:
        start = (await anext(requests)).start
        sandbox, stdio = self._sandbox(start.task_id, metadata), self._command(start, metadata)
        offset = start.offset
        async for request in requests:
            await self._sandboxes.write(sandbox, stdio, offset, request.data, request.HasField("end"))
            offset += len(request.data)
        return pb.TaskExecStdinWriteStreamResponse()

    async def TaskExecStdinStatus(
        self, request: pb.TaskExecStdinStatusRequest, metadata: Metadata
    ) -> pb.TaskExecStdinStatusResponse:
        stdio = self._command(request, metadata)
        return pb.TaskExecStdinStatusResponse(num_bytes_written=stdio.written, closed=stdio.closed)

    async def TaskExecWait(self, request: pb.TaskExecWaitRequest, metadata: Metadata) -> pb.TaskExecWaitResponse:
        ended = await self._command(request, metadata).wait()
        self._command(request, metadata)
        return pb.TaskExecWaitResponse(**ended)

    async def TaskExecPoll(self, request: pb.TaskExecPollRequest, metadata: Metadata) -> pb.TaskExecPollResponse:
        return pb.TaskExecPollResponse(**(self._command(request, metadata).ended() or {}))

    async def SandboxStdioReadV2(self, request: pb.SandboxStdioReadV2Request, metadata: Metadata) -> Any:
        stdio = self._sandboxes.stdio(self._sandbox(request.task_id, metadata).main)
        stdout = request.file_descriptor == pb.SANDBOX_STDIO_FILE_DESCRIPTOR_STDOUT
        offset = request.offset
        async for data in stdio.read("stdout" if stdout else "stderr", offset):
            yield pb.SandboxStdioReadV2Response(data=data, starting_offset=offset)
            offset += len(data)

    async def SandboxStdinWriteV2(
        self, request: pb.SandboxStdinWriteV2Request, metadata: Metadata
    ) -> pb.SandboxStdinWriteV2Response:
        sandbox = self._sandbox(request.task_id, metadata)
        stdio = self._sandboxes.stdio(sandbox.main)
        await self._sandboxes.write(sandbox, stdio, request.offset, request.data, request.eof)
        return pb.SandboxStdinWriteV2Response()

    async def SandboxWaitUntilReady(
        self, request: pb.SandboxWaitUntilReadyTcrRequest, metadata: Metadata
    ) -> pb.SandboxWaitUntilReadyTcrResponse:
        """At once: probes are not run."""
        return pb.SandboxWaitUntilReadyTcrResponse(ready_at=self._sandbox(request.task_id, metadata).started_at or 0.0)

    def _sandbox(self, task_id: str, metadata: Metadata) -> Sandbox:
        token = str(metadata.get("authorization", "")).removeprefix("Bearer ")
        if claims_of(token).get("task_id") != task_id:
            raise GRPCError(Status.UNAUTHENTICATED, "the token is not this task's")
        return self._sandboxes.get(task_id)

    def _command(self, request: Any, metadata: Metadata) -> Stdio:
        """A command of a running sandbox: they go with it. Streams of theirs that are open then run to their end."""
        sandbox = self._sandbox(request.task_id, metadata)
        folder = sandbox.folder / "exec" / request.exec_id
        if not sandbox.running or not request.exec_id or not folder.is_dir():
            raise GRPCError(Status.NOT_FOUND, f"no command {request.exec_id}")
        return self._sandboxes.stdio(folder)
