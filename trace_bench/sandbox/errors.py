"""Errors of sandboxes. Their boundary is ``sandbox``: the job is retried, and never scored as zero."""

from __future__ import annotations

from trace_bench.errors import EnvironmentUnavailable, ExitCode, SandboxError


class EngineGone(SandboxError, ConnectionError):
    """The engine does not answer.

    Attributes:
        host: name of the `trace_bench.sandbox.base.Host` whose engine it is; empty if there is only one.
    """

    exit_code = ExitCode.ENVIRONMENT

    def __init__(self, message: str, *, host: str = "") -> None:
        super().__init__(message)
        self.host = host


class EngineRefused(SandboxError):
    """The engine answers a call with a refusal that no waiting mends: the same call is refused again."""

    exit_code = ExitCode.ENVIRONMENT


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
    """Another controller holds the GPUs or cores. The job needs others."""


class NameConflict(SandboxError, FileExistsError):
    """A sandbox of that name is there already."""


class OutOfDisk(SandboxError, OSError):
    """The engine's disk is full."""

    exit_code = ExitCode.ENVIRONMENT


class SandboxRemoved(SandboxError, LookupError):
    """The sandbox has been removed, by this controller or by another program."""

    recorded_kind = "sandbox_gone"
    """The kind of failure in the files of a run."""


class RateLimited(SandboxError):
    """The backend makes no sandbox now: there are too many, or too many were made in a short time. Nothing was made.

    Attributes:
        retry_after: seconds after which a new attempt may succeed; None if the backend does not say.
    """

    def __init__(self, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class StreamTimeout(SandboxError, TimeoutError):
    """The sandbox did not take what was written to it in time."""


class ControlMissing(EnvironmentUnavailable):
    """A required control is not in force. The sandbox was not started, or was ended before it was given its job."""
