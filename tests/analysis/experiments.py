"""Runs with known scores, made with the real writers, for tests of what is concluded from runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests.artifacts.samples import HASH, RESULTS
from trace_bench.artifacts.layout import RunLayout
from trace_bench.artifacts.records import EnvInfo, ImageRecord, Lock, Manifest, ManifestEntry, Results
from trace_bench.artifacts.writers import write_json, write_text

SNAPSHOT: dict[str, Any] = {
    "name": "experiment", "mode": "real", "backend": "docker", "seeds": [1], "retries": 2, "job_timeout": None,
    "score_timeout": 600.0, "tasks": [], "trainers": [], "sandbox": {"cpus": 1.0, "memory": "2g"},
    "budget": {"evaluations": 100, "run": {"usd": None}}, "splits": {"test": None},
    "objective": {"mode": "scalar", "weights": {}}, "run_id": None, "max_workers": 2,
}  # fmt: skip
SHARED = (
    "job_id", "task_id", "suite", "trainer_id", "variant", "seed", "fingerprint", "integrity", "score_direction",
    "resolved_optimizer", "resolved_optimizer_kwargs", "resolved_trainer_kwargs", "eval_kwargs", "model",
)  # fmt: skip


def job(task: str, seed: int, score: float | None, **change: Any) -> Results:
    """A job of a task of the suite t, whose normalised held-out score is `score`, and all others of it too."""
    trainer = change.get("trainer_id", "NoOp")
    named = [task, seed, trainer, *(change.get(key) for key in ("variant", "model", "eval_kwargs"))]
    values = {} if score is None else {"normalised": score}
    found = {
        **RESULTS, "job_id": hashlib.sha256(repr(named).encode()).hexdigest()[:12], "task_id": f"t:{task}",
        "suite": "t", "trainer_id": trainer, "seed": seed, "score_initial": 0.0, "score_best": score,
        "score_test": score, "metrics_best": values, "metrics_test": values, "image_key": "sha256:" + HASH,
        "backend": "docker", **change,
    }  # fmt: skip
    return Results.model_validate(found)


def failed(task: str, seed: int, boundary: str = "candidate", **change: Any) -> Results:
    """One without scores."""
    return job(task, seed, None, status="failed", failure_boundary=boundary, failure_kind="crash", **change)


def jobs(
    score: Callable[[str, int], float], tasks: Sequence[str], seeds: Sequence[int], **change: Any
) -> list[Results]:
    return [job(task, seed, score(task, seed), **change) for task in tasks for seed in seeds]


def make_experiment(
    runs_dir: Path,
    run_id: str,
    rows: Sequence[Results],
    *,
    waiting: Sequence[Results] = (),
    lock: Mapping[str, Any] | None = None,
    snapshot: Mapping[str, Any] | None = None,
    config_hash: str = HASH,
    cpu: str = "cpu",
) -> RunLayout:
    """A run that has `rows`, and still has to do `waiting`."""
    run = RunLayout(runs_dir / run_id).make()
    entries = [ManifestEntry.model_validate({k: getattr(r, k) for k in SHARED}) for r in (*rows, *waiting)]
    manifest = Manifest(
        run_id=run_id, config_hash=config_hash, generated_at="2026-01-02T03:04:05Z", jobs=tuple(entries)
    )
    write_json(run.manifest, manifest, durable=False)
    tasks = dict.fromkeys(sorted({r.task_id for r in rows}), HASH)
    image = ImageRecord(family="core", ref="core", key="sha256:" + HASH)
    known = {
        "run_id": run_id, "config_hash": config_hash, "code_version": "0.1.0", "sources_hash": HASH,
        "images": {"core": image.model_dump()}, "tasks": tasks, "salt": "00ff",
        "models": [{"id": name, "provider": "openai", "model": name} for name in sorted({r.model for r in rows})],
    }  # fmt: skip
    write_json(run.lock, Lock.model_validate({**known, **(lock or {})}), durable=False)
    write_text(run.config_snapshot, yaml.safe_dump({**SNAPSHOT, **(snapshot or {})}))
    env = EnvInfo(captured_at="2026-01-02T03:04:05Z", env={}, python_version="3.11", platform="Linux", cpu_model=cpu)
    write_json(run.env, env, durable=False)
    for row in rows:
        write_json(run.job(row.job_id).make().results, row.model_copy(update={"run_id": run_id}), durable=False)
    return run
