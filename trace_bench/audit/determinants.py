"""Compares what determines a run, as recorded and as it is here: images, code, tasks, packages, limits, salt."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from trace_bench import __version__
from trace_bench.artifacts.contract import Budget
from trace_bench.artifacts.provenance import cpu_model
from trace_bench.artifacts.records import EnvInfo, ImageRecord, Lock
from trace_bench.artifacts.reproduction import Pin
from trace_bench.config.models import RunConfig
from trace_bench.display.text import quoted
from trace_bench.errors import ConfigError, EnvironmentUnavailable, HarnessError
from trace_bench.identity import FingerprintPrefix, prefix_of
from trace_bench.images.pins import read_lock
from trace_bench.images.recipe import key_of_parts
from trace_bench.images.registry import fetch
from trace_bench.planning.images import ImageSource, image_source
from trace_bench.planning.plan import RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.recording import Recording
from trace_bench.records.reading import read_optional
from trace_bench.sandbox.base import Backend

LOCAL = "local:"
"""Beginning of an image key that stands for an interpreter of the machine."""


class PinnedImages:
    """The images that the lock of a run names.

    Each is the local image with the recorded key, or else the image that the lock names by its digest in a registry, or
    else the image that the recipe here makes. Pulling does not change the lock of this machine's user.

    Attributes:
        pulled: families whose image came by its digest. Its author alone knows what it contains.
    """

    def __init__(self, lock: Lock, *, pull: bool) -> None:
        self._lock = lock
        self._pull = pull
        self.pulled: set[str] = set()

    def source(
        self,
        config: RunConfig,
        backend: Backend,
        *,
        build: bool,
        say: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> ImageSource:
        """See `trace_bench.planning.images.image_source`."""
        here = image_source(config, backend, build=build, say=say, warn=warn)
        pulls = build and self._pull and backend.traits.images != "none"

        def image(family: str) -> ImageRecord:
            then = self._lock.images.get(family)
            if pulls and then is not None and then.repo_digest is not None:
                known = read_lock().images.get(family)
                if known is None or known.key != then.key:
                    found = self._fetched(family, then, then.repo_digest, say)
                    if found is not None:
                        return found
            return here(family)

        return image

    def _fetched(self, family: str, then: ImageRecord, digest: str, say: Callable[[str], None]) -> ImageRecord | None:
        try:
            pin = fetch(digest, progress=say)
        except (ConfigError, EnvironmentUnavailable) as error:
            say(f"{error}; the image of {family} is built here instead")
            return None
        if pin.family != family:
            say(f"{digest} is an image of {pin.family}; that of {family} is built here instead")
            return None
        self.pulled.add(family)
        same = then.key in (pin.key, key_of_parts(family, pin.parts))
        return ImageRecord(
            family=family,
            ref=pin.ref,
            key=then.key if same else pin.key,
            image_id=pin.image_id,
            base=pin.base,
            built_at=pin.built_at,
            repo_digest=pin.repo_digest,
            plugins=dict(pin.plugins),
        )


def pins_of(recording: Recording, plan: RunPlan, images: PinnedImages) -> tuple[Pin, ...]:
    """Compare what determines `recording` with what is here."""
    jobs = [p for p in plan.jobs if p.decision != "skip"]
    return (
        *_backend(recording, plan, jobs),
        *_images(recording, plan, jobs, images),
        *_code_and_tasks(recording, plan, jobs),
        *_limits(recording, plan, jobs),
        *_salt(recording),
        *_machine(recording, plan),
    )


def reasons_for(planned: PlannedJob, pins: Sequence[Pin], plan: RunPlan) -> tuple[str, ...]:
    """The sentences of `pins` that can explain why the result of `planned` differs."""
    of_job = {"task": planned.task_id, "image": planned.job.image_family}
    reasons = [pin.says for pin in pins if not pin.same and pin.says and of_job.get(pin.what, pin.name) == pin.name]
    if plan.material[planned.task_id].task.spec.timing_sensitive:
        reasons.append(f"the scores of {planned.task_id} depend on how fast the machine is (timing_sensitive)")
    return tuple(reasons)


def _pin(
    what: Any, recorded: str, here: str, subject: str = "", *, name: str = "", says: str = "", optional: bool = False
) -> Pin:
    """Compare two values.

    Args:
        says: the sentence for values that differ; default: what `subject` was and is.
        optional: an empty recorded value is unknown.
    """
    same = None if optional and not recorded else recorded == here
    default = f"{subject} was {_short(recorded) or 'not there'}, and is {_short(here) or 'not there'} here"
    sentence = (says or default) if same is False else ""
    return Pin(what=what, name=name, same=same, recorded=recorded, here=here, says=sentence)


def _backend(recording: Recording, plan: RunPlan, jobs: Sequence[PlannedJob]) -> Iterator[Pin]:
    recorded = sorted({row.backend for p in jobs if (row := recording.rows.get(p.job_id)) and row.backend})
    yield _pin("backend", ", ".join(recorded), plan.backend.name, "the backend of the jobs", optional=True)


def _images(recording: Recording, plan: RunPlan, jobs: Sequence[PlannedJob], images: PinnedImages) -> Iterator[Pin]:
    for family in dict.fromkeys(p.job.image_family for p in jobs):
        locked, here = recording.lock.images.get(family), plan.lock.images[family].key
        recorded = locked.key if locked is not None else ""
        both_local = recorded.startswith(LOCAL) and here.startswith(LOCAL)
        subject = "the interpreter" if both_local else f"the image of {family}"
        pin = _pin("image", recorded, here, subject, name=family, optional=True)
        if family in images.pulled and pin.same is not False:
            pulled = f"the image of {family} was pulled by its digest: its author alone knows what it contains"
            pin = pin.model_copy(update={"says": pulled})
        yield pin


def _code_and_tasks(recording: Recording, plan: RunPlan, jobs: Sequence[PlannedJob]) -> Iterator[Pin]:
    recorded, here = recording.lock.sources_hash, plan.lock.sources_hash
    says = (
        "the code that runs in sandboxes (worker, trainers, suites) has changed since: its hash was "
        f"{_short(recorded)} (version {quoted(recording.lock.code_version)}), and is {_short(here)} "
        f"(version {__version__})"
    )
    yield _pin("code", recorded, here, says=says)
    for task_id in dict.fromkeys(p.task_id for p in jobs):
        recorded, here = recording.lock.tasks.get(task_id, ""), plan.lock.tasks[task_id]
        changed = f"the task {task_id} has changed since: the hash of its folder"
        yield _pin("task", recorded, here, changed, name=task_id)


def _limits(recording: Recording, plan: RunPlan, jobs: Sequence[PlannedJob]) -> Iterator[Pin]:
    """Compute fingerprints with the recorded task, image and code. If they differ, limits and the like differ."""
    budget = Budget(**plan.config.budget.model_dump(exclude={"run"})).model_dump()
    lock, differing = recording.lock, 0
    for p in jobs:
        row, image = recording.rows.get(p.job_id), lock.images.get(p.job.image_family)
        if row is None or image is None or p.task_id not in lock.tasks:
            continue
        prefix = FingerprintPrefix(
            lock.tasks[p.task_id], image.key, lock.sources_hash, budget, p.job.splits, p.job.objective, p.job.limits
        )
        differing += prefix.fingerprint(prefix_of(p.job).full_digest(p.seed)) != row.fingerprint
    says = f"budget, splits, objective or limits of {differing} jobs differ from the recorded ones" if differing else ""
    yield Pin(what="limits", same=not differing, says=says)


def _salt(recording: Recording) -> Iterator[Pin]:
    known = recording.salt is not None
    says = "" if known else "the salt is not known, so that held-out data is drawn anew"
    yield Pin(what="salt", same=True if known else None, says=says)


def _machine(recording: Recording, plan: RunPlan) -> Iterator[Pin]:
    """The CPU; on backend local also Python and its packages. On other backends these are in the image."""
    try:
        env = read_optional(EnvInfo, recording.layout.env)
    except HarnessError:
        env = None
    if env is None:
        return
    if env.cpu_model:
        yield _pin("cpu", env.cpu_model, cpu_model(), "the CPU")
    if plan.backend.traits.images == "none":
        yield _pin("python", env.python_version, platform.python_version(), "Python")
        recorded, here = recording.lock.packages, plan.lock.packages
        for name in sorted(recorded.keys() | here.keys()):
            yield _pin("package", recorded.get(name, ""), here.get(name, ""), quoted(name), name=name)


def _short(key: str) -> str:
    return quoted(key if len(key) < 40 else key[:19] if key.startswith("sha256:") else key[:12])
