"""What the server knows, in a folder: it survives the server.

``apps.json``, ``images.json`` … map names or ids to what is known of them; ``sandboxes/ID/record.json`` is one sandbox,
``sandboxes/ID/main`` its own command's folder, ``sandboxes/ID/exec/EXEC_ID`` a command's.
"""

from __future__ import annotations

import base64
import json
import os
import secrets
import string
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from modal_proto import api_pb2

ALPHANUMERIC = string.ascii_letters + string.digits


def new_id(prefix: str, length: int = 22) -> str:
    return prefix + "-" + "".join(secrets.choice(ALPHANUMERIC) for _ in range(length))


class Table:
    """A small persistent map of JSON values."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key: str) -> Any:
        return self._rows.get(key)

    def put(self, key: str, value: Any) -> None:
        self._rows[key] = value
        write(self._path, json.dumps(self._rows))

    def items(self) -> list[tuple[str, Any]]:
        return list(self._rows.items())


def write(path: Path, text: str) -> None:
    """Replace the file at `path`, whole or not at all; only its owner may read it, for environments are in it."""
    part = path.with_name(path.name + ".part")
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w") as file:
        file.write(text)
    part.replace(path)


@dataclass
class Sandbox:
    id: str
    task_id: str
    app_id: str
    definition: api_pb2.Sandbox
    tags: dict[str, str]
    env: dict[str, str]
    folder: Path
    created_at: float
    """Seconds since the epoch; no two sandboxes of a server share one."""
    started_at: float | None = None
    ended_at: float | None = None
    status: int = 0
    """A `GenericResult.GenericStatus`; 0 while it runs."""
    exit_code: int = 0
    exception: str = ""
    v2: bool = True
    wanted: int = 0
    """The status that somebody asked for (terminated, timeout), while its processes still end."""
    last_used: float = field(default_factory=time.time)
    stdin_index: int = 0

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def main(self) -> Path:
        return self.folder / "main"

    @property
    def running(self) -> bool:
        return not self.status

    @property
    def blocked(self) -> bool:
        access = self.definition.network_access.network_access_type
        return self.definition.block_network or access == api_pb2.NetworkAccess.BLOCKED

    @property
    def result(self) -> api_pb2.GenericResult:
        if not self.status:
            return api_pb2.GenericResult()
        return api_pb2.GenericResult(
            status=api_pb2.GenericResult.GenericStatus.ValueType(self.status),
            exitcode=self.exit_code,
            exception=self.exception,
        )

    def commands(self) -> list[Path]:
        """Folders of the commands that were started in it."""
        folder = self.folder / "exec"
        return sorted(folder.iterdir()) if folder.is_dir() else []

    def marks(self) -> dict[str, str]:
        """What the service puts into every environment."""
        return {"MODAL_IS_REMOTE": "1", "MODAL_SANDBOX_ID": self.id, "MODAL_TASK_ID": self.task_id}

    def save(self) -> None:
        row = {key: getattr(self, key) for key in _PLAIN}
        row["definition"] = base64.b64encode(self.definition.SerializeToString()).decode()
        write(self.folder / "record.json", json.dumps(row))


_PLAIN = (
    *("id", "task_id", "app_id", "tags", "env", "created_at", "started_at", "ended_at", "status", "exit_code"),
    *("exception", "v2", "wanted"),
)


class State:
    """Everything of one server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "sandboxes").mkdir(parents=True, exist_ok=True)
        self.apps = Table(folder / "apps.json")
        """Environment and name of an app -> its id."""
        self.images = Table(folder / "images.json")
        """Image id -> its Dockerfile's lines."""
        self.secrets = Table(folder / "secrets.json")
        self.volumes = Table(folder / "volumes.json")
        self.sandboxes: dict[str, Sandbox] = {}
        self.by_task: dict[str, Sandbox] = {}
        self._by_name: dict[tuple[str, str], Sandbox] = {}
        self._latest = 0.0
        for path in sorted(folder.glob("sandboxes/*/record.json")):
            self._add(_loaded(path))

    def new(
        self, app_id: str, definition: api_pb2.Sandbox, tags: Mapping[str, str], env: Mapping[str, str], v2: bool
    ) -> Sandbox:
        """A sandbox that is about to start."""
        id = new_id("sb-v2") if v2 else new_id("sb")
        task = new_id("ta", 20) + ("V" if v2 else "1")
        folder = self.folder / "sandboxes" / id
        folder.mkdir()
        self._latest = max(time.time(), self._latest + 1e-5)
        sandbox = Sandbox(id, task, app_id, definition, dict(tags), dict(env), folder, self._latest, v2=v2)
        sandbox.save()
        self._add(sandbox)
        return sandbox

    def forget(self, sandbox: Sandbox) -> None:
        """As if it had never been."""
        del self.sandboxes[sandbox.id]
        del self.by_task[sandbox.task_id]
        (sandbox.folder / "record.json").unlink(missing_ok=True)

    def named(self, app_id: str, name: str) -> Sandbox | None:
        """The latest sandbox of that name."""
        found = self._by_name.get((app_id, name))
        return found if found and found.id in self.sandboxes else None

    def running(self) -> Iterator[Sandbox]:
        return (sandbox for sandbox in list(self.sandboxes.values()) if sandbox.running)

    def _add(self, sandbox: Sandbox) -> None:
        self.sandboxes[sandbox.id] = self.by_task[sandbox.task_id] = sandbox
        if sandbox.name:
            before = self._by_name.get((sandbox.app_id, sandbox.name))
            if before is None or before.created_at < sandbox.created_at:
                self._by_name[sandbox.app_id, sandbox.name] = sandbox
        self._latest = max(self._latest, sandbox.created_at)


def _loaded(path: Path) -> Sandbox:
    row = json.loads(path.read_text())
    definition = api_pb2.Sandbox.FromString(base64.b64decode(row.pop("definition")))
    return Sandbox(folder=path.parent, definition=definition, **row)
