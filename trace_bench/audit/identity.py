"""What jobs and run are called, against what determines them: the config, the tasks, the images, the code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from trace_bench.artifacts.contract import ObjectiveSpec
from trace_bench.artifacts.records import ImageRecord, JobMeta, ModelPrices
from trace_bench.audit.context import Audited
from trace_bench.audit.reading import Unreadable
from trace_bench.config.loader import parse_config
from trace_bench.config.models import RunConfig, is_builtin
from trace_bench.config.reader import read
from trace_bench.config.resolve import resolve
from trace_bench.config.source import Problem
from trace_bench.errors import ConfigError, TraceBenchError
from trace_bench.gateway.prices import known_price
from trace_bench.identity import FingerprintPrefix, JobIdPrefix, config_hash
from trace_bench.images.layers import family_named
from trace_bench.images.recipe import Recipe, image_key, worker_sources_hash
from trace_bench.matrix import Job, expand
from trace_bench.planning.prices import has_litellm

__all__ = ["check_identity", "check_run", "load_config"]

_PLACES = ("task_roots", "data_root", "runs_dir", "run_id")
"""Keys of a snapshot that name folders of whoever ran it: a stranger's word opens none of ours."""
_SNAPSHOT_BYTES = 16 << 20
OTHER_CODE = "the run was made by another version of the code"


def load_config(audited: Audited, roots: Sequence[Path] = ()) -> None:
    """Read the snapshot, check its hash, and expand it to jobs as far as its tasks are here."""
    book, path = audited.book, audited.path(audited.layout.config_snapshot)
    data = _snapshot(audited, path)
    if data is None:
        audited.not_expanded = "the config cannot be read"
        for claim in ("identity.config", "identity.matrix"):
            book.unknown(claim, audited.not_expanded)
        return
    lock, manifest = audited.lock, audited.manifest
    if lock is not None:
        try:
            due = config_hash(data, lock.tasks)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            book.wrong("identity.config", path, was=str(error), due="a snapshot")
        else:
            book.equal("identity.config", audited.path(audited.layout.lock), "config_hash", lock.config_hash, due)
            if manifest is not None:
                where = audited.path(audited.layout.manifest)
                book.equal("identity.config", where, "config_hash", manifest.config_hash, due)
    kept = {key: value for key, value in data.items() if key not in _PLACES}
    try:
        config = parse_config(kept, file=path)
    except (ConfigError, RecursionError) as error:
        audited.not_expanded = f"the config is none of this version: {error}"
        book.unknown("identity.matrix", audited.not_expanded)
        return
    audited.config = config
    # Who looks on, say: whoever repeats the run would write to a server of somebody's choice.
    for key in sorted((data.keys() & RunConfig.model_fields.keys()) - config.to_snapshot().keys()):
        book.wrong("identity.config", path, key, "written", "nothing, as no snapshot has it")
    _check_prices(audited)
    try:
        resolved = resolve(config, roots)
        audited.expanded = {job.job_id: job for job in expand(config, resolved.tasks, resolved.trainers)}
        audited.tasks = resolved.tasks
    except (TraceBenchError, OSError) as error:
        audited.not_expanded = f"not all that it names is installed here: {str(error).splitlines()[0]}"
        book.unknown("identity.matrix", audited.not_expanded)
        return
    _check_matrix(audited)


def _check_prices(audited: Audited) -> None:
    """The prices of the lock: those of the snapshot, or else of the table that comes with litellm."""
    config, lock, book = audited.config, audited.lock, audited.book
    if config is None or lock is None or config.mode != "real":
        return
    if "prices" not in lock.model_fields_set:
        book.unknown("derivation.prices", "the lock of an earlier version has no prices")
        return
    where = audited.path(audited.layout.lock)
    models = {llm.name: llm for llm in (config.llm, *config.llms) if llm is not None and not is_builtin(llm.model)}
    for name, llm in models.items():
        was = lock.prices.get(name)
        told = was.model_dump() if was is not None else None
        if llm.prices is not None:
            due = llm.prices.model_dump(include=set(ModelPrices.model_fields))
            book.equal("derivation.prices", where, f"prices.{name}", told, due)
            continue
        price = known_price(llm) if has_litellm() else None  # type: ignore[arg-type]
        if told != (price and {"prompt": price.prompt, "completion": price.completion, "cached": price.cached}):
            book.unknown("derivation.prices", f"the config has no prices of {name}, and litellm's table has others")
    if strange := sorted(lock.prices.keys() - models.keys()):
        book.wrong("derivation.prices", where, "prices", strange[:5], "those of the config's models")


def _snapshot(audited: Audited, path: str) -> Mapping[str, Any] | None:
    try:
        if audited.folder.data(path, _SNAPSHOT_BYTES) is None:
            raise Unreadable("it is missing")
        problems: list[Problem] = []
        found = read(audited.layout.config_snapshot, problems)
    except (Unreadable, ConfigError) as error:
        audited.book.wrong("identity.config", path, was=str(error), due="a config")
        return None
    if problems:
        audited.book.wrong("identity.config", path, f"line {problems[0].line}", problems[0].text, "a config")
        return None
    return found


def _check_matrix(audited: Audited) -> None:
    """The manifest has the jobs of the snapshot, in their order."""
    if audited.manifest is None:
        return
    planned, due = list(audited.entries), list(audited.expanded)
    audited.book.checked("identity.matrix", len(due))
    if planned == due:
        return
    why = audited.why_differs()
    if why:
        audited.book.unknown("identity.matrix", why)
        return
    path = audited.path(audited.layout.manifest)
    for job_id in sorted(set(planned) - set(due)):
        audited.book.wrong("identity.matrix", path, job_id, "planned", "no job of the config")
    for job_id in sorted(set(due) - set(planned)):
        audited.book.wrong("identity.matrix", path, job_id, None, "a job of the config")
    if set(planned) == set(due):
        audited.book.wrong("identity.matrix", path, "jobs", planned[:3], due[:3])


def check_run(audited: Audited) -> None:
    """What the lock and its neighbours say of code, images, tasks and packages."""
    lock, book = audited.lock, audited.book
    where = audited.path(audited.layout.lock)
    if lock is None:
        for claim in ("identity.images", "identity.packages", "identity.tasks", "identity.code"):
            book.unknown(claim, "the run has no lock")
    else:
        book.equal("files.places", where, "run_id", lock.run_id, audited.run_id)
        book.checked("identity.code")
        if lock.sources_hash != worker_sources_hash():
            book.unknown("identity.code", f"{OTHER_CODE} ({lock.code_version})")
        if audited.env is not None:
            env = audited.path(audited.layout.env)
            book.equal("identity.packages", env, "packages", audited.env.packages, lock.packages)
            due = lock.packages.get("trace-bench")
            book.equal("identity.packages", where, "code_version", lock.code_version, due or lock.code_version)
        else:
            book.unknown("identity.packages", "the run has no env.json")
        models = {entry.model for entry in audited.entries.values()}
        if audited.manifest is not None and {model.id for model in lock.models} != models:
            book.wrong("identity.job_ids", where, "models", [model.id for model in lock.models], sorted(models))
        for task_id, content in lock.tasks.items():
            _check_task(audited, task_id, content)
        for family, image in lock.images.items():
            _check_image(audited, family, image, where)
    git = audited.git
    if git is None or git.commit is None:
        book.unknown("identity.git", "it was not run from a checkout")
    elif git.dirty is not False:
        book.unknown("identity.git", f"tracked files differed from commit {git.commit}")
    else:
        book.checked("identity.git")
        book.remark("identity.git", f"commit {git.commit}")


def _check_task(audited: Audited, task_id: str, content: str) -> None:
    task = audited.tasks.get(task_id)
    audited.book.checked("identity.tasks")
    if task is None:
        audited.book.unknown("identity.tasks", f"{task_id} is not installed here")
    elif audited.hashes.get(task_id) != content:
        audited.book.unknown("identity.tasks", f"{task_id} has other content here")


def _check_image(audited: Audited, family: str, image: ImageRecord, where: str) -> None:
    """Its key against the recipe of this installation, or the interpreter that a run without images had."""
    book = audited.book
    book.equal("identity.images", where, f"images.{family}.family", image.family, family)
    local = f"local:python-{audited.env.python_version}" if audited.env is not None else ""
    if image.key.startswith("local:"):
        if local and image.key.partition("+")[0] != local:
            book.wrong("identity.images", where, f"images.{family}.key", image.key, local)
        return
    if image.key.startswith("sha256:"):
        if image.repo_digest is None or not image.repo_digest.endswith(image.key):
            book.wrong("identity.images", where, f"images.{family}.key", image.key, image.repo_digest)
        return
    try:
        due = image_key(Recipe.of(family_named(family)), image.base)
    except (TraceBenchError, OSError, ValueError):
        due = ""
    if image.key != due:
        book.unknown("identity.images", f"the image of {family} is of another recipe than this installation's")


def check_identity(audited: Audited, meta: JobMeta, path: str) -> None:
    """One job: its id, its fingerprint, its image, its task."""
    book, lock = audited.book, audited.lock
    full = _digest_of(meta)
    book.equal("identity.job_ids", path, "job_id", meta.job_id, full[:12])
    if lock is None:
        return
    book.equal("identity.tasks", path, "task_hash", meta.task_hash, lock.tasks.get(meta.task_id))
    if meta.image is not None:
        pinned = lock.images.get(meta.image.family)
        book.equal("identity.images", path, "image.key", meta.image.key, pinned.key if pinned is not None else None)
    known = {model.id: model for model in lock.models}
    if meta.model != known.get(meta.model.id):
        book.wrong("identity.job_ids", path, "model", meta.model.id, "one of the models of the lock, with its sampling")
    job = audited.expanded.get(meta.job_id)
    if job is None or meta.image is None:
        book.unknown("identity.fingerprints", audited.why_differs() or audited.not_expanded or "a job is not expanded")
        return
    due = _fingerprint(meta, job, full, lock.sources_hash)
    book.checked("identity.fingerprints")
    if meta.fingerprint != due:
        why = audited.why_differs(meta.task_id)
        if why and meta.fingerprint == _fingerprint(meta, job, full, worker_sources_hash()):
            where = audited.path(audited.layout.lock)
            book.wrong("identity.fingerprints", where, "sources_hash", lock.sources_hash, worker_sources_hash())
        elif why:
            book.unknown("identity.fingerprints", why)
        else:
            book.wrong("identity.fingerprints", path, "fingerprint", meta.fingerprint, due)


def _fingerprint(meta: JobMeta, job: Job, full: str, sources_hash: str) -> str:
    assert meta.image is not None
    budget = meta.budget.model_dump()
    # As the config words it; what the record has otherwise is another one.
    said = meta.objective.model_dump(mode="json")
    objective = job.objective if ObjectiveSpec(**job.objective) == meta.objective else said
    prefix = FingerprintPrefix(meta.task_hash, meta.image.key, sources_hash, budget, job.splits, objective, job.limits)
    return prefix.fingerprint(full)


def _digest_of(meta: JobMeta) -> str:
    """`JobIdPrefix.full_digest` of what the record says that the job is."""
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
