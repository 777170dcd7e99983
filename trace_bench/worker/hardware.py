"""Describe the hardware of a sandbox: CPU, GPUs, and the versions that the speed of a program depends on.

The supervisor reads it from the kernel's files, inside the sandbox and in no process of a task or a candidate. On a
remote host the controller's own CPU says nothing about a job. Standard library only, and no package is imported: the
version of PyTorch is in the name of a folder.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

LONGEST = 200
"""Characters of one text."""


def described(root: Path = Path("/"), folders: Sequence[str] | None = None) -> dict[str, Any]:
    """`trace_bench.artifacts.outputs.Hardware` of this sandbox; empty texts and 0 stand for what is not known.

    Args:
        root: of the file system.
        folders: where packages are installed; None for those of this interpreter.
    """
    models = gpus(root)
    return {
        "cpu": cpu_model(root)[:LONGEST],
        "cpus": _cpus(root / "sys/fs/cgroup"),
        "gpus": [name[:LONGEST] for name in models],
        "driver": _driver(root)[:LONGEST] if models else "",
        "torch": _torch(sys.path if folders is None else folders)[:LONGEST],
    }


def cpu_model(root: Path = Path("/")) -> str:
    """The model name of the first processor. Where the kernel gives none (on ARM), the architecture and the numbers of
    implementer and part."""
    text = _text(root / "proc/cpuinfo")
    if found := re.search(r"^(?:model name|cpu model|cpu)[ \t]*:[ \t]*(\S.*)$", text, re.MULTILINE):
        return found[1].strip()
    numbers = [re.search(rf"^CPU {name}\s*:\s*(\S+)$", text, re.MULTILINE) for name in ("implementer", "part")]
    named = [f"{name} {found[1]}" for name, found in zip(("implementer", "part"), numbers, strict=True) if found]
    return " ".join([platform.machine(), *named]) if named else platform.processor()


def _cpus(group: Path) -> float:
    """CPUs that this process may use: those of its affinity, and no more than the quota of its control group."""
    found = float(len(os.sched_getaffinity(0)))
    old = group / "cpu"
    quota = _text(group / "cpu.max").split() or [_text(old / f"cpu.cfs_{name}_us") for name in ("quota", "period")]
    with contextlib.suppress(ValueError, ZeroDivisionError):
        limit = float(quota[0]) / float(quota[1])  # "max", or below 0, where there is no limit
        return round(min(found, limit), 3) if limit > 0 else found
    return found


def gpus(root: Path = Path("/")) -> list[str]:
    """Names of NVIDIA's GPUs. Their driver lists them in a sandbox without their devices, too."""
    if not any((root / "dev").glob("nvidia[0-9]*")):
        return []
    texts = [_text(path) for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information"))]
    return [found[1].strip() for text in texts if (found := re.search(r"^Model:\s*(\S.*)$", text, re.MULTILINE))]


def _driver(root: Path) -> str:
    found = re.search(r"\b(\d+\.\d+(?:\.\d+)?)\b", _text(root / "proc/driver/nvidia/version"))
    return found[1] if found else ""


def _torch(folders: Sequence[str]) -> str:
    names = (path.name for folder in folders if folder for path in Path(folder).glob("torch-*.dist-info"))
    return next((name.removeprefix("torch-").removesuffix(".dist-info") for name in names), "")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
