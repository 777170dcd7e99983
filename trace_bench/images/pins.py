"""Choose the image of a family: the locked one, unless the recipe has changed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from trace_bench.errors import ConfigError, EnvironmentUnavailable, ImageDrift
from trace_bench.images.base import identity_in_engine, resolve_base, wanted_base
from trace_bench.images.build import archive_of, build, build_on, labelled_image, silent
from trace_bench.images.debian import Progress
from trace_bench.images.engine import connect, engine_errors
from trace_bench.images.layers import family_named
from trace_bench.images.lock import Base, ImagePin, Lock, building, lock_path, read_lock, record
from trace_bench.images.recipe import PARTS, Family, key_of_parts, load_families

if TYPE_CHECKING:
    from docker import DockerClient

__all__ = [
    "Base",
    "ImagePin",
    "ImageStatus",
    "Lock",
    "ensure",
    "foreseen",
    "list_images",
    "lock_path",
    "pushed",
    "read_lock",
    "record",
    "verify",
]

_PART_NAMES = {
    "base": "base",
    "dockerfile": "Dockerfile",
    "requirements": "requirements",
    "worker": "worker sources",
    "arguments": "build arguments",
    "plugins": "trainer package",
}

_EDITED = ("plugins",)
"""The drift of a trainer package that was edited and of nothing else: what the user works on."""


@dataclass(frozen=True)
class ImageStatus:
    """One family, as ``trace-bench images list`` shows it.

    Attributes:
        pin: None if the family was never built, pulled or pushed here.
        present: whether the engine has the pinned image; None if no engine answers.
        drift: parts in which today's recipe differs from the pin (see `trace_bench.images.recipe.PARTS`).
    """

    family: str
    title: str
    pin: ImagePin | None
    present: bool | None
    drift: tuple[str, ...]


def ensure(
    family: str,
    *,
    allow_build: bool = True,
    accept_drift: bool = False,
    base: str | None = None,
    engine: DockerClient | None = None,
    progress: Progress | None = None,
    home: Path | None = None,
) -> ImagePin:
    """The image to run `family` in.

    A locked image whose recipe has not changed and that the engine has is returned at once: one call to the
    engine, no process, no container. The image of a trainer package that was edited since is built anew, unless it
    was pulled.

    Args:
        allow_build: where the engine lacks the image, pull it by its digest if a registry has it, else build it;
            False refuses instead.
        accept_drift: run the locked image although the recipe has changed since. What changed is then in
            `ImagePin.drift` and belongs into the run's warnings.
        base: as for `trace_bench.images.build.build`; asking for another base than the locked one is drift.

    Raises:
        ConfigError: there is no such family.
        EnvironmentUnavailable: drift that is not accepted, no image and no leave to build one, or a failed
        build.
    """
    say = progress or silent
    target = family_named(family)
    lock = read_lock(home)
    pin = lock.images.get(family)
    client = connect(engine)
    if pin is None:
        if not allow_build:
            raise EnvironmentUnavailable(
                f"the image of family {family} was not built here; run `trace-bench images build {family}`"
            )
        return build(family, base=base, engine=client, progress=say, home=home)
    drift = _drift(pin, target, lock, wanted_base(base), client)
    if _to_be_rebuilt(pin, drift, allow_build=allow_build, accept_drift=accept_drift):
        say(f"the trainer package in {pin.ref} changed since that image was built; building it again")
    elif _present(client, pin) or (allow_build and fetched(client, pin, say)):
        return replace(pin, drift=drift)
    if pin.key.startswith("sha256:"):
        raise EnvironmentUnavailable(
            f"the engine no longer has {pin.ref} of family {family}; run `trace-bench images pull {pin.repo_digest}`"
        )
    if not allow_build:
        raise EnvironmentUnavailable(
            f"the engine does not have {pin.ref}, which is locked for family {family}; "
            f"run `trace-bench images build {family}`"
        )
    with building(home):
        found = resolve_base(client, wanted_base(base), read_lock(home), say)
        if found.identity != pin.base and not accept_drift:
            raise _refusal(pin, ("base",))
        return build_on(found, target, client, say, home)


def foreseen(
    family: str, *, accept_drift: bool = False, base: str | None = None, engine: DockerClient | None = None
) -> ImagePin | None:
    """The image that `ensure` would return, without building or pulling; None if it would build first.

    Raises:
        ConfigError: there is no such family.
        EnvironmentUnavailable: drift that is not accepted, or an image that cannot be built.
    """
    target = family_named(family)
    lock = read_lock()
    pin = lock.images.get(family)
    if pin is None:
        for member in target.lineage:
            archive_of(member)
        return None
    drift = _drift(pin, target, lock, wanted_base(base), connect(engine))
    rebuilt = _to_be_rebuilt(pin, drift, allow_build=True, accept_drift=accept_drift)
    return None if rebuilt else replace(pin, drift=drift)


def _to_be_rebuilt(pin: ImagePin, drift: tuple[str, ...], *, allow_build: bool, accept_drift: bool) -> bool:
    """Whether `pin` is built anew because only a trainer package in it was edited.

    Raises:
        EnvironmentUnavailable: other drift, which is not accepted.
    """
    edited = drift == _EDITED and allow_build and not (accept_drift or pin.key.startswith("sha256:"))
    if drift and not (accept_drift or edited):
        raise _refusal(pin, drift)
    return edited


def pushed(family: str, registry: str, *, accept_drift: bool = False, home: Path | None = None) -> ImagePin:
    """The image of `family` as others find it: by its digest below `registry`. Asks no engine and no registry.

    Args:
        registry: ``host[:port][/path]``, as it was given to ``images push``.
        accept_drift: as for `ensure`.

    Raises:
        ConfigError: there is no such family.
        EnvironmentUnavailable: it was not pushed there, or drift that is not accepted.
    """
    target = family_named(family)
    pin = read_lock(home).images.get(family)
    build_it = f"trace-bench images build {family}"
    push_it = f"trace-bench images push {family} --registry {registry.rstrip('/')}"
    if pin is None or pin.repo_digest is None or not pin.repo_digest.startswith(registry.rstrip("/") + "/"):
        raise EnvironmentUnavailable(
            f"the image of family {family} is not in {registry}; "
            f"run `{push_it if pin is not None else f'{build_it} && {push_it}'}`"
        )
    drift = _recipe_drift(pin, target)
    if drift and not accept_drift:
        raise _refusal(pin, drift, f"{build_it} && {push_it}")
    return replace(pin, ref=pin.repo_digest, drift=drift)


def verify(family: str, *, engine: DockerClient | None = None, home: Path | None = None) -> ImagePin:
    """Check that the lock, today's recipe and the engine's image of `family` agree. Builds and runs nothing.

    Raises:
        EnvironmentUnavailable: they do not; the message says which of them, and the remedy.
    """
    target = family_named(family)
    lock = read_lock(home)
    pin = lock.images.get(family)
    build_it = f"run `trace-bench images build {family}`"
    if pin is None:
        raise EnvironmentUnavailable(f"{lock_path(home)} has no image of family {family}; {build_it}")
    if not pin.key.startswith("sha256:") and key_of_parts(family, pin.parts) != pin.key:
        raise EnvironmentUnavailable(
            f"{lock_path(home)}: the key of {family} does not follow from its parts; {build_it}"
        )
    client = connect(engine)
    if drift := _drift(pin, target, lock, wanted_base(), client):
        raise _refusal(pin, drift)
    if not _present(client, pin):
        raise EnvironmentUnavailable(
            f"the engine does not have {pin.ref}, or its labels do not agree with the lock; {build_it}"
        )
    return pin


def list_images(*, engine: DockerClient | None = None, home: Path | None = None) -> list[ImageStatus]:
    """All families in alphabetical order, each followed by what is locked of it with additions. Works without an
    engine, then without saying what is present.
    """
    lock = read_lock(home)
    try:
        client = connect(engine)
    except EnvironmentUnavailable:
        client = None
    shown = []
    for name in sorted({*load_families(), *(name for name in lock.images if "+" in name)}):
        pin = lock.images.get(name)
        family = _known(name)
        shown.append(
            ImageStatus(
                family=name,
                title=family.title if family else "what it adds is not installed here",
                pin=pin,
                present=_present(client, pin) if pin is not None and client is not None else None,
                drift=_recipe_drift(pin, family) if pin is not None and family is not None else (),
            )
        )
    return shown


def _known(name: str) -> Family | None:
    """None for additions that are not there any more, or that were built elsewhere."""
    try:
        return family_named(name)
    except ConfigError:
        return None


def _drift(pin: ImagePin, family: Family, lock: Lock, wanted: str | None, engine: DockerClient) -> tuple[str, ...]:
    """The parts in which today's recipe and the base asked for differ from `pin`."""
    drift = _recipe_drift(pin, family)
    if wanted is None or wanted.rpartition("@")[2] == pin.base:
        return drift
    if identity_in_engine(engine, wanted) == pin.base:
        return drift
    locked = lock.bases.get(pin.base)
    if locked is not None and locked.requested == wanted and identity_in_engine(engine, wanted) is None:
        return drift  # removed from the engine since; the image that stands on it is what counts
    return ("base", *drift)


def _recipe_drift(pin: ImagePin, family: Family) -> tuple[str, ...]:
    today = family.recipe.parts(pin.base)
    return tuple(part for part in PARTS if pin.parts.get(part) != today.get(part))


def _present(engine: DockerClient, pin: ImagePin) -> bool:
    """Whether the engine has what `pin` names; a tag that was moved elsewhere does not count."""
    return labelled_image(engine, pin.ref, key_of_parts(pin.family, pin.parts)) is not None


def fetched(engine: DockerClient, pin: ImagePin, progress: Progress) -> bool:
    """Pull what `pin` names from its registry, by digest; False if no registry has it."""
    if pin.repo_digest is None:
        return False
    progress(f"pulling {pin.repo_digest}")
    try:
        with engine_errors(f"pull {pin.repo_digest}"):
            engine.api.pull(pin.repo_digest)
    except EnvironmentUnavailable as error:
        progress(str(error))
        return False
    return _present(engine, pin)


def _refusal(pin: ImagePin, drift: tuple[str, ...], remedy: str = "") -> ImageDrift:
    """
    Args:
        remedy: the command that accepts the change; empty builds the image.
    """
    changed = " and ".join(_PART_NAMES[part] for part in drift)
    remedy = remedy or f"trace-bench images build {pin.family}"
    return ImageDrift(
        f"the image of family {pin.family} is locked as {pin.ref}, but its {changed} changed since; "
        f"run `{remedy}` to accept the change, or pass --accept-drift to run the locked image"
    )
