"""The ids of jobs, results, configs and runs: hashes of what determines them. Pure.

All of them are SHA-256 over `canonical_json`. A whole number and a float are different values there (``1``
and ``1.0``): a parameter that is declared a float is made one before it gets here (`trace_bench.arguments`),
so that ``weight: 1`` and ``weight: 1.0`` of a config are the same job.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

JOB_ID_LENGTH = 12
_SEED_BITS = 63

CONFIG_KEYS_WITHOUT_EFFECT = frozenset(
    {
        *("max_workers", "resume", "run_id", "runs_dir", "task_roots", "data_root", "tags", "llm_cache", "mirrors"),
        *("replay_services", "require_all", "gaps"),
        *("docker", "modal", "scheduling"),
    }
)
"""Top-level config keys that `config_hash` leaves out: worker counts, tags, paths (a run's id names its folder),
machines, and which jobs are run again: ``--force`` is for a run that is there.

So are ``mirrors``, which a snapshot does not even have, ``budget.run``, as a run that has used it up is continued with
a larger one, and ``llm_cache``, which says who has paid for an answer and not what is asked.

Loggers (of a trainer entry) and credentials (``llm.api_key_env``) are left out too. A task's place does not
count, as its content does.
"""


SANDBOX_KEYS_WITHOUT_EFFECT = frozenset({"labels", "pinned", "exclusive"})
"""Likewise those of a sandbox: a run goes on where there is another host, or none that is quiet."""


class JobIdentity(Protocol):
    """The fields of a job that make it this job and no other. `trace_bench.matrix.Job` has them."""

    @property
    def task_id(self) -> str: ...
    @property
    def eval_kwargs(self) -> Mapping[str, Any]: ...
    @property
    def trainer_id(self) -> str: ...
    @property
    def params(self) -> Mapping[str, Any]: ...
    @property
    def optimizer(self) -> str: ...
    @property
    def optimizer_kwargs(self) -> Mapping[str, Any]: ...
    @property
    def guide(self) -> str: ...
    @property
    def guide_kwargs(self) -> Mapping[str, Any]: ...
    @property
    def model(self) -> Mapping[str, Any]: ...
    @property
    def seed(self) -> int: ...


def canonical_json(value: Any) -> bytes:
    """`value` as JSON bytes that depend on nothing but the value: keys sorted, no white space, ASCII.

    Tuples are lists. A float is written as Python's shortest repr that reads back to the same number.

    >>> canonical_json({"b": 1.0, "a": (1, None, "é")})
    b'{"a":[1,null,"\\\\u00e9"],"b":1.0}'

    Raises:
        ValueError: a float that is not finite.
        TypeError: anything that is not None, bool, int, float, str, list, tuple or a mapping with string keys.
    """
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def digest(value: Any) -> str:
    """SHA-256 of `canonical_json`, 64 hex digits."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


class JobIdPrefix:
    """All of a job's identity but its seed, hashed once for all seeds of a variant."""

    def __init__(
        self,
        *,
        task_id: str,
        eval_kwargs: Mapping[str, Any],
        trainer_id: str,
        params: Mapping[str, Any],
        optimizer: str,
        optimizer_kwargs: Mapping[str, Any],
        guide: str,
        guide_kwargs: Mapping[str, Any],
        model: Mapping[str, Any],
    ) -> None:
        inputs = {
            "task_id": task_id,
            "eval_kwargs": eval_kwargs,
            "trainer_id": trainer_id,
            "params": params,
            "optimizer": optimizer,
            "optimizer_kwargs": optimizer_kwargs,
            "guide": guide,
            "guide_kwargs": guide_kwargs,
            "model": model,
        }
        self._hash = hashlib.sha256(b"trace-bench/job/1\n" + canonical_json(inputs) + b"\n")

    def job_id(self, seed: int) -> str:
        return self._with_seed(seed)[:JOB_ID_LENGTH]

    def full_digest(self, seed: int) -> str:
        """All 64 digits: what a fingerprint is made of, where 12 would be too few."""
        return self._with_seed(seed)

    def _with_seed(self, seed: int) -> str:
        whole = self._hash.copy()
        whole.update(b"%d" % seed)
        return whole.hexdigest()


def prefix_of(job: JobIdentity) -> JobIdPrefix:
    """The part of the id that `job` shares with the same job of another seed."""
    return JobIdPrefix(
        task_id=job.task_id,
        eval_kwargs=job.eval_kwargs,
        trainer_id=job.trainer_id,
        params=job.params,
        optimizer=job.optimizer,
        optimizer_kwargs=job.optimizer_kwargs,
        guide=job.guide,
        guide_kwargs=job.guide_kwargs,
        model=job.model,
    )


def job_id(job: JobIdentity) -> str:
    """12 hex digits over task, eval_kwargs, trainer, parameters, optimizer, guide, model and seed.

    Not over mode, logger, workers, paths, limits or versions: a replayed job keeps its id. What else its
    result depends on is in `fingerprint`.
    """
    return prefix_of(job).job_id(job.seed)


class FingerprintPrefix:
    """All inputs of a result except the job itself, hashed once for all jobs that share them.

    Args:
        task_hash: `trace_bench.suites.task_files.content_hash` of the task folder.
        image_key: of the image pin.
        sources_hash: content hash of the worker, suite and trainer sources.
        limits: those that can change a score: time limits, the candidate's limits, the sandbox's resources.
    """

    def __init__(
        self,
        task_hash: str,
        image_key: str,
        sources_hash: str,
        budget: Mapping[str, Any],
        splits: Mapping[str, Any],
        objective: str | Mapping[str, Any],
        limits: Mapping[str, Any],
    ) -> None:
        inputs = {
            "task_hash": task_hash,
            "image_key": image_key,
            "sources_hash": sources_hash,
            "budget": budget,
            "splits": splits,
            "objective": objective,
            "limits": limits,
        }
        self._hash = hashlib.sha256(b"trace-bench/fingerprint/2\n" + canonical_json(inputs) + b"\n")

    def fingerprint(self, job_digest: str) -> str:
        """64 hex digits over everything that determines a job's result; a result is reused only if it is equal.

        Args:
            job_digest: `JobIdPrefix.full_digest`.
        """
        whole = self._hash.copy()
        whole.update(job_digest.encode("ascii"))
        return whole.hexdigest()


def fingerprint(
    job: JobIdentity,
    task_hash: str,
    image_key: str,
    sources_hash: str,
    budget: Mapping[str, Any],
    splits: Mapping[str, Any],
    objective: str | Mapping[str, Any],
    limits: Mapping[str, Any],
) -> str:
    """The fingerprint of one job; arguments as of `FingerprintPrefix`."""
    prefix = FingerprintPrefix(task_hash, image_key, sources_hash, budget, splits, objective, limits)
    return prefix.fingerprint(prefix_of(job).full_digest(job.seed))


def config_hash(snapshot: Mapping[str, Any], task_hashes: Mapping[str, str]) -> str:
    """64 hex digits over the resolved config and the content hash of each of its tasks.

    Args:
        snapshot: `trace_bench.config.RunConfig.to_snapshot`.
        task_hashes: content hash by task id.
    """
    kept = {key: value for key, value in snapshot.items() if key not in CONFIG_KEYS_WITHOUT_EFFECT}
    kept["trainers"] = [
        {key: value for key, value in trainer.items() if key not in ("logger", "logger_kwargs")}
        for trainer in snapshot["trainers"]
    ]
    if isinstance(snapshot.get("sandbox"), Mapping):
        kept["sandbox"] = _without_place(snapshot["sandbox"])
    if isinstance(snapshot.get("tasks"), Sequence):
        kept["tasks"] = [_placed_anywhere(task) for task in snapshot["tasks"]]
    if isinstance(snapshot.get("budget"), Mapping):
        kept["budget"] = {key: value for key, value in snapshot["budget"].items() if key != "run"}
    if isinstance(snapshot.get("llm"), Mapping):
        kept["llm"] = _without_key(snapshot["llm"])
    kept["llms"] = [_without_key(llm) for llm in snapshot.get("llms", ())]
    return digest({"version": 1, "config": kept, "tasks": task_hashes})


def _without_place(sandbox: Mapping[str, Any]) -> dict[str, Any]:
    """Limits without what says where a sandbox is, and beside whom."""
    return {key: value for key, value in sandbox.items() if key not in SANDBOX_KEYS_WITHOUT_EFFECT}


def _placed_anywhere(task: Any) -> Any:
    sandbox = task.get("sandbox") if isinstance(task, Mapping) else None
    if not isinstance(sandbox, Mapping) or not sandbox:
        return task
    limits = _without_place(sandbox)
    return {key: limits if key == "sandbox" else value for key, value in task.items() if key != "sandbox" or limits}


def _without_key(llm: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in llm.items() if key != "api_key_env"}


def run_id(now: datetime, config_hash: str, git_sha: str) -> str:
    """``YYYYMMDD-HHMMSS-<8 hex>`` in UTC; the digits are of the time (to the microsecond), the config and the code.

    Args:
        git_sha: commit of the code, empty if it is not known.

    Raises:
        ValueError: `now` has no time zone.
    """
    if now.tzinfo is None:
        raise ValueError("run_id needs a time with a time zone")
    utc = now.astimezone(UTC)
    return f"{utc:%Y%m%d-%H%M%S}-{digest([utc.isoformat(timespec='microseconds'), config_hash, git_sha])[:8]}"


def test_seed(salt: str, task_id: str, seed: int) -> int:
    """The seed of held-out data, 63 bits: an HMAC-SHA256 under the run's salt, which is published last."""
    mac = hmac.new(salt.encode(), canonical_json(["test", task_id, seed]), hashlib.sha256)
    return _as_seed(mac.digest())


def salt_commitment(salt: str) -> str:
    """SHA-256 (hex) that is published while `salt` is not: with both, a reader knows that it was this one from the
    start."""
    return hashlib.sha256(b"trace-bench/salt/1\n" + salt.encode()).hexdigest()


def seed_commitment(salt: str, seed: int) -> str:
    """The same (hex) of a `test_seed`: under the salt, as a seed of 63 bits alone could be tried out."""
    return hmac.new(salt.encode(), canonical_json(["commitment", seed]), hashlib.sha256).hexdigest()


def slot_rng_seed(seed: int, slot: str) -> int:
    """The seed of the random choices made for one LLM call, 63 bits, from the job's seed and the slot's text.

    It does not depend on the order of calls.
    """
    return _as_seed(hashlib.sha256(canonical_json(["slot", seed, slot])).digest())


def _as_seed(hashed: bytes) -> int:
    return int.from_bytes(hashed[:8], "big") >> (64 - _SEED_BITS)


def _plain(value: Any) -> Any:
    """`value` in the types that JSON has, refusing what `json` would quietly change (keys, tuples of types, NaN)."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{value} has no place in an identity; give a finite number")
        return float(value)
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise TypeError(f"key {key!r} is a {type(key).__name__}; keys of an identity are strings")
        return {key: _plain(item) for key, item in value.items()}
    raise TypeError(f"a {type(value).__name__} has no canonical form")
