"""The sides of a comparison: runs, or parts of them, with the jobs that may count."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

import pandas as pd

from trace_bench.analysis.frames import jobs_frame
from trace_bench.analysis.where import KEYS, Where, parse_by
from trace_bench.artifacts.jsonio import JsonError, canonical, read_model
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import EnvInfo, Lock, Manifest
from trace_bench.artifacts.versions import read_versioned
from trace_bench.display.text import quoted
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.records.reading import manifest_and_rows
from trace_bench.records.rows import skipped_row

UNIT, TRAINER, MODEL, OPTIMIZER, PARAMETERS = "unit", "trainer_id", "model", "optimizer_key", "parameters_key"
"""`UNIT` is a task with its arguments."""
CONFIGURATION = (TRAINER, MODEL, OPTIMIZER, PARAMETERS)
"""Columns that make up a configuration."""


@dataclass(frozen=True)
class Source:
    """One run, read once. `jobs` has a row for each planned job, also for those that have not finished (outcome
    ``pending``); beside the columns of `jobs_frame` it has `UNIT` and those of `CONFIGURATION`."""

    layout: RunLayout
    jobs: pd.DataFrame
    manifest: Manifest | None
    lock: Lock | None
    cpu_model: str

    @cached_property
    def snapshot(self) -> Mapping[str, Any]:
        """The resolved config; empty where it cannot be read."""
        import yaml

        loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
        try:
            found = yaml.load(self.layout.config_snapshot.read_text(encoding="utf-8"), Loader=loader)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, yaml.YAMLError) as error:
            raise HarnessError(f"{self.layout.config_snapshot}: {quoted(str(error), 200)}") from None
        return found if isinstance(found, dict) else {}


@dataclass(frozen=True)
class ComparisonGroup:
    """Jobs of one run, under a name. `split` says why ``--by`` made more parts than were asked for; empty if it did
    not."""

    name: str
    source: Source
    jobs: pd.DataFrame
    split: str = ""

    def outcomes(self) -> dict[str, int]:
        """Jobs by outcome, the most frequent first."""
        return dict(Counter(self.jobs["outcome"]).most_common())

    def failures(self) -> dict[str, int]:
        """Failed jobs by ``boundary:kind``, infrastructure included."""
        failed = self.jobs[self.jobs["outcome"].isin(["failed", "infrastructure"])]
        return dict(
            Counter(f"{b}:{k}" for b, k in zip(failed["failure_boundary"], failed["failure_kind"], strict=True))
        )


def short_names(names: Sequence[str]) -> list[str]:
    """Names of parts without the keys of their conditions, if they still differ."""
    whole = [quoted(text, 100) for text in names]
    bare = [re.sub(r"(^|[ ,])(?:trainer|variant|model|optimizer)=", r"\1 ", text).replace(", ", " ") for text in whole]
    bare = [" ".join(text.split()) for text in bare]
    return bare if len(set(bare)) == len(names) else whole


def read_source(layout: RunLayout) -> Source:
    """Read the jobs of a run. Raises HarnessError if a file of the run is damaged."""
    manifest, rows = manifest_and_rows(layout)
    jobs = jobs_frame(rows)
    if manifest is not None:
        ended = {row.job_id for row in rows}
        waiting = [entry for entry in manifest.jobs if entry.job_id not in ended]
        if waiting:
            pending = jobs_frame([skipped_row(manifest.run_id, entry) for entry in waiting]).assign(outcome="pending")
            jobs = pd.concat([jobs, pending], ignore_index=True) if len(jobs) else pending
    jobs = jobs.reset_index(drop=True)

    key = _Keys()
    jobs[UNIT] = [f"{t} {key(k)}" for t, k in zip(jobs["task_id"], jobs["eval_kwargs"], strict=True)]
    optimizers = zip(jobs["resolved_optimizer"], jobs["resolved_optimizer_kwargs"], strict=True)
    jobs[OPTIMIZER] = [key([name, kwargs]) for name, kwargs in optimizers]
    columns = ("resolved_trainer_kwargs", "resolved_guide", "resolved_guide_kwargs")
    jobs[PARAMETERS] = [key(list(values)) for values in zip(*(jobs[c] for c in columns), strict=True)]
    return Source(layout, jobs, manifest, _lock(layout), _cpu(layout))


class _Keys:
    """Canonical JSON; thousands of jobs share a few values."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __call__(self, value: Any) -> str:
        text = repr(value)
        if text not in self._known:
            self._known[text] = canonical(value).decode()
        return self._known[text]


def _lock(layout: RunLayout) -> Lock | None:
    try:
        return read_versioned(Lock, layout.lock)
    except FileNotFoundError:
        return None


def _cpu(layout: RunLayout) -> str:
    try:
        return read_model(EnvInfo, layout.env.read_bytes()).cpu_model
    except (OSError, JsonError):
        return ""


# ------------------------------------------------------------------------------------------------------ choosing


def choose(
    runs: Sequence[RunLayout],
    wheres: Sequence[Where],
    by: str | None,
    baseline: str | None,
    read: Callable[[RunLayout], Source] = read_source,
) -> list[ComparisonGroup]:
    """The parts that are compared, the baseline first; no two share a job.

    Of m runs and k conditions: ``m = 1, k ≥ 2`` is a part for each condition; ``k ≤ 1`` a part for each run, filtered;
    ``m = k`` one condition for each run. With `by`, a part for each value of those keys in the one run.

    Raises:
        ConfigError: anything else, an empty part, or a job in two.
    """
    if not runs:
        raise ConfigError("there is nothing to compare; name runs, or a run and its parts with --where or --by")
    sources: dict[str, Source] = {}
    for run in runs:
        place = str(run.root.resolve())
        if place not in sources:
            sources[place] = read(run)
    listed = [sources[str(run.root.resolve())] for run in runs]
    parts = _by_values(listed, wheres, by) if by is not None else _parts(listed, wheres)
    for part in parts:
        if not len(part.jobs):
            raise ConfigError(f"no job is in {part.name!r}{_known(part, wheres)}")
    _check_apart(parts)
    return _with_first(parts, baseline)


def _parts(sources: Sequence[Source], wheres: Sequence[Where]) -> list[ComparisonGroup]:
    m, k = len(sources), len(wheres)
    if m == 1 and k < 2:
        raise ConfigError(
            "a comparison needs two parts at least; name another run, or parts of this one with --where twice, or --by"
        )
    if m > 1 and k not in (0, 1, m):
        raise ConfigError(f"{m} runs and {k} times --where do not fit; give it once for all runs, or once for each")
    conditions: list[Where | None] = list(wheres) if k > 1 else [wheres[0] if wheres else None] * m
    sources = [sources[0]] * k if m == 1 else sources
    ids = [source.layout.run_id for source in sources]
    parts = []
    for source, condition, run_id in zip(sources, conditions, ids, strict=True):
        names = [run_id] if m > 1 and len(set(ids)) > 1 else []
        names += [condition.text] if condition is not None and k > 1 else []
        jobs = source.jobs if condition is None else condition.of(source.jobs)
        parts.append(ComparisonGroup(" ".join(names) or str(source.layout.root), source, jobs))
    if len({part.name for part in parts}) < len(parts):  # runs of one id in several folders
        full = [
            str(part.source.layout.root) + (f" {c.text}" if c and k > 1 else "")
            for part, c in zip(parts, conditions, strict=True)
        ]
        parts = [ComparisonGroup(name, part.source, part.jobs) for name, part in zip(full, parts, strict=True)]
    return parts


def _by_values(sources: Sequence[Source], wheres: Sequence[Where], by: str) -> list[ComparisonGroup]:
    columns = list(parse_by(by))
    if len(sources) != 1 or len(wheres) > 1:
        raise ConfigError("--by makes the parts of one run; name one run, and --where at most once")
    jobs = wheres[0].of(sources[0].jobs) if wheres else sources[0].jobs
    groups = list(jobs.groupby(columns, sort=False, dropna=False))
    if len(groups) < 2:
        raise ConfigError(f"--by {by}: the jobs have {len(groups)} of it, and a comparison needs two at least")
    asked = len(columns)
    for key in SPLIT_BY:
        if _can_be_paired([part for _, part in groups]):
            break
        if KEYS[key] not in columns and jobs[KEYS[key]].nunique() > 1:
            columns.append(KEYS[key])
            groups = list(jobs.groupby(columns, sort=False, dropna=False))
    names = [key for column in columns for key, its_column in KEYS.items() if its_column == column]
    split = ""
    if len(columns) > asked:
        split = f"--by {by} would put jobs that differ into one part; the parts are by {','.join(names)}"
    return [
        ComparisonGroup(
            ",".join(f"{name}={value}" for name, value in zip(names, values, strict=True)), sources[0], part, split
        )
        for values, part in groups
    ]


SPLIT_BY = ("variant", "model", "optimizer", "guide", "trainer")
"""What parts are split by until their jobs can be paired, in this order."""


def pairing(parts: Sequence[pd.DataFrame]) -> tuple[str, ...]:
    """The fewest columns of `CONFIGURATION` that pairs must share besides task and seed, so that each part has one job
    for a pair."""
    by_size = sorted(
        (
            tuple(column for bit, column in enumerate(CONFIGURATION) if mask >> bit & 1)
            for mask in range(1 << len(CONFIGURATION))
        ),
        key=len,
    )
    for dims in by_size:
        if not any(jobs.duplicated([UNIT, "seed", *dims]).any() for jobs in parts):
            return dims
    return CONFIGURATION


def _can_be_paired(parts: Sequence[pd.DataFrame]) -> bool:
    """Whether parts with a task in common have jobs of it that share what pairs must."""
    dims = pairing(parts)
    units = [set(jobs[UNIT]) for jobs in parts]
    keys = [set(jobs[[UNIT, *dims]].itertuples(index=False, name=None)) for jobs in parts]
    pairs = combinations(range(len(parts)), 2)
    return not dims or all(keys[one] & keys[two] or not units[one] & units[two] for one, two in pairs)


def _known(part: ComparisonGroup, wheres: Sequence[Where]) -> str:
    """The values that the keys of the conditions have in the run."""
    names = sorted({key for where in wheres for key in where.patterns})
    sentences = []
    for name in names:
        values = sorted(set(part.source.jobs[KEYS[name]].astype(str)))
        sentences.append(
            f"{name} is " + ", ".join(quoted(value, 60) for value in values[:5]) + (" …" if values[5:] else "")
        )
    return f"; in {part.source.layout.run_id} {'; '.join(sentences)}" if sentences and len(part.source.jobs) else ""


def _check_apart(parts: Sequence[ComparisonGroup]) -> None:
    for one, two in combinations(parts, 2):
        if one.source is two.source:
            shared = len(set(one.jobs["job_id"]) & set(two.jobs["job_id"]))
            if shared:
                names = f"{one.name!r} and {two.name!r}"
                raise ConfigError(f"{shared} jobs are in both {names}; parts that are compared share none")


def _with_first(parts: list[ComparisonGroup], baseline: str | None) -> list[ComparisonGroup]:
    if baseline is None:
        return parts
    exact = [part for part in parts if part.name == baseline]
    fitting = exact or [part for part in parts if baseline in part.name]
    if len(fitting) != 1:
        names = ", ".join(repr(part.name) for part in parts)
        which = "more than one part has" if fitting else "no part has"
        raise ConfigError(f"--baseline: {which} {baseline!r} in its name; the parts are {names}")
    return [*fitting, *(part for part in parts if part is not fitting[0])]
