"""The lock: which image each family runs in, on this machine, and how it came to be.

``images.lock.json`` lies among the user's data, not in the checkout: recipes are committed, locks are written
where images are built, pulled or pushed. Readers need no lock on the file, since it is replaced as a whole.
"""

from __future__ import annotations

import fcntl
import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.homes import data_home

LOCK_NAME = "images.lock.json"


@dataclass(frozen=True)
class Base:
    """An image with an interpreter, on which all families stand.

    Attributes:
        ref: what a build starts from: ``repository@sha256:…`` where the engine knows a digest, else a tag.
        identity: what the base *is*: a registry's digest (``sha256:…``), the hash of its package list
            (``packages:…``, for a base made here) or of its layers and environment (``layers:…``). Never an image
            id.
        source: ``given`` by name, from the ``registry``, or made from ``debian`` packages.
        requested: the name that was given, if one was.
        python: ``3.x``.
        machine: ``x86_64`` or ``aarch64``.
        glibc: ``2.x``.
        packages: ``name=version`` of what is installed, sorted; empty where the base keeps no dpkg list.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    ref: str
    identity: str
    source: Literal["given", "registry", "debian"]
    requested: str | None
    python: str
    machine: str
    glibc: str
    packages: tuple[str, ...] = ()


@dataclass(frozen=True)
class ImagePin:
    """The image that a family runs in.

    Attributes:
        family: ``core``, ``llm4ad`` …
        ref: what a sandbox is started from: a tag of our own making, or ``repository@sha256:…`` once pushed
            or pulled.
        key: the image's identity: ``sha256:…`` of the registry if it was pulled by digest, else the recipe's
            hash (64 hex digits).
        image_id: evidence only; two builds of one recipe have different ones.
        base: identity of the base (see `Base.identity`).
        built_at: ISO 8601, as the engine has it.
        repo_digest: ``repository@sha256:…`` if a registry has the image.
        plugins: packages whose files it holds beside the worker: name to version (and commit, where there is one).
        parts: content hashes of the recipe, to name what changed (see `trace_bench.images.recipe.PARTS`).
        drift: the parts in which today's recipe differs. Never in the lock; not empty only where drift was
            accepted, and then it belongs into the run's warnings.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")

    family: str
    ref: str
    key: str
    image_id: str
    base: str
    built_at: str
    repo_digest: str | None = None
    parts: Mapping[str, str] = field(default_factory=dict)
    plugins: Mapping[str, str] = field(default_factory=dict)
    drift: tuple[str, ...] = ()


@dataclass(frozen=True)
class Lock:
    """All pins of this machine's user, and the bases they stand on, by identity."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    version: Literal[1] = 1
    images: Mapping[str, ImagePin] = field(default_factory=dict)
    bases: Mapping[str, Base] = field(default_factory=dict)


def lock_path(home: Path | None = None) -> Path:
    """The path of the lock; see `trace_bench.homes.data_home` for `home`."""
    return data_home(home) / LOCK_NAME


def read_lock(home: Path | None = None) -> Lock:
    """The lock; empty if nothing was built yet.

    Raises:
        EnvironmentUnavailable: the file cannot be read, or is no lock.
    """
    path = lock_path(home)
    try:
        return TypeAdapter(Lock).validate_json(path.read_bytes())
    except FileNotFoundError:
        return Lock()
    except OSError as error:
        raise EnvironmentUnavailable(f"{path} cannot be read ({error.strerror}); check its rights") from error
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(step) for step in first["loc"]) or "the file"
        raise EnvironmentUnavailable(
            f"{path}: {place}: {first['msg']}; remove the file and build the images again (trace-bench images build)"
        ) from error


def record(pin: ImagePin, base: Base | None = None, *, home: Path | None = None) -> ImagePin:
    """Write `pin` into the lock in place of its family's earlier one; returns it.

    Callers that read, decide and then write hold `building` around all of it.
    """
    pin = replace(pin, drift=())
    lock = read_lock(home)
    images = {**lock.images, pin.family: pin}
    bases = {**lock.bases, **({base.identity: base} if base is not None else {})}
    used = {p.base for p in images.values()}
    kept = {identity: value for identity, value in bases.items() if identity in used}
    _write(Lock(images=dict(sorted(images.items())), bases=dict(sorted(kept.items()))), lock_path(home))
    return pin


@contextmanager
def building(home: Path | None = None) -> Iterator[None]:
    """Hold the lock of builds and of changes: two runs that start at once make one base."""
    folder = data_home(home)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / f".{LOCK_NAME}.guard", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise EnvironmentUnavailable(
            f"{folder} cannot be written ({error.strerror}); name another folder in TRACE_BENCH_HOME"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _write(lock: Lock, path: Path) -> None:
    plain = asdict(lock)
    for pin in plain["images"].values():
        del pin["drift"]
    text = json.dumps(plain, indent=2, ensure_ascii=False) + "\n"
    try:
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{LOCK_NAME}.", delete=False) as fresh:
            fresh.write(text)
            fresh.flush()
            os.fsync(fresh.fileno())
        Path(fresh.name).replace(path)
    except OSError as error:
        raise EnvironmentUnavailable(f"{path} cannot be written ({error.strerror}); check its rights") from error
