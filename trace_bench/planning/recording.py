"""The recorded run that a replay repeats: found, and checked before anything starts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from trace_bench.artifacts.calls import LlmCall
from trace_bench.artifacts.contract import Mode
from trace_bench.artifacts.folder_lock import has_controller
from trace_bench.artifacts.jsonio import JsonError, read_model
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import JobMeta, Lock, ManifestEntry, Results
from trace_bench.artifacts.versions import NewerRun
from trace_bench.config import parse_config
from trace_bench.config.frozen import thaw
from trace_bench.config.llms import LlmConfig
from trace_bench.config.models import RunConfig
from trace_bench.config.reader import read
from trace_bench.config.source import Problem
from trace_bench.display.text import quoted
from trace_bench.errors import ConfigError, HarnessError
from trace_bench.gateway.recorded import read_calls
from trace_bench.gateway.replay import RecordedJob, unasked
from trace_bench.matrix import Job
from trace_bench.planning.prepare import model_ref
from trace_bench.planning.resume import read_lock, salt_of
from trace_bench.records.reading import read_manifest, read_rows
from trace_bench.records.rows import is_final
from trace_bench.records.runs import find_run
from trace_bench.sandbox.backends import AUTO, DEFAULT

SHOWN = 3
"""Most jobs that one message names."""
LOST_TASK = (
    "a run does not hold its tasks: name the folder that holds this one with --root FOLDER, or leave its jobs out with "
    "trace-bench reproduce --where"
)
"""What to do about a task of a recorded run that is not found."""
OF_THIS_RUN = ("run_id", "runs_dir", "resume", "mode", "replay_from", "replay_services")
"""Keys of a snapshot that a replay of it does not take over."""
OF_THE_MACHINE = ("task_roots", "data_root", "images", "llm_cache", "mirrors", "docker", "modal", "scheduling")
"""Nor these keys: where scorers, their data and images come from, and which servers get copies, is decided by the owner
of the machine. The run may be untrusted."""
OF_THE_HOST = ("allow_weaker", "runtime")
"""Likewise, of its sections ``sandbox``."""


@dataclass(frozen=True)
class Recording:
    """A recorded run, as read from its files.

    Attributes:
        snapshot: its config as plain data.
        rows: results of the jobs that can be replayed, by id.
        lacking: why each of the others cannot be replayed, by id.
    """

    layout: RunLayout
    snapshot: Mapping[str, Any]
    lock: Lock
    jobs: Mapping[str, ManifestEntry]
    rows: Mapping[str, Results]
    lacking: Mapping[str, str]

    @property
    def mode(self) -> Mode:
        """The mode of the calls: stub or real, also where the recorded run was itself a replay."""
        if any(model.provider != "stub" for model in self.lock.models):
            return "real"
        return "stub"

    @cached_property
    def salt(self) -> str | None:
        """The salt of the held-out data."""
        return salt_of(self.layout)

    def config(self, overrides: Mapping[str, Any]) -> RunConfig:
        """The config of a replay of all of it, with `overrides` as of `load_config`.

        Raises:
            ConfigError: the snapshot is no config, or an override is wrong.
        """
        kept = {key: value for key, value in self.snapshot.items() if key not in (*OF_THIS_RUN, *OF_THE_MACHINE)}
        if self.mode == "stub":
            kept = {key: value for key, value in kept.items() if key not in ("llm", "llms")}
        data = {**kept, "mode": "replay", "replay_from": str(self.layout.root.resolve())}
        return parse_config(data, overrides, file=str(self.layout.config_snapshot))

    def config_alone(self, overrides: Mapping[str, Any]) -> RunConfig:
        """As `config`, if the user names the run and no config. The run may be untrusted: keys that could harm this
        machine are left out, and each is a warning.

        Raises:
            ConfigError: its programs would run as the user, without `backend` in `overrides`; or as `config`.
        """
        run, backend = self.layout.run_id, self.snapshot.get("backend")
        if "backend" not in overrides and backend not in (None, AUTO, DEFAULT):
            raise ConfigError(
                f"{run} was made on backend {backend}, whose programs run as you: pass --backend "
                f"{backend} if you trust this run, or use trace-bench reproduce, which runs it in sandboxes"
            )
        config = replace(self, snapshot=hardened(self.snapshot)).config(overrides)
        texts = (f"{key} of {run} is not taken over; {remedy}" for key, remedy in self._left_out(overrides))
        return config.changed(warnings=texts)

    def _left_out(self, overrides: Mapping[str, Any]) -> list[tuple[str, str]]:
        """Keys of the snapshot that are not taken over, each with a remedy."""
        remedies = {
            "task_roots": "name folders of tasks with --root",
            "data_root": "name the folder of published data with --data-root",
        }
        found = [(key, does) for key, does in remedies.items() if self.snapshot.get(key) and key not in overrides]
        images, tasks = self.snapshot.get("images"), self.snapshot.get("tasks")
        if isinstance(images, Mapping) and images.get("base"):
            found.append(("images.base", "the images are those of this machine"))
        entries = [entry for entry in tasks if isinstance(entry, Mapping)] if isinstance(tasks, list) else []
        for key in OF_THE_HOST:
            if any(isinstance(s := e.get("sandbox"), Mapping) and s.get(key) for e in (self.snapshot, *entries)):
                found.append((f"sandbox.{key}", "if this machine needs it, say so in a config, with --config"))
        return found

    def fitted(self, config: RunConfig) -> RunConfig:
        """`config` with the models and the time limit of this run, if it gives none. Models are part of job ids."""
        changes: dict[str, Any] = {"replay_from": str(self.layout.root.resolve())}
        warnings: tuple[str, ...] = ()
        if self.mode == "stub" and (config.llm or config.llms):
            changes |= {"llm": None, "llms": ()}
            key = "llm" if config.llm else "llms"
            where = config.source.where((key,))
            warnings = (f"{where}: {key} is not used, as {self.layout.run_id} was recorded in mode stub",)
        elif not config.llms and (config.llm is None or config.llm.model is None):
            theirs = self.config({})
            changes |= {"llm": _filled(config.llm, theirs.llm), "llms": theirs.llms}
        config = config.with_recorded_defaults(recorded_defaults(self.jobs.values()))
        if "job_timeout" not in config.source.root and "job_timeout" in self.snapshot:
            changes["job_timeout"] = self.snapshot["job_timeout"]
        return config.changed(changes, warnings=warnings)

    def check(self, jobs: Sequence[Job], where: str) -> None:
        """Check that this run has `jobs`, and that their cassettes can be read.

        Raises:
            ConfigError: with what differs, of a few of them.
        """
        missing = [job for job in jobs if job.job_id not in self.jobs]
        if missing:
            texts = [
                f"{where}: {self.layout.root} has no job {job.job_id}: {self._why(job)}" for job in missing[:SHOWN]
            ]
            if len(missing) > SHOWN:
                texts.append(f"{where}: and {len(missing) - SHOWN} more of {len(jobs)} jobs are not in it")
            raise ConfigError("\n".join(texts))
        lacking = [job.job_id for job in jobs if job.job_id in self.lacking]
        if len(lacking) == len(jobs):
            raise ConfigError(
                f"{where}: none of these jobs can be replayed from {self.layout.root}: job {lacking[0]}: "
                f"{self.lacking[lacking[0]]}; let that run end first"
            )
        damaged = [sentence for job in jobs if (sentence := self._damage(job.job_id)) is not None]
        if damaged:
            more = [f"and {len(damaged) - SHOWN} more cassettes are damaged"] if len(damaged) > SHOWN else []
            raise ConfigError("\n".join([*damaged[:SHOWN], *more]))

    def readable(self) -> Recording:
        """This run without the jobs whose cassettes are damaged."""
        damaged = {job_id: why for job_id in self.rows if (why := self._damage(job_id)) is not None}
        rows = {job_id: row for job_id, row in self.rows.items() if job_id not in damaged}
        return replace(self, rows=rows, lacking={**self.lacking, **damaged})

    def notes(
        self, tasks: Mapping[str, str], images: Mapping[str, str], sources: str, jobs: Mapping[str, str]
    ) -> list[str]:
        """Warnings about what has changed since the recording, so that a replay may have other results.

        Args:
            tasks: content hashes by task id.
            images: keys by family.
            sources: hash of the worker's code.
            jobs: fingerprints by job id.
        """
        run = self.layout.run_id
        then = {family: image.key for family, image in self.lock.images.items()}
        notes = [
            f"the image of {family} is not the one that {run} was recorded with"
            for family, key in images.items()
            if then.get(family, key) != key
        ]
        notes += [
            f"the task {task} has changed since {run} was recorded"
            for task, content in tasks.items()
            if self.lock.tasks.get(task, content) != content
        ]
        if sources != self.lock.sources_hash:
            notes.append(f"the code that runs in sandboxes has changed since {run} was recorded")
        known = {job_id: self.rows[job_id].fingerprint for job_id in jobs if job_id in self.rows}
        if not notes and any(jobs[job_id] != mark for job_id, mark in known.items()):
            notes.append(f"budget, splits or limits are not those that {run} was recorded with")
        if self.salt is None:
            notes.append(f"the salt of {run} is not known, so that held-out data is drawn anew")
        left = sum(job_id in self.lacking for job_id in jobs)
        if left:
            notes.append(f"{left} of {len(jobs)} jobs did not finish in {run}; they are not replayed")
        return notes

    def recorded(self, job_id: str) -> RecordedJob:
        """The recorded calls of a job."""
        row = self.rows[job_id]
        stopped = row.stop_reason not in (None, "completed") or row.status != "ok"
        return RecordedJob(self.layout.job(job_id).cassette, stopped)

    def meta(self, job_id: str) -> JobMeta:
        """The record of a job.

        Raises:
            HarnessError: it is damaged.
        """
        path = self.layout.job(job_id).meta
        try:
            return read_model(JobMeta, path.read_bytes())
        except (OSError, JsonError) as error:
            raise HarnessError(f"{path}: {error}") from None

    def unasked(self, job_id: str, replayed: frozenset[int]) -> list[LlmCall]:
        """See `trace_bench.gateway.replay.unasked`."""
        return unasked(self.recorded(job_id), replayed)

    def _damage(self, job_id: str) -> str | None:
        """What is wrong with the cassette of a job that is to be replayed."""
        if job_id in self.lacking:
            return None
        try:
            self.meta(job_id)
            for _ in read_calls(self.layout.job(job_id).cassette):
                continue
        except HarnessError as error:
            return f"{error}; restore the recorded run from a copy"
        return None

    def _why(self, job: Job) -> str:
        """How `job` differs from the nearest job of this run."""
        mine = _traits(job)
        nearest, differing = None, []
        for entry in self.jobs.values():
            theirs = _recorded_traits(entry)
            other = [name for name, value in mine.items() if theirs[name] != value]
            if nearest is None or len(other) < len(differing):
                nearest, differing = theirs, other
        if nearest is None:
            return "it has no jobs at all"
        if not differing:
            known = {model.id: model for model in self.lock.models}
            model, theirs_ = model_ref(job.model), known.get(nearest["model"])
            then = theirs_.model_dump() if theirs_ else None
            return f"its model is {_short(model.model_dump())}, and was {_short(then)}"
        return "; ".join(_difference(name, mine[name], nearest[name]) for name in differing)


def recorded_defaults(jobs: Iterable[ManifestEntry]) -> dict[str, dict[str, Any]]:
    """The values of parameters that no variant of a run gave, by trainer.

    A parameter that has several of them, as entries of the config gave it, is left out. Whether a trainer had such a
    default is not known here.

    Args:
        jobs: all of the run.
    """
    found: dict[str, dict[str, list[Any]]] = {}
    for entry in jobs:
        of_trainer = found.setdefault(entry.trainer_id, {})
        for name, value in entry.resolved_trainer_kwargs.items():
            if name not in entry.raw_params and value not in (values := of_trainer.setdefault(name, [])):
                values.append(value)
    return {
        trainer: {name: values[0] for name, values in of_trainer.items() if len(values) == 1}
        for trainer, of_trainer in found.items()
    }


def hardened(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """`snapshot` without the keys of its ``sandbox`` sections that would weaken the sandboxes of this machine."""

    def cut(entry: Any) -> Any:
        if not isinstance(entry, Mapping) or not isinstance(entry.get("sandbox"), Mapping):
            return entry
        return {**entry, "sandbox": {k: v for k, v in entry["sandbox"].items() if k not in OF_THE_HOST}}

    plain: dict[str, Any] = cut(dict(snapshot))
    if isinstance(plain.get("tasks"), list):
        plain["tasks"] = [cut(entry) for entry in plain["tasks"]]
    return plain


def find_recording(text: str, runs_dir: Path, where: str) -> Recording:
    """The run that `text` means, as of `trace_bench.records.runs.find_run`.

    Raises:
        ConfigError: there is none, a controller is at work in it, or a file of it is damaged or missing.
    """
    try:
        layout = find_run(text, runs_dir)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}") from None
    if has_controller(layout):
        raise ConfigError(f"{where}: {layout.root} is running; wait until it has ended")
    try:
        return _read(layout)
    except NewerRun as error:
        raise ConfigError(f"{where}: {error}") from None
    except HarnessError as error:
        raise ConfigError(f"{where}: {error}; restore the recorded run from a copy") from None


def recording_of(config: RunConfig) -> Recording | None:
    """The run that `config` replays; None in other modes.

    Raises:
        ConfigError: as `find_recording`, or it names none.
    """
    if config.mode != "replay":
        return None
    if config.replay_from is None:
        raise ConfigError(
            f"{config.source.where(('mode',))} is replay, but nothing says which run to replay; name it under "
            "replay_from, or with --replay"
        )
    return find_recording(config.replay_from, Path(config.runs_dir), config.source.where(("replay_from",)))


def _read(layout: RunLayout) -> Recording:
    lock, manifest = read_lock(layout), read_manifest(layout)
    if lock is None or manifest is None:
        missing = layout.lock if lock is None else layout.manifest
        raise HarnessError(f"{missing}: it is missing")
    snapshot = _snapshot(layout.config_snapshot)
    jobs = {entry.job_id: entry for entry in manifest.jobs}
    found = {row.job_id: row for row in read_rows(layout)}
    lacking = {job_id: why for job_id in jobs if (why := _lack(found.get(job_id))) is not None}
    rows = {job_id: row for job_id, row in found.items() if job_id in jobs and job_id not in lacking}
    return Recording(layout, snapshot, lock, jobs, rows, lacking)


def _snapshot(path: Path) -> Mapping[str, Any]:
    """A config as plain data, read as carefully as any: the run may be untrusted. Each key has its own name: a
    second one (``task-roots``) would be missed by a search for the key."""
    if not path.is_file():
        raise HarnessError(f"{path}: it is missing")
    problems: list[Problem] = []
    try:
        found = read(path, problems)
    except ConfigError as error:
        raise HarnessError(str(error)) from None
    if problems:
        raise HarnessError(f"{path}, line {problems[0].line}: {problems[0].text}")
    try:
        return parse_config(found, file=str(path)).to_snapshot()
    except ConfigError as error:
        raise HarnessError(str(error)) from None


def _lack(row: Results | None) -> str | None:
    """Why a job with the result `row` cannot be replayed."""
    if row is None or row.status == "skipped":
        return "it never ran to an end"
    if row.failure_boundary is not None and not is_final(row):
        return f"it failed at {row.failure_boundary} ({row.failure_kind}), which no replay repeats"
    return None


def _filled(llm: LlmConfig | None, recorded: LlmConfig | None) -> LlmConfig | None:
    """`recorded` with what `llm`, which names no model, says otherwise."""
    if llm is None or recorded is None:
        return recorded
    return recorded.model_copy(update={name: getattr(llm, name) for name in llm.model_fields_set})


def _traits(job: Job) -> dict[str, Any]:
    return {
        "task": job.task_id,
        "eval_kwargs": thaw(job.eval_kwargs),
        "trainer": job.trainer_id,
        "parameters": thaw(job.params),
        "optimizer": job.optimizer,
        "optimizer_kwargs": thaw(job.optimizer_kwargs),
        "model": job.model["id"],
        "seed": job.seed,
    }


def _recorded_traits(entry: ManifestEntry) -> dict[str, Any]:
    return {
        "task": entry.task_id,
        "eval_kwargs": entry.eval_kwargs,
        "trainer": entry.trainer_id,
        "parameters": entry.resolved_trainer_kwargs,
        "optimizer": entry.resolved_optimizer,
        "optimizer_kwargs": entry.resolved_optimizer_kwargs,
        "model": entry.model,
        "seed": entry.seed,
    }


def _difference(name: str, mine: Any, theirs: Any) -> str:
    """The difference in one trait; of two mappings, their entries that differ."""
    if not isinstance(mine, dict) or not isinstance(theirs, dict):
        return f"its {name} is {_short(mine)}, and was {_short(theirs)}"
    keys = [key for key in {**mine, **theirs} if mine.get(key) != theirs.get(key) or (key in mine) != (key in theirs)]
    return "; ".join(
        f"its {key} is {_short(mine[key]) if key in mine else 'not given'}, and was "
        f"{_short(theirs[key]) if key in theirs else 'not given'}"
        for key in keys
    )


def _short(value: Any) -> str:
    return quoted(value, 200)
