"""Find the GPUs of an engine's host."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence

from trace_bench.config.gpus import from_nvidia_smi, gpu_kind, whole_devices

_SECONDS = 20.0
"""A driver that is not loaded takes several to answer."""


def leasable(
    wanted: str | int | Sequence[str], discovered: Callable[[], Sequence[str]], *, here: bool
) -> tuple[str, ...] | None:
    """Names of the GPUs that may be leased; None if they are unknown.

    Args:
        wanted: ``gpus`` of a host of the config.
        discovered: CDI names of the devices that the engine knows of.
        here: its host is this one.
    """
    if wanted == "none":
        return ()
    if isinstance(wanted, int):
        return tuple(map(str, range(wanted)))
    if not isinstance(wanted, str):
        for name in wanted:
            gpu_kind(name)
        return tuple(wanted)
    return whole_devices(discovered()) or (_ask_driver() if here else None)


def _ask_driver() -> tuple[str, ...] | None:
    """The GPUs of this machine, by its driver. This needs no sandbox."""
    command = shutil.which("nvidia-smi")
    if command is None:
        return None
    try:
        done = subprocess.run([command, "-L"], capture_output=True, text=True, timeout=_SECONDS, check=True)
    except (OSError, subprocess.SubprocessError):
        return None  # the engine reports the reason when a job asks for a GPU
    return from_nvidia_smi(done.stdout) or None
