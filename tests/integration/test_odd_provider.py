"""Whole runs, without an engine, against providers that send what nobody expects."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.openai_server import PLAIN, Behaviour, OpenAIServer, optimize
from tests.integration.cli import cli, run

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(importlib.util.find_spec("litellm") is None, reason="litellm is not installed"),
]
PACKING = {"id": "llm4ad:circle_packing", "eval_kwargs": {"n": 7}}
SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 2, "num_proposals": 2}}


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    monkeypatch.setenv("TRACE_BENCH_STATE_DIR", str(tmp_path / "state"))
    monkeypatch.setenv("DOCKER_HOST", "unix:///nonexistent/trace-bench.sock")
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "TRACE_LITELLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with OpenAIServer() as started:
        yield started


def config(server: OpenAIServer, task: Any, **keys: Any) -> dict[str, Any]:
    llm = {"provider": "openai", "model": "gpt-x", "base_url": server.url, "prices": {"prompt": 1.0, "completion": 4.0}}
    return {"mode": "real", "backend": "local", "tasks": [task], "trainers": [SEARCH], "llm": {**llm, **keys}}


def raw(body: Mapping[str, Any]) -> str:
    """An answer with a lone surrogate, NUL and U+2028 in its text."""
    return optimize(body).replace("The feedback", "The \ud800 \0 \u2028 feedback") + "\udfff"


def escaped(body: Mapping[str, Any]) -> str:
    """An answer whose text is JSON with such escapes."""
    return optimize(body).replace("The feedback", r"The \ud800 \u0000 feedback")


@pytest.mark.parametrize(
    ("task", "brain"),
    [("internal:numeric_param", raw), (PACKING, raw), ("internal:numeric_param", escaped)],
    ids=["raw", "program", "escaped"],
)
def test_half_of_a_surrogate_pair_costs_a_job_nothing(
    server: OpenAIServer, tmp_path: Path, task: Any, brain: Any
) -> None:
    server.answer = brain
    got = run(tmp_path, None, **config(server, task), retries=0)
    (row,) = got["jobs"]
    assert row["status"] == "ok" and got["code"] == 0, (row, got["stderr"])
    assert row["llm_calls"] == len(server.asked("/v1/chat/completions")) > 0
    assert row["total_tokens"] > 0 and row["cost_usd"] > 0
    assert row["score_best"] > row["score_initial"]
    asked = len(server.requests)
    (tmp_path / "again").mkdir()
    keys = {"mode": "replay", "tasks": [task], "trainers": [SEARCH], "backend": "local"}
    again = run(tmp_path / "again", None, replay_from=got["folder"], **keys)
    (repeated,) = again["jobs"]
    for name in ("status", "score_best", "score_final", "llm_calls", "total_tokens", "cost_usd"):
        assert repeated[name] == row[name], name
    assert len(server.requests) == asked
    audit = cli("audit", got["folder"])
    assert audit.returncode == 0, audit.stdout + audit.stderr


def test_a_job_that_only_waited_for_its_provider_is_tried_again(server: OpenAIServer, tmp_path: Path) -> None:
    server.script(*[Behaviour(trickle=0.5)] * 2)
    server.choose = lambda asked: PLAIN
    keys = config(server, "internal:numeric_param", timeout=4)
    got = run(tmp_path, None, **keys, retries=1, job_timeout=5)
    (row,) = got["jobs"]
    meta = json.loads(Path(got["folder"], "jobs", row["job_id"], "job_meta.json").read_text())
    failures = [attempt["failure"] and (attempt["failure"]["boundary"], attempt["failure"]["kind"])
                for attempt in meta["attempts"]]  # fmt: skip
    assert failures == [("provider", "provider_timeout"), None], meta["attempts"]
    assert row["status"] == "ok" and row["score_best"] > row["score_initial"]
