"""Everything from a loaded config to a plan or a finished run: what ``trace-bench run`` and the Python API do."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from trace_bench.artifacts.provenance import capture_git
from trace_bench.artifacts.records import ImageRecord
from trace_bench.config.models import RunConfig
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import select
from trace_bench.errors import ConfigError
from trace_bench.execution.events import Subscriber, ignore
from trace_bench.execution.records import write_records
from trace_bench.execution.result import RunResult
from trace_bench.execution.run import Run
from trace_bench.execution.service_host import services_of
from trace_bench.execution.tensorboard import check_tensorboard
from trace_bench.images.layers import family_named
from trace_bench.images.pins import ImagePin, pushed
from trace_bench.images.recipe import worker_sources_hash
from trace_bench.planning.backends import backend_of, registry_of
from trace_bench.planning.host_images import foreseen_image, pinned_image
from trace_bench.planning.models import learn_secrets, missing_keys, with_models
from trace_bench.planning.ownership import alone_in, refuse_a_second
from trace_bench.planning.plan import ImageSource, PlanIsOld, RunPlan, jobs_of, plan_run
from trace_bench.planning.prepare import outlives_a_day
from trace_bench.planning.prices import check_litellm, prices_of
from trace_bench.planning.recording import LOST_TASK, Recording, recording_of
from trace_bench.planning.scripts import with_scripts
from trace_bench.resources import package_dir
from trace_bench.sandbox.base import Backend, SeveralEngines

RACES = 3
"""Plans that are made anew because another controller had its last word meanwhile."""


def _silent(_: str) -> None: ...


class ImagesOf(Protocol):
    """Makes the source of a run's images; arguments as of `image_source`."""

    def __call__(
        self,
        config: RunConfig,
        backend: Backend,
        *,
        build: bool,
        say: Callable[[str], None],
        warn: Callable[[str], None],
    ) -> ImageSource: ...


def plan_config(
    config: RunConfig,
    *,
    roots: Sequence[Path] = (),
    build: bool = True,
    say: Callable[[str], None] = _silent,
    recording: Recording | None = None,
    images_of: ImagesOf | None = None,
) -> RunPlan:
    """Complete and expand `config`, and decide about every job. Writes nothing below ``runs_dir``, and needs no key.

    Args:
        roots: extra folders with task folders.
        build: build an image that is missing; False refuses instead.
        say: told what takes long (building an image), one line each.
        recording: the run that `config`, of mode replay, names, if it was read before.
        images_of: None is `image_source`.

    Raises:
        ConfigError: the config does not fit its tasks, its trainers, or the run that it names.
        EnvironmentUnavailable: no engine, no image.
    """
    warnings: list[str] = []
    config = select(config, roots)
    recording = recording or recording_of(config)
    if recording is None:
        config = completed(config)
    else:
        config = recording.fitted(config)
        learn_secrets(config, os.environ)
    check_tensorboard(config)
    prices = prices_of(config, warnings)
    with ThreadPoolExecutor(max_workers=1) as aside:
        git = aside.submit(capture_git, package_dir())  # two processes, while the engine is asked
        resolved = resolve(config, roots, lost_task=LOST_TASK if recording is not None else None)
        jobs = jobs_of(config, resolved)
        if recording is not None:
            recording.check(jobs, config.source.where(("replay_from",)))
        backend = backend_of(config)
    if config.mode == "real" and backend.name == "local":
        warnings.append("backend local: a program that a model wrote runs as you, and can read the keys of your models")
    if backend.name == "modal" and any(outlives_a_day(job, config.mode) for job in jobs):
        warnings.append("backend modal: the service ends every sandbox after a day, and jobs could take longer")
    if isinstance(backend, SeveralEngines):
        warnings += [f"host {name} is left out for now: {why}" for name, why in backend.unreachable().items()]
    return plan_run(
        config,
        resolved,
        jobs,
        backend,
        (images_of or image_source)(config, backend, build=build, say=say, warn=warnings.append),
        sources_hash=worker_sources_hash(),
        git=git.result(),
        warnings=warnings,
        prices=prices,
        recording=recording,
    )


def completed(config: RunConfig) -> RunConfig:
    """`config` with its models filled in from scripts and the environment, whose secrets are masked from now on.

    Raises:
        ConfigError: a model cannot be told, a script is wrong, or a key stands in the config.
    """
    config = with_models(with_scripts(config), os.environ)
    learn_secrets(config, os.environ)
    return config


def dry_run(
    config: RunConfig, *, roots: Sequence[Path] = (), build: bool = True, say: Callable[[str], None] = _silent
) -> RunPlan:
    """The plan of a run, of which nothing is written, built or pulled. A missing key is a warning of the plan.

    Raises:
        ConfigError: also where a controller is at work in the run, as `run_config` would.
    """
    plan = plan_config(config, roots=roots, build=build, say=say, images_of=foreseen_images)
    plan = replace(plan, warnings=(*plan.warnings, *missing_keys(plan.config, os.environ)))
    refuse_a_second(plan.layout)
    services_of(plan).check()
    return plan


def write_plan(plan: RunPlan) -> bool:
    """Write the records of a run that is not there yet, so that it can be looked at, and started; False if it is.

    Raises:
        ConfigError: another controller is, or was meanwhile, at work in its folder.
    """
    if plan.continued:
        return False
    with alone_in(plan.layout):
        plan.check()
        write_records(plan)
    return True


def run_config(
    config: RunConfig,
    *,
    roots: Sequence[Path] = (),
    build: bool = True,
    subscriber: Subscriber = ignore,
    say: Callable[[str], None] = _silent,
    stop_wanted: Callable[[], str | None] = lambda: None,
) -> RunResult:
    """Run `config` to its end; arguments and errors as of `plan_config`.

    Args:
        stop_wanted: None, ``"interrupted"`` (end in order) or ``"kill"``; asked often, from many threads.

    Raises:
        ConfigError, EnvironmentUnavailable: also where a key is missing, or what asks providers.
        Interrupted: after everything that had finished was recorded.
    """
    config = completed(config)
    check_litellm(config)
    if missing := missing_keys(config, os.environ):
        raise ConfigError("\n".join(missing))
    for _ in range(RACES):
        plan = plan_config(config, roots=roots, build=build, say=say)
        services_of(plan).check()
        with contextlib.suppress(PlanIsOld):
            return Run(plan, subscriber=subscriber, stop_wanted=stop_wanted).execute()
    raise PlanIsOld(f"{plan.layout.root}: other controllers are at work in it; give another --run-id")


def image_source(
    config: RunConfig,
    backend: Backend,
    *,
    build: bool,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> ImageSource:
    """Where `backend` has its images from. The local backend has none: its key is the interpreter's version, and the
    content of what an image would have beside the worker. Modal pulls them by digest from where they were pushed.
    """
    if backend.name == "local":

        def local(family: str) -> ImageRecord:
            version = f"local:python-{platform.python_version()}"
            if "+" not in family:
                return ImageRecord(family=family, ref="local", key=version)
            added = family_named(family)
            key = "+".join([version, *(plugin.content_hash for plugin in added.plugins)])
            return ImageRecord(family=family, ref="local", key=key, plugins=added.plugin_versions)

        return local

    def pin_of(family: str) -> ImagePin:
        drift = config.images.accept_drift
        if backend.name == "modal":
            return pushed(family, registry_of(config), accept_drift=drift)
        return pinned_image(family, config.images, backend, build=build, say=say)

    return lambda family: _record(pin_of(family), warn)


def foreseen_images(
    config: RunConfig,
    backend: Backend,
    *,
    build: bool,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> ImageSource:
    """As `image_source`, where nothing is built or pulled. An image that would be built has neither name nor key."""
    if not build or backend.name in ("local", "modal"):
        return image_source(config, backend, build=build, say=say, warn=warn)

    def foreseen(family: str) -> ImageRecord:
        pin = foreseen_image(family, config.images, backend)
        return ImageRecord(family=family, ref="", key="") if pin is None else _record(pin, warn)

    return foreseen


def _record(pin: ImagePin, warn: Callable[[str], None]) -> ImageRecord:
    if pin.drift:
        warn(f"the image of {pin.family} is used although its {', '.join(pin.drift)} changed since it was locked")
    return ImageRecord(
        family=pin.family,
        ref=pin.ref,
        key=pin.key,
        image_id=pin.image_id,
        base=pin.base,
        built_at=pin.built_at,
        repo_digest=pin.repo_digest,
        plugins=dict(pin.plugins),
    )
