"""Every failure has a boundary, and every error the user can meet is one sentence.

Four rules:

1. A *boundary* says whose fault it is: ``config``, ``task``, ``trainer``, ``candidate``, ``provider``, ``sandbox`` or
   ``harness``. The last three are infrastructure: they are retried, kept as evidence and reported apart, and are never
   a score of zero. A candidate's own failure is never retried.
2. The message is one sentence that names the place (file, line, key) and a second that names the remedy.
3. An error knows the exit code of the command that it ends.
4. Nothing else reaches the user: a traceback on the terminal is a defect of ours.

This module is imported on the host and inside the sandbox; it needs the standard library only.
"""

from __future__ import annotations

from enum import IntEnum, StrEnum


class Boundary(StrEnum):
    """Where a failure belongs."""

    CONFIG = "config"
    TASK = "task"
    TRAINER = "trainer"
    CANDIDATE = "candidate"
    PROVIDER = "provider"
    SANDBOX = "sandbox"
    HARNESS = "harness"

    @property
    def is_infrastructure(self) -> bool:
        """True where a retry may help and the job's optimizer is not to blame."""
        return self in (Boundary.PROVIDER, Boundary.SANDBOX, Boundary.HARNESS)


class ExitCode(IntEnum):
    """Exit codes of ``trace-bench``; documented in ``docs/reference/exit-codes.md``."""

    OK = 0
    JOB_FAILED = 1
    USAGE = 2
    ENVIRONMENT = 3
    CONTRADICTED = 4
    INTERRUPTED = 130


class TraceBenchError(Exception):
    """Base of every error that this package raises on purpose."""

    boundary: Boundary = Boundary.HARNESS
    exit_code: ExitCode = ExitCode.JOB_FAILED


class ConfigError(TraceBenchError, ValueError):
    """The config or the arguments are wrong. The message starts with ``FILE, line N:`` where there is a file."""

    boundary = Boundary.CONFIG
    exit_code = ExitCode.USAGE


class EnvironmentUnavailable(TraceBenchError, RuntimeError):
    """The machine lacks what the command needs: an engine, an image, disk, rights."""

    boundary = Boundary.SANDBOX
    exit_code = ExitCode.ENVIRONMENT


class ImageDrift(EnvironmentUnavailable):
    """The recipe of a locked image has changed: what earlier jobs ran in is not what jobs would run in now."""


class TaskError(TraceBenchError):
    """A task's own code or data failed: it does not build, or its evaluator raised."""

    boundary = Boundary.TASK


class TrainerError(TraceBenchError):
    """A trainer failed, or was given what it cannot take."""

    boundary = Boundary.TRAINER


class SandboxError(TraceBenchError):
    """The sandbox ended, refused or broke before the job was done."""

    boundary = Boundary.SANDBOX


class _UntrustedInput(SandboxError):
    """Input from a sandbox is refused. The message may quote the input, and so is put on one line."""

    def __init__(self, message: str) -> None:
        super().__init__("".join(c if c.isprintable() else ascii(c)[1:-1] for c in message))


class ProtocolError(_UntrustedInput):
    """What came over the control stream is not what the job contract says."""


class CollectError(_UntrustedInput):
    """What a sandbox handed back breaks the collector's limits or a schema. The evidence is kept."""


class BrokenArchive(CollectError):
    """The archive is not what an engine writes, whatever is in the volume, or it did not come to its end."""


class HarnessError(TraceBenchError):
    """A defect of ours."""

    boundary = Boundary.HARNESS


class Interrupted(TraceBenchError, KeyboardInterrupt):
    """The user asked the run to stop."""

    exit_code = ExitCode.INTERRUPTED
