"""Parts of a run: the jobs that some columns say are meant, as ``--where trainer=NoOp,seed=1|2`` has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import pandas as pd

from trace_bench.arguments import hint
from trace_bench.errors import ConfigError

KEYS: Mapping[str, str] = {
    "task": "task_id",
    "suite": "suite",
    "trainer": "trainer_id",
    "variant": "variant",
    "optimizer": "resolved_optimizer",
    "guide": "resolved_guide",
    "model": "model",
    "seed": "seed",
    "backend": "backend",
    "hardware": "hardware",
    "status": "status",
    "run": "run_id",
}
"""What users call a column of `trace_bench.analysis.frames.jobs_frame`, and its name there."""


@dataclass(frozen=True)
class Where:
    """A condition on jobs: for each key one of its patterns fits. `text` is as the user wrote it."""

    text: str
    patterns: Mapping[str, tuple[str, ...]]

    def of(self, jobs: pd.DataFrame) -> pd.DataFrame:
        """Those of `jobs` that fit."""
        keep = pd.Series(True, index=jobs.index)
        for key, patterns in self.patterns.items():
            texts = jobs[KEYS[key]].astype(str)
            fitting = {text for text in texts.unique() if any(fnmatchcase(text, pattern) for pattern in patterns)}
            keep &= texts.isin(fitting)
        return jobs[keep]


def parse_where(text: str) -> Where:
    """``KEY=PATTERN[|PATTERN…][,KEY=…]``; patterns have ``*`` and ``?``.

    >>> parse_where("trainer=GEPA-*|NoOp,seed=1").patterns["trainer"]
    ('GEPA-*', 'NoOp')

    Raises:
        ConfigError: it is none, or a key is not one of `KEYS`.
    """
    patterns: dict[str, tuple[str, ...]] = {}
    for piece in text.split(","):
        key, equals, values = (part.strip() for part in piece.partition("="))
        if not equals or not values:
            raise ConfigError(f"{piece!r} is no condition; write KEY=VALUE, as in trainer=NoOp,seed=1|2")
        if key in patterns:
            raise ConfigError(f"{text!r} names {key} twice; put | between its values")
        check_key(key)
        patterns[key] = tuple(value.strip() for value in values.split("|"))
    return Where(text, patterns)


def check_key(key: str) -> str:
    """The column of `key`.

    Raises:
        ConfigError: there is none.
    """
    if key not in KEYS:
        raise ConfigError(f"jobs have no {key!r}{hint(key, KEYS)}")
    return KEYS[key]


def parse_by(text: str) -> Sequence[str]:
    """Columns of ``task,trainer``, in the order given.

    Raises:
        ConfigError: a key is not one of `KEYS`, or given twice.
    """
    keys = [key.strip() for key in text.split(",")]
    if len(set(keys)) < len(keys):
        raise ConfigError(f"{text!r} names a key twice; name each once")
    return [check_key(key) for key in keys]
