"""Sandboxes of this owner, and whether the controllers that made them are alive. For ``ps``, ``cancel``, ``clean``."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from trace_bench.artifacts.layout import RunLayout
from trace_bench.display.console import note
from trace_bench.errors import ConfigError, EnvironmentUnavailable, SandboxError, TraceBenchError
from trace_bench.records.runs import LATEST, AmbiguousRun, exact_run, find_run, run_id_of
from trace_bench.sandbox.base import Backend, Sandbox, SeveralEngines
from trace_bench.sandbox.labels import OWNER, RUN, UID_BASE, owner, uid_base
from trace_bench.sandbox.uids import UidBlocks


class ControllerAlive(EnvironmentUnavailable):
    """The sandbox belongs to a controller that is alive."""


@dataclass(frozen=True)
class RunNamed:
    """A run that a command line names. Its folder may be gone: then only its sandboxes carry its id.

    Attributes:
        run_id: the id under which its hosts are recorded; `text` itself if no folder says more.
        layout: its folder, if it is there.
        exact: whether `text` is its complete id, or its folder.
        problem: why the folder does not exist.
    """

    text: str
    run_id: str
    layout: RunLayout | None = None
    exact: bool = False
    problem: ConfigError | None = None

    @classmethod
    def of(cls, text: str | None, runs_dir: Path) -> RunNamed | None:
        if text is None:
            return None
        exact = exact_run(text, runs_dir)
        if exact is not None:
            return cls(text, run_id_of(exact), exact, exact=True)
        try:
            layout = find_run(text, runs_dir)
        except ConfigError as error:
            return cls(text, text, problem=error)
        return cls(text, run_id_of(layout), layout)

    @property
    def id_and_folder(self) -> tuple[str, RunLayout | None]:
        """The id and the folder by which `trace_bench.cli.backends` finds the run's backend."""
        return self.run_id, self.layout

    def choose(self, found: Sequence[Sandbox]) -> str:
        """The id of the run, where `found` are all sandboxes that there are.

        Raises:
            ConfigError: `text` is neither a run nor the run of any sandbox.
        """
        if not self.exact and self.text != LATEST and any(each.labels.get(RUN) == self.text for each in found):
            return self.text
        if self.problem is None:
            return self.run_id
        if isinstance(self.problem, AmbiguousRun) or self.text in ("", LATEST):
            raise self.problem
        raise ConfigError(f"no sandbox belongs to a run {self.text!r}, and {self.problem}") from None


def own_sandboxes(backend: Backend) -> list[Sandbox]:
    """All sandboxes that controllers of this user on this machine made, in any state. Hosts that do not answer are
    named in a note.

    Raises:
        SandboxError: no host answers.
    """
    found = backend.find({OWNER: owner()})
    if isinstance(backend, SeveralEngines):
        for name, why in backend.unreachable().items():
            note(f"host {name} does not answer, so its sandboxes are not known: {why}")
    return found


def sandboxes_of(backend: Backend, named: RunNamed | None) -> list[Sandbox]:
    """`own_sandboxes`, or those of them that belong to the run that is `named`.

    Raises:
        ConfigError: no run, and no sandbox, has that name. SandboxError: no host answers.
    """
    found = own_sandboxes(backend)
    if named is None:
        return found
    run_id = named.choose(found)
    return [sandbox for sandbox in found if sandbox.labels.get(RUN) == run_id]


def remove_each(
    backend: Backend, found: Sequence[Sandbox], remove: Callable[[Sandbox], None]
) -> EnvironmentUnavailable | None:
    """Call `remove` for each sandbox, while no controller can take it up; those of a live controller are left alone.

    Returns:
        The error that says which sandboxes could not be removed, and why. One of them does not keep the others.
    """
    failed: list[str] = []
    for sandbox in found:
        name = sandbox.name
        try:
            with held(backend, sandbox):
                remove(sandbox)
        except ControllerAlive:
            note(f"left alone: {name} belongs to a controller that is running")
        except (TraceBenchError, OSError) as error:
            failed.append(f"{name}: {error}")
    if not failed:
        return None
    return EnvironmentUnavailable(
        f"{len(failed)} of {len(found)} sandboxes could not be removed; try again ({'; '.join(failed)})"
    )


@contextmanager
def held(backend: Backend, sandbox: Sandbox) -> Iterator[None]:
    """Hold the uid block of `sandbox`, so that no controller adopts the sandbox meanwhile.

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
    """Whether the controller that made or adopted `sandbox` is alive: it then holds the uid block.

    Raises:
        SandboxError: its label is damaged.
    """
    base = _uid_base(sandbox)
    return base is not None and UidBlocks(backend.default_uid_base).is_held(base)


def _uid_base(sandbox: Sandbox) -> int | None:
    """The first uid of a sandbox; None if it was never started."""
    label = sandbox.labels.get(UID_BASE)
    base = uid_base(sandbox.labels)
    if label is not None and base is None:
        raise SandboxError(f"its label {UID_BASE} is {label[:40]!r}, which is no number")
    return base
