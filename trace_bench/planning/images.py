"""The images of a run: where each backend gets them from."""

from __future__ import annotations

import contextlib
import platform
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from trace_bench.artifacts.records import ImageRecord
from trace_bench.config.models import ImagesConfig, RunConfig
from trace_bench.errors import EnvironmentUnavailable
from trace_bench.images.engine import connect
from trace_bench.images.layers import family_named
from trace_bench.images.lock import ImagePin
from trace_bench.images.pins import ensure, foreseen, pushed
from trace_bench.images.supply import supply
from trace_bench.matrix import Job
from trace_bench.planning.backends import registry_of
from trace_bench.sandbox.base import Backend, SeveralEngines


class ImageSource(Protocol):
    """Returns the image of a family, and builds it if necessary."""

    def __call__(self, family: str) -> ImageRecord:
        """The image. Raises EnvironmentUnavailable if there is none and none can be made, or it has drifted."""


class ImagesOf(Protocol):
    """Makes the source of a run's images; arguments as of `image_source`."""

    def __call__(
        self,
        config: RunConfig,
        backend: Backend,
        *,
        build: bool,
        say: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> ImageSource: ...


@dataclass(frozen=True)
class Images:
    """The images of a run.

    Attributes:
        records: by family; without name and key where there is no image.
        missing: by family, why there is no image.
    """

    records: Mapping[str, ImageRecord]
    missing: Mapping[str, EnvironmentUnavailable] = field(default_factory=dict)


def prepare_images(jobs: Iterable[Job], source: ImageSource, *, require_all: bool = False) -> Images:
    """Bring the image of each family of `jobs` about: `source` finds it, builds it or pulls it.

    Args:
        require_all: build no further image once one is missing.

    Raises:
        EnvironmentUnavailable: an image is missing, and all are required.
    """
    records: dict[str, ImageRecord] = {}
    missing: dict[str, EnvironmentUnavailable] = {}
    for family in dict.fromkeys(job.image_family for job in jobs):
        try:
            records[family] = source(family)
        except EnvironmentUnavailable as error:
            if require_all:
                raise
            missing[family] = error
            records[family] = ImageRecord(family=family, ref="", key="")
    return Images(records, missing)


def image_source(
    config: RunConfig,
    backend: Backend,
    *,
    build: bool,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> ImageSource:
    """The source of images of `backend`.

    The local backend has no images: its key is the interpreter's version, and the content of what an image would have
    beside the worker. Modal pulls images by digest from where they were pushed.

    Args:
        build: build an image that is missing; False refuses instead.
        say: called with a line for each step that takes long.
        warn: called with a sentence for each image that has drifted.
    """
    if backend.traits.images == "none":
        return _local_image

    def image(family: str) -> ImageRecord:
        drift = config.images.accept_drift
        if backend.traits.images == "registry":
            return _record(pushed(family, registry_of(config), accept_drift=drift), warn)
        return _record(pinned_image(family, config.images, backend, build=build, say=say), warn)

    return image


def foreseen_images(
    config: RunConfig,
    backend: Backend,
    *,
    build: bool,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> ImageSource:
    """As `image_source`, but nothing is built or pulled. An image that would be built has neither name nor key."""
    if not build or backend.traits.images != "engine":
        return image_source(config, backend, build=build, say=say, warn=warn)
    settings = config.images

    def image(family: str) -> ImageRecord:
        with _source_engine(backend) as engine:
            pin = foreseen(family, accept_drift=settings.accept_drift, base=settings.base, engine=engine)
        return ImageRecord(family=family, ref="", key="") if pin is None else _record(pin, warn)

    return image


def pinned_image(
    family: str, settings: ImagesConfig, backend: Backend, *, build: bool, say: Callable[[str], None]
) -> ImagePin:
    """The image of `family` (see `trace_bench.images.pins.ensure`), for all engines of `backend`.

    It is made on this machine's engine, as ``images build`` does; if there is none, on the first host that answers.
    Other hosts get it before their first job with it.
    """
    with _source_engine(backend) as engine:
        pin = ensure(
            family,
            allow_build=build,
            accept_drift=settings.accept_drift,
            base=settings.base,
            engine=engine,
            progress=say,
        )
    if not isinstance(backend, SeveralEngines):
        return pin
    lock = threading.Lock()

    def say_alone(line: str) -> None:
        with lock:
            say(line)

    def bring(host: str, client: Any, stopped: Callable[[], bool]) -> str:
        with _source_engine(backend) as engine:  # of its own: threads do not share clients
            return supply(pin, engine, client, host, say_alone, stopped)

    backend.supply_image(pin.ref, bring)
    return pin


@contextlib.contextmanager
def _source_engine(backend: Backend) -> Iterator[Any]:
    """The engine on which images are made; None is the backend's only one."""
    if not isinstance(backend, SeveralEngines):
        yield None
        return
    try:
        client: Any = connect()
    except EnvironmentUnavailable:
        client = backend.first_engine()
    with contextlib.closing(client):
        yield client


def _local_image(family: str) -> ImageRecord:
    version = f"local:python-{platform.python_version()}"
    if "+" not in family:
        return ImageRecord(family=family, ref="local", key=version)
    added = family_named(family)
    key = "+".join([version, *(plugin.content_hash for plugin in added.plugins)])
    return ImageRecord(family=family, ref="local", key=key, plugins=added.plugin_versions)


def _record(pin: ImagePin, warn: Callable[[str], None]) -> ImageRecord:
    if pin.drift:
        warn(f"the image of {pin.family} is used although its {', '.join(pin.drift)} changed since it was locked")
    return ImageRecord(
        family=pin.family,
        ref=pin.ref,
        key=pin.key,
        image_id=pin.image_id,
        base=pin.base,
        built_at=pin.built_at,
        repo_digest=pin.repo_digest,
        plugins=dict(pin.plugins),
    )
