"""Brings a pinned image from one engine to another, which stands for another machine."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from trace_bench.errors import EnvironmentUnavailable, Interrupted
from trace_bench.images.build import labelled_image
from trace_bench.images.debian import Progress
from trace_bench.images.engine import engine_errors, inspect_image
from trace_bench.images.layers import family_named
from trace_bench.images.lock import ImagePin
from trace_bench.images.pins import fetched
from trace_bench.images.recipe import key_of_parts

if TYPE_CHECKING:
    from docker import DockerClient

CHUNK = 1 << 20


def supply(
    pin: ImagePin,
    source: DockerClient,
    target: DockerClient,
    host: str,
    say: Progress,
    stopped: Callable[[], bool] = lambda: False,
) -> str:
    """Have the engine `target` have the image of `pin`; the name that it has there.

    Nothing happens where it is there. Else it is pulled by its digest, where a registry has it that `host` reaches, or
    copied from `source`, in pieces that pass through this machine's memory one at a time.

    Args:
        stopped: asked before each piece; True gives it up.

    Raises:
        EnvironmentUnavailable: neither works, or what arrived is another image. Interrupted: it was given up.
    """
    key = key_of_parts(pin.family, pin.parts)
    # A digest of a registry does not survive the copy. Our own tag, which every build gives, does.
    tag = f"{family_named(pin.family).repository}:{key[:12]}"
    for name in dict.fromkeys((pin.ref, tag)):
        if labelled_image(target, name, key) is not None:
            return name
    if fetched(target, pin, lambda line: say(f"{host}: {line}")):
        return pin.ref

    def pieces(chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            if stopped():
                raise Interrupted(f"interrupted while {tag} was copied to host {host}")
            yield chunk

    began = time.monotonic()
    with engine_errors(f"read {pin.ref}"):
        size = inspect_image(source, pin.ref)["Size"]
        if pin.ref != tag:
            repository, _, version = tag.rpartition(":")
            source.api.tag(pin.ref, repository, version)
        chunks = source.api.get_image(tag, chunk_size=CHUNK)
    say(f"{host}: copying {tag} ({size / 1e6:.0f} MB)")
    with engine_errors(f"copy {tag} to host {host}"):
        for line in target.api.load_image(pieces(chunks)):  # type: ignore[no-untyped-call]
            if "error" in line:
                raise EnvironmentUnavailable(f"host {host} does not take {tag}: {' '.join(str(line['error']).split())}")
    say(f"{host}: copied {tag} in {time.monotonic() - began:.0f} s")
    if labelled_image(target, tag, key) is None:
        raise EnvironmentUnavailable(f"what was copied to host {host} as {tag} is not the image of family {pin.family}")
    return tag
