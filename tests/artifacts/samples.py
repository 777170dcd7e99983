"""One good value of every file that a run writes, for tests to break."""

from __future__ import annotations

from typing import Any

HASH = "0" * 64
TIME = "2026-01-02T03:04:05Z"

RESULT: dict[str, Any] = {
    "contract": 1,
    "status": "ok",
    "failure": None,
    "stop_reason": "completed",
    "scores": {
        "initial": {"validate": -3.0, "examples": [{"split": "validate", "id": "v0", "score": -3.0}]},
        "final": {"validate": -1, "test": -1.5},
        "best": {
            "validate": -0.5,
            "test": -0.75,
            "examples": [
                {"split": "test", "id": "t0", "score": -0.75, "feedback": "held out"},
                {"split": "validate", "id": "v0", "score": -0.5, "failed": False, "feedback": "too small"},
            ],
        },
    },
    "evaluations": 12,
    "llm_calls": 4,
    "seconds": {"build": 0.1, "train": 1.0, "score": 0.4},
    "warnings": ["a warning"],
    "stub_inert": False,
}
STATES: dict[str, Any] = {
    "initial": {"guess": 0.0, "code": "def f():\n    return 1\n"},
    "best": {"guess": 2.5, "code": "def f():\n    return 2 \n"},
    "final": {"guess": 2, "code": ""},
}
EVENT: dict[str, Any] = {"t": 0.25, "event": "build.end", "parameters": ["guess"], "nested": {"a": [1, None]}}
HISTORY: dict[str, Any] = {
    "step": 0,
    "candidate": "seed",
    "parents": [],
    "split": "validate",
    "score": -3.0,
    "best_score": -3.0,
    "seconds": 0.1,
    "prompt_tokens": 10,
    "completion_tokens": 5,
    "cost_usd": 0.0,
    "evaluations": 1,
    "parameters": {"guess": 0.0},
    "extra": {"priority": 1.5},
}
MODEL: dict[str, Any] = {"id": "stub", "provider": "stub", "model": "stub", "sampling": {}}
JOB: dict[str, Any] = {
    "contract": 1,
    "run_id": "20260102-030405-0123abcd",
    "job_id": "0123456789ab",
    "fingerprint": HASH,
    "task": {
        "id": "internal:numeric_param",
        "suite": "internal",
        "builder": "trace_bench.suites.internal.problem:build",
        "spec": {"title": "t"},
        "content_hash": HASH,
        "eval_kwargs": {},
    },
    "trainer": {"id": "NoOp", "entry": "trace_bench.trainers.noop:NoOp", "params": {}},
    "optimizer": {"id": "OptoPrime", "kwargs": {}},
    "seed": 7,
    "mode": "stub",
    "model": MODEL,
    "budget": {"calls": 10},
    "limits": {"job_timeout": 60},
}
META: dict[str, Any] = {
    "run_id": "20260102-030405-0123abcd",
    "job_id": "0123456789ab",
    "fingerprint": HASH,
    "task_id": "internal:numeric_param",
    "suite": "internal",
    "task_hash": HASH,
    "score_direction": "maximize",
    "eval_kwargs": {"n": 1},
    "trainer_id": "PrioritySearch",
    "variant": "0",
    "params": {"num_steps": 3},
    "optimizer": {"id": "OptoPrime", "kwargs": {"memory_size": 0}},
    "seed": 7,
    "mode": "stub",
    "model": MODEL,
    "image": {"family": "core", "ref": "trace-bench/core:abc", "key": HASH},
    "backend": "docker",
    "integrity": "protected",
    "controls": [{"name": "network", "wanted": "none", "in_force": True, "detail": ""}],
    "attempts": [{"number": 1, "started_at": TIME, "status": "ok"}],
    "created_at": TIME,
    "status": "ok",
    "stop_reason": "completed",
}
RESULTS: dict[str, Any] = {
    "run_id": "20260102-030405-0123abcd",
    "job_id": "0123456789ab",
    "task_id": "internal:numeric_param",
    "suite": "internal",
    "trainer_id": "NoOp",
    "variant": "0",
    "seed": 7,
    "status": "ok",
    "integrity": "protected",
    "score_direction": "maximize",
    "resolved_optimizer": "OptoPrime",
    "model": "stub",
    "fingerprint": HASH,
    "evaluations_saved": 0,
    "scoring_calls": 0,
    "search_answers": 3,
    "unusable_answers": {"cut_off": 1},
}
LLM_CALL: dict[str, Any] = {
    "n": 1,
    "t": TIME,
    "request_id": "train-1",
    "phase": "train",
    "slot": "step=0",
    "request_hash": HASH,
    "request": {"method": "POST", "path": "/v1/chat/completions", "body": {"messages": []}},
    "response": {"choices": []},
    "status": 200,
    "provider": "stub",
    "model": "stub",
}
SERVICE_CALL: dict[str, Any] = {
    "n": 1,
    "t": TIME,
    "service": "harbor",
    "request_id": "train-1",
    "phase": "train",
    "request_hash": HASH,
    "request": {"prompt": "p"},
    "status": 200,
    "answer": {"rewards": {"reward": 1.0}},
    "usage": {"llm_calls": 2},
}
ENTRY: dict[str, Any] = {
    "job_id": "0123456789ab",
    "task_id": "internal:numeric_param",
    "suite": "internal",
    "trainer_id": "NoOp",
    "variant": "0",
    "seed": 7,
    "fingerprint": HASH,
    "integrity": "protected",
    "score_direction": "maximize",
    "resolved_optimizer": "OptoPrime",
    "model": "stub",
}
