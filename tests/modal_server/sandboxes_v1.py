"""The V1 family: what the client calls for a GPU, or with ``MODAL_SANDBOX_V2=0``."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import Mapping
from typing import Any

from grpclib.const import Status
from grpclib.exceptions import GRPCError
from modal_proto import api_pb2

from tests.modal_server.control import Control, jwt
from tests.modal_server.sandboxes import Sandboxes
from tests.modal_server.sandboxes_v2 import from_name, handle_of, info_of, set_tags, tags_of, task_of

Metadata = Mapping[str, Any]


class SandboxesV1:
    def __init__(self, sandboxes: Sandboxes, control: Control, url: str) -> None:
        self._sandboxes = sandboxes
        self._control = control
        self._url = url

    async def SandboxCreate(
        self, request: api_pb2.SandboxCreateRequest, metadata: Metadata
    ) -> api_pb2.SandboxCreateResponse:
        self._control.authorize(metadata)
        env = self._control.environment_of(request.definition.secret_ids, [])
        tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        sandbox = await self._sandboxes.create(request.app_id, request.definition, tags, env, False)
        return api_pb2.SandboxCreateResponse(sandbox_id=sandbox.id, metadata=handle_of(sandbox))

    async def SandboxGetTaskId(
        self, request: api_pb2.SandboxGetTaskIdRequest, metadata: Metadata
    ) -> api_pb2.SandboxGetTaskIdResponse:
        """Empty until the sandbox has started; the client asks again."""
        self._control.authorize(metadata)
        sandbox = self._sandboxes.get(request.sandbox_id)
        if sandbox.started_at is None:
            await self._sandboxes.started(sandbox, request.timeout or 0.5)
        return task_of(sandbox)

    async def SandboxWait(self, request: api_pb2.SandboxWaitRequest, metadata: Metadata) -> api_pb2.SandboxWaitResponse:
        self._control.authorize(metadata)
        sandbox = await self._sandboxes.wait(request.sandbox_id, request.timeout)
        return api_pb2.SandboxWaitResponse(result=sandbox.result, metadata=handle_of(sandbox))

    async def SandboxTerminate(
        self, request: api_pb2.SandboxTerminateRequest, metadata: Metadata
    ) -> api_pb2.SandboxTerminateResponse:
        self._control.authorize(metadata)
        sandbox = self._sandboxes.get(request.sandbox_id)
        existing = sandbox.result
        await self._sandboxes.terminate(sandbox)
        return api_pb2.SandboxTerminateResponse(existing_result=existing)

    async def SandboxList(self, request: api_pb2.SandboxListRequest, metadata: Metadata) -> api_pb2.SandboxListResponse:
        self._control.authorize(metadata)
        page = self._sandboxes.page(request, v2=False)
        return api_pb2.SandboxListResponse(sandboxes=[info_of(sandbox) for sandbox in page])

    async def SandboxGetFromName(
        self, request: api_pb2.SandboxGetFromNameRequest, metadata: Metadata
    ) -> api_pb2.SandboxGetFromNameResponse:
        self._control.authorize(metadata)
        return from_name(self._sandboxes, request, v2=False)

    async def TaskGetCommandRouterAccess(
        self, request: api_pb2.TaskGetCommandRouterAccessRequest, metadata: Metadata
    ) -> api_pb2.TaskGetCommandRouterAccessResponse:
        self._control.authorize(metadata)
        sandbox = self._sandboxes.get(request.task_id)
        if not sandbox.running:
            raise GRPCError(Status.FAILED_PRECONDITION, f"sandbox {sandbox.id} has ended")
        return api_pb2.TaskGetCommandRouterAccessResponse(jwt=jwt(task_id=sandbox.task_id), url=self._url)

    async def SandboxTagsGet(
        self, request: api_pb2.SandboxTagsGetRequest, metadata: Metadata
    ) -> api_pb2.SandboxTagsGetResponse:
        self._control.authorize(metadata)
        return tags_of(self._sandboxes.get(request.sandbox_id))

    async def SandboxTagsSet(self, request: api_pb2.SandboxTagsSetRequest, metadata: Metadata) -> Any:
        self._control.authorize(metadata)
        return set_tags(self._sandboxes, request)

    async def SandboxStdinWrite(
        self, request: api_pb2.SandboxStdinWriteRequest, metadata: Metadata
    ) -> api_pb2.SandboxStdinWriteResponse:
        """Writes are numbered from 1; one that has been is skipped."""
        self._control.authorize(metadata)
        sandbox = self._sandboxes.get(request.sandbox_id)
        if request.index > sandbox.stdin_index:
            stdio = self._sandboxes.stdio(sandbox.main)
            await self._sandboxes.write(sandbox, stdio, stdio.written, request.input, request.eof)
            sandbox.stdin_index = request.index
        return api_pb2.SandboxStdinWriteResponse()

    async def SandboxGetLogs(self, request: api_pb2.SandboxGetLogsRequest, metadata: Metadata) -> Any:
        """Output as text, and so without bytes that are no UTF-8; an entry's id is the offset behind it."""
        self._control.authorize(metadata)
        sandbox = self._sandboxes.get(request.sandbox_id)
        await self._sandboxes.started(sandbox, request.timeout)
        offset = int(request.last_entry_id or 0)
        if not sandbox.main.is_dir():
            if not sandbox.running:
                yield api_pb2.TaskLogsBatch(eof=True, entry_id=str(offset))
            return
        stdout = request.file_descriptor == api_pb2.FILE_DESCRIPTOR_STDOUT
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        output = self._sandboxes.stdio(sandbox.main).read("stdout" if stdout else "stderr", offset)
        end = asyncio.get_running_loop().time() + (request.timeout or 55)
        try:
            while True:
                left = end - asyncio.get_running_loop().time()
                data = await asyncio.wait_for(anext(output), left)
                offset += len(data)
                # What is half a character comes with the next entry.
                text = decoder.decode(data)
                held = len(decoder.getstate()[0])
                yield _batch(sandbox.id, sandbox.task_id, text, offset - held, request.file_descriptor)
        except TimeoutError:
            return
        except StopAsyncIteration:
            if rest := decoder.decode(b"", final=True):
                yield _batch(sandbox.id, sandbox.task_id, rest, offset, request.file_descriptor)
            yield api_pb2.TaskLogsBatch(eof=True, entry_id=str(offset))


def _batch(id: str, task_id: str, text: str, offset: int, descriptor: Any) -> api_pb2.TaskLogsBatch:
    item = api_pb2.TaskLogs(data=text, file_descriptor=descriptor)
    return api_pb2.TaskLogsBatch(sandbox_id=id, task_id=task_id, entry_id=str(offset), items=[item])
