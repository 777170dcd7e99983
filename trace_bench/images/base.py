"""Finds the base that all families stand on: given by name, pulled, or made from Debian packages."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.images import debian
from trace_bench.images.debian import Progress
from trace_bench.images.engine import connect, engine_errors, few_limits, inspect_image, reason
from trace_bench.images.lock import Base, Lock

if TYPE_CHECKING:
    from docker import DockerClient

BASE_VARIABLE = "TRACE_BENCH_BASE"
OFFICIAL = "python:3.11-slim-bookworm"
PYTHONS = ("3.11", "3.12", "3.13")

_REGISTRY_TIMEOUT = 8.0
_NAME_ONE = f"set {BASE_VARIABLE} to an image that this engine has, with CPython 3.11 to 3.13 and a glibc"

_PROBE = """
import json, pathlib, platform, sys
name, packages = None, []
try:
    for line in pathlib.Path("/var/lib/dpkg/status").read_text("utf-8").splitlines():
        if line.startswith("Package: "): name = line[9:]
        elif line.startswith("Version: "): packages.append(f"{name}={line[9:]}")
except OSError:
    pass
print(json.dumps({"python": "%d.%d" % sys.version_info[:2], "implementation": sys.implementation.name,
    "machine": platform.machine(), "libc": platform.libc_ver(), "packages": sorted(packages)}))
"""


def wanted_base(base: str | None = None) -> str | None:
    """The base asked for: `base`, else ``$TRACE_BENCH_BASE``, else None (whatever can be had)."""
    return base or os.environ.get(BASE_VARIABLE) or None


def resolve_base(engine: DockerClient, wanted: str | None, lock: Lock, progress: Progress) -> Base:
    """The base to build on.

    Args:
        wanted: a name or ``repository@sha256:…``; it is pulled if the engine does not have it. None takes the
            base that the lock knows, else the official Python image, else makes one from Debian packages.

    Raises:
        EnvironmentUnavailable: there is none; the message says how to name one.
    """
    if wanted is not None:
        _pull_unless_present(engine, wanted, progress)
        return _described(engine, wanted, "given", wanted)
    for base in lock.bases.values():
        if base.requested is None and identity_in_engine(engine, base.ref) == base.identity:
            return base
    try:
        digest = _registry_digest(OFFICIAL)
    except EnvironmentUnavailable as error:
        refusal = reason(error)
    else:
        pinned = f"{OFFICIAL.split(':')[0]}@{digest}"
        _pull_unless_present(engine, pinned, progress)
        return _described(engine, pinned, "registry", None)
    progress(f"{OFFICIAL} cannot be pulled; the base is one made from Debian packages")
    made = debian.made_base(engine)
    if made is None:
        if (why := debian.hindrance()) is not None:
            raise EnvironmentUnavailable(
                f"there is no base to build images on: {OFFICIAL} cannot be pulled ({refusal}) and {why}; {_NAME_ONE}"
            )
        made = debian.make_base(engine, progress)
    return _described(engine, made, "debian", None)


def identity_in_engine(engine: DockerClient, ref: str) -> str | None:
    """Identity of the image `ref` as the engine has it now; None if it has none. Starts nothing."""
    from docker.errors import ImageNotFound

    with engine_errors(f"inspect the image {ref}"):
        try:
            return _identity(inspect_image(engine, ref), ref)
        except ImageNotFound:
            return None


def _identity(image: dict[str, Any], ref: str) -> str:
    if "@sha256:" in ref:
        return ref.rpartition("@")[2]
    layers, environment = image["RootFS"].get("Layers") or [], image["Config"].get("Env") or []
    made = (image["Config"].get("Labels") or {}).get(debian.IDENTITY_LABEL)
    if made is not None and len(layers) == 1 and environment == [debian.ENVIRONMENT]:
        return str(made)  # as it was imported; what is built on it inherits the label, and is something else
    repository = _repository(ref)
    for known in image.get("RepoDigests") or []:
        if known.rpartition("@")[0] == repository:
            return str(known.rpartition("@")[2])
    contents = json.dumps([layers, sorted(environment)])
    return "layers:" + hashlib.sha256(contents.encode()).hexdigest()


def _repository(ref: str) -> str:
    """`ref` without its tag."""
    head, slash, last = ref.rpartition("/")
    return f"{head}{slash}{last.partition(':')[0]}"


def _registry_digest(ref: str) -> str:
    """The digest that the registry has for `ref`, as the engine sees it; gives up after a few seconds."""
    hasty = connect(timeout=_REGISTRY_TIMEOUT)
    try:
        with engine_errors(f"ask the registry for {ref}"):
            answer = hasty.images.get_registry_data(ref)
    finally:
        hasty.close()
    return str(answer.id)


def _pull_unless_present(engine: DockerClient, ref: str, progress: Progress) -> None:
    from docker.errors import DockerException

    if identity_in_engine(engine, ref) is not None:
        return
    progress(f"pulling {ref}")
    try:
        engine.images.pull(ref)
    except DockerException as error:
        raise EnvironmentUnavailable(
            f"the base {ref} is neither in the engine nor can it be pulled ({reason(error)}); {_NAME_ONE}"
        ) from error


def _described(
    engine: DockerClient, ref: str, source: Literal["given", "registry", "debian"], requested: str | None
) -> Base:
    """`ref` with its identity, and what a look inside shows."""
    identity = identity_in_engine(engine, ref)
    if identity is None:
        raise EnvironmentUnavailable(f"the engine no longer lists the base {ref}; build again")
    seen = _look_inside(engine, ref)
    kind, version = seen["libc"]
    if seen["implementation"] != "cpython" or seen["python"] not in PYTHONS:
        raise EnvironmentUnavailable(
            f"the base {ref} has {seen['implementation']} {seen['python']}; CPython 3.11 to 3.13 is needed; {_NAME_ONE}"
        )
    if kind != "glibc":
        raise EnvironmentUnavailable(f"the base {ref} has no glibc, for which the wheels are made; {_NAME_ONE}")
    pinned = f"{_repository(ref)}@{identity}" if identity.startswith("sha256:") and "@" not in ref else ref
    return Base(
        ref=pinned,
        identity=identity,
        source=source,
        requested=requested,
        python=seen["python"],
        machine=seen["machine"],
        glibc=version,
        packages=tuple(seen["packages"]),
    )


def _look_inside(engine: DockerClient, ref: str) -> dict[str, Any]:
    """Ask the base's own interpreter about itself, in a container without a network."""
    from docker.errors import DockerException

    try:
        output = engine.containers.run(
            ref, entrypoint=["python3", "-I", "-c", _PROBE], command=[], remove=True, network_mode="none", user="0",
            cap_drop=["ALL"], read_only=True, labels={"trace-bench.probe": Path(ref).name}, ulimits=few_limits(),
        )  # fmt: skip
        seen: dict[str, Any] = json.loads(output)
    except (DockerException, ValueError) as error:
        # One that could not be started is not removed by `remove`.
        label = f"trace-bench.probe={Path(ref).name}"
        with contextlib.suppress(DockerException):
            for left in engine.containers.list(all=True, filters={"label": label, "status": "created"}):
                left.remove()
        raise EnvironmentUnavailable(f"the base {ref} does not run python3 ({reason(error)}); {_NAME_ONE}") from error
    return seen
