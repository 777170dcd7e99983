"""Makes the plan of a run again from its config snapshot, and compares jobs, ids, fingerprints, limits and seeds.

It also compares the lock with what is installed here: code, packages, tasks and image recipes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from trace_bench.artifacts.contract import Budget, ObjectiveSpec
from trace_bench.artifacts.records import ImageRecord, JobMeta, Lock, ModelPrices
from trace_bench.audit.claims import Findings, as_json
from trace_bench.audit.reading import Unreadable
from trace_bench.audit.run import AuditedRun
from trace_bench.config.llms import is_builtin
from trace_bench.config.loader import parse_config
from trace_bench.config.models import RunConfig
from trace_bench.config.reader import read
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import catalog_of
from trace_bench.config.source import Problem
from trace_bench.errors import ConfigError, TraceBenchError
from trace_bench.gateway.prices import known_price
from trace_bench.identity import FingerprintPrefix, JobIdPrefix, config_hash
from trace_bench.images.layers import family_named
from trace_bench.images.recipe import Recipe, image_key, worker_sources_hash
from trace_bench.matrix import Job, expand
from trace_bench.planning.prepare import Material, prepare
from trace_bench.planning.prices import has_litellm
from trace_bench.planning.recording import recorded_defaults
from trace_bench.sandbox.backends import protects
from trace_bench.suites.spec import Task

CODE, CONFIG, FINGERPRINTS, GIT, IMAGES = (
    "identity.code", "identity.config", "identity.fingerprints", "identity.git", "identity.images"
)  # fmt: skip
JOB_IDS, MATRIX, PACKAGES, PRICES, TASKS = (
    "identity.job_ids", "identity.matrix", "identity.packages", "derivation.prices", "identity.tasks"
)  # fmt: skip
CONTROLS, LIMITS, SEEDS = "conduct.controls", "conduct.limits", "conduct.seeds"
_FOLDER_KEYS = ("task_roots", "data_root", "runs_dir", "run_id")
"""Keys of a snapshot that name folders. An untrusted run must not open folders here."""
_SNAPSHOT_BYTES = 16 << 20


_PLANNED = (
    "score_direction", "tolerance", "timing_sensitive", "variant", "raw_params", "params", "optimizer", "guide",
    "guide_kwargs", "logger", "mode", "model", "limits", "objective", "eval_kwargs", "trainer_id", "suite", "task_id",
    "integrity",
)  # fmt: skip
"""Fields of a job's record that follow from the config and the task."""


class _Backend:
    """The properties of a backend that `prepare` reads."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.integrity = "protected" if protects(name) else "unprotected"


# ----------------------------------------------------------------------------------------------------- the config


def load_config(run: AuditedRun, roots: Sequence[Path] = ()) -> None:
    """Read the config snapshot, check its hash, and expand it to jobs if its tasks are installed here."""
    at = run.at(run.layout.config_snapshot)
    problems: list[Problem] = []
    try:
        if run.folder.data(at.file, _SNAPSHOT_BYTES) is None:
            raise Unreadable("it is missing")
        snapshot = read(run.layout.config_snapshot, problems)
        if problems:
            raise Unreadable(f"line {problems[0].line}: {problems[0].text}")
        expected = config_hash(snapshot, run.lock.tasks) if run.lock is not None else ""
    except (ConfigError, ValueError, TypeError, KeyError, AttributeError) as error:
        at.wrong(CONFIG, found=str(error), expected="a config")
        run.why_not_expanded = "the config cannot be read"
        at.unknown(MATRIX, run.why_not_expanded)
        return
    for path, record in ((run.layout.lock, run.lock), (run.layout.manifest, run.manifest)):
        if record is not None and run.lock is not None:
            run.at(path).equal(CONFIG, "config_hash", record.config_hash, expected)
    try:
        config = parse_config({k: v for k, v in snapshot.items() if k not in _FOLDER_KEYS}, file=at.file)
    except (ConfigError, RecursionError) as error:
        run.why_not_expanded = f"this version cannot read the config: {error}"
        at.unknown(MATRIX, run.why_not_expanded)
        return
    config = config.with_recorded_defaults(recorded_defaults(run.entries.values()))
    run.config = config
    # Mirrors, for example: a repetition of the run would send data to a server that an author chose.
    for key in sorted((snapshot.keys() & RunConfig.model_fields.keys()) - config.to_snapshot().keys()):
        at.wrong(CONFIG, key, "written", "nothing, as no snapshot has it")
    check_prices(run)
    try:
        resolved = resolve(config, catalog_of(config, roots))
        run.expanded = {job.job_id: job for job in expand(config, resolved.tasks, resolved.trainers)}
        run.tasks = resolved.tasks
    except (TraceBenchError, OSError) as error:
        run.why_not_expanded = f"something that the config names is not installed here: {str(error).splitlines()[0]}"
        at.unknown(MATRIX, run.why_not_expanded)
        return
    _check_matrix(run)


def check_prices(run: AuditedRun) -> None:
    """The prices in the lock are those of the config snapshot, or else those of the table in litellm."""
    config, lock, at = run.config, run.lock, run.at(run.layout.lock)
    if config is None or lock is None or config.mode != "real":
        return
    models = {llm.name: llm for llm in (config.llm, *config.llms) if llm is not None and not is_builtin(llm.model)}
    for name, llm in models.items():
        found = lock.prices[name].model_dump() if name in lock.prices else None
        if llm.prices is not None:
            expected = llm.prices.model_dump(include=set(ModelPrices.model_fields))
            at.equal(PRICES, f"prices.{name}", found, expected)
            continue
        price = known_price(llm) if has_litellm() else None  # type: ignore[arg-type]
        if found != (price and {"prompt": price.prompt, "completion": price.completion, "cached": price.cached}):
            at.unknown(PRICES, f"the config has no prices of {name}, and litellm's table has others")
    unexpected = sorted(lock.prices.keys() - models.keys())
    at.check(not unexpected, PRICES, "prices", unexpected[:5], "those of the config's models")


def _check_matrix(run: AuditedRun) -> None:
    """The manifest has the jobs of the snapshot, in their order."""
    if run.manifest is None:
        return
    at, found, expected = run.at(run.layout.manifest), list(run.entries), list(run.expanded)
    at.checked(MATRIX, len(expected))
    if found == expected:
        return
    if why := run.why_differs():
        at.unknown(MATRIX, why)
        return
    for job_id in sorted(set(found) - set(expected)):
        at.wrong(MATRIX, job_id, "planned", "not a job of the config")
    for job_id in sorted(set(expected) - set(found)):
        at.wrong(MATRIX, job_id, None, "a job of the config")
    if set(found) == set(expected):
        at.wrong(MATRIX, "jobs", found[:3], expected[:3])


# ---------------------------------------------------------------------------------------------------- the whole run


def check_lock(run: AuditedRun) -> None:
    """The lock's statements on code, packages, models, tasks and images."""
    lock, at = run.lock, run.at(run.layout.lock)
    if lock is None:
        for claim in (IMAGES, PACKAGES, TASKS, CODE):
            at.unknown(claim, "the run has no lock")
        return
    at.equal("files.places", "run_id", lock.run_id, run.run_id)
    at.checked(CODE)
    if not run.same_worker_code:
        at.unknown(CODE, f"the run was made by another version of the code ({lock.code_version})")
    if run.env is not None:
        run.at(run.layout.env).equal(PACKAGES, "packages", run.env.packages, lock.packages)
        at.equal(PACKAGES, "code_version", lock.code_version, lock.packages.get("trace-bench") or lock.code_version)
    else:
        at.unknown(PACKAGES, "the run has no env.json")
    models = {entry.model for entry in run.entries.values()}
    if run.manifest is not None and {model.id for model in lock.models} != models:
        at.wrong(JOB_IDS, "models", [model.id for model in lock.models], sorted(models))
    for task_id, content in lock.tasks.items():
        at.checked(TASKS)
        if not content:  # its data set was missing, and its jobs were skipped
            continue
        if task_id not in run.tasks:
            at.unknown(TASKS, f"{task_id} is not installed here; --root names the folder with it")
        elif run.task_hashes.get(task_id) != content:
            at.unknown(TASKS, f"{task_id} has other content here")
    for family, image in lock.images.items():
        if not image.key:  # there was none, and its jobs were skipped
            continue
        _check_image(run, family, image, at)


def _check_image(run: AuditedRun, family: str, image: ImageRecord, at: Findings) -> None:
    """The key of an image is that of the recipe installed here; without an image, that of the interpreter."""
    at.equal(IMAGES, f"images.{family}.family", image.family, family)
    key = f"images.{family}.key"
    if image.key.startswith("local:"):
        if run.env is not None and image.key.partition("+")[0] != (local := f"local:python-{run.env.python_version}"):
            at.wrong(IMAGES, key, image.key, local)
    elif image.key.startswith("sha256:"):
        if image.repo_digest is None or not image.repo_digest.endswith(image.key):
            at.wrong(IMAGES, key, image.key, image.repo_digest)
    else:
        installed = None
        with contextlib.suppress(TraceBenchError, OSError, ValueError):
            installed = image_key(Recipe.of(family_named(family)), image.base)
        if image.key != installed:
            at.unknown(IMAGES, f"the image of {family} is of another recipe than the one installed here")


def check_git(run: AuditedRun) -> None:
    git, at = run.git, run.at(run.layout.git)
    if git is None or git.commit is None:
        at.unknown(GIT, "it was not run from a checkout")
    elif git.dirty is not False:
        at.unknown(GIT, f"tracked files differed from commit {git.commit}")
    else:
        at.checked(GIT)
        at.remark(GIT, f"commit {git.commit}")


# ---------------------------------------------------------------------------------------------------------- one job


def check_planned(run: AuditedRun, meta: JobMeta, at: Findings) -> None:
    """The record of a job is that of the plan: its id, fingerprint, image, task, model, seed, limits and parameters."""
    config, lock, job_hash = run.config, run.lock, _job_hash(meta)
    at.equal(JOB_IDS, "job_id", meta.job_id, job_hash[:12])
    if lock is not None:
        at.equal(TASKS, "task_hash", meta.task_hash, lock.tasks.get(meta.task_id))
        if meta.image is not None:
            locked = lock.images.get(meta.image.family)
            at.equal(IMAGES, "image.key", meta.image.key, locked.key if locked is not None else None)
        if meta.model not in lock.models:
            at.wrong(JOB_IDS, "model", meta.model.id, "one of the models of the lock, with its sampling")
    if config is not None:
        budget = Budget(**config.budget.model_dump(exclude={"run"}))
        at.equal(LIMITS, "budget", meta.budget.model_dump(), budget.model_dump())
        at.check(meta.seed in config.seeds, SEEDS, "seed", meta.seed, list(config.seeds))
    job, task = run.expanded.get(meta.job_id), run.tasks.get(meta.task_id)
    if job is None or task is None or config is None or lock is None or meta.image is None:
        for claim in (FINGERPRINTS, LIMITS):
            at.unknown(claim, run.why_not_expanded or run.why_differs() or "a job is not of the config")
        return
    _check_fingerprint(run, lock, meta, job, job_hash, at)
    _check_limits(run, config, meta, job, task, at)


def _check_fingerprint(run: AuditedRun, lock: Lock, meta: JobMeta, job: Job, job_hash: str, at: Findings) -> None:
    assert meta.image is not None
    # The hash depends on which keys of the objective are written, which the config shows.
    as_recorded = ObjectiveSpec(**job.objective) == meta.objective
    objective = job.objective if as_recorded else meta.objective.model_dump(mode="json")
    expected, of_this_code = (
        FingerprintPrefix(
            meta.task_hash, meta.image.key, code, meta.budget.model_dump(), job.splits, objective, job.limits
        ).fingerprint(job_hash)
        for code in (lock.sources_hash, worker_sources_hash())
    )
    why = run.why_differs(meta.task_id)
    if meta.fingerprint == expected or not why:
        at.equal(FINGERPRINTS, "fingerprint", meta.fingerprint, expected)
    elif meta.fingerprint == of_this_code:
        run.at(run.layout.lock).wrong(FINGERPRINTS, "sources_hash", lock.sources_hash, worker_sources_hash())
    else:
        at.unknown(FINGERPRINTS, why)


def _check_limits(run: AuditedRun, config: RunConfig, meta: JobMeta, job: Job, task: Task, at: Findings) -> None:
    """The record matches the one that `prepare` makes from the config."""
    assert meta.image is not None
    # Independent of the seed: the jobs of a configuration share these objects.
    configuration = (id(job.params), id(job.model), id(job.eval_kwargs), job.task_id, job.trainer_id, meta.backend)
    planned = run.planned.get(configuration)
    try:
        if planned is None:
            plan = prepare(
                job, Material(task, b""), meta.image, meta.fingerprint, config=config, run_id=meta.run_id, salt="",
                backend=_Backend(meta.backend), created=meta.created_at,  # type: ignore[arg-type]
            )  # fmt: skip
            planned = run.planned[configuration] = {name: as_json(getattr(plan.meta, name)) for name in _PLANNED}
    except (TraceBenchError, OSError) as error:
        at.unknown(LIMITS, f"a job cannot be planned here: {error}")
        return
    why = run.why_differs(meta.task_id)
    for name, expected in planned.items():
        claim, recorded = CONTROLS if name == "integrity" else LIMITS, as_json(getattr(meta, name))
        if recorded != expected and why:
            at.unknown(claim, why)
        else:
            at.check(recorded == expected, claim, name, recorded, expected)


def _job_hash(meta: JobMeta) -> str:
    """The hash of a job, computed from its record; its id is the beginning."""
    model: dict[str, Any] = {"id": meta.model.id}
    if meta.model.provider != "stub" or meta.model.sampling:
        model |= {"provider": meta.model.provider, "model": meta.model.model, "sampling": meta.model.sampling}
    return JobIdPrefix(
        task_id=meta.task_id,
        eval_kwargs=meta.eval_kwargs,
        trainer_id=meta.trainer_id,
        params=meta.params,
        optimizer=meta.optimizer.id,
        optimizer_kwargs=meta.optimizer.kwargs,
        guide=meta.guide,
        guide_kwargs=meta.guide_kwargs,
        model=model,
    ).full_digest(meta.seed)


def check_seeds(run: AuditedRun) -> None:
    """Every configuration was run with every seed of the config."""
    if run.config is None or run.manifest is None:
        run.findings.unknown(SEEDS, "the config cannot be read")
        return
    seeds: dict[str, list[int]] = {}
    for entry in run.entries.values():
        configuration: tuple[Any, ...] = (
            entry.task_id, entry.eval_kwargs, entry.trainer_id, entry.raw_params, entry.variant, entry.model,
            entry.resolved_trainer_kwargs, entry.resolved_optimizer_kwargs,
        )  # fmt: skip
        seeds.setdefault(repr(configuration), []).append(entry.seed)
    for found in seeds.values():
        run.at(run.layout.manifest).equal(SEEDS, "seeds", sorted(found), sorted(run.config.seeds))
