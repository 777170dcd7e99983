"""Repeats a run from its folder alone, possibly on another machine, without a key and without network.

The run can be untrusted. Its settings for isolation (backend, weaker controls, a base for images) are not taken over:
this machine decides these. All programs of the run are executed in sandboxes, as in any run.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from trace_bench import __version__
from trace_bench.artifacts import layout as files
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.provenance import now
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.reproduction import JobReproduction, Pin, Reproduction, Verdict
from trace_bench.artifacts.writers import write_json
from trace_bench.audit.determinants import PinnedImages, pins_of, reasons_for
from trace_bench.audit.reading import Folder, kind_of
from trace_bench.cancellation import Cancellation
from trace_bench.display.text import quoted
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.execution.events import Subscriber, ignore
from trace_bench.execution.run import Run
from trace_bench.execution.start import plan_config
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.recording import OF_THE_MACHINE, Recording, find_recording, hardened
from trace_bench.records.replay_check import SHOWN, differences_of, same_machine
from trace_bench.records.rows import is_final
from trace_bench.records.runs import find_run

LOCAL_KEYS = ("backend", "fail_fast", "retries", "max_workers", *OF_THE_MACHINE)
"""Keys of a recorded config that this machine replaces by its own values. Tasks are those that are installed here or
that the user names: a scorer from the run itself could confirm any score."""
BITS_LOST = "on the recorded image and CPU model every bit should be equal"
NOT_CHOSEN = "it was not chosen"
REPRODUCTIONS = Path("reproductions")


@dataclass(frozen=True)
class Options:
    """The user's choices.

    Attributes:
        overrides: keys of the config, as in `load_config`.
        jobs: ids of the jobs to repeat; None for all.
        allow_weaker: sandbox controls that this host does not need.
        pull: pull images that the lock names by their digest in a registry.
        build: build or pull missing images.
    """

    overrides: Mapping[str, Any] = field(default_factory=dict)
    roots: Sequence[Path] = ()
    jobs: Collection[str] | None = None
    allow_weaker: Sequence[str] = ()
    pull: bool = True
    build: bool = True


@dataclass(frozen=True)
class Prepared:
    """A run that can be repeated.

    Attributes:
        plan: the plan of all its jobs; those that were not chosen are skipped.
        lacking: why chosen jobs cannot be repeated, by id.
    """

    recording: Recording
    plan: RunPlan
    pins: tuple[Pin, ...]
    lacking: Mapping[str, str]

    @property
    def chosen(self) -> list[PlannedJob]:
        """The chosen jobs that can be repeated, in the order of the plan."""
        return [p for p in self.plan.jobs if p.decision != "skip"]

    def tolerance(self, planned: PlannedJob) -> float:
        """Relative; that of the task installed here, as the run could state any."""
        return self.plan.material[planned.task_id].task.spec.tolerance

    def verdict_on(self, planned: PlannedJob, verdict: Verdict, **fields: Any) -> JobReproduction:
        """The result for one job. If it is not equal, it lists the possible reasons."""
        reasons = reasons_for(planned, self.pins, self.plan) if verdict in ("differs", "within") else ()
        return JobReproduction(
            job_id=planned.job_id,
            task_id=planned.task_id,
            trainer_id=planned.trainer_id,
            variant=planned.variant,
            seed=planned.seed,
            verdict=verdict,
            tolerance=self.tolerance(planned),
            reasons=reasons,
            **fields,
        )


def open_recording(text: str, runs_dir: Path) -> Recording:
    """Find a run, which must hold only plain files. A job with a damaged cassette is not repeated.

    Raises:
        ConfigError: there is no such run, a file of it is damaged, or it contains a link, a device or the like.
    """
    try:
        layout = find_run(text, runs_dir)
    except ConfigError as error:
        raise ConfigError(f"argument RUN: {error}") from None
    _check_plain_files(layout)  # before any of them is opened: opening a pipe would block
    return find_recording(str(layout.root), runs_dir, "argument RUN").readable()


def prepare(recording: Recording, folder: Path, options: Options, say: Callable[[str], None]) -> Prepared:
    """Plan to repeat `recording` below `folder`. Nothing is written there yet.

    Raises:
        ConfigError: tasks or trainers are missing here, or the config expands to other jobs.
        EnvironmentUnavailable: no engine, no image.
    """
    wanted = set(recording.jobs) if options.jobs is None else set(options.jobs)
    here = replace(recording, snapshot=snapshot_here(recording, wanted, options.allow_weaker))
    config = here.config({**options.overrides, "runs_dir": str(folder)})
    images = PinnedImages(recording.lock, pull=options.pull)
    plan = plan_config(
        config,
        roots=options.roots,
        build=options.build,
        say=say,
        recording=here,
        images_of=images.source,
        require_all=True,
    )
    lacking = {job_id: why for job_id, why in here.lacking.items() if job_id in wanted}
    jobs = tuple(p if p.job_id in wanted else replace(p, decision="skip", reason=NOT_CHOSEN) for p in plan.jobs)
    plan = replace(plan, jobs=jobs)
    return Prepared(here, plan, pins_of(recording, plan, images), lacking)


def replay(prepared: Prepared, *, subscriber: Subscriber = ignore, stop: Cancellation | None = None) -> Reproduction:
    """Run the chosen jobs again with their recorded model calls, and compare the results.

    Raises:
        Interrupted, EnvironmentUnavailable, SandboxError: as `Run.execute`.
    """
    result = Run(prepared.plan, subscriber=subscriber, stop=stop).execute()
    rows = {row.job_id: row for row in result.rows}
    found = [_compared(prepared, p, rows[p.job_id]) for p in prepared.chosen]
    return report_on(prepared, found, mode="replay", run_id=result.run_id)


def report_on(prepared: Prepared, jobs: Sequence[JobReproduction], **fields: Any) -> Reproduction:
    """The report on `jobs`, and on the jobs that cannot be repeated."""
    known = {job.job_id: job for job in jobs}
    listed = []
    for planned in prepared.plan.jobs:
        if planned.job_id in known:
            listed.append(known[planned.job_id])
        elif planned.job_id in prepared.lacking:
            listed.append(prepared.verdict_on(planned, "not_replayed", why=prepared.lacking[planned.job_id]))
    counts: dict[Verdict, int] = {"equal": 0, "within": 0, "differs": 0, "not_replayed": 0}
    for job in listed:
        counts[job.verdict] += 1
    return Reproduction(
        recorded_run=prepared.recording.layout.run_id,
        recorded_from=str(prepared.recording.layout.root.resolve()),
        code_version=__version__,
        generated_at=now(),
        pins=prepared.pins,
        jobs=tuple(listed),
        counts=counts,
        **fields,
    )


def write_report(report: Reproduction, folder: Path) -> Path:
    """Write ``reproduction.json`` below `folder`; returns its path.

    Raises:
        EnvironmentUnavailable: it cannot be written.
    """
    path = folder / files.REPRODUCTION
    try:
        folder.mkdir(parents=True, exist_ok=True)
        write_json(path, report)
    except OSError as error:
        raise EnvironmentUnavailable(
            f"{path} cannot be written ({error.strerror or error}); name another folder with --output"
        ) from error
    return path


def folder_for(name: str, wanted: Path | None, recorded: Path | None) -> Path:
    """The folder for the new run and the report: `wanted`, which must be new or empty, or else the first unused
    ``reproductions/<name>-<n>``. It is not created.

    Args:
        recorded: the folder of the recorded run, if it exists already.

    Raises:
        ConfigError: it lies inside the recorded run, or is not empty.
        EnvironmentUnavailable: it cannot be read.
    """
    if wanted is not None:
        folder = wanted
        try:
            if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
                raise ConfigError(f"option --output: {folder} exists, and is not an empty folder; name a new one")
        except OSError as error:
            raise EnvironmentUnavailable(f"{folder} cannot be read: {error.strerror or error}") from error
    else:
        number = 1
        while os.path.lexists(folder := REPRODUCTIONS / f"{name}-{number}"):
            number += 1
    if recorded is not None and recorded.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise ConfigError(f"{folder} lies inside the recorded run; name a folder elsewhere with --output")
    return folder


def snapshot_here(recording: Recording, wanted: Collection[str], allow_weaker: Sequence[str] = ()) -> dict[str, Any]:
    """The recorded config without the keys that this machine decides, with the tasks of the `wanted` jobs."""
    plain = {key: value for key, value in hardened(recording.snapshot).items() if key not in LOCAL_KEYS}
    used = {entry.task_id for job_id, entry in recording.jobs.items() if job_id in wanted}
    if isinstance(tasks := plain.get("tasks"), list):
        plain["tasks"] = [t for t in tasks if (t.get("id") if isinstance(t, dict) else t) in used] or tasks
    section = plain.get("sandbox")
    plain["sandbox"] = {**(section if isinstance(section, dict) else {}), "allow_weaker": list(allow_weaker)}
    return plain


def _compared(prepared: Prepared, planned: PlannedJob, row: Results) -> JobReproduction:
    """The verdict on a job that was replayed."""
    before = prepared.recording.rows[planned.job_id]
    if not is_final(row) and is_final(before):
        why = f"here it failed at {row.failure_boundary} ({row.failure_kind}): {row.feedback}"
        return prepared.verdict_on(planned, "not_replayed", why=why)
    compare = partial(differences_of, prepared.recording.layout, prepared.plan.layout, before, row)
    if not (exact := list(compare(0.0))):
        return prepared.verdict_on(planned, "equal")
    if not (found := list(compare(prepared.tolerance(planned)))):
        was, is_ = prepared.recording.layout.job(row.job_id), prepared.plan.layout.job(row.job_id)
        why = BITS_LOST if same_machine(was, is_, before, row) else ""
        return prepared.verdict_on(planned, "within", why=why, differences=tuple(exact[:SHOWN]))
    return prepared.verdict_on(planned, "differs", differences=tuple(found[:SHOWN]))


def _check_plain_files(run: RunLayout) -> None:
    """
    Raises:
        ConfigError: something in the run is neither a file nor a folder. No run of ours has such a thing.
    """
    with Folder(run.root) as folder:
        for path, status in folder.walk():
            if status is None or not stat.S_ISREG(status.st_mode):
                what = f"{quoted(path)} is {kind_of(status)}, which no run contains"
                raise ConfigError(f"argument RUN: {run.root}: {what}; remove it")
