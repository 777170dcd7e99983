"""The V2 family: what the client calls by default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from grpclib.const import Status
from grpclib.exceptions import GRPCError
from modal_proto import api_pb2

from tests.modal_server.control import Control, claims_of, jwt
from tests.modal_server.sandboxes import Sandboxes
from tests.modal_server.state import Sandbox

Metadata = Mapping[str, Any]


def handle_of(sandbox: Sandbox) -> api_pb2.SandboxHandleMetadata:
    return api_pb2.SandboxHandleMetadata(result=sandbox.result, app_id=sandbox.app_id)


def tags_of(sandbox: Sandbox) -> api_pb2.SandboxTagsGetResponse:
    tags = [api_pb2.SandboxTag(tag_name=name, tag_value=value) for name, value in sandbox.tags.items()]
    return api_pb2.SandboxTagsGetResponse(tags=tags)


def info_of(sandbox: Sandbox) -> api_pb2.SandboxInfo:
    return api_pb2.SandboxInfo(
        id=sandbox.id,
        created_at=sandbox.created_at,
        app_id=sandbox.app_id,
        name=sandbox.name,
        image_id=sandbox.definition.image_id,
        tags=tags_of(sandbox).tags,
        timeout_secs=sandbox.definition.timeout_secs,
        metadata=handle_of(sandbox),
        task_info=api_pb2.TaskInfo(
            id=sandbox.task_id,
            sandbox_id=sandbox.id,
            started_at=sandbox.started_at or 0.0,
            finished_at=sandbox.ended_at or 0.0,
            result=sandbox.result,
        ),
    )


def task_of(sandbox: Sandbox) -> api_pb2.SandboxGetTaskIdResponse:
    reply = api_pb2.SandboxGetTaskIdResponse()
    if sandbox.started_at is not None:
        reply.task_id = sandbox.task_id
    if not sandbox.running:
        reply.task_result.CopyFrom(sandbox.result)
    return reply


class SandboxesV2:
    def __init__(self, sandboxes: Sandboxes, control: Control, url: str) -> None:
        self._sandboxes = sandboxes
        self._control = control
        self._url = url

    async def SandboxCreateV2(
        self, request: api_pb2.SandboxCreateV2Request, metadata: Metadata
    ) -> api_pb2.SandboxCreateV2Response:
        self._authorize(metadata)
        if request.definition.resources.gpu_config.gpu_type:
            raise GRPCError(Status.INVALID_ARGUMENT, "GPUs are not supported by V2 Sandboxes")
        env = self._control.environment_of(request.definition.secret_ids, request.secret_sources)
        tags = {tag.tag_name: tag.tag_value for tag in request.tags}
        sandbox = await self._sandboxes.create(request.app_id, request.definition, tags, env, True)
        return api_pb2.SandboxCreateV2Response(
            sandbox_id=sandbox.id,
            task_id=sandbox.task_id,
            metadata=handle_of(sandbox),
            command_router_access=api_pb2.CommandRouterAccess(url=self._url, jwt=jwt(task_id=sandbox.task_id)),
        )

    async def SandboxWaitV2(
        self, request: api_pb2.SandboxWaitRequest, metadata: Metadata
    ) -> api_pb2.SandboxWaitResponse:
        self._authorize(metadata)
        sandbox = await self._sandboxes.wait(request.sandbox_id, request.timeout)
        return api_pb2.SandboxWaitResponse(result=sandbox.result, metadata=handle_of(sandbox))

    async def SandboxTerminateV2(
        self, request: api_pb2.SandboxTerminateRequest, metadata: Metadata
    ) -> api_pb2.SandboxTerminateResponse:
        self._authorize(metadata)
        sandbox = self._sandboxes.get(request.sandbox_id)
        existing = sandbox.result
        await self._sandboxes.terminate(sandbox)
        return api_pb2.SandboxTerminateResponse(existing_result=existing)

    async def SandboxListV2(
        self, request: api_pb2.SandboxListRequest, metadata: Metadata
    ) -> api_pb2.SandboxListResponse:
        self._authorize(metadata)
        page = self._sandboxes.page(request, v2=True)
        return api_pb2.SandboxListResponse(sandboxes=[info_of(sandbox) for sandbox in page])

    async def SandboxGetFromNameV2(
        self, request: api_pb2.SandboxGetFromNameRequest, metadata: Metadata
    ) -> api_pb2.SandboxGetFromNameResponse:
        self._authorize(metadata)
        return from_name(self._sandboxes, request, v2=True)

    async def SandboxGetTaskIdV2(
        self, request: api_pb2.SandboxGetTaskIdRequest, metadata: Metadata
    ) -> api_pb2.SandboxGetTaskIdResponse:
        self._authorize(metadata)
        return task_of(self._sandboxes.get(request.sandbox_id))

    async def SandboxGetCommandRouterAccess(
        self, request: api_pb2.SandboxGetCommandRouterAccessRequest, metadata: Metadata
    ) -> api_pb2.SandboxGetCommandRouterAccessResponse:
        self._authorize(metadata)
        sandbox = self._sandboxes.get(request.sandbox_id or request.task_id)
        return api_pb2.SandboxGetCommandRouterAccessResponse(jwt=jwt(task_id=sandbox.task_id), url=self._url)

    async def SandboxTagsGetV2(
        self, request: api_pb2.SandboxTagsGetRequest, metadata: Metadata
    ) -> api_pb2.SandboxTagsGetResponse:
        self._authorize(metadata)
        return tags_of(self._sandboxes.get(request.sandbox_id))

    async def SandboxTagsSetV2(self, request: api_pb2.SandboxTagsSetRequest, metadata: Metadata) -> Any:
        self._authorize(metadata)
        return set_tags(self._sandboxes, request)

    def _authorize(self, metadata: Metadata) -> None:
        self._control.authorize(metadata)
        if claims_of(str(metadata.get("x-modal-auth-token"))).get("kind") != "client":
            raise GRPCError(Status.UNAUTHENTICATED, "the auth token is missing")


def from_name(
    sandboxes: Sandboxes, request: api_pb2.SandboxGetFromNameRequest, *, v2: bool
) -> api_pb2.SandboxGetFromNameResponse:
    key = f"{request.environment_name or 'main'}/{request.app_name}"
    app_id = sandboxes.state.apps.get(key)
    found = sandboxes.state.named(app_id, request.sandbox_name) if app_id else None
    if found is None or found.v2 != v2 or not (found.running or request.include_terminated):
        raise GRPCError(Status.NOT_FOUND, f"no sandbox called {request.sandbox_name!r} runs in {request.app_name!r}")
    return api_pb2.SandboxGetFromNameResponse(sandbox_id=found.id, metadata=handle_of(found))


def set_tags(sandboxes: Sandboxes, request: api_pb2.SandboxTagsSetRequest) -> Any:
    from google.protobuf.empty_pb2 import Empty

    sandbox = sandboxes.get(request.sandbox_id)
    sandbox.tags = {tag.tag_name: tag.tag_value for tag in request.tags}
    sandbox.save()
    return Empty()
