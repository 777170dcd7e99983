"""A run made again here, from what its directory holds: another machine, another number of workers, no key, no network.

The run may be a stranger's. What it says about how jobs are to be kept (its backend, controls that it went without, a
base for images) is this machine's to decide, and is not taken over; what it wants scored runs in sandboxes as ever.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from trace_bench import __version__
from trace_bench.artifacts import layout as files
from trace_bench.artifacts.jsonio import printable
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.provenance import now
from trace_bench.artifacts.records import Results
from trace_bench.artifacts.reproduction import JobReproduction, Pin, Reproduction, Verdict
from trace_bench.artifacts.writers import write_json
from trace_bench.audit.pinned import PinnedImages, pins_of, reasons_for
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

HERE_TO_SAY = ("backend", "fail_fast", "retries", "max_workers", *OF_THE_MACHINE)
"""Keys of a recorded config that this machine's own values take the place of. A scorer that the run itself brings would
agree with whatever the run says: a task is the one that is installed here, or lies in a folder that the user names."""
BITS_LOST = "on the recorded image and CPU model every bit was to be equal"
NOT_ASKED_FOR = "it was not asked for"
REPRODUCTIONS = Path("reproductions")


@dataclass(frozen=True)
class Options:
    """What the user wants of it.

    Attributes:
        overrides: keys of the config, as of `load_config`.
        jobs: which ones alone are made again, by id; None is all.
        allow_weaker: controls that this host may go without.
        pull: images that the lock names by a registry's digest are pulled.
        build: images that are missing are built, or pulled.
    """

    overrides: Mapping[str, Any] = field(default_factory=dict)
    roots: Sequence[Path] = ()
    jobs: Collection[str] | None = None
    allow_weaker: Sequence[str] = ()
    pull: bool = True
    build: bool = True


@dataclass(frozen=True)
class Prepared:
    """A run that can be made again.

    Attributes:
        plan: of all its jobs; those that are not asked for are skipped.
        lacking: why jobs that were asked for cannot be repeated, by id.
    """

    recording: Recording
    plan: RunPlan
    pins: tuple[Pin, ...]
    lacking: Mapping[str, str]

    @property
    def chosen(self) -> list[PlannedJob]:
        """The jobs that were asked for and can be repeated, in the order of the plan."""
        return [p for p in self.plan.jobs if p.decision != "skip"]

    def tolerance(self, planned: PlannedJob) -> float:
        """Relative, of its task as it is here: what a run says of itself is not asked."""
        return self.plan.material[planned.task_id].task.spec.tolerance

    def verdict_on(self, planned: PlannedJob, verdict: Verdict, **said: Any) -> JobReproduction:
        """`verdict`, with what may be why where it is not equal."""
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
            **said,
        )


def open_recording(text: str, runs_dir: Path) -> Recording:
    """The run that `text` means, all of it plain files; a damaged cassette costs one job.

    Raises:
        ConfigError: there is none, a file of it is damaged, or it holds a link, a device or the like.
    """
    try:
        layout = find_run(text, runs_dir)
    except ConfigError as error:
        raise ConfigError(f"argument RUN: {error}") from None
    _refuse_odd_files(layout)  # before any of them is opened: a pipe would be waited for
    return find_recording(str(layout.root), runs_dir, "argument RUN").readable()


def prepare(recording: Recording, folder: Path, options: Options, say: Callable[[str], None]) -> Prepared:
    """Plan to make `recording` again below `folder`. Nothing is written there yet.

    Raises:
        ConfigError: its tasks or trainers are not here, or make other jobs of its config.
        EnvironmentUnavailable: no engine, no image.
    """
    wanted = set(recording.jobs) if options.jobs is None else set(options.jobs)
    here = replace(recording, snapshot=snapshot_here(recording, wanted, options.allow_weaker))
    config = here.config({**options.overrides, "runs_dir": str(folder)})
    images = PinnedImages(recording.lock, pull=options.pull)
    plan = plan_config(
        config, roots=options.roots, build=options.build, say=say, recording=here, images_of=images.source
    )
    lacking = {job_id: why for job_id, why in here.lacking.items() if job_id in wanted}
    jobs = tuple(_asked(p, wanted) for p in plan.jobs)
    plan = replace(plan, jobs=jobs)
    return Prepared(here, plan, pins_of(recording, plan, images), lacking)


def replay(
    prepared: Prepared,
    *,
    subscriber: Subscriber = ignore,
    stop_wanted: Callable[[], str | None] = lambda: None,
) -> Reproduction:
    """Run the jobs again from their cassettes, and compare.

    Raises:
        Interrupted, EnvironmentUnavailable, SandboxError: as `Run.execute`.
    """
    result = Run(prepared.plan, subscriber=subscriber, stop_wanted=stop_wanted).execute()
    rows = {row.job_id: row for row in result.rows}
    found = [_compared(prepared, p, rows[p.job_id]) for p in prepared.chosen]
    return report_on(prepared, found, mode="replay", run_id=result.run_id)


def report_on(prepared: Prepared, jobs: Sequence[JobReproduction], **said: Any) -> Reproduction:
    """The report on `jobs`, and on those that cannot be repeated."""
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
        **said,
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
    """Where the new run and the report go: `wanted`, which has to be new or empty, else the first
    ``reproductions/<name>-<n>`` that is free. It is not made.

    Args:
        recorded: the folder of the recorded run, where there is one already.

    Raises:
        ConfigError: it lies inside the recorded run, or something is there.
        EnvironmentUnavailable: it cannot be looked at.
    """
    if wanted is not None:
        folder = wanted
        try:
            if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
                raise ConfigError(f"option --output: {folder} is there, and is no empty folder; name a new one")
        except OSError as error:
            raise EnvironmentUnavailable(f"{folder} cannot be looked at: {error.strerror or error}") from error
    else:
        number = 1
        while os.path.lexists(folder := REPRODUCTIONS / f"{name}-{number}"):
            number += 1
    if recorded is not None and recorded.resolve() in (folder.resolve(), *folder.resolve().parents):
        raise ConfigError(f"{folder} lies inside the recorded run; name a folder elsewhere with --output")
    return folder


def snapshot_here(recording: Recording, wanted: Collection[str], allow_weaker: Sequence[str] = ()) -> dict[str, Any]:
    """The recorded config, as far as it is not this machine's to say, of the tasks of the `wanted` jobs alone."""
    plain = {key: value for key, value in hardened(recording.snapshot).items() if key not in HERE_TO_SAY}
    used = {entry.task_id for job_id, entry in recording.jobs.items() if job_id in wanted}
    if isinstance(tasks := plain.get("tasks"), list):
        plain["tasks"] = [entry for entry in tasks if _id_of(entry) in used] or tasks
    section = plain.get("sandbox")
    plain["sandbox"] = {**(section if isinstance(section, dict) else {}), "allow_weaker": list(allow_weaker)}
    return plain


def _asked(planned: PlannedJob, wanted: Collection[str]) -> PlannedJob:
    if planned.job_id in wanted:
        return planned
    return replace(planned, decision="skip", reason=NOT_ASKED_FOR)


def _id_of(entry: Any) -> Any:
    return entry.get("id") if isinstance(entry, dict) else entry


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


def _refuse_odd_files(run: RunLayout) -> None:
    """
    Raises:
        ConfigError: something in the run is neither a file nor a folder. No run of ours has such a thing.
    """
    folders = [run.root]
    while folders:  # not os.walk, which may be led too deep
        with os.scandir(folders.pop()) as found:
            for item in found:
                if item.is_dir(follow_symlinks=False):
                    folders.append(Path(item.path))
                elif not item.is_file(follow_symlinks=False):
                    what = "a link" if item.is_symlink() else "neither a file nor a folder"
                    name = printable(run.relative(Path(item.path)))
                    raise ConfigError(f"argument RUN: {run.root}: {name} is {what}, which no run holds; remove it")
