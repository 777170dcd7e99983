"""What determines a run, as it was recorded and as it is here: images, code, tasks, packages, limits, salt."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator, Sequence

from trace_bench import __version__
from trace_bench.artifacts.contract import Budget
from trace_bench.artifacts.jsonio import JsonError, printable, read_model
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.provenance import cpu_model
from trace_bench.artifacts.records import EnvInfo, ImageRecord, Lock
from trace_bench.artifacts.reproduction import Pin
from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.execution.start import image_source
from trace_bench.identity import FingerprintPrefix, prefix_of
from trace_bench.images.pins import read_lock
from trace_bench.images.recipe import key_of_parts
from trace_bench.images.registry import fetch
from trace_bench.planning.plan import ImageSource, RunPlan
from trace_bench.planning.planned_job import PlannedJob
from trace_bench.planning.recording import Recording
from trace_bench.sandbox.base import Backend

LOCAL = "local:"
"""How the key of an image begins that is none: jobs ran on an interpreter of the machine."""


class PinnedImages:
    """Images as `lock` names them: one of the same key that is here, else the one that the lock names by a registry's
    digest, else what the recipes here make. The lock of this machine's user is not changed by what is pulled.

    Attributes:
        pulled: families whose image came by its digest: what it holds is the word of whoever pushed it.
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
        """See `trace_bench.execution.start.image_source`."""
        here = image_source(config, backend, build=build, say=say, warn=warn)

        def image(family: str) -> ImageRecord:
            then = self._lock.images.get(family)
            if backend.name != "local" and build and self._pull and then is not None and then.repo_digest is not None:
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
    """What of `recording` is the same here, and what is otherwise."""
    jobs = [p for p in plan.jobs if p.decision != "skip"]
    return tuple(
        pin
        for group in (
            _backend(recording, plan, jobs),
            _images(recording, plan, jobs, images),
            _code(recording, plan),
            _tasks(recording, plan, jobs),
            _limits(recording, plan, jobs),
            _salt(recording),
            _machine(recording, plan),
        )
        for pin in group
    )


def reasons_for(planned: PlannedJob, pins: Sequence[Pin], plan: RunPlan) -> tuple[str, ...]:
    """The sentences of `pins` that may be why `planned` comes out otherwise."""
    of_job = {"task": planned.task_id, "image": planned.job.image_family}
    told = [pin.says for pin in pins if not pin.same and pin.says and of_job.get(pin.what, pin.name) == pin.name]
    if plan.material[planned.task_id].task.spec.timing_sensitive:
        told.append(f"the scores of {planned.task_id} depend on how fast the machine is (timing_sensitive)")
    return tuple(told)


def _backend(recording: Recording, plan: RunPlan, jobs: Sequence[PlannedJob]) -> Iterator[Pin]:
    then = sorted({row.backend for p in jobs if (row := recording.rows.get(p.job_id)) and row.backend})
    here = plan.backend.name
    same = then == [here] if then else None
    says = "" if same is not False else f"the jobs ran on backend {printable(', '.join(then))}, and run on {here} here"
    yield Pin(what="backend", same=same, recorded=", ".join(then), here=here, says=says)


def _images(recording: Recording, plan: RunPlan, jobs: Sequence[PlannedJob], images: PinnedImages) -> Iterator[Pin]:
    for family in dict.fromkeys(p.job.image_family for p in jobs):
        then, here = recording.lock.images.get(family), plan.lock.images[family].key
        key = then.key if then is not None else ""
        same = key == here if key else None
        says = ""
        if key.startswith(LOCAL) and here.startswith(LOCAL):
            says = "" if same else f"the interpreter was {printable(_short(key))}, and is {_short(here)}"
        elif same is False:
            says = f"the image of {family} was {printable(_short(key))}, and is {_short(here)} here"
        elif family in images.pulled:
            says = f"the image of {family} was pulled by its digest: what it holds is the word of whoever pushed it"
        yield Pin(what="image", name=family, same=same, recorded=key, here=here, says=says)


def _code(recording: Recording, plan: RunPlan) -> Iterator[Pin]:
    then, here = recording.lock.sources_hash, plan.lock.sources_hash
    says = ""
    if then != here:
        says = (
            "the code that runs in sandboxes (worker, trainers, suites) has changed since: its hash was "
            f"{printable(_short(then))} (version {printable(recording.lock.code_version)}), and is {_short(here)} "
            f"(version {__version__})"
        )
    yield Pin(what="code", same=then == here, recorded=then, here=here, says=says)


def _tasks(recording: Recording, plan: RunPlan, jobs: Sequence[PlannedJob]) -> Iterator[Pin]:
    for task_id in dict.fromkeys(p.task_id for p in jobs):
        then, here = recording.lock.tasks.get(task_id, ""), plan.lock.tasks[task_id]
        says = ""
        if then != here:
            says = (
                f"the task {task_id} has changed since: the hash of its folder was {printable(_short(then))}, and is "
                f"{_short(here)}"
            )
        yield Pin(what="task", name=task_id, same=then == here, recorded=then, here=here, says=says)


def _limits(recording: Recording, plan: RunPlan, jobs: Sequence[PlannedJob]) -> Iterator[Pin]:
    """Whether fingerprints come out as recorded, with task, image and code as they were: all that is left is theirs."""
    budget = Budget(**plan.config.budget.model_dump(exclude={"run"})).model_dump()
    lock, other = recording.lock, 0
    for p in jobs:
        row, image = recording.rows.get(p.job_id), lock.images.get(p.job.image_family)
        if row is None or image is None or p.task_id not in lock.tasks:
            continue
        marks = FingerprintPrefix(
            lock.tasks[p.task_id], image.key, lock.sources_hash, budget, p.job.splits, p.job.objective, p.job.limits
        )
        other += marks.fingerprint(prefix_of(p.job).full_digest(p.seed)) != row.fingerprint
    says = f"budget, splits, objective or limits of {other} jobs are not the recorded ones" if other else ""
    yield Pin(what="limits", same=not other, says=says)


def _salt(recording: Recording) -> Iterator[Pin]:
    says = "" if recording.salt is not None else "the salt is not known, so that held-out data is drawn anew"
    yield Pin(what="salt", same=True if recording.salt is not None else None, says=says)


def _machine(recording: Recording, plan: RunPlan) -> Iterator[Pin]:
    """Packages of the host, where jobs use them: on backend local. Elsewhere those of the image count."""
    env = _env(recording.layout)
    cpu = cpu_model()
    if env is None:
        return
    if env.cpu_model:
        says = "" if env.cpu_model == cpu else f"the CPU was {printable(env.cpu_model)}, and is {cpu}"
        yield Pin(what="cpu", same=env.cpu_model == cpu, recorded=env.cpu_model, here=cpu, says=says)
    if plan.backend.name != "local":
        return
    python = platform.python_version()
    says = "" if env.python_version == python else f"Python was {printable(env.python_version)}, and is {python}"
    yield Pin(what="python", same=env.python_version == python, recorded=env.python_version, here=python, says=says)
    then, here = recording.lock.packages, plan.lock.packages
    for name in sorted(then.keys() | here.keys()):
        was, is_ = then.get(name, ""), here.get(name, "")
        says = (
            "" if was == is_ else f"{printable(name)} was {printable(was) or 'not there'}, and is {is_ or 'not there'}"
        )
        yield Pin(what="package", name=name, same=was == is_, recorded=was, here=is_, says=says)


def _env(run: RunLayout) -> EnvInfo | None:
    try:
        return read_model(EnvInfo, run.env.read_bytes())
    except (OSError, JsonError):
        return None


def _short(key: str) -> str:
    return key if len(key) < 40 else key[:19] if key.startswith("sha256:") else key[:12]
