"""Builds the image of a family: its dependencies, parent first, then the worker on top.

Each family leaves two images: ``trace-bench/<family>-deps`` (all but the worker; children stand on it) and
``trace-bench/<family>``. A change of the worker therefore rebuilds one small layer and no wheels. The
engine's classic builder is used, which every engine since 20.10 has.
"""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

import trace_bench
from trace_bench.errors import EnvironmentUnavailable
from trace_bench.homes import cache_home
from trace_bench.images.archives import Archive, kept
from trace_bench.images.base import resolve_base, wanted_base
from trace_bench.images.context import dependencies_context, worker_context, write_context
from trace_bench.images.debian import Progress, gather_packages
from trace_bench.images.engine import connect, engine_errors, inspect_image
from trace_bench.images.layers import added_pins, family_named
from trace_bench.images.lock import Base, ImagePin, Lock, building, read_lock, record
from trace_bench.images.recipe import Family, dependencies_key, image_key
from trace_bench.images.wheels import Target, gather, gather_pins
from trace_bench.resources import package_dir

if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["ImagePin", "build", "build_on", "docker_build", "labelled_image", "silent"]

FAMILY_LABEL = "trace-bench.family"
KEY_LABEL = "trace-bench.image-key"
BASE_LABEL = "trace-bench.base"
PARTS_LABEL = "trace-bench.parts"
PLUGINS_LABEL = "trace-bench.plugins"

_LAST_LINES = 20
_LAYER = re.compile(r"^ ---> ([0-9a-f]{12})$")
_FROM = re.compile(r"^Step \d+/\d+ : FROM ")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def silent(line: str) -> None:
    """Progress that goes nowhere."""


def build(
    family: str,
    *,
    base: str | None = None,
    engine: DockerClient | None = None,
    progress: Progress | None = None,
    home: Path | None = None,
    refresh_base: bool = False,
) -> ImagePin:
    """Build the image of `family` by today's recipe, unless the engine has it, and lock it.

    Args:
        base: the image to stand on; default ``$TRACE_BENCH_BASE``, else the locked one, else what can be had.
        engine: default: the engine of ``DOCKER_HOST``, of the current context, or at the default socket.
        progress: called with a line of text at each step.
        home: the folder of the lock.
        refresh_base: look for a newer base even though the lock knows one.

    Raises:
        ConfigError: there is no such family or addition, or one that does not fit what it stands on.
        EnvironmentUnavailable: no engine, no base, a wheel that cannot be had, or a build that fails.
    """
    say = progress or silent
    target = family_named(family)
    client = connect(engine)
    with building(home):
        lock = Lock() if refresh_base else read_lock(home)
        found = resolve_base(client, wanted_base(base), lock, say)
        return build_on(found, target, client, say, home)


def build_on(base: Base, family: Family, engine: DockerClient, progress: Progress, home: Path | None) -> ImagePin:
    """`build` on a base that has been found. The caller holds `trace_bench.images.lock.building`."""
    key = image_key(family.recipe, base.identity)
    ref = f"{family.repository}:{key[:12]}"
    image = labelled_image(engine, ref, key)
    if image is None:
        below = _dependencies(family, base, engine, progress)
        progress(f"building {ref}")
        parts = family.recipe.parts(base.identity)
        labels = {
            FAMILY_LABEL: family.name,
            KEY_LABEL: key,
            BASE_LABEL: base.identity,
            PARTS_LABEL: json.dumps(parts, sort_keys=True),
            **({PLUGINS_LABEL: json.dumps(family.plugin_versions, sort_keys=True)} if family.plugins else {}),
            **_provenance(family),
        }
        docker_build(engine, ref, worker_context(family), {"BASE": below, **family.arguments}, labels, progress)
        image = labelled_image(engine, ref, key)
    if image is None:
        raise EnvironmentUnavailable(f"the engine no longer lists {ref}; build again")
    earlier = read_lock(home).images.get(family.name)
    same = earlier is not None and earlier.key == key and earlier.image_id == image["Id"]
    if earlier is not None and same and labelled_image(engine, earlier.ref, key) is not None:
        return record(earlier, base, home=home)  # it may have been pushed since, and then is known by its digest
    pin = ImagePin(
        family=family.name,
        ref=ref,
        key=key,
        image_id=str(image["Id"]),
        base=base.identity,
        built_at=str(image["Created"]),
        parts=family.recipe.parts(base.identity),
        plugins=family.plugin_versions,
    )
    return record(pin, base, home=home)


def labelled_image(engine: DockerClient, ref: str, key: str) -> dict[str, Any] | None:
    """The engine's record of `ref` if it has the label `key`; else None. One call, no container."""
    from docker.errors import ImageNotFound

    with engine_errors(f"inspect the image {ref}"):
        try:
            image = inspect_image(engine, ref)
        except ImageNotFound:
            return None
    return image if (image["Config"].get("Labels") or {}).get(KEY_LABEL) == key else None


def archive_of(family: Family) -> Archive | None:
    """The archive that a user provided for the image of `family`; None if it needs none.

    Raises:
        EnvironmentUnavailable: it needs one, and has none.
    """
    archive = kept(family.name) if family.archive else None
    if family.archive and archive is None:
        raise EnvironmentUnavailable(
            f"the image of family {family.name} needs {family.archive}; download it, and run "
            f"`trace-bench images build {family.name} --toolchain FILE`"
        )
    return archive


def _dependencies(family: Family, base: Base, engine: DockerClient, progress: Progress) -> str:
    """The image of `family` without the worker, built with all its ancestors where missing."""
    below = base.ref
    target = Target(base.python, base.machine, base.glibc)
    for member in family.lineage:
        if not member.requirements:
            continue
        key = dependencies_key(member, base.identity)
        ref = f"{member.repository}-deps:{key[:12]}"
        if labelled_image(engine, ref, key) is None:
            archive = archive_of(member)
            pins = added_pins(member, target)
            progress(f"gathering the wheels of {member.name}")
            wheels = [*gather([member.bootstrap], target, cache_home()), *gather_pins(pins, target, cache_home())]
            packages: list[Path] = []
            if member.debian is not None and base.source == "debian":
                packages = gather_packages(engine, base.ref, member.debian, progress)
            progress(f"building {ref}")
            context = dependencies_context(member, pins, wheels, packages, archive.path if archive else None)
            docker_build(engine, ref, context, {"BASE": below}, {KEY_LABEL: key}, progress)
        below = ref
    return below


@dataclass
class _Transcript:
    """The output of a build: its last lines, and each stage's layers."""

    last: deque[str] = field(default_factory=lambda: deque(maxlen=_LAST_LINES))
    stages: list[list[str]] = field(default_factory=list)

    def add(self, text: str) -> None:
        for line in _COLOUR.sub("", text).splitlines():
            if not line.strip():
                continue
            self.last.append(line.rstrip())
            if _FROM.match(line):
                self.stages.append([])
            elif self.stages and (layer := _LAYER.match(line)):
                self.stages[-1].append(layer[1])


def docker_build(
    engine: DockerClient,
    ref: str,
    context: Mapping[str, Path | bytes],
    arguments: Mapping[str, str],
    labels: Mapping[str, str],
    progress: Progress,
) -> None:
    """Build `context` as `ref`, without a network.

    Raises:
        EnvironmentUnavailable: the build fails; the message ends with its last lines.
    """
    transcript = _Transcript()
    with tempfile.TemporaryFile() as archive:
        write_context(context, archive)
        archive.seek(0)
        with engine_errors(f"build {ref}"):
            chunks = engine.api.build(
                fileobj=archive, custom_context=True, tag=ref, buildargs=dict(arguments), labels=dict(labels),
                network_mode="none", rm=True, forcerm=True, decode=True,
            )  # fmt: skip
            for chunk in chunks:
                if "error" in chunk:
                    said = "\n".join(f"  {line}" for line in transcript.last)
                    error = " ".join(str(chunk["error"]).split())
                    raise EnvironmentUnavailable(f"{ref} cannot be built: {error}; its last lines were\n{said}")
                transcript.add(str(chunk.get("stream", "")))
    progress(f"built {ref}")
    _forget_stages(engine, transcript)


def _forget_stages(engine: DockerClient, transcript: _Transcript) -> None:
    """Remove what earlier stages left (a wheelhouse, unpacked wheels): untagged, as large as the image itself.

    Each stage's last layer takes its untagged parents with it. One that is in use stays; it is a cache of no
    harm.
    """
    from docker.errors import APIError

    for layers in transcript.stages[:-1]:
        if len(layers) > 1:
            try:
                engine.api.remove_image(layers[-1])
            except APIError as error:
                if error.status_code not in (404, 409):
                    raise


def _provenance(family: Family) -> dict[str, str]:
    """OCI annotations: for people and registries; no part of the key."""
    labels = {
        "org.opencontainers.image.title": f"trace-bench {family.name}: {family.title}",
        "org.opencontainers.image.version": trace_bench.__version__,
        "org.opencontainers.image.source": _project_url(),
        "org.opencontainers.image.revision": _revision(),
    }
    return {name: value for name, value in labels.items() if value}


def _project_url() -> str:
    try:
        urls = metadata.metadata("trace-bench").get_all("Project-URL") or []
    except metadata.PackageNotFoundError:
        return ""
    named = dict(entry.split(", ", 1) for entry in urls)
    return str(named.get("Source") or named.get("Repository") or _remote_url())


def _remote_url() -> str:
    """The address that this package's checkout was cloned from, if it is public; never with a user or password."""
    found = re.fullmatch(
        r"(?:(?:https?|ssh|git)://(?:[^@/]*@)?|[\w.-]+@)([\w.-]+)(?::\d+)?[:/]+([^\s?#]+?)(?:\.git)?/?",
        _git("remote", "get-url", "origin"),
    )
    return f"https://{found[1]}/{found[2]}" if found else ""


def _revision() -> str:
    """The commit of this package's checkout, with ``-dirty`` if files differ from it; empty without one."""
    return _git("describe", "--always", "--dirty", "--abbrev=40", "--exclude=*")


def _git(*arguments: str) -> str:
    """The answer of git in this package's checkout; empty without one."""
    top = package_dir().parent
    if not (top / ".git").exists():
        return ""
    try:
        done = subprocess.run(["git", "-C", str(top), *arguments], capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
