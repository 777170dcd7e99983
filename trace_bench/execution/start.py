"""From a loaded config to a plan or a finished run: what ``trace-bench run`` and the Python API do."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType

from trace_bench.artifacts.folder_lock import check_not_locked, lock_run
from trace_bench.artifacts.provenance import capture_git
from trace_bench.artifacts.records import ImageRecord
from trace_bench.cancellation import Cancellation
from trace_bench.config.models import RunConfig
from trace_bench.config.resolve import resolve
from trace_bench.errors import EnvironmentUnavailable, TraceBenchError
from trace_bench.execution.events import Subscriber, ignore
from trace_bench.execution.result import RunResult
from trace_bench.execution.run import Run
from trace_bench.execution.run_records import write_records
from trace_bench.execution.service_host import service_check
from trace_bench.execution.tensorboard import with_loggers_that_exist
from trace_bench.images.recipe import worker_sources_hash
from trace_bench.matrix import Job
from trace_bench.planning.backends import backend_of
from trace_bench.planning.completion import CompleteConfig, complete_config
from trace_bench.planning.images import ImagesOf, ImageSource, foreseen_images, image_source, prepare_images
from trace_bench.planning.models import missing_keys
from trace_bench.planning.plan import PlanIsOld, RunPlan
from trace_bench.planning.planner import PlanInputs, jobs_of, pack_tasks, plan_run
from trace_bench.planning.preconditions import missing_by, refuse
from trace_bench.planning.prepare import outlives_a_day
from trace_bench.planning.prices import check_litellm
from trace_bench.planning.recording import LOST_TASK, Recording
from trace_bench.planning.search_costs import budget_sentences, check_an_end, search_costs
from trace_bench.resources import package_dir
from trace_bench.sandbox.base import Backend, SeveralEngines

RACES = 3
"""Plans that are made again because another controller was at work in the run meanwhile."""


def _silent(_: str) -> None: ...


def run_config(
    config: RunConfig,
    *,
    roots: Sequence[Path] = (),
    build: bool = True,
    subscriber: Subscriber = ignore,
    say: Callable[[str], None] = _silent,
    stop: Cancellation | None = None,
) -> RunResult:
    """Run `config` to its end; arguments and errors as of `plan_config`.

    Args:
        stop: ``"interrupted"`` ends the run in order, ``"kill"`` ends it at once; None never ends it.

    Raises:
        ConfigError, EnvironmentUnavailable: also if a key is missing, or litellm is not installed.
        Interrupted: after everything that had finished was recorded.
    """
    complete = complete_config(config, roots)
    for _ in range(RACES):
        plan = plan_to_run(complete, build=build, say=say)
        for text in () if plan.finished else plan.notes:
            say(f"budget: {text}")
        with contextlib.suppress(PlanIsOld):
            return Run(plan, subscriber=subscriber, stop=stop).execute()
    raise PlanIsOld(f"{plan.layout.root}: other controllers are at work in it; give another --run-id")


def plan_to_run(complete: CompleteConfig, *, build: bool, say: Callable[[str], None]) -> RunPlan:
    """As `plan_complete`, of what is to be executed: jobs without their key or a service of the host cannot run."""
    check_litellm(complete.config)
    keys = missing_keys(complete.config, os.environ)
    return plan_complete(complete, build=build, say=say, keys=keys, services=True)


def dry_run(
    config: RunConfig, *, roots: Sequence[Path] = (), build: bool = True, say: Callable[[str], None] = _silent
) -> RunPlan:
    """The plan of a run. Nothing is written, built or pulled.

    A missing key is a warning of the plan. Jobs are skipped for it if those of another model can run.

    Raises:
        ConfigError: also if a controller is at work in the run, as `run_config` would.
    """
    complete = complete_config(config, roots)
    keys = missing_keys(complete.config, os.environ)
    plan = plan_complete(
        complete,
        build=build,
        say=say,
        images_of=foreseen_images,
        keys={} if len(keys) == len(complete.config.llms or (None,)) else keys,
        services=True,
    )
    plan = replace(plan, warnings=(*plan.warnings, *map(str, keys.values())))
    check_not_locked(plan.layout)
    return plan


def write_plan(plan: RunPlan) -> bool:
    """Write the records of a run that does not exist yet, so that it can be shown, and started; False if it exists.

    Raises:
        ConfigError: another controller is, or was meanwhile, at work in its folder.
    """
    if plan.continued:
        return False
    with lock_run(plan.layout):
        plan.check()
        write_records(plan)
    return True


def plan_config(
    config: RunConfig,
    *,
    roots: Sequence[Path] = (),
    build: bool = True,
    say: Callable[[str], None] = _silent,
    recording: Recording | None = None,
    images_of: ImagesOf | None = None,
    suites: Collection[str] | None = None,
    require_all: bool = False,
) -> RunPlan:
    """Complete and expand `config`, and decide about every job. Writes nothing below ``runs_dir``, and needs no key.

    Args:
        roots: extra folders with task folders.
        build: build an image that is missing; False refuses instead.
        say: called with a line for each step that takes long (building an image).
        recording: the run that `config`, of mode replay, names, if it was read before.
        images_of: None is `image_source`.
        suites: plan the jobs of these suites only. All of `config` is checked, but no image is built for the others.
        require_all: as in a config.

    Raises:
        ConfigError: the config does not fit its tasks, its trainers, or the run that it names.
        EnvironmentUnavailable: no engine; or no image for any job, or for one if all are required.
    """
    complete = complete_config(config, roots, recording)
    return plan_complete(complete, build=build, say=say, images_of=images_of, suites=suites, require_all=require_all)


def plan_complete(
    complete: CompleteConfig,
    *,
    build: bool,
    say: Callable[[str], None],
    images_of: ImagesOf | None = None,
    suites: Collection[str] | None = None,
    keys: Mapping[str, TraceBenchError] = MappingProxyType({}),
    services: bool = False,
    require_all: bool = False,
) -> RunPlan:
    """Plan a config that is complete; arguments and errors as of `plan_config`.

    Args:
        keys: models whose key is missing, by id: their jobs cannot run.
        services: jobs cannot run without the services of the host that they use, either.
    """
    config, recording = with_loggers_that_exist(complete.config), complete.recording
    with ThreadPoolExecutor(max_workers=1) as aside:
        git = aside.submit(capture_git, package_dir())  # two processes, while the engine is queried
        resolved = resolve(config, complete.catalog, lost_task=LOST_TASK if recording is not None else None)
        jobs = jobs_of(config, resolved)
        if recording is not None:
            if resolved.lost:
                refuse(resolved.lost.values())
            recording.check(jobs, config.source.where(("replay_from",)))
        backend = backend_of(config)
    if recording is None:
        check_an_end(config, jobs, resolved.trainers, complete.prices)
    warnings = [*complete.warnings, *_backend_warnings(config, jobs, backend)]
    material = pack_tasks(jobs, resolved)
    make = partial(images_of or image_source, config, backend, say=say)
    source = _source_for(jobs, suites, make, build=build, warn=warnings.append)
    require_all = require_all or config.require_all
    images = prepare_images(jobs, source, require_all=require_all)
    checks = [missing_by(lambda job: str(job.model["id"]), keys)]
    if services:
        checks.append(service_check(resolved.tasks, recorded=recording is not None and config.replay_services))
    inputs = PlanInputs(
        config=config,
        material=material,
        jobs=jobs,
        backend=backend,
        images=images,
        sources_hash=worker_sources_hash(),
        git=git.result(),
        warnings=warnings,
        prices=complete.prices,
        recording=recording,
        missing_data=resolved.lost,
        checks=checks,
    )
    plan = plan_run(inputs)
    if recording is None:
        found = search_costs(jobs, resolved.tasks, resolved.trainers)
        plan = replace(plan, costs=found, notes=budget_sentences(config, jobs, found, resolved.trainers))
    plan = plan if suites is None else plan.of_suites(suites)
    return plan.without_unmet(require_all=require_all)


def _backend_warnings(config: RunConfig, jobs: Sequence[Job], backend: Backend) -> list[str]:
    warnings = []
    named = f"backend {backend.name}"
    if config.mode == "real" and backend.integrity == "unprotected":
        warnings.append(f"{named}: a program that a model wrote runs as you, and can read the keys of your models")
    if backend.traits.ends_after_a_day and any(outlives_a_day(job, config.mode) for job in jobs):
        warnings.append(f"{named}: the service ends every sandbox after a day, and jobs could take longer")
    if isinstance(backend, SeveralEngines):
        warnings += [f"host {name} is left out for now: {why}" for name, why in backend.unreachable().items()]
    return warnings


def _source_for(
    jobs: Sequence[Job],
    suites: Collection[str] | None,
    make: Callable[..., ImageSource],
    *,
    build: bool,
    warn: Callable[[str], None],
) -> ImageSource:
    """The source of the images for jobs of `suites`. Of other families, it has the images that exist already."""
    source = make(build=build, warn=warn)
    if suites is None:
        return source
    families = {job.image_family for job in jobs if job.suite in suites}
    others = make(build=False, warn=lambda _: None)

    def image(family: str) -> ImageRecord:
        if family in families:
            return source(family)
        with contextlib.suppress(EnvironmentUnavailable):
            return others(family)
        return ImageRecord(family=family, ref="", key="")

    return image
