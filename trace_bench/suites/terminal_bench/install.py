"""Installs Harbor in an environment of its own, with pinned packages. On the host."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

from trace_bench.errors import EnvironmentUnavailable
from trace_bench.suites.terminal_bench.program import own_environment

_SUITS = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 12))"


def install(python: Path | None, say: Callable[[str], None]) -> Path:
    """Install Harbor, and return its program. What was there stays if that fails.

    Args:
        python: 3.12 or later, with venv; None looks for one.

    Raises:
        EnvironmentUnavailable: there is no such Python, or Harbor cannot be installed or does not start.
    """
    chosen = _python(python)
    place = own_environment(os.environ)
    place.parent.mkdir(parents=True, exist_ok=True)
    say(f"installing Harbor with {chosen}; this takes a few minutes")
    before = place.with_name(f"{place.name}.before")  # an environment holds its own path, so it is made where it stays
    shutil.rmtree(before, ignore_errors=True)
    if place.exists():
        place.rename(before)
    try:
        _run([str(chosen), "-m", "venv", str(place)], "the environment cannot be made")
        pip = [str(place / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        pins = Path(__file__).with_name("harbor.txt")
        _run([*pip, "--require-hashes", "--no-deps", "-r", str(pins)], "Harbor cannot be installed")
        _run([str(place / "bin" / "harbor"), "--version"], "Harbor does not start")
    except BaseException:
        shutil.rmtree(place, ignore_errors=True)
        if before.exists():
            before.rename(place)
        raise
    shutil.rmtree(before, ignore_errors=True)
    return place / "bin" / "harbor"


def _python(given: Path | None) -> Path:
    names = [str(given)] if given is not None else ["python3.12", "python3.13", "python3"]
    for name in names:
        found = shutil.which(name)
        if found and subprocess.run([found, "-c", _SUITS], capture_output=True, check=False).returncode == 0:
            return Path(found)
    raise EnvironmentUnavailable(
        f"{' and '.join(names)}: no Python 3.12 or later with venv; install one, and name it with --python"
    )


def _run(command: list[str], failure: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:] or ["it says nothing"]
        raise EnvironmentUnavailable(f"{failure}: {last[0][:500]}")
