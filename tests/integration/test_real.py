"""Mode real, from the config to the tables: an unmodified litellm asks a provider over HTTP for jobs in containers."""

from __future__ import annotations

import csv
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.openai_server import PLAIN, Asked, Behaviour, OpenAIServer, failing
from tests.integration.cli import cli, environment, result_of, run, write_config
from tests.integration.files import check_files
from trace_bench.artifacts.calls import LlmCall
from trace_bench.artifacts.usage import is_answer, is_lost
from trace_bench.artifacts.writers import read_journal

pytestmark = pytest.mark.docker

SEARCH = {"id": "PrioritySearch", "params": {"num_steps": 2, "num_candidates": 2, "num_proposals": 2}}
BOTH = ["internal:numeric_param", "llm4ad:circle_packing"]


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpenAIServer]:
    """A provider that every test has for itself; no key is needed on loopback."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE", "TRACE_LITELLM_MODEL"):
        monkeypatch.delenv(name, raising=False)
    with OpenAIServer() as started:
        yield started


def llm(server: OpenAIServer, **keys: Any) -> dict[str, Any]:
    return {"provider": "openai", "model": "gpt-x", "base_url": server.url,
            "prices": {"prompt": 1.0, "completion": 4.0}, **keys}  # fmt: skip


def lines(got: dict[str, Any], row: dict[str, Any]) -> list[dict[str, Any]]:
    """The cassette of a job."""
    path = Path(got["folder"], "jobs", row["job_id"], "llm.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_two_models_improve_both_tasks_each_in_rows_of_its_own(
    server: OpenAIServer, images: Path, tmp_path: Path
) -> None:
    models = [llm(server), llm(server, id="warm", temperature=0.9, max_tokens=4000)]
    got = run(tmp_path, images, mode="real", tasks=BOTH, trainers=[SEARCH], seeds=[1], max_workers=2, llms=models)
    assert got["code"] == 0, got["stderr"]
    assert [(r["task_id"], r["model"]) for r in got["jobs"]] == [(t, m) for t in BOTH for m in ("gpt-x", "warm")]
    asked = server.asked("/v1/chat/completions")
    assert {a.body.get("temperature") for a in asked} == {None, 0.9}
    for row in got["jobs"]:
        assert row["status"] == "ok" and row["integrity"] == "protected" and row["llm_calls"] > 0
        assert row["score_best"] > row["score_initial"], row["task_id"]
        assert (row["llm_provider"], row["llm_model"], row["stub_inert"]) == ("openai", "gpt-x", False)
        calls = [call for call in lines(got, row) if call["reused_from"] is None]
        for total, name in (("prompt_tokens",) * 2, ("completion_tokens",) * 2, ("cost_usd",) * 2):
            assert row[total] == pytest.approx(sum(call[name] for call in calls), rel=1e-12)
        assert row["llm_calls"] == len(calls) and row["cost_usd"] > 0
        assert row["cost_usd"] == pytest.approx((row["prompt_tokens"] + 4 * row["completion_tokens"]) / 1e6)
        assert row["total_tokens"] == row["prompt_tokens"] + row["completion_tokens"]
    assert sum(row["llm_calls"] for row in got["jobs"]) == len(asked) == got["llm_calls"]
    folder = Path(got["folder"])
    board = list(csv.DictReader((folder / "leaderboard.csv").open()))
    assert sorted((row["task_id"], row["model"], row["jobs"]) for row in board) == sorted(
        (t, m, "1") for t in BOTH for m in ("gpt-x", "warm")
    )
    lock = json.loads((folder / "meta" / "lock.json").read_text())
    assert [model["id"] for model in lock["models"]] == ["gpt-x", "warm"]
    assert (
        lock["prices"]["warm"] == {"prompt": 1.0, "completion": 4.0, "cached": None} and "litellm" in lock["packages"]
    )
    assert check_files(str(folder)) > 40


@pytest.mark.slow
def test_a_provider_that_stays_down_is_its_failure_and_the_next_run_continues(
    server: OpenAIServer, images: Path, tmp_path: Path
) -> None:
    server.choose = lambda asked: failing(503) if asked.method == "POST" else PLAIN
    config: dict[str, Any] = {
        "mode": "real", "tasks": BOTH[:1], "trainers": [SEARCH], "retries": 1, "llm": llm(server, retries=0),
    }  # fmt: skip
    down = run(tmp_path, images, **config)
    (row,) = down["jobs"]
    assert down["code"] == 1 and row["status"] == "failed"
    assert (row["failure_boundary"], row["failure_kind"]) == ("provider", "provider_error")
    assert row["cost_usd"] == 0 and row["total_tokens"] == 0
    attempts = json.loads(Path(down["folder"], "jobs", row["job_id"], "job_meta.json").read_text())["attempts"]
    assert [a["status"] for a in attempts] == ["failed", "failed"], "one further attempt"
    assert not Path(down["folder"], "leaderboard.csv").read_text().splitlines()[1:], "never a score"

    server.choose = lambda asked: PLAIN
    up = run(tmp_path, images, **config)
    (again,) = up["jobs"]
    assert up["run_id"] == down["run_id"] and up["code"] == 0, up["stderr"]
    assert again["job_id"] == row["job_id"] and again["status"] == "ok"
    assert again["score_best"] > again["score_initial"]


@pytest.mark.slow
def test_what_was_paid_before_the_controller_died_is_not_paid_again(
    server: OpenAIServer, images: Path, tmp_path: Path
) -> None:
    answered, go_on = threading.Event(), threading.Event()

    def choose(asked: Asked) -> Behaviour:
        if len(server.asked("/v1/chat/completions")) < 3:
            return PLAIN
        answered.set()
        return PLAIN if go_on.is_set() else Behaviour(hold=go_on)

    server.choose = choose
    search = {**SEARCH, "params": {**SEARCH["params"], "num_threads": 1}}
    config = write_config(tmp_path, mode="real", tasks=BOTH[:1], trainers=[search], llm=llm(server))
    first = subprocess.Popen(
        [sys.executable, "-m", "trace_bench", "run", "--config", str(config)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(images),
    )  # fmt: skip
    try:
        assert answered.wait(120)
        child = _gateway_of(first.pid)
    finally:
        first.send_signal(signal.SIGKILL)
        first.communicate()
    (cassette,) = (tmp_path / "runs").glob("*/jobs/*/llm.jsonl")
    paid = [json.loads(line) for line in cassette.read_text().splitlines()]
    assert len(paid) == 2
    assert _is_there(child), "it waits for the answer that is under way"
    go_on.set()
    _ended(child)
    done = cli("run", "--config", str(config), home=images)
    assert done.returncode == 0, done.stderr
    calls = [json.loads(line) for line in cassette.read_text().splitlines()]
    assert calls[:2] == paid
    fresh = [call for call in calls if call["reused_from"] is None]
    assert len({(call["slot"], call["request_hash"]) for call in fresh}) == len(fresh), "nothing is asked twice"
    assert len(server.asked("/v1/chat/completions")) == len(fresh), "nor the one that was under way"


@pytest.mark.slow
def test_what_a_provider_answered_is_recorded_whenever_controllers_are_killed(
    server: OpenAIServer, images: Path, tmp_path: Path
) -> None:
    """Six kills at random instants of a run whose answers take a third of a second each."""
    server.choose = lambda asked: Behaviour(delay=0.3)
    luck = random.Random(20)
    search = {**SEARCH, "params": {**SEARCH["params"], "num_steps": 4}}
    config = write_config(tmp_path, mode="real", tasks=BOTH[:1], trainers=[search], seeds=[1, 2, 3, 4], max_workers=2,
                          llm=llm(server))  # fmt: skip
    for kill in range(1, 7):
        first = subprocess.Popen(
            [sys.executable, "-m", "trace_bench", "run", "--config", str(config)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(images),
        )  # fmt: skip
        before, deadline = len(server.asked()), time.monotonic() + 120
        while len(server.asked()) < before + 3 and first.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        time.sleep(luck.uniform(0, 0.8))
        first.send_signal(signal.SIGKILL)
        first.communicate()
        assert kill == 1 or first.returncode in (0, -signal.SIGKILL)
    done = cli("run", "--config", str(config), home=images)
    assert done.returncode == 0, done.stderr
    (folder,) = (tmp_path / "runs").iterdir()
    calls = [LlmCall.model_validate(line) for path in folder.glob("jobs/*/llm.jsonl")
             for line in read_journal(path).lines]  # fmt: skip
    answers = [call for call in calls if is_answer(call)]
    assert not [call for call in calls if is_lost(call)], "no provider process was killed"
    assert len(answers) == len(server.asked("/v1/chat/completions")), "each is in a cassette, and none was asked twice"
    assert not list(folder.glob("jobs/*/llm.asked"))
    assert check_files(str(folder)) > 0
    assert cli("audit", str(folder), home=images).returncode == 0


def _gateway_of(pid: int) -> int:
    (child,) = {int(c) for t in Path(f"/proc/{pid}/task").glob("*/children") for c in t.read_text().split()}
    return child


def _ended(pid: int) -> None:
    """The gateway's process goes when its controller has, and no answer is under way."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if not _is_there(pid):
            return
        time.sleep(0.1)
    raise AssertionError("the gateway's process outlives its controller")


def _is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_validate_and_a_dry_run_ask_no_provider_and_need_no_key(
    server: OpenAIServer, images: Path, tmp_path: Path
) -> None:
    model = llm(server, api_key_env="NOWHERE_SET")
    config = str(write_config(tmp_path, mode="real", tasks=BOTH[:1], trainers=[SEARCH], llm=model))
    valid = cli("validate", "--config", config, home=images)
    assert valid.returncode == 0, valid.stderr
    dry = cli("run", "--config", config, "--dry-run", home=images)
    assert dry.returncode == 0 and "NOWHERE_SET is set neither" in dry.stderr, dry.stderr
    for_real = cli("run", "--config", config, home=images)
    assert for_real.returncode == 2 and for_real.stderr.startswith("error: ")
    assert "NOWHERE_SET is set neither" in for_real.stderr and for_real.stderr.count("\n") == 1
    assert server.requests == []


@pytest.mark.slow
def test_the_environment_alone_names_model_and_address(server: OpenAIServer, images: Path, tmp_path: Path) -> None:
    config = str(write_config(tmp_path, mode="real", tasks=BOTH[:1], trainers=[SEARCH]))
    given = {
        "TRACE_LITELLM_MODEL": "openai/gpt-z",
        "OPENAI_BASE_URL": server.url,
        "OPENAI_API_KEY": "sk-of-nobody-0123",
    }
    done = cli("run", "--config", config, home=images, **given)
    assert done.returncode == 0, done.stderr
    assert "model gpt-z of openai" in done.stderr and "key from OPENAI_API_KEY" in done.stderr
    assert {(a.body["model"], a.headers["authorization"]) for a in server.requests} == {
        ("gpt-z", "Bearer sk-of-nobody-0123")
    }


@pytest.mark.slow
def test_the_shipped_config_runs_within_its_budget(server: OpenAIServer, images: Path, tmp_path: Path) -> None:
    given = {"TRACE_LITELLM_MODEL": "openai/gpt-4o-mini", "OPENAI_API_BASE": server.url}
    arguments = ("run", "--config", "smoke_real.yaml", "--runs-dir", str(tmp_path / "runs"), "--json")
    done = cli(*arguments, home=images, cwd=tmp_path, **given)
    assert done.returncode == 0, done.stderr
    got = result_of(done.stdout)
    assert [row["llm_model"] for row in got["jobs"]] == ["gpt-4o-mini"] * 2
    assert all(row["score_best"] > row["score_initial"] for row in got["jobs"])
    assert 0 < got["llm_calls"] == len(server.asked("/v1/chat/completions")) <= 24
    assert {asked.body["max_tokens"] for asked in server.requests} == {4000}
