"""The version of the format of a run's files, and the conversion of older ones.

`Manifest` and `Lock` say it (``schema_version``); the other files of a run are of the same. A run of an earlier version
is brought up to date in memory, as it is read: nothing on the disk is changed by reading it. A run of a later version
is refused, as what its files mean is not known here.

A new field that has a default which is true of older runs needs no version of its own. A field that changes its
meaning, its unit, or its place does: raise `SCHEMA_VERSION`, add what has changed to `CHANGES`, and a step to `_STEPS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from trace_bench.artifacts.jsonio import JsonError, dumps, explain, loads
from trace_bench.errors import ExitCode, HarnessError

SCHEMA_VERSION = 2
"""What is written from now on."""
FIRST = 1
"""What a manifest or lock without a ``schema_version`` is of."""
CHANGES: Mapping[int, str] = {
    1: "the first; rows of its early days lack columns (see LATER)",
    2: "manifest and lock name the version",
}
LATER: Mapping[str, str] = {
    **{
        name: name
        for name in (
            "score_claimed", "integrity_flags", "score_evaluations", "objective", "metrics_initial", "metrics_final",
            "metrics_best", "metrics_test", "hypervolume", "evaluations_saved", "search_answers", "unusable_answers",
            "scoring_calls",
        )
    },
    "evaluations": "score_evaluations",
}  # fmt: skip
"""Columns that early rows of version 1 do not have, or mean otherwise: those without the column that is named. In rows
without `score_evaluations`, `evaluations` counts the scorer's, too."""

Step = Callable[[dict[str, Any]], dict[str, Any]]
M = TypeVar("M", bound=BaseModel)


class NewerRun(HarnessError):
    """A run that a later version of this program wrote: nothing is wrong with it, but it cannot be read here."""

    exit_code = ExitCode.ENVIRONMENT


def read_versioned(model: type[M], path: Path) -> M:
    """The manifest or lock at `path`, brought up to date.

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
        # Before the model is asked, which knows nothing of what a later version has added.
        value = loads(data)
        version = _version(value)
        check_version(version, path)
        if version < SCHEMA_VERSION:
            data = dumps(migrate(value, version)).encode()
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
    """Whether a manifest or lock as parsed JSON, which anybody may have written, is of a later version."""
    version = value.get("schema_version", FIRST)
    return isinstance(version, int) and version > SCHEMA_VERSION


def migrate(value: dict[str, Any], version: int) -> dict[str, Any]:
    """A manifest or lock of `version` as it would be today; what it says of its version stays."""
    for step in range(version, SCHEMA_VERSION):
        value = _STEPS[step](value)
    return value


def _names_version(value: dict[str, Any]) -> dict[str, Any]:
    return {**value, "schema_version": FIRST}


_STEPS: Mapping[int, Step] = {1: _names_version}
"""By version, what makes the next one of it."""


def _version(value: Any) -> int:
    if not isinstance(value, dict):
        raise JsonError("it is not an object")
    version = value.get("schema_version", FIRST)
    if not isinstance(version, int) or isinstance(version, bool) or version < FIRST:
        raise JsonError(f"$.schema_version: it is a whole number from {FIRST} on")
    return version
