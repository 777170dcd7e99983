"""Builds tasks of data sets with a provider over real HTTP in place of the gateway's door, and serves data sets as the
hub does."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.openai_server import OpenAIServer
from tests.suites.conftest import build_folder
from tests.suites.publisher import Publisher
from trace_bench.suites.hf.data import packed
from trace_bench.suites.registry import resolve
from trace_bench.suites.spec import load_task_spec
from trace_bench.worker.agent_model import AgentModel
from trace_bench.worker.problem import Problem, Programs

Build = Callable[..., Problem]


@pytest.fixture
def server() -> Iterator[OpenAIServer]:
    with OpenAIServer(lambda body: "I do not know.") as started:
        yield started


@pytest.fixture
def build_hf(programs: Programs, server: OpenAIServer, tmp_path: Path) -> Build:
    """``build_hf("hf:gsm8k", seed=…, test_seed=…, **eval_kwargs)`` on the fixture; on `rows` ({path below ``data``:
    content}) if given."""

    def build(task: str, *, seed: int = 1, test_seed: int | None = None, rows: Any = None, **given: Any) -> Problem:
        source = resolve(task).folder
        folder = tmp_path / task.replace(":", "-").replace("/", "-")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(source, folder)
        qa = load_task_spec(source).qa
        assert qa is not None
        for name, content in packed(qa) if rows is None else rows.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        given = {"fixture": rows is None, **given}
        model = AgentModel(server.port, "mine")
        return build_folder(folder, programs, "hf", seed=seed, test_seed=test_seed, model=model, **given)

    return build


@pytest.fixture
def hub() -> Iterator[Publisher]:
    one = Publisher()
    yield one
    one.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy", "HF_TOKEN", "HF_ENDPOINT"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf-home"))
    monkeypatch.setenv("HF_HUB_DISABLE_TELEMETRY", "1")
    monkeypatch.setenv("TRACE_BENCH_HOME", str(tmp_path / "home"))
    return tmp_path / "home"
