"""What a run was made on: versions, allow-listed variables, the commit. Written once, before the first job."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from datetime import UTC, datetime
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

from trace_bench.artifacts.models import EnvInfo, GitInfo
from trace_bench.controller.job import cpu_model

ALLOWED = re.compile(r"(TRACE_|TRACE_BENCH_|DOCKER_HOST$|DOCKER_CONTEXT$|LANG$|TZ$|PYTHONHASHSEED$)")
"""Variables that ``env.json`` holds; everything else stays out of it."""
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIAL|AUTH", re.IGNORECASE)
MASK = "***"


def capture_environment(backend: dict[str, Any]) -> EnvInfo:
    """The environment of this process; `backend` is what the backend says of itself."""
    variables = {
        name: MASK if SECRET.search(name) else value
        for name, value in sorted(os.environ.items())
        if ALLOWED.match(name)
    }
    packages = {d.metadata["Name"]: d.version for d in distributions() if d.metadata["Name"]}
    return EnvInfo(
        captured_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        env=variables,
        python_version=platform.python_version(),
        platform=platform.platform(),
        cpu_model=cpu_model(),
        packages=dict(sorted(packages.items())),
        backend=backend,
    )


def capture_git(folder: Path) -> GitInfo:
    """Commit, branch and cleanliness of the checkout that `folder` lies in; all None where there is none."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return GitInfo()
    status = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return GitInfo(
        commit=commit,
        branch=_git(folder, "rev-parse", "--abbrev-ref", "HEAD"),
        dirty=None if status is None else bool(status),
    )


def _git(folder: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=10, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
