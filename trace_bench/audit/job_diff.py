"""What differs between two jobs: what they were given, what came of them, and where they first went different ways."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel

from trace_bench.artifacts.contract import Value
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.layout import JobLayout, RunLayout
from trace_bench.artifacts.records import GitInfo, JobMeta, Lock, ManifestEntry
from trace_bench.artifacts.versions import read_versioned
from trace_bench.artifacts.writers import read_journal
from trace_bench.artifacts.yamlio import read_state
from trace_bench.errors import HarnessError
from trace_bench.gateway.differences import leaves
from trace_bench.records.changes import change
from trace_bench.records.reading import read_meta, read_row

M = TypeVar("M", bound=BaseModel)
T = TypeVar("T")

NOT_GIVEN = frozenset({
    "run_id", "job_id", "attempts", "created_at", "started_at", "ended_at", "status", "stop_reason", "stop_point",
    "cut_by_run_budget", "failure", "warnings", "integrity_report", "usage", "usage_by_phase", "controls",
    "test_seed_commitment",
})  # fmt: skip
"""Fields of a job's record that came of it, or only say which one it is."""
NOT_CAME = frozenset({
    "run_id", "job_id", "task_id", "suite", "trainer_id", "variant", "seed", "model", "llm_provider", "llm_model",
    "eval_kwargs", "image_key", "backend", "fingerprint", "score_direction", "objective",
    "initial_state_path", "best_state_path", "final_state_path", "state_history_path", "pareto_path", "tb_logdir",
})  # fmt: skip
"""Fields of a row that it was given, and paths, as well as ``resolved_…``."""
TIMES = frozenset({"t", "seconds", "latency", "tries", "request_id", "n", "attempt"})
"""Of a line: when, how long, and the number of something. The same work never repeats these."""
STATES = ("initial", "final", "best")


@dataclass(frozen=True)
class Difference:
    """`first` and `second` are JSON values; None also where there is nothing."""

    what: str
    first: Any
    second: Any


@dataclass(frozen=True)
class JobDiff:
    """How the second job differs from the first.

    Attributes:
        given: what determines a job, by path in ``job_meta.json``; of two runs ``lock.…`` and ``git.…`` too.
        came: columns of its row.
        states: by kind (``initial``, ``final``, ``best``) and parameter, lines of a diff.
        history, calls: the first line that differs, times apart, and in what; empty if none does.
        unread: files that are damaged.
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
    """A job of a run; it need not have a folder.

    Attributes:
        unread: sentences on those of its files that turned out to be damaged.
    """

    run: RunLayout
    entry: ManifestEntry
    unread: list[str] = field(default_factory=list)

    @property
    def files(self) -> JobLayout:
        return self.run.job(self.entry.job_id)

    def meta(self) -> JobMeta | None:
        return self._tried(self.files.meta, lambda: read_meta(self.files))

    def row(self) -> dict[str, Any]:
        """What came of it; nothing if it has not ended."""
        row = self._tried(self.files.results, lambda: read_row(self.files.results))
        values = {} if row is None else row.model_dump(mode="json")
        return {k: v for k, v in values.items() if k not in NOT_CAME and not k.startswith("resolved_")}

    def state(self, kind: str) -> dict[str, Value]:
        places = {"initial": self.files.initial_state, "final": self.files.final_state, "best": self.files.best_state}
        return self._tried(places[kind], lambda: read_state(places[kind])) or {}

    def lines(self, path: Path) -> list[dict[str, Any]]:
        found = self._tried(path, lambda: read_journal(path).lines)
        return list(found or ())

    def model(self, path: Path, model: type[M]) -> dict[str, Any]:
        read = read_versioned if model is Lock else _read
        found = self._tried(path, lambda: read(model, path))
        return {} if found is None else found.model_dump(mode="json")

    def _tried(self, path: Path, read: Callable[[], T]) -> T | None:
        try:
            return read()
        except FileNotFoundError:
            return None
        except (HarnessError, JsonError, OSError, ValueError) as error:
            said = str(error)
            self.unread.append(said if said.startswith(str(path)) else f"{path}: {said}")
            return None


def _read(model: type[M], path: Path) -> M:
    return read_model(model, path.read_bytes())


def diff(first: Job, second: Job) -> JobDiff:
    """Compare two jobs, of one run or of two."""
    states = {kind: change(first.state(kind), second.state(kind), ("first", "second")) for kind in STATES}
    return JobDiff(
        given=list(_given(first, second)),
        came=list(_differences(first.row(), second.row())),
        states={kind: changed for kind, changed in states.items() if changed},
        history=_first_line(first, second, lambda files: files.state_history),
        calls=_first_line(first, second, lambda files: files.cassette),
        unread=[*first.unread, *second.unread],
    )


def _given(first: Job, second: Job) -> Iterator[Difference]:
    metas = [job.meta() for job in (first, second)]
    if None not in metas:
        one, other = ({k: v for k, v in meta.model_dump(mode="json").items() if k not in NOT_GIVEN} for meta in metas
                      if meta is not None)  # fmt: skip
        yield from _differences(one, other)
        controls = [{c.name: c.in_force for c in meta.controls} for meta in metas if meta is not None]
        yield from _differences({"controls": controls[0]}, {"controls": controls[1]})
    else:
        left_out = {"job_id", "decision", "decision_reason", "status", "reason"}
        yield from _differences(first.entry.model_dump(mode="json", exclude=left_out),
                                second.entry.model_dump(mode="json", exclude=left_out))  # fmt: skip
    if first.run.root == second.run.root:
        return
    about: tuple[tuple[str, Callable[[RunLayout], Path], type[BaseModel], tuple[str, ...]], ...] = (
        ("lock", lambda run: run.lock, Lock, ("code_version", "sources_hash", "packages")),
        ("git", lambda run: run.git, GitInfo, ("commit", "dirty")),
    )
    for name, place, model, keys in about:
        found = [job.model(place(job.run), model) for job in (first, second)]
        yield from _differences(*({name: {key: values.get(key) for key in keys}} for values in found))


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> Iterator[Difference]:
    a, b = leaves(one), leaves(other)
    for path in {**a, **b}:
        old, new = a.get(path), b.get(path)
        if (old != new or type(old) is not type(new)) and not (_is_nothing(old) and _is_nothing(new)):
            yield Difference(path, old, new)


def _is_nothing(value: Any) -> bool:
    return value is None or value in ({}, [])


def _first_line(first: Job, second: Job, place: Callable[[JobLayout], Path]) -> list[Difference]:
    """What differs in the first line that does; the number of that line goes before each key."""
    lines = [job.lines(place(job.files)) for job in (first, second)]
    for number, (old, new) in enumerate(zip_longest(*lines), start=1):
        if old is None or new is None:
            return [Difference(f"line {number}", None if old is None else "there", None if new is None else "there")]
        one, other = ({key: value for key, value in line.items() if key not in TIMES} for line in (old, new))
        if one != other:
            keys = [key for key in {**one, **other} if one.get(key) != other.get(key)]
            if "request" in keys:
                keys = [key for key in keys if key != "request_hash"]  # which follows from it
            return [Difference(f"line {number}, {key}", one.get(key), other.get(key)) for key in keys]
    return []
