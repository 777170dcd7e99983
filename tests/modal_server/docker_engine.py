"""Sandboxes as containers of the local Docker engine.

As the service has them: root, a writable root file system, the engine's default capabilities. The keeper holds one
``docker start -a -i`` for a sandbox's own command and one ``docker exec -i`` per command: streams outlive
the server.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import docker
from docker.errors import APIError, BuildError, DockerException, NotFound

from tests.modal_server.engines import EngineError, Keeping, kill_marked
from tests.modal_server.state import Sandbox, Table

LABEL = "modal-server"
BUILT = "modal-server-built"
START_SECONDS = 60.0
_MARK = "MODAL_EXEC_ID"


class DockerEngine:
    """`names` maps references such as ``registry/repo@sha256:…`` to tags that the engine has; others are pulled.

    GPUs, volumes, regions and allow lists are recorded only.
    """

    def __init__(self, keeping: Keeping, images: Table, state: Path, names: Mapping[str, str]) -> None:
        self._keeping = keeping
        self._images = images
        self._state = state
        self._names = names
        self._client = docker.DockerClient.from_env(timeout=120)
        self._ready: dict[str, str] = {}
        self._preparing = asyncio.Lock()

    async def prepare(self, image_id: str) -> None:
        async with self._preparing:
            if image_id not in self._ready:
                self._ready[image_id] = await self._do(lambda: self._prepared(image_id))

    async def start(self, sandbox: Sandbox) -> None:
        await self.prepare(sandbox.definition.image_id)
        name = self._ready[sandbox.definition.image_id]
        await self._do(lambda: self._client.api.create_container(**self._options(sandbox, name)))
        argv = ["docker", "start", "-a", "-i", _name(sandbox)]
        await self._keeping.ask(do="start", folder=str(sandbox.main), argv=argv, env=_own_environment())
        end = asyncio.get_running_loop().time() + START_SECONDS
        while (await self._do(lambda: self._client.api.inspect_container(_name(sandbox))))["State"][
            "Status"
        ] == "created":
            if (sandbox.main / "exit").exists():
                raise EngineError((sandbox.main / "stderr").read_text().strip())
            if asyncio.get_running_loop().time() > end:
                raise EngineError("the container does not start")
            await asyncio.sleep(0.02)

    async def execute(
        self, sandbox: Sandbox, folder: Path, argv: Sequence[str], env: Mapping[str, str], cwd: str | None
    ) -> None:
        # Values go by the environment of the docker client: a command line is for all to read.
        env = {**sandbox.env, **sandbox.marks(), **env, _MARK: folder.name}
        options = [part for key in env for part in ("-e", key)]
        cwd = cwd or sandbox.definition.workdir
        place = ["-w", cwd] if cwd else []
        command = ["docker", "exec", "-i", *options, *place, _name(sandbox), *argv]
        await self._keeping.ask(do="start", folder=str(folder), argv=command, env={**env, **_own_environment()})

    async def kill(self, sandbox: Sandbox) -> None:
        with contextlib.suppress(EngineError):  # it has ended
            await self._do(lambda: self._client.api.kill(_name(sandbox)))

    async def kill_command(self, sandbox: Sandbox, folder: Path) -> None:
        """The engine cannot end a command: its processes are found by their environment, on this host."""
        await asyncio.to_thread(kill_marked, f"{_MARK}={folder.name}")
        await self._keeping.ask(do="kill", folder=str(folder))

    async def close_stdin(self, folder: Path) -> None:
        await self._keeping.ask(do="close_stdin", folder=str(folder))

    async def forget(self, sandbox: Sandbox) -> None:
        def remove() -> None:
            with contextlib.suppress(NotFound):
                try:
                    self._client.api.remove_container(_name(sandbox), force=True, v=True)
                except APIError as error:
                    if error.status_code != 409:
                        raise
                    # Its end was seen at the same moment, and it is being removed for that.
                    self._client.api.wait(_name(sandbox), condition="removed")

        with contextlib.suppress(EngineError):
            await self._do(remove)

    async def close(self) -> None:
        """Remove the images that were built here, and whatever container is left."""

        def sweep() -> None:
            for left in self._client.api.containers(all=True, filters={"label": f"{LABEL}={self._state}"}):
                with contextlib.suppress(NotFound):
                    self._client.api.remove_container(left["Id"], force=True, v=True)

        with contextlib.suppress(EngineError):
            await self._do(sweep)
        for image_id, _ in self._images.items():
            with contextlib.suppress(EngineError):
                await self._do(lambda image_id=image_id: self._client.api.remove_image(f"{BUILT}:{image_id}"))

    def _options(self, sandbox: Sandbox, image: str) -> dict[str, Any]:
        wants = sandbox.definition.resources
        memory = (wants.memory_mb_max or wants.memory_mb) << 20
        api = self._client.api
        host = api.create_host_config(
            network_mode="none" if sandbox.blocked else "bridge",
            mem_limit=memory or None,
            memswap_limit=memory or None,
            nano_cpus=(wants.milli_cpu_max or wants.milli_cpu) * 1_000_000 or None,
            log_config={"type": "none"},
        )
        return {
            "image": image,
            "name": _name(sandbox),
            "command": list(sandbox.definition.entrypoint_args) or ["sleep", "infinity"],
            "environment": {**sandbox.marks(), **sandbox.env},
            "working_dir": sandbox.definition.workdir or None,
            "stdin_open": True,
            "host_config": host,
            "labels": {LABEL: str(self._state)},
        }

    def _prepared(self, image_id: str) -> str:
        """The engine's name of an image; pulls or builds it."""
        definition = self._images.get(image_id)
        built = f"{BUILT}:{image_id}"
        if definition is None or self._has(built):
            return built
        first, *rest = definition["lines"]
        reference = first.removeprefix("FROM ")
        base = definition["bases"].get(reference)
        name = self._prepared(base) if base else self._names.get(reference, reference)
        if not base and not self._has(name):
            self._client.api.pull(name)
        if not rest:
            return name
        dockerfile = "\n".join([f"FROM {name}", *rest])
        self._client.images.build(fileobj=io.BytesIO(dockerfile.encode()), tag=built, rm=True, forcerm=True)
        return built

    def _has(self, name: str) -> bool:
        try:
            self._client.api.inspect_image(name)
        except NotFound:
            return False
        return True

    async def _do(self, call: Any) -> Any:
        try:
            return await asyncio.to_thread(call)
        except (APIError, BuildError, DockerException) as error:
            raise EngineError(str(getattr(error, "explanation", None) or error)) from error


def _name(sandbox: Sandbox) -> str:
    return "modal-" + sandbox.id


def _own_environment() -> dict[str, str]:
    """What the docker client needs to find its engine."""
    return {key: value for key, value in os.environ.items() if key in ("PATH", "HOME") or key.startswith("DOCKER_")}
