"""Compares two jobs: their definitions, their results, and the first lines where their histories and calls differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from trace_bench.artifacts.contract import Value
from trace_bench.artifacts.jsonio import JsonError
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.records import GitInfo, JobMeta, Lock, ManifestEntry
from trace_bench.artifacts.versions import read_versioned
from trace_bench.artifacts.writers import read_journal
from trace_bench.artifacts.yamlio import read_state
from trace_bench.errors import HarnessError
from trace_bench.gateway.differences import leaves
from trace_bench.records.changes import change
from trace_bench.records.reading import read_meta, read_optional, read_row
from trace_bench.records.rows import SHARED_WITH_ENTRY

T = TypeVar("T")

_RESULTS_IN_META = frozenset({
    "run_id", "job_id", "attempts", "created_at", "started_at", "ended_at", "status", "stop_reason", "stop_point",
    "cut_by_run_budget", "failure", "warnings", "integrity_report", "usage", "usage_by_phase", "controls",
    "test_seed_commitment",
})  # fmt: skip
"""Fields of a job's record that are results, or identify the job."""
_GIVEN_IN_ROW = (frozenset(SHARED_WITH_ENTRY) - {"integrity"}) | {
    "run_id", "job_id", "llm_provider", "llm_model", "image_key", "backend", "objective",
    "initial_state_path", "best_state_path", "final_state_path", "state_history_path", "pareto_path", "tb_logdir",
}  # fmt: skip
"""Fields of a row that define the job, and paths."""
_NEVER_EQUAL = frozenset({"t", "seconds", "latency", "tries", "request_id", "n", "attempt"})
"""Fields of a line that differ between repetitions: times, durations and numbers."""
STATES = ("initial", "final", "best")


@dataclass(frozen=True)
class Difference:
    """`first` and `second` are JSON values; None if there is none."""

    what: str
    first: Any
    second: Any


@dataclass(frozen=True)
class JobDiff:
    """The differences of the second job from the first.

    Attributes:
        given: in the definition, by path in ``job_meta.json``; for two runs also ``lock.…`` and ``git.…``.
        came: in the columns of the row.
        states: lines of a diff, by kind of state (``initial``, ``final``, ``best``) and parameter.
        history, calls: in the first line that differs, apart from times; empty if none does.
        unread: messages on damaged files.
    """

    given: list[Difference] = field(default_factory=list)
    came: list[Difference] = field(default_factory=list)
    states: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    history: list[Difference] = field(default_factory=list)
    calls: list[Difference] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not (self.given or self.came or self.states or self.history or self.calls or self.unread)


@dataclass(frozen=True)
class Job:
    """A job of a run. It can lack a folder.

    Attributes:
        unread: messages on those of its files that were read and are damaged.
    """

    run: RunLayout
    entry: ManifestEntry
    unread: list[str] = field(default_factory=list)

    @property
    def files(self) -> JobLayout:
        return self.run.job(self.entry.job_id)

    def read(self, path: Path, read: Callable[[], T]) -> T | None:
        """The result of `read`; None if the file is missing or damaged."""
        try:
            return read()
        except FileNotFoundError:
            return None
        except (HarnessError, JsonError, OSError, ValueError) as error:
            message = str(error)
            self.unread.append(message if message.startswith(str(path)) else f"{path}: {message}")
            return None

    def meta(self) -> JobMeta | None:
        return self.read(self.files.meta, lambda: read_meta(self.files))

    def results(self) -> dict[str, Any]:
        """The results in the row; empty if the job has not ended."""
        row = self.read(self.files.results, lambda: read_row(self.files.results))
        return {} if row is None else row.model_dump(mode="json", exclude=set(_GIVEN_IN_ROW))

    def state(self, kind: str) -> dict[str, Value]:
        path: Path = getattr(self.files, f"{kind}_state")
        return self.read(path, lambda: read_state(path)) or {}

    def lines(self, path: Path) -> list[dict[str, Any]]:
        return list(self.read(path, lambda: read_journal(path).lines) or ())

    def code(self) -> dict[str, Any]:
        """What the run records of its code."""
        lock = self.read(self.run.lock, lambda: read_versioned(Lock, self.run.lock))
        git = self.read(self.run.git, lambda: read_optional(GitInfo, self.run.git))
        return {
            "lock": {key: getattr(lock, key, None) for key in ("code_version", "sources_hash", "packages")},
            "git": {key: getattr(git, key, None) for key in ("commit", "dirty")},
        }


def diff(first: Job, second: Job) -> JobDiff:
    """Compare two jobs, of one run or of two."""
    states = {kind: change(first.state(kind), second.state(kind), ("first", "second")) for kind in STATES}
    return JobDiff(
        given=list(_differences_in_definition(first, second)),
        came=list(_differences(first.results(), second.results())),
        states={kind: changed for kind, changed in states.items() if changed},
        history=_first_difference(first.lines(first.files.state_history), second.lines(second.files.state_history)),
        calls=_first_difference(first.lines(first.files.cassette), second.lines(second.files.cassette)),
        unread=[*first.unread, *second.unread],
    )


def _differences_in_definition(first: Job, second: Job) -> Iterator[Difference]:
    one, other = first.meta(), second.meta()
    if one is not None and other is not None:
        left_out = set(_RESULTS_IN_META)
        yield from _differences(one.model_dump(mode="json", exclude=left_out),
                                other.model_dump(mode="json", exclude=left_out))  # fmt: skip
        yield from _differences(*({"controls": {c.name: c.in_force for c in meta.controls}} for meta in (one, other)))
    else:
        left_out = {"job_id", "decision", "decision_reason", "status", "reason"}
        yield from _differences(first.entry.model_dump(mode="json", exclude=left_out),
                                second.entry.model_dump(mode="json", exclude=left_out))  # fmt: skip
    if first.run.root != second.run.root:
        yield from _differences(first.code(), second.code())


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    a, b = leaves(one), leaves(other)
    for path in {**a, **b}:
        old, new = a.get(path), b.get(path)
        if (old != new or type(old) is not type(new)) and not (_is_empty(old) and _is_empty(new)):
            yield Difference(path, old, new)


def _is_empty(value: Any) -> bool:
    return value is None or value in ({}, [])


def _first_difference(first: list[dict[str, Any]], second: list[dict[str, Any]]) -> list[Difference]:
    """The differences in the first line that differs; each key begins with its number."""
    for number, (old, new) in enumerate(zip_longest(first, second), start=1):
        if old is None or new is None:
            return [Difference(f"line {number}", *(None if line is None else "there" for line in (old, new)))]
        keys = [key for key in {**old, **new} if key not in _NEVER_EQUAL and old.get(key) != new.get(key)]
        if "request" in keys and "request_hash" in keys:
            keys.remove("request_hash")  # it follows from the request
        if keys:
            return [Difference(f"line {number}, {key}", old.get(key), new.get(key)) for key in keys]
    return []
