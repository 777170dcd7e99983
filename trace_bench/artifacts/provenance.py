"""What is recorded of the machine and the code: variables from an allow-list, secrets masked whole, git's
state."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from trace_bench.artifacts.records import EnvInfo, GitInfo
from trace_bench.secrets import MASK, is_secret_name
from trace_bench.worker import hardware

_ALLOWED_PREFIXES = (
    "TRACE_",
    "OPENAI_",
    "ANTHROPIC_",
    "AZURE_",
    "GEMINI_",
    "OPENROUTER_",
    "HF_",
    "HUGGINGFACE_",
    "DOCKER_",
    "MODAL_",
    "MLFLOW_",
    "OMP_",
    "OPENBLAS_",
    "MKL_",
    "CUDA_",
)
_ALLOWED = frozenset({"LANG", "LC_ALL", "TZ", "PYTHONHASHSEED", "SOURCE_DATE_EPOCH", "CI"})
_USER_INFO = re.compile(r"(://)[^/@\s]+@")
_QUERY_SECRET = re.compile(r"([?&][^=&#\s]*(?:key|token|secret|sig|auth|password)[^=&#\s]*=)[^&#\s]+", re.IGNORECASE)
PACKAGES = (
    "trace-bench",
    "docker",
    "litellm",
    "pydantic",
    "PyYAML",
    "jsonschema",
    "rich",
    "typer",
    "pyarrow",
)


def now() -> str:
    """The time in UTC as all records have it, to the second."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def capture_env(environ: Mapping[str, str], *, backend: Mapping[str, Any] | None = None) -> EnvInfo:
    """The parts of `environ` that can change a run.

    A variable whose name holds a word such as KEY, TOKEN or SECRET is recorded as set and no more; user names,
    passwords and keys inside addresses are cut out.
    """
    chosen: dict[str, str] = {}
    for name in sorted(environ):
        if name in _ALLOWED or name.startswith(_ALLOWED_PREFIXES):
            chosen[name] = MASK if is_secret_name(name) else _without_credentials(environ[name])
    return EnvInfo(
        captured_at=now(),
        env=chosen,
        python_version=sys.version.split()[0],
        platform=platform_name(),
        cpu_model=cpu_model(),
        packages=package_versions(),
        backend=dict(backend or {}),
    )


def _without_credentials(text: str) -> str:
    """`text` without the users, passwords and keys inside of addresses."""
    return _QUERY_SECRET.sub(rf"\1{MASK}", _USER_INFO.sub(rf"\1{MASK}@", text))


def platform_name() -> str:
    """System, release, machine and C library. `platform.platform` says the same, but starts ``uname -p`` for it."""
    parts = [platform.system(), platform.release(), platform.machine()]
    if libc := "".join(platform.libc_ver()):
        parts += ["with", libc]
    return "-".join(parts)


def package_versions() -> dict[str, str]:
    """Versions of this package and of what it needs on the host, as far as they are installed."""
    return {name: version for name in PACKAGES if (version := _version(name)) is not None}


@cache
def _version(name: str) -> str | None:
    """The version of a package. It is kept: the metadata is long, and a run needs it twice."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


@cache
def cpu_model() -> str:
    """The model name of this machine's first processor; empty where the system does not say."""
    return hardware.cpu_model()


def capture_git(folder: Path) -> GitInfo:
    """Commit, branch and whether tracked files differ, of the checkout that holds `folder`; empty outside
    one."""
    head = _git(folder, "rev-parse", "HEAD", "--abbrev-ref", "HEAD")
    if head is None:
        return GitInfo()
    commit, _, branch = head.partition("\n")
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return GitInfo(
        commit=commit,
        branch=branch or None,
        dirty=None if status is None else bool(status),
    )


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
