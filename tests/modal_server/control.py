"""The control plane apart from sandboxes: hello, tokens, apps, environments, images, secrets, volumes."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any

from google.protobuf.empty_pb2 import Empty
from grpclib.const import Status
from grpclib.exceptions import GRPCError
from modal_proto import api_pb2

from tests.modal_server.engines import Engine, EngineError
from tests.modal_server.state import State, new_id

BUILDER = "2025.06"
TOKEN_SECONDS = 3600.0
_DONE = api_pb2.GenericResult(status=api_pb2.GenericResult.GENERIC_STATUS_SUCCESS)


def jwt(**claims: Any) -> str:
    """An unsigned token of the right shape."""
    parts = [{"alg": "none", "typ": "JWT"}, {"exp": int(time.time() + TOKEN_SECONDS), **claims}]
    coded = [base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts]
    return ".".join([*coded, "unsigned"])


def claims_of(token: str) -> dict[str, Any]:
    """What an unsigned token claims; empty if it is none."""
    try:
        part = token.split(".")[1]
        found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (IndexError, ValueError):
        return {}
    return found


class Control:
    def __init__(self, state: State, engine: Engine, credentials: tuple[str, str]) -> None:
        self._state = state
        self._engine = engine
        self._prepared: set[str] = set()
        self._credentials = credentials

    def authorize(self, metadata: Mapping[str, Any]) -> None:
        """Raises:
        GRPCError: the token is not this server's.
        """
        if (metadata.get("x-modal-token-id"), metadata.get("x-modal-token-secret")) != self._credentials:
            raise GRPCError(Status.UNAUTHENTICATED, "Token missing or invalid")

    async def ClientHello(self, request: Any, metadata: Mapping[str, Any]) -> api_pb2.ClientHelloResponse:
        self.authorize(metadata)
        return api_pb2.ClientHelloResponse(image_builder_version=BUILDER)

    async def AuthTokenGet(self, request: Any, metadata: Mapping[str, Any]) -> api_pb2.AuthTokenGetResponse:
        self.authorize(metadata)
        return api_pb2.AuthTokenGetResponse(token=jwt(kind="client"))

    async def EnvironmentGetOrCreate(
        self, request: api_pb2.EnvironmentGetOrCreateRequest, metadata: Mapping[str, Any]
    ) -> api_pb2.EnvironmentGetOrCreateResponse:
        self.authorize(metadata)
        name = request.deployment_name or "main"
        settings = api_pb2.EnvironmentSettings(image_builder_version=BUILDER)
        return api_pb2.EnvironmentGetOrCreateResponse(
            environment_id="en-" + name, metadata=api_pb2.EnvironmentMetadata(name=name, settings=settings)
        )

    async def AppGetOrCreate(
        self, request: api_pb2.AppGetOrCreateRequest, metadata: Mapping[str, Any]
    ) -> api_pb2.AppGetOrCreateResponse:
        self.authorize(metadata)
        key = f"{request.environment_name or 'main'}/{request.app_name}"
        if self._state.apps.get(key) is None:
            if request.object_creation_type != api_pb2.OBJECT_CREATION_TYPE_CREATE_IF_MISSING:
                raise GRPCError(Status.NOT_FOUND, f"App '{request.app_name}' not found")
            self._state.apps.put(key, new_id("ap"))
        return api_pb2.AppGetOrCreateResponse(app_id=self._state.apps.get(key))

    async def ImageGetOrCreate(
        self, request: api_pb2.ImageGetOrCreateRequest, metadata: Mapping[str, Any]
    ) -> api_pb2.ImageGetOrCreateResponse:
        """Equal definitions share an id; their engine makes them when the client waits for them."""
        self.authorize(metadata)
        bases = {base.docker_tag: base.image_id for base in request.image.base_images}
        definition = {"lines": list(request.image.dockerfile_commands), "bases": bases}
        id = next((id for id, known in self._state.images.items() if known == definition), None)
        if id is None:
            id = new_id("im")
            self._state.images.put(id, definition)
        return api_pb2.ImageGetOrCreateResponse(image_id=id, result=_DONE if id in self._prepared else None)

    async def ImageJoinStreaming(self, request: api_pb2.ImageJoinStreamingRequest, metadata: Mapping[str, Any]) -> Any:
        self.authorize(metadata)
        if self._state.images.get(request.image_id) is None:
            raise GRPCError(Status.NOT_FOUND, f"no image {request.image_id}")
        try:
            await self._engine.prepare(request.image_id)
        except EngineError as error:
            failed = api_pb2.GenericResult(status=api_pb2.GenericResult.GENERIC_STATUS_FAILURE, exception=str(error))
            yield api_pb2.ImageJoinStreamingResponse(result=failed, entry_id="1", eof=True)
            return
        self._prepared.add(request.image_id)
        yield api_pb2.ImageJoinStreamingResponse(result=_DONE, entry_id="1", eof=True)

    async def SecretGetOrCreate(
        self, request: api_pb2.SecretGetOrCreateRequest, metadata: Mapping[str, Any]
    ) -> api_pb2.SecretGetOrCreateResponse:
        self.authorize(metadata)
        key = f"{request.environment_name or 'main'}/{request.deployment_name}" if request.deployment_name else ""
        for id, known in self._state.secrets.items():
            if key and known["key"] == key:
                return api_pb2.SecretGetOrCreateResponse(secret_id=id)
        if key and request.object_creation_type == api_pb2.OBJECT_CREATION_TYPE_UNSPECIFIED:
            raise GRPCError(Status.NOT_FOUND, f"Secret '{request.deployment_name}' not found")
        id = new_id("st")
        self._state.secrets.put(id, {"key": key, "env": dict(request.env_dict)})
        return api_pb2.SecretGetOrCreateResponse(secret_id=id)

    async def VolumeGetOrCreate(
        self, request: api_pb2.VolumeGetOrCreateRequest, metadata: Mapping[str, Any]
    ) -> api_pb2.VolumeGetOrCreateResponse:
        """A volume has an id and no files: no mount of one shows anything."""
        self.authorize(metadata)
        key = f"{request.environment_name or 'main'}/{request.deployment_name}"
        id = self._state.volumes.get(key)
        if id is None:
            if request.object_creation_type != api_pb2.OBJECT_CREATION_TYPE_CREATE_IF_MISSING:
                raise GRPCError(Status.NOT_FOUND, f"Volume '{request.deployment_name}' not found")
            id = new_id("vo")
            self._state.volumes.put(key, id)
        return api_pb2.VolumeGetOrCreateResponse(volume_id=id)

    async def AppClientDisconnect(self, request: Any, metadata: Mapping[str, Any]) -> Empty:
        return Empty()

    def environment_of(self, ids: Iterable[str], sources: Iterable[api_pb2.SecretSource]) -> dict[str, str]:
        """The variables of stored secrets and of those that came along; later ones win.

        Raises:
            GRPCError: a secret is unknown.
        """
        env: dict[str, str] = {}
        for id in ids:
            env |= self._secret(id)
        for source in sources:
            env |= self._secret(source.secret_id) if source.secret_id else dict(source.env.contents)
        return env

    def _secret(self, id: str) -> dict[str, str]:
        known = self._state.secrets.get(id)
        if known is None:
            raise GRPCError(Status.NOT_FOUND, f"no secret {id}")
        env: dict[str, str] = known["env"]
        return env
