"""Evaluates a submission as the one job of a run: trainer NoOp, which proposes nothing, in a sandbox as any job.

The score is the official one. The run's folder is removed unless records are wanted.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trace_bench.artifacts.outputs import ExampleScore
from trace_bench.artifacts.records import JobMeta, Results
from trace_bench.cancellation import Cancellation
from trace_bench.config import parse_config
from trace_bench.config.models import RunConfig
from trace_bench.errors import EnvironmentUnavailable, Interrupted, TraceBenchError
from trace_bench.execution.result import RunResult
from trace_bench.execution.start import plan_config, run_config
from trace_bench.kernel_server.jobs import EvaluationFailed, Result
from trace_bench.kernel_server.problems import Problems
from trace_bench.kernel_server.submission import Submission
from trace_bench.planning.backends import backend_of
from trace_bench.records.reading import last_result, read_meta
from trace_bench.secrets import known

SHIPPED = "kernelbench:level1/softmax"
"""A task by which the engine and the image are checked."""
HELD_OUT = "test"
_SPEC = """
suite = "kernelbench"
title = {title}
[kernel]
[eval_kwargs.size]
default = "file"
[candidates]
template = "kernel.py"
"""
_ISSUES = {"compile": "compilation_error", "output": "correctness_issue"}
"""What KernelBench calls a failure, by its phase; all others are a ``runtime_error``."""


def check_machine(*, gpu: bool, build: bool, say: Callable[[str], None]) -> list[str]:
    """Look for the engine, and build the image if it is missing; the devices that can score one kernel each at a time.

    Args:
        gpu: kernels are for GPUs.
        build: False refuses instead.

    Raises:
        EnvironmentUnavailable: there is no engine, no image, or no GPU.
    """
    config = _config(SHIPPED, timeout=1, runs_dir=Path("runs"), gpu=gpu)
    devices = ["cpu"]
    if gpu:
        (host,) = backend_of(config).hosts()
        if host.gpus == ():
            raise EnvironmentUnavailable(
                "--gpu: the engine's host has no GPUs (docs/how-to/gpus.md says how it is asked)"
            )
        # Which of them a job gets is up to its lease. Where they are not known, there is one at least.
        devices = [f"gpu{number}" for number in range(len(host.gpus or (None,)))]
    plan_config(config, build=build, say=say)
    return devices


@dataclass(frozen=True)
class SandboxEvaluator:
    """Evaluates submissions in sandboxes of the machine's Docker engine.

    Attributes:
        problems: the references that submissions must have.
        gpu: kernels are scored on a GPU, which their job leases.
        runs_dir: where each evaluation is kept as a run; None keeps none.
    """

    problems: Problems
    gpu: bool = False
    runs_dir: Path | None = None

    def __call__(self, submission: Submission, device: str, stopped: Callable[[], bool]) -> Result:
        """See `trace_bench.kernel_server.jobs.Evaluate`."""
        with tempfile.TemporaryDirectory(prefix="trace-bench-kernel-") as folder:
            task = write_task(Path(folder) / "tasks", submission, self.problems.reference(submission))
            runs_dir = self.runs_dir or Path(folder) / "runs"
            config = _config(task, timeout=submission.timeout, runs_dir=runs_dir, gpu=self.gpu)
            try:
                done = run_config(
                    config,
                    roots=[Path(folder) / "tasks"],
                    build=False,
                    stop=Cancellation(lambda: "kill" if stopped() else None),
                )
            except Interrupted:
                raise EvaluationFailed("the evaluation was stopped") from None
            except TraceBenchError as error:
                raise EvaluationFailed(known.text(str(error))) from error
            except OSError as error:
                raise EvaluationFailed(f"the server's machine: {error.strerror or error}") from error
            result = _result(done, submission, device)
            if self.runs_dir is not None:
                result["metadata"]["run_id"] = done.run_id
            return result


def write_task(root: Path, submission: Submission, reference: str) -> str:
    """Write the task folder of a submission below `root`; returns the task's id."""
    level = "" if submission.level is None else f"level{submission.level}_"
    name = f"submitted/{level}problem{submission.problem_id}"
    folder = root / name
    folder.mkdir(parents=True)
    title = json.dumps(f"Problem {submission.problem_id}, sample {submission.sample_id}")
    (folder / "task.toml").write_text(_SPEC.format(title=title), encoding="utf-8")
    for file, source in (("problem.py", reference), ("kernel.py", submission.custom_cuda)):
        (folder / file).write_bytes(source.encode())
    return f"kernelbench:{name}"


def _config(task: str, *, timeout: int, runs_dir: Path, gpu: bool) -> RunConfig:
    return parse_config(
        {
            "tasks": [task],
            **({"eval_kwargs": {"device": "cuda"}, "sandbox": {"gpus": 1}} if gpu else {}),
            "trainers": ["NoOp"],
            "backend": "docker",
            "runs_dir": str(runs_dir),
            "resume": "none",
            "retries": 1,
            "job_timeout": timeout,
            "score_timeout": timeout,
        },
        file="kernel-server",
    )


def _result(done: RunResult, submission: Submission, device: str) -> Result:
    """What the job came to, as the service answers.

    Raises:
        EvaluationFailed: it has no score, since reference, sandbox or harness failed.
    """
    (row,) = done.rows
    job = done.layout.job(row.job_id)
    meta = read_meta(job)
    result = last_result(job, meta) if meta is not None else None
    if row.status != "ok" or meta is None or result is None or result.scores.best is None:
        where = row.failure_boundary or "harness"
        raise EvaluationFailed(known.text(f"{where}: {row.feedback or 'the job has no score'}"))
    metadata, examples = _metadata(row, meta, submission, device), result.scores.best.examples
    failed = next((example for example in examples if example.failed), None)
    shown = failed or next(example for example in examples if example.split == HELD_OUT)
    metadata["feedback"] = known.text(shown.feedback)
    if failed is not None:
        phase = failed.feedback.partition(" failed")[0]
        metadata[_ISSUES.get(phase, "runtime_error")] = metadata["feedback"]
        return _answer(compiled=phase != "compile", metadata=metadata)
    stats = _stats(shown, meta.eval_kwargs["trials"], metadata["hardware"], metadata["device"])
    return {**_answer(compiled=True, metadata=metadata), "correctness": True, "runtime": stats["median"],
            "runtime_stats": stats}  # fmt: skip


def _answer(*, compiled: bool, metadata: dict[str, Any]) -> Result:
    """The answer for a kernel that has failed."""
    return {"compiled": compiled, "correctness": False, "metadata": metadata, "runtime": -1.0, "runtime_stats": {}}


def _metadata(row: Results, meta: JobMeta, submission: Submission, device: str) -> dict[str, Any]:
    metadata: dict[str, Any] = {
        "hardware": row.hardware or meta.cpu_model,
        "device": ", ".join(meta.devices) or device,
        "integrity": row.integrity,
        "integrity_flags": row.integrity_flags.split(),
    }
    if unknown := submission.unknown_fields:
        metadata["ignored_fields"] = unknown
    return metadata


def _stats(example: ExampleScore, trials: Any, hardware: str, device: str) -> dict[str, Any]:
    """Times are milliseconds: medians over the trials, without the hand-over."""
    return {
        "median": example.metrics["milliseconds"],
        "reference_median": example.metrics["reference_milliseconds"],
        "speedup": example.score,
        "speedup_low": example.metrics["speedup_low"],
        "speedup_high": example.metrics["speedup_high"],
        "num_trials": trials,
        "hardware": hardware,
        "device": device,
    }
