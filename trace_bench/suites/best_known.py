"""The best scores that are known of a task's instances: ``best_known.json`` in its folder, and what a gap is made of.

The file has an object for each size of generated instances, and ``files`` for published ones:

* ``SIZE.template`` and ``SIZE.best``: means of the normalised scores of the template and of the best known solutions;
* ``SIZE.instances.DIGEST``: ``[score of the template, best known score, source]`` of the instance with that `digest`;
* ``files.NAME``: ``[best known score, source]``; `name_of` makes the name.

Scores are in the task's natural units. `python -m benchmarks.LLM4AD.best_known` writes the sizes.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.suites.splits import STANDARD
from trace_bench.worker.problem import ProblemError

FILE = "best_known.json"
_HALVINGS = 60


@dataclass(frozen=True)
class Points:
    """What the gap of one instance is measured by. Scores are in natural units.

    Attributes:
        template: score whose gap is 0.
        span: what a score must be better by for a gap of 1, with the sign of the task's direction.
        best: the best known score; None if none is known of this very instance.
        source: where that is from.
    """

    template: float
    span: float
    best: float | None = None
    source: str = ""

    def gap(self, score: float) -> float:
        """0 for the template, 1 for the best known score; beyond 1 for a better one."""
        return (score - self.template) / self.span if self.span else 0.0


@dataclass(frozen=True)
class BestKnown:
    """A task's ``best_known.json``."""

    table: Mapping[str, Any]

    @classmethod
    def of(cls, task_dir: Path) -> BestKnown | None:
        """The table of a task folder; None if it has none.

        Raises:
            ProblemError: the file is no JSON object.
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

    def points(
        self,
        instance: Mapping[str, Any],
        size: str,
        published: tuple[float, str] | None,
        share: Callable[[float], float],
        ends: tuple[float, float],
    ) -> Points | None:
        """What the gap of `instance` is measured by; None for a table without generated instances.

        A size that the table lacks is taken to have the means of the standard one.

        Of an instance that the table lacks, the template's and the best known score are estimated as those whose
        normalised scores are the means over the table.

        Args:
            published: best known score of an instance from a file.
            share: the normalised score of a score on this instance; it falls from the second of `ends` to the first.
            ends: the worst score, and one that is at least as good as the best known.
        """
        means = self.table.get(size) or self.table.get(STANDARD)
        if means is None:
            return None
        entries: Mapping[str, Any] = means["instances"]
        known = entries.get(digest(instance))
        if known is not None:
            span = math.fsum(entry[1] - entry[0] for entry in entries.values()) / len(entries)
            return Points(known[0], span, known[1], known[2])
        template = score_of(share, means["template"], ends)
        best, source = published or (score_of(share, means["best"], ends), "")
        if (best - template) * (ends[1] - ends[0]) <= 0:  # the published value is worse than the template's estimate
            template = ends[0]
        return Points(template, best - template, best if published else None, source)


def score_of(share: Callable[[float], float], wanted: float, ends: tuple[float, float]) -> float:
    """The score between `ends` whose normalised score is `wanted`, by bisection."""
    worse, better = ends
    for _ in range(_HALVINGS):
        middle = (worse + better) / 2
        if share(middle) < wanted:
            worse = middle
        else:
            better = middle
    return (worse + better) / 2


def name_of(file: str, number: int) -> str:
    """The name of the instance number `number` (from 1) in a published file: ``airland6#1``."""
    return f"{Path(file).stem.lower()}#{number}"


def digest(instance: Mapping[str, Any]) -> str:
    """12 hexadecimal digits of the SHA-256 of an instance's data."""
    text = json.dumps(_plain(instance), sort_keys=True, allow_nan=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


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
