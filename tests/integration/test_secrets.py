"""Keys are planted wherever one could leak from, and looked for wherever one could leak to."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.openai_server import PLAIN, Asked, Behaviour, OpenAIServer, failing
from tests.integration.cli import TASKS, environment, write_config
from trace_bench.execution.providers import limits_folder

pytestmark = pytest.mark.docker

OF_THE_ENVIRONMENT = "planted-environment-KEY-0123"
OF_A_DOTENV = "planted-dotenv-KEY-4567"
NOT_USED = "planted-unused-KEY-89ab"
QUOTED = 'planted-"quoted"\\KEY-cdef'
KEYS = (OF_THE_ENVIRONMENT, OF_A_DOTENV, NOT_USED, QUOTED)
TELLTALE = "planted-"
ENVIRONMENT = {
    "OPENAI_API_KEY": OF_THE_ENVIRONMENT,
    "HF_TOKEN": NOT_USED,
    "DB_PASSWORD": QUOTED,
    "TRACE_REMARK": f"the key is {OF_THE_ENVIRONMENT}.",  # recorded in env.json, and not secret by its name
    "LITELLM_LOG": "DEBUG",
}


def spoken(asked: Asked) -> Behaviour:
    """A provider that repeats the key it was given, in every way that an answer has."""
    key = asked.headers.get("authorization", "").removeprefix("Bearer ")
    headers = {"X-Request-Key": key}
    said = f"Incorrect API key provided: {key} ({json.dumps(key)})"
    if asked.body.get("model") == "refused":
        return Behaviour(status=400, headers=headers, body=failing(400, said, kind="invalid_request_error").body)
    if asked.body.get("model") == "barred":
        return Behaviour(status=401, headers=headers, body=failing(401, said, kind="invalid_api_key").body)

    def repeat(body: dict[str, Any]) -> None:
        message = body["choices"][0]["message"]
        message["content"] = message["content"].replace('"reasoning": "', f'"reasoning": "{key} ')
        body["system_fingerprint"] = key

    return Behaviour(headers=headers, then=repeat)


@pytest.fixture(scope="module")
def told(images: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A run with planted keys: its folder, what it printed, and what was seen of it from outside meanwhile."""
    folder = tmp_path_factory.mktemp("secrets")
    (folder / ".env").write_text(f"MY_OWN = '{OF_A_DOTENV}'\nUNUSED_TOKEN={NOT_USED}\n")
    with OpenAIServer() as server:
        first, go_on = threading.Event(), threading.Event()

        def choose(asked: Asked) -> Behaviour:
            if asked.method != "POST":
                return PLAIN
            first.set()
            go_on.wait(120)
            return spoken(asked)

        server.choose = choose
        config = write_config(
            folder, mode="real", tasks=["internal:numeric_param", "internal:probe"], max_workers=2, retries=0,
            trainers=[{"id": "PrioritySearch", "params": {"num_steps": 1}}],
            llms=[
                {"model": "plain", "provider": "openai", "base_url": server.url, "retries": 0,
                 "limits": {"concurrent": 8}},
                {"model": "dotted", "provider": "openai", "base_url": server.url, "api_key_env": "MY_OWN"},
                {"model": "refused", "provider": "openai", "base_url": server.url, "api_key_env": "MY_OWN"},
                {"model": "barred", "provider": "openai", "base_url": server.url, "retries": 0},
            ],
        )  # fmt: skip
        process = subprocess.Popen(
            [sys.executable, "-m", "trace_bench", "run", "--config", str(config), "--root", str(TASKS), "-vv"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(images, **ENVIRONMENT),
            cwd=folder,
        )  # fmt: skip
        try:
            held = first.wait(120)
            seen = _outside(process.pid, folder) if held else {}
            go_on.set()
            out, err = process.communicate(timeout=240)
        finally:
            go_on.set()
            process.kill()
            process.communicate()
        assert held, err
        given = {a.headers.get("authorization", "") for a in server.requests}
    (run,) = (folder / "runs").iterdir()
    return {"folder": run, "stdout": out, "stderr": err, "seen": seen, "given": given, "home": images}


def _outside(pid: int, folder: Path) -> dict[str, str]:
    """What the engine and the kernel tell of the run while it asks a provider."""
    (run,) = (folder / "runs").iterdir()
    ask = ["docker", "ps", "-aq", "--no-trunc", "--filter", f"label=trace-bench.run={run.name}"]
    containers, deadline = list[str](), time.monotonic() + 60
    while not containers and time.monotonic() < deadline:
        containers = _told(ask).split()
    seen = {}
    for container in containers:
        seen[f"inspect {container}"] = _told(["docker", "inspect", container])
        image = json.loads(seen[f"inspect {container}"])[0]["Image"]
        seen[f"image {image}"] = _told(["docker", "image", "inspect", image])
        seen[f"history {image}"] = _told(["docker", "history", "--no-trunc", image])
        look = "cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline; env; find / -xdev -name '*.env' -o -name 'job.json'"
        seen[f"exec {container}"] = _told(["docker", "exec", container, "sh", "-c", look])
    for child in _children(pid):
        seen[f"argv of {child}"] = Path(f"/proc/{child}/cmdline").read_text()
        seen[f"environ of {child}"] = Path(f"/proc/{child}/environ").read_text()
    return seen


def _told(command: list[str]) -> str:
    done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=60, check=False)
    return done.stdout + done.stderr


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for task in tasks for child in task.read_text().split()]


def test_the_provider_got_the_keys(told: dict[str, Any]) -> None:
    assert told["given"] == {f"Bearer {OF_THE_ENVIRONMENT}", f"Bearer {OF_A_DOTENV}"}


def test_no_file_of_the_run_holds_a_key(told: dict[str, Any]) -> None:
    files = [path for path in told["folder"].rglob("*") if path.is_file()]
    assert len(files) > 40
    for path in files:
        data = path.read_bytes()
        assert TELLTALE.encode() not in data, path
        assert not any(key.encode() in data for key in KEYS), path


def test_what_was_masked_is_there(told: dict[str, Any]) -> None:
    env = json.loads((told["folder"] / "meta" / "env.json").read_text())["env"]
    assert env["OPENAI_API_KEY"] == env["HF_TOKEN"] == "***" and env["TRACE_REMARK"] == "the key is ***."
    cassettes = [p.read_text() for p in told["folder"].glob("jobs/*/llm.jsonl")]
    assert sum("***" in text for text in cassettes) >= 3, "answers, and what the provider refused"
    barred = [r for r in _rows(told) if r["model"] == "barred" and r["task_id"] == "internal:numeric_param"]
    assert [r["failure_boundary"] for r in barred] == ["provider"]


def _rows(told: dict[str, Any]) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in told["folder"].glob("jobs/*/results.json")]


def test_nothing_that_was_printed_holds_a_key(told: dict[str, Any]) -> None:
    for stream in ("stdout", "stderr"):
        assert TELLTALE not in told[stream], told[stream]
    assert "key from OPENAI_API_KEY" in told["stderr"]


def test_neither_engine_nor_kernel_show_a_key_while_a_provider_is_asked(told: dict[str, Any]) -> None:
    assert any(name.startswith("inspect") for name in told["seen"])
    assert any(name.startswith("environ") for name in told["seen"]), "the gateway's process"
    for name, text in told["seen"].items():
        assert text, name
        assert TELLTALE not in text, name


def test_nothing_of_this_hosts_own_holds_a_key(told: dict[str, Any]) -> None:
    counts = list(limits_folder().rglob("*"))
    assert any(path.name == "counts" for path in counts), "what was asked of the provider with a limit"
    for path in [*told["home"].rglob("*"), *counts]:
        if path.is_file() and path.stat().st_size < 1 << 20:
            assert TELLTALE.encode() not in path.read_bytes(), path
