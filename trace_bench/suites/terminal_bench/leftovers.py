"""Removes what trials left on a Docker engine: containers, networks, volumes and images of their Compose projects."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence

PROJECT = "com.docker.compose.project"
"""Label that Compose gives to all that belongs to a project."""
_TIMEOUT = 60.0


def remove_leftovers(
    labels: Sequence[str], environment: Mapping[str, str], *, trials: Iterable[str] = (), patience: float = 0.0
) -> list[str]:
    """Remove the Compose projects that have a container, network or volume with all `labels`, and those of `trials`.

    Only what belongs to a project of Compose is removed, so the sandbox of a job may have the same labels. An engine
    may still carry out what a killed program asked for, so it looks again until nothing was found for `patience`
    seconds.

    Args:
        labels: each is ``key=value``; at least one, unless there are `trials`.
        environment: of the docker command.
        trials: Harbor's names of trials.
        patience: in seconds; 0 looks once, and for images only if there is anything else.

    Returns:
        What is still there, as ``kind id``; empty if nothing is.
    """
    prefixes = tuple(f"{project_name(name)}__" for name in trials)
    projects = {f"{prefix}env" for prefix in prefixes} if patience else set()
    quiet_since = time.monotonic()
    for _ in range(100):
        projects |= _projects(labels, prefixes, environment)
        if not projects and not patience:
            return []
        if _remove(projects, environment):
            quiet_since = time.monotonic()
        elif time.monotonic() - quiet_since >= patience:
            return []
        time.sleep(0.25)
    return [f"{kind} {one}" for kind, found in _found(projects, environment).items() for one in found]


def project_name(session: str) -> str:
    """Compose's name for what Harbor calls `session`.

    >>> project_name("Count.Lines__aB3")
    'count-lines__ab3'
    """
    name = session.lower()
    return re.sub(r"[^a-z0-9_-]", "-", name if re.match(r"[a-z0-9]", name) else f"0{name}")


def values_of(name: str, label: str, environment: Mapping[str, str]) -> set[str]:
    """Values of the label `name` among containers, networks and volumes that have `label` (``key=value``)."""
    show = f'{{{{.Label "{name}"}}}}'
    kinds = (["ps", "--all"], ["network", "ls"], ["volume", "ls"])
    return {
        line for kind in kinds for line in _docker([*kind, "--filter", f"label={label}", "--format", show], environment)
    }


def _projects(labels: Sequence[str], prefixes: tuple[str, ...], environment: Mapping[str, str]) -> set[str]:
    """Names of the projects that have something with all `labels`, or a name with one of `prefixes`."""
    wanted = [label.partition("=")[::2] for label in labels]
    show = "\t".join(f'{{{{.Label "{key}"}}}}' for key in [PROJECT, *(key for key, _ in wanted)])
    found = set()
    for kind in (["ps", "--all"], ["network", "ls"], ["volume", "ls"]):
        for line in _docker([*kind, "--filter", f"label={PROJECT}", "--format", show], environment):
            project, *values = line.split("\t")
            if (wanted and values == [value for _, value in wanted]) or (prefixes and project.startswith(prefixes)):
                found.add(project)
    return found


def _found(projects: Iterable[str], environment: Mapping[str, str]) -> dict[str, set[str]]:
    """Ids of what the projects have, by kind."""
    filters = [f"label={PROJECT}={project}" for project in projects]
    commands = {
        "container": ["ps", "--all", "--quiet", "--no-trunc"],
        "network": ["network", "ls", "--quiet", "--no-trunc"],
        "volume": ["volume", "ls", "--quiet"],
        "image": ["image", "ls", "--quiet", "--no-trunc"],
    }
    return {
        kind: {one for wanted in filters for one in _docker([*command, "--filter", wanted], environment)}
        for kind, command in commands.items()
    }


def _remove(projects: Iterable[str], environment: Mapping[str, str]) -> bool:
    """Remove what the projects have; True if there was anything, which need not be gone."""
    found = _found(projects, environment)
    removing = {
        "container": ["rm", "--force", "--volumes"],
        "network": ["network", "rm"],
        "volume": ["volume", "rm", "--force"],
        "image": ["image", "rm"],
    }
    for kind, command in removing.items():
        if found[kind]:
            _docker([*command, *sorted(found[kind])], environment)
    return any(found.values())


def _docker(arguments: list[str], environment: Mapping[str, str]) -> list[str]:
    """The lines that the docker command prints; none if it fails."""
    try:
        done = subprocess.run(
            ["docker", *arguments], env=dict(environment), stdin=subprocess.DEVNULL, capture_output=True, text=True,
            errors="replace", timeout=_TIMEOUT, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return []
    return [line for line in done.stdout.splitlines() if line]
