"""The version of the format of a run's files.

`Manifest` and `Lock` have it (``schema_version``); the other files of a run are of the same version. A run of a later
version is refused, since the meaning of its files is unknown here.

A new field needs no new version if its default is true of earlier runs. A field that changes its meaning, its unit or
its place does: raise `SCHEMA_VERSION`, and bring earlier runs up to date in `read_versioned`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trace_bench.artifacts.jsonio import JsonError, explain, loads
from trace_bench.errors import ExitCode, HarnessError

SCHEMA_VERSION = 2
"""Version of new runs."""
FIRST = 1
"""Version of a manifest or lock without ``schema_version``. The second version only added the key."""

M = TypeVar("M", bound=BaseModel)


class NewerRun(HarnessError):
    """A run that a later version of this program wrote: nothing is wrong with it, but it cannot be read here."""

    exit_code = ExitCode.ENVIRONMENT


def read_versioned(model: type[M], path: Path) -> M:
    """Read the manifest or lock at `path`.

    Raises:
        FileNotFoundError: it is not there.
        NewerRun: it is of a later version.
        HarnessError: it is damaged.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        raise HarnessError(f"{path}: {error.strerror}") from None
    try:
        # Before validation: the model does not know the keys of a later version.
        check_version(_version(loads(data)), path)
        return model.model_validate_json(data, strict=True)
    except JsonError as error:
        raise HarnessError(f"{path}: {error}") from None
    except ValidationError as error:
        raise HarnessError(f"{path}: {explain(error)}") from None


def check_version(version: int, path: Path) -> None:
    """Refuse what is of a later version than `SCHEMA_VERSION`.

    Raises:
        NewerRun: `version` is later. `path` is the file that says so.
    """
    if version > SCHEMA_VERSION:
        raise NewerRun(
            f"{path}: it was written by a newer Trace-Bench (schema {version}); this one reads up to {SCHEMA_VERSION}: "
            "upgrade it"
        )


def is_newer(value: Mapping[str, Any]) -> bool:
    """Return True if a manifest or lock as parsed JSON, which can hold anything, is of a later version."""
    version = value.get("schema_version", FIRST)
    return isinstance(version, int) and version > SCHEMA_VERSION


def _version(value: Any) -> int:
    if not isinstance(value, dict):
        raise JsonError("it is not an object")
    version = value.get("schema_version", FIRST)
    if not isinstance(version, int) or isinstance(version, bool) or version < FIRST:
        raise JsonError(f"$.schema_version: it is a whole number from {FIRST} on")
    return version
