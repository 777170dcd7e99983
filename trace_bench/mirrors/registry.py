"""Which mirrors there are, what they need, and where they leave their logs and locks."""

from __future__ import annotations

import fcntl
import hashlib
import importlib.util
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from trace_bench.arguments import hint
from trace_bench.artifacts.layout import RunLayout
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.homes import cache_home


class MirrorError(EnvironmentUnavailable):
    """The other side refuses, hangs or is not there. The run is untouched; mirroring again goes on where it stopped."""


@dataclass(frozen=True)
class Mirrored:
    """What a look at a run came to.

    Attributes:
        place: where the copy is, without user and password.
        jobs: that are there now, `changed` of them made or added to by this look.
        problems: what could not be copied, one sentence each; the rest could.
    """

    place: str
    jobs: int
    changed: int
    problems: tuple[str, ...] = ()


class Mirror(Protocol):
    """A copy of runs somewhere."""

    def sync(self, run: RunLayout) -> Mirrored:
        """Bring the copy of `run` up to date. Doing it again changes nothing.

        Raises:
            MirrorError: the other side does not take it. HarnessError: a file of the run is damaged.
        """


@dataclass(frozen=True)
class Kind:
    """A kind of mirror: the `package` that it needs, and the `extra` that has it."""

    name: str
    package: str
    extra: str

    def missing(self) -> str | None:
        """What to do about the package, as the end of a sentence; None if it is there."""
        if importlib.util.find_spec(self.package) is not None:
            return None
        return f"{self.package} is not installed: pip install 'trace-bench[{self.extra}]'"


KINDS = {
    kind.name: kind for kind in (Kind("mlflow", "mlflow", "mlflow"), Kind("tensorboard", "tensorboardX", "tensorboard"))
}


def find_kind(name: str) -> Kind:
    """
    Raises:
        ConfigError: there is no such mirror. EnvironmentUnavailable: what it needs is not installed.
    """
    if name not in KINDS:
        raise ConfigError(f"there is no mirror {name!r}{hint(name, KINDS)}")
    if (missing := KINDS[name].missing()) is not None:
        raise EnvironmentUnavailable(f"mirror {name}: {missing}")
    return KINDS[name]


def log_of(run: RunLayout, name: str) -> Path:
    """The log of a mirror that a run has started: outside of the run's folder."""
    return _place(run, name, "log")


@contextmanager
def alone(run: RunLayout, name: str, place: str, *, wait: bool) -> Iterator[None]:
    """One process at a time copies `run` to `place`, as two would make two copies of a job.

    Args:
        wait: for the other one's end.

    Raises:
        MirrorError: another one is at work.
    """
    path = _place(run, f"{name}-{hashlib.sha256(place.encode()).hexdigest()[:8]}", "lock")
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise MirrorError(
                f"mirror {name}: another process copies {run.run_id} to the same place; wait for it"
            ) from None
        yield
    finally:
        os.close(descriptor)


def _place(run: RunLayout, name: str, suffix: str) -> Path:
    where = hashlib.sha256(os.fsencode(run.root.resolve())).hexdigest()[:8]
    return cache_home() / "mirrors" / f"{run.run_id}-{where}.{name}.{suffix}"
