"""The best known scores of a task's instances: ``best_known.json`` in its folder.

The file has an object for each size of generated instances, and ``files`` for published ones:

* ``SIZE.template`` and ``SIZE.best``: means of the normalised scores of the template and of the best known solutions;
* ``SIZE.instances.DIGEST``: ``[score of the template, best known score, source]`` of the instance with that `digest`,
  or with that `rough_digest` where the last digits of instances depend on the processor;
* ``files.NAME``: ``[best known score, source]``; `name_of` makes the name.

Scores are in the task's natural units. `python -m benchmarks.LLM4AD.best_known` writes the sizes.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from trace_bench.worker.problem import ProblemError

FILE = "best_known.json"
ROUGH = "~"


@dataclass(frozen=True)
class BestKnown:
    """A task's ``best_known.json``."""

    table: Mapping[str, Any]

    @classmethod
    def of(cls, task_dir: Path) -> BestKnown | None:
        """The table of a task folder; None if it has none.

        Raises:
            ProblemError: the file is not a JSON object.
        """
        try:
            table = json.loads((task_dir / FILE).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ProblemError(f"{FILE}: {error}") from None
        if not isinstance(table, dict):
            raise ProblemError(f"{FILE}: must be an object")
        return cls(table)

    def published(self, name: str) -> tuple[float, str] | None:
        """The best known score of a published instance, and its source."""
        found = self.table.get("files", {}).get(name)
        return None if found is None else (float(found[0]), str(found[1]))

    def of_instance(self, instance: Mapping[str, Any]) -> tuple[float, str] | None:
        """The best known score of a generated instance, and its source; None if the table lacks the instance."""
        if not self._generated:
            return None
        entry = self._generated.get(key_in(self._generated, instance))
        return None if entry is None else (float(entry[1]), str(entry[2]))

    @cached_property
    def _generated(self) -> Mapping[str, Any]:
        sizes = (value.get("instances", {}) for name, value in self.table.items() if name != "files")
        return {key: entry for entries in sizes for key, entry in entries.items()}


def name_of(file: str, number: int) -> str:
    """The name of the instance number `number` (from 1) in a published file: ``airland6#1``."""
    return f"{Path(file).stem.lower()}#{number}"


def digest(instance: Mapping[str, Any]) -> str:
    """12 hexadecimal digits of the SHA-256 of an instance's data."""
    text = json.dumps(_plain(instance), sort_keys=True, allow_nan=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def rough_digest(instance: Mapping[str, Any]) -> str:
    """The `digest` of an instance whose numbers are rounded to six digits, after ``~``: sines and powers differ in the
    last bit from processor to processor."""
    return ROUGH + digest(_rounded(_plain(instance)))


def key_in(entries: Collection[str], instance: Mapping[str, Any]) -> str:
    """The key of `instance` in a table with the keys `entries`: all of them are rough, or none is."""
    return rough_digest(instance) if any(key.startswith(ROUGH) for key in entries) else digest(instance)


def _rounded(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{round(value, 9) + 0.0:.6g}")
    if isinstance(value, Mapping):
        return {key: _rounded(item) for key, item in value.items()}
    return [_rounded(item) for item in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return sorted(map(_plain, value), key=repr)
    if hasattr(value, "tolist"):
        return _plain(value.tolist())
    if isinstance(value, str | int | float | bool) or value is None:
        return value
    return _plain(vars(value))
