"""Images by digest: push what was built, pull what was pushed."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.images.build import BASE_LABEL, FAMILY_LABEL, KEY_LABEL, PARTS_LABEL, PLUGINS_LABEL, silent
from trace_bench.images.debian import Progress
from trace_bench.images.engine import connect, engine_errors, inspect_image
from trace_bench.images.layers import family_named
from trace_bench.images.lock import ImagePin, building, record
from trace_bench.images.pins import verify
from trace_bench.images.recipe import key_of_parts

if TYPE_CHECKING:
    from docker import DockerClient

_BY_DIGEST = re.compile(r"^[a-z0-9][^\s@]*@sha256:[0-9a-f]{64}$")
_REGISTRY = re.compile(r"^[a-z0-9]([a-z0-9.\-]*[a-z0-9])?(:\d+)?(/[a-z0-9._\-]+)*$")


def push(
    family: str,
    registry: str,
    *,
    engine: DockerClient | None = None,
    progress: Progress | None = None,
    home: Path | None = None,
) -> ImagePin:
    """Push the locked image of `family` as ``<registry>/trace-bench/<family>:<key>`` and lock it by digest.

    Its key stays the recipe's: it is the same image. Credentials are those of ``docker login``.

    Args:
        registry: ``host[:port][/path]``.

    Raises:
        ConfigError: `registry` is no registry's name.
        EnvironmentUnavailable: no locked image, drift, or the registry refuses.
    """
    if not _REGISTRY.match(registry):
        raise ConfigError(f"{registry!r} is not a registry; name it as host[:port][/path], without a scheme or a tag")
    say = progress or silent
    client = connect(engine)
    with building(home):
        pin = verify(family, engine=client, home=home)
        repository, tag = f"{registry}/{family_named(family).repository}", key_of_parts(family, pin.parts)[:12]
        say(f"pushing {repository}:{tag}")
        with engine_errors(f"push {repository}:{tag}"):
            client.api.tag(pin.ref, repository, tag)
        try:
            digest = _push(client, repository, tag)
        except EnvironmentUnavailable:
            with engine_errors(f"take back the tag {repository}:{tag}"):
                client.api.remove_image(f"{repository}:{tag}", noprune=True)
            raise
        pinned = f"{repository}@{digest}"
        return record(replace(pin, ref=pinned, repo_digest=pinned), home=home)


def _push(client: DockerClient, repository: str, tag: str) -> str:
    """The digest that the registry gives to it."""
    digest = ""
    with engine_errors(f"push {repository}:{tag}"):
        for chunk in client.api.push(repository, tag, stream=True, decode=True):
            if "error" in chunk:
                raise EnvironmentUnavailable(
                    f"cannot push {repository}:{tag}: {' '.join(str(chunk['error']).split())}; "
                    f"check the name, and `docker login {repository.partition('/')[0]}`"
                )
            digest = str((chunk.get("aux") or {}).get("Digest") or digest)
    if not digest:
        raise EnvironmentUnavailable(f"the registry took {repository}:{tag} but named no digest; push again")
    return digest


def pull(
    ref: str,
    *,
    engine: DockerClient | None = None,
    progress: Progress | None = None,
    home: Path | None = None,
) -> ImagePin:
    """`fetch`, and lock it for the family that its label names.

    Raises:
        ConfigError, EnvironmentUnavailable: as `fetch`.
    """
    pin = fetch(ref, engine=engine, progress=progress)
    with building(home):
        return record(pin, home=home)


def fetch(ref: str, *, engine: DockerClient | None = None, progress: Progress | None = None) -> ImagePin:
    """Pull ``repository@sha256:…``; its key is that digest. The lock stays as it is.

    Raises:
        ConfigError: `ref` names no digest.
        EnvironmentUnavailable: it cannot be pulled, or is no image of ours.
    """
    if not _BY_DIGEST.match(ref):
        raise ConfigError(f"{ref!r} names no digest; give repository@sha256:<64 hex digits>, a tag may move")
    client = connect(engine)
    (progress or silent)(f"pulling {ref}")
    with engine_errors(f"pull {ref}"):
        client.api.pull(ref)
        image = inspect_image(client, ref)
    labels = image["Config"].get("Labels") or {}
    try:
        family, base, parts = labels[FAMILY_LABEL], labels[BASE_LABEL], json.loads(labels[PARTS_LABEL])
        plugins = {str(name): str(version) for name, version in json.loads(labels.get(PLUGINS_LABEL, "{}")).items()}
        honest = key_of_parts(family, parts) == labels[KEY_LABEL] and parts["base"] == base
    except (AttributeError, KeyError, TypeError, ValueError):
        honest = False
    if not honest:
        raise EnvironmentUnavailable(
            f"{ref} is not an image of trace-bench, or its labels contradict each other; pull one from `images push`"
        )
    return ImagePin(
        family=family,
        ref=ref,
        key=ref.rpartition("@")[2],
        image_id=str(image["Id"]),
        base=base,
        built_at=str(image["Created"]),
        repo_digest=ref,
        parts=parts,
        plugins=plugins,
    )
