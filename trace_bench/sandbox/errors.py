"""What can go wrong with a sandbox. The boundary of all of it is ``sandbox``: retried, and never a score of zero."""

from __future__ import annotations

from trace_bench.errors import EnvironmentUnavailable, ExitCode, SandboxError


class EngineGone(SandboxError, ConnectionError):
    """The engine does not answer.

    Attributes:
        host: name of the `trace_bench.sandbox.base.Host` whose engine it is; empty where there is but one.
    """

    exit_code = ExitCode.ENVIRONMENT

    def __init__(self, message: str, *, host: str = "") -> None:
        super().__init__(message)
        self.host = host


class EngineUnfit(EnvironmentUnavailable):
    """The engine can start no sandbox: its host lacks a program that the engine needs for every one."""


class ImageMissing(SandboxError, LookupError):
    """The engine does not have the image. Images are never pulled while a run is under way."""

    exit_code = ExitCode.ENVIRONMENT


class RuntimeMissing(SandboxError, LookupError):
    """The engine does not have the runtime that was asked for."""

    exit_code = ExitCode.ENVIRONMENT


class GpusMissing(EnvironmentUnavailable):
    """The engine cannot give a sandbox the GPUs that were asked for."""


class LeaseLost(SandboxError):
    """GPUs or cores are somebody else's: no further sandbox can have them in this place."""


class NameConflict(SandboxError, FileExistsError):
    """A sandbox of that name is there already."""


class OutOfDisk(SandboxError, OSError):
    """The engine's disk is full."""

    exit_code = ExitCode.ENVIRONMENT


class SandboxGone(SandboxError, LookupError):
    """The sandbox has been removed, by us or by somebody else."""


class RateLimited(SandboxError):
    """The backend makes no further sandbox now: too many in too short a time, or too many at a time. Nothing was made.

    Attributes:
        retry_after: seconds after which it wants to be asked again; None where it says nothing of that.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StreamTimeout(SandboxError, TimeoutError):
    """The sandbox did not take what was written to it in time."""


class ControlMissing(EnvironmentUnavailable):
    """A required control is not in force. The sandbox was not started, or was ended before it was given its job."""
