"""Podman behind the Docker API: what is asked of it in other words, and its reports in Docker's.

Seen with Podman 4.3. All that differs stands here, so that `trace_bench.sandbox.container` and
`trace_bench.sandbox.controls` know one engine. Podman's own report (the path ``libpod``) says which capabilities and
log limits a container has; sysctls and the IPC mode are in no report, and are read from the configuration that its
runtime was started with, a file on the engine's machine.
"""

from __future__ import annotations

import itertools
import json
import tarfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from trace_bench.errors import SandboxError
from trace_bench.sandbox.controls import NOT_YET

Facts = Mapping[str, Any]

ENGINE = "Podman Engine"
API = "v4.0.0/libpod"
"""The oldest version of its own API that has all that is read here."""
SMALLEST = "ro,nosuid,nodev,noexec,size=4096"
"""Options of folders that Podman adds, writable, to a container whose root cannot be written."""
ADDED = ("/var/tmp",)
_ONE_CONNECTION = "Podman closes the input of a container with the first connection to it"
LACKS: Mapping[str, str] = {
    "adoption": _ONE_CONNECTION,
    "connection": _ONE_CONNECTION,
    "owners": "Podman's archives give all files to root",
    "oom_flag": "Podman does not say whether the memory limit killed something; the worker's own account does",
}
"""Features that it does not have, each with the reason."""
PROCESSES = 4096
"""Limit of processes of one user, beside that of the container: Podman's own is more than some hosts let it set."""
_RLIMIT = "RLIMIT_"
NO_COMMAND = "failed to exec pid1"
"""What catatonit says of a command that the image lacks; it ends with 1 then, and does not name it."""
_CHUNK = 1 << 16
_END = 2 * tarfile.BLOCKSIZE
"""Bytes of zeros at the end of an archive."""
PATIENCE = 10.0
"""Seconds within which Podman has ended a container whose process has ended."""
_LOGS = {"k8s-file": "json-file"}
"""Drivers of logs, as Docker calls what they do."""


def is_podman(version: Facts) -> bool:
    """Whether an engine's ``version`` is Podman's."""
    return any(part.get("Name") == ENGINE for part in version.get("Components") or [])


def asked(config: dict[str, Any], log_bytes: int) -> dict[str, Any]:
    """The body of the create call, of what Docker would be asked in `config`.

    Args:
        log_bytes: limit of the container's log.
    """
    host = dict(config["HostConfig"])
    # Without a size of its own, and with programs: unless it is asked for otherwise.
    host["Tmpfs"] = {**host["Tmpfs"], **dict.fromkeys(ADDED, SMALLEST)}
    most = max(PROCESSES, int(host["PidsLimit"]))
    host["Ulimits"] = [*host["Ulimits"], {"Name": "nproc", "Soft": most, "Hard": most}]
    host["LogConfig"] = {"Type": "k8s-file", "Config": {"max-size": str(log_bytes)}}
    # Labels of a volume that is made with its container are dropped: it is made before.
    host["Mounts"] = [
        {key: value for key, value in mount.items() if key != "VolumeOptions"} for mount in host["Mounts"]
    ]
    # Podman makes a timer of systemd for any health check, even for that which means none.
    return {key: value for key, value in config.items() if key != "Healthcheck"} | {"HostConfig": host}


def in_dockers_words(container: Facts, own: Facts) -> dict[str, Any]:
    """The ``inspect`` of a container as Docker would say it.

    Args:
        container: as Podman says it behind the Docker API.
        own: as it says it in its own API.
    """
    host, mine = dict(container.get("HostConfig") or {}), own.get("HostConfig") or {}
    runtime = _oci(own)
    capabilities = own.get("BoundingCaps")
    if capabilities is not None:  # what is left of all, when these are dropped and those added
        host["CapDrop"], host["CapAdd"] = ["ALL"], list(capabilities)
    host["Ulimits"] = [
        {**limit, "Name": str(limit.get("Name")).removeprefix(_RLIMIT).lower()} for limit in host.get("Ulimits") or []
    ]
    log = mine.get("LogConfig") or {}
    size = str(log.get("Size") or "")
    host["LogConfig"] = {
        "Type": _LOGS.get(str(log.get("Type")), str(log.get("Type"))),
        "Config": {} if size in ("", "0B") else {"max-size": size},
    }
    host["Binds"] = _others(container, host)
    host["Tmpfs"] = {
        folder: options
        for folder, options in (host.get("Tmpfs") or {}).items()
        if not (folder in ADDED and {"ro", "noexec"} <= set(str(options).split(",")))
    }
    host["Runtime"] = str(own.get("OCIRuntime") or host.get("Runtime") or "")
    host["Sysctls"] = dict((runtime.get("linux") or {}).get("sysctl") or {})
    host["IpcMode"] = _ipc_mode(runtime)
    host["ReadonlyPaths"] = list((runtime.get("linux") or {}).get("readonlyPaths") or [])
    return {**container, "HostConfig": host, NOT_YET: () if runtime else ("ipc",)}


def archive(root: str, get: Callable[[], Iterable[bytes]]) -> Iterator[bytes]:
    """The archive of a folder, with all members below `root`: Podman leaves that out once a container has ended.

    Args:
        get: asks for the archive. While a container is ending, Podman answers with nothing.

    Raises:
        SandboxError: it is no tar stream.
    """
    end = time.monotonic() + PATIENCE
    while not (first := next(chunks := iter(get()), b"")) and time.monotonic() < end:
        time.sleep(0.1)
    return _under(root, itertools.chain([first], chunks))


def _under(root: str, chunks: Iterable[bytes]) -> Iterator[bytes]:
    try:
        reader, rooted = _Reader(chunks), None
        with tarfile.open(fileobj=reader, mode="r|", errors="surrogateescape") as archive:  # type: ignore[call-overload]
            for member in archive:
                rooted = member.name == root if rooted is None else rooted  # as the first one is, the folder itself
                member.name = member.name if rooted else f"{root}/{member.name.strip('/')}".rstrip("/")
                member.pax_headers = {}
                yield member.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape")
                if content := archive.extractfile(member) if member.isreg() else None:
                    while data := content.read(_CHUNK):
                        yield data
                    yield bytes(-member.size % tarfile.BLOCKSIZE)
        if not reader.is_whole():
            raise SandboxError("the engine's archive of a sandbox has no end.")
    except tarfile.TarError as error:
        raise SandboxError(f"the engine's archive of a sandbox is damaged: {error}.") from error
    yield bytes(2 * tarfile.BLOCKSIZE)


class _Reader:
    """Chunks as a file that is read from its beginning to its end."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks, self._rest, self._tail = iter(chunks), b"", b""

    def read(self, size: int) -> bytes:
        while len(self._rest) < size and (chunk := next(self._chunks, None)) is not None:
            self._rest += chunk
        found, self._rest = self._rest[:size], self._rest[size:]
        self._tail = (self._tail + found[-_END:])[-_END:]
        return found

    def is_whole(self) -> bool:
        """Whether all of it ends as an archive does."""
        while self.read(_CHUNK):
            pass
        return self._tail == bytes(_END)


def _others(container: Facts, host: Facts) -> list[str]:
    """Binds that are no volume of the container."""
    volumes = {str(mount.get("Name")) for mount in container.get("Mounts") or [] if mount.get("Type") == "volume"}
    return [bind for bind in host.get("Binds") or [] if str(bind).partition(":")[0] not in volumes]


def _oci(own: Facts) -> dict[str, Any]:
    """The configuration of the container's runtime; empty where it cannot be read: before the start, or from afar."""
    try:
        found = json.loads(Path(str(own.get("OCIConfigPath") or "/nonexistent")).read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _ipc_mode(runtime: Facts) -> str:
    """``none`` for a namespace of its own in which nothing is mounted at ``/dev/shm``; empty if it is not known."""
    if not runtime:
        return ""
    spaces = (runtime.get("linux") or {}).get("namespaces") or []
    if not any(space.get("type") == "ipc" and not space.get("path") for space in spaces):
        return "host"
    mounted = any(mount.get("destination") == "/dev/shm" for mount in runtime.get("mounts") or [])
    return "private" if mounted else "none"
