"""Sandboxes of this owner, and whether the controllers that made them are alive. For ``ps``, ``cancel``, ``clean``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from trace_bench.errors import EnvironmentUnavailable, SandboxError
from trace_bench.sandbox.base import Backend, Sandbox
from trace_bench.sandbox.labels import OWNER, UID_BASE, owner
from trace_bench.sandbox.uids import UidBlocks


class ControllerAlive(EnvironmentUnavailable):
    """The sandbox belongs to a controller that is alive."""


def own_sandboxes(backend: Backend) -> list[Sandbox]:
    """All that controllers of this user on this host made, in whatever state."""
    return backend.find({OWNER: owner()})


@contextmanager
def held(backend: Backend, sandbox: Sandbox) -> Iterator[None]:
    """Holds the uid block of `sandbox`, so that no controller takes the sandbox up meanwhile.

    Raises:
        ControllerAlive: its controller holds it. SandboxError: its label is damaged.
    """
    base = _uid_base(sandbox)
    if base is None:
        yield
        return
    try:
        block = UidBlocks(backend.default_uid_base).adopt(base)
    except EnvironmentUnavailable as error:
        raise ControllerAlive(str(error)) from error
    with block:
        yield


def controller_is_alive(backend: Backend, sandbox: Sandbox) -> bool:
    """True while the controller that made `sandbox`, or has adopted it, holds its uid block.

    Raises:
        SandboxError: its label is damaged.
    """
    base = _uid_base(sandbox)
    return base is not None and UidBlocks(backend.default_uid_base).is_held(base)


def _uid_base(sandbox: Sandbox) -> int | None:
    """None if it was never started: nobody has uids of it."""
    base = sandbox.labels.get(UID_BASE)
    if base is not None and not base.isdigit():
        raise SandboxError(f"its label {UID_BASE} is {base[:40]!r}, which is no number")
    return None if base is None else int(base)
