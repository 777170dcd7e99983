"""Everything from a loaded config to a finished run, in one call: what ``trace-bench run`` and the Python API do."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.provenance import capture_git
from trace_bench.artifacts.records import ImageRecord
from trace_bench.config.models import RunConfig
from trace_bench.config.resolve import resolve
from trace_bench.controller.plan import ImageSource, RunPlan, plan_run
from trace_bench.controller.run import Progress, Run, RunResult, salt_of
from trace_bench.images.pins import ensure
from trace_bench.images.recipe import worker_sources_hash
from trace_bench.resources import package_dir
from trace_bench.sandbox.backends import get_backend
from trace_bench.sandbox.base import Backend


def run_config(
    config: RunConfig,
    *,
    roots: Sequence[Path] = (),
    build: bool = True,
    progress: Progress | None = None,
    say: Callable[[str], None] = lambda _: None,
    stop_wanted: Callable[[], str | None] = lambda: None,
) -> RunResult:
    """Run `config` to its end.

    Args:
        roots: extra folders with task folders.
        build: build an image that is missing; False refuses instead.
        say: told what takes long (building an image), one line each.

    Raises:
        ConfigError: before anything is created. EnvironmentUnavailable: no engine, no image. Interrupted.
    """
    warnings: list[str] = []
    with ThreadPoolExecutor(max_workers=1) as aside:
        git = aside.submit(capture_git, package_dir())  # two processes, while the engine is asked
        resolved = resolve(config, roots)
        backend = get_backend(config.backend)
    plan = plan_run(
        config,
        resolved,
        backend,
        image_source(config, backend, build=build, say=say, warn=warnings.append),
        sources_hash=worker_sources_hash(),
        git=git.result(),
        salt=salt_of(RunLayout(Path(config.runs_dir) / config.run_id)) if config.run_id else None,
    )
    plan = _with_warnings(plan, warnings)
    return Run(plan, backend, Path(config.runs_dir), progress=progress, stop_wanted=stop_wanted).execute()


def image_source(
    config: RunConfig,
    backend: Backend,
    *,
    build: bool,
    say: Callable[[str], None],
    warn: Callable[[str], None],
) -> ImageSource:
    """Where `backend` has its images from. The local backend has none: its key is the interpreter's version."""
    if backend.name == "local":
        version = f"local:python-{platform.python_version()}"
        return lambda family: ImageRecord(family=family, ref="local", key=version)

    def pinned(family: str) -> ImageRecord:
        pin = ensure(
            family,
            allow_build=build,
            accept_drift=config.images.accept_drift,
            base=config.images.base,
            progress=say,
        )
        if pin.drift:
            warn(f"the image of {family} is used although its {', '.join(pin.drift)} changed since it was locked")
        return ImageRecord(
            family=pin.family,
            ref=pin.ref,
            key=pin.key,
            image_id=pin.image_id,
            base=pin.base,
            built_at=pin.built_at,
            repo_digest=pin.repo_digest,
        )

    return pinned


def _with_warnings(plan: RunPlan, warnings: Sequence[str]) -> RunPlan:
    if not warnings:
        return plan
    every = (*plan.warnings, *warnings)
    return replace(plan, warnings=every, manifest=plan.manifest.model_copy(update={"warnings": every}))
