"""How a server begins: its address, its token, what it needs."""

from __future__ import annotations

import contextlib
import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from tests.cli.conftest import NO_ENGINE, assert_refused
from tests.console import here
from trace_bench.config.models import RunConfig
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.kernel_server import evaluate
from trace_bench.kernel_server.evaluate import write_task
from trace_bench.kernel_server.problems import Problems
from trace_bench.kernel_server.serve import TOKEN, listen, token_of, url_of
from trace_bench.kernel_server.submission import Submission
from trace_bench.sandbox.base import Host
from trace_bench.suites.registry import resolve
from trace_bench.suites.spec import load_task_spec

LONG = "0123456789abcdef"


def test_an_address_of_this_machine_needs_no_token_and_any_other_does() -> None:
    for host in ("127.0.0.1", "localhost", "127.8.8.8"):
        with contextlib.closing(listen(host, 0, None)) as listener:
            assert url_of(listener).startswith(("http://127.", "http://[::1]:"))
    for host in ("0.0.0.0", "::", "192.0.2.1"):
        with pytest.raises(ConfigError, match=rf"^--host {host} .*{TOKEN}"):
            listen(host, 0, None)
    with contextlib.closing(listen("0.0.0.0", 0, LONG)) as listener:
        assert url_of(listener).startswith("http://0.0.0.0:")


def test_an_address_that_is_taken_is_a_sentence() -> None:
    with contextlib.closing(listen("127.0.0.1", 0, None)) as listener:
        port = listener.getsockname()[1]
        with pytest.raises(
            EnvironmentUnavailable, match=rf"^127.0.0.1:{port} cannot be taken: .*; name another --port"
        ):
            listen("127.0.0.1", port, None)
    with pytest.raises(EnvironmentUnavailable):
        listen("192.0.2.1", 0, LONG)


@pytest.mark.parametrize(("host", "port", "option"), [("no such host", 0, "--host"), ("127.0.0.1", 65536, "--port")])
def test_what_is_no_address_is_refused(host: str, port: int, option: str) -> None:
    with pytest.raises(ConfigError, match=f"^{option} "):
        listen(host, port, LONG)


def test_a_token_comes_from_a_file_or_else_from_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(f"{LONG}-of-the-file\n")
    assert token_of({}, None) is None
    assert token_of({TOKEN: LONG}, None) == LONG
    assert token_of({TOKEN: LONG}, file) == f"{LONG}-of-the-file"


@pytest.mark.parametrize("token", ["short", "with space in it, and long", "ä" * 20, ""])
def test_a_token_that_is_none_is_refused_and_not_repeated(token: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    with pytest.raises(ConfigError, match=f"^--token-file {file}: ") as refused:
        token_of({}, file)
    assert not token or token not in str(refused.value)
    with pytest.raises(ConfigError, match="No such file"):
        token_of({}, tmp_path / "nope")


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--host", "0.0.0.0"], 2, "--host 0.0.0.0 lets in other machines"),
        (["--queue", "0"], 2, "--queue must be 1 or more"),
        (["--port", "x"], 2, "--port must be a whole number"),
        (["--root", "docs"], 2, "the task root docs has no task"),
        (["--port", "0"], 3, "the Docker engine"),
    ],
)
def test_a_mistake_is_a_sentence_with_an_exit_code(
    arguments: list[str], code: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", NO_ENGINE)
    monkeypatch.delenv(TOKEN, raising=False)
    monkeypatch.chdir(Path(__file__).parents[2])
    done = here("kernel-server", *arguments)
    assert_refused(done, code)
    assert said in done.stderr


def test_a_missing_package_is_a_sentence_with_the_extra() -> None:
    find = importlib.util.find_spec

    def lacking(name: str, *rest: Any) -> Any:
        return None if name == "uvicorn" else find(name, *rest)

    with mock.patch("importlib.util.find_spec", lacking):
        done = here("kernel-server")
    assert_refused(done, 3)
    assert "uvicorn" in done.stderr and "pip install 'trace-bench[server]'" in done.stderr


def test_the_command_line_starts_without_the_packages_of_the_server() -> None:
    import subprocess

    code = (
        "import sys; import trace_bench.cli.app, trace_bench.cli.commands.kernel_server;"
        "print(*{'starlette', 'uvicorn', 'anyio'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


def test_a_submission_is_a_task_folder(tmp_path: Path) -> None:
    submission = Submission(problem_id=3, sample_id=4, level=2, custom_cuda="a\r\nkernel", ref_arch_src="-")
    task_id = write_task(tmp_path, submission, "the reference")
    folder = resolve(task_id, [tmp_path]).folder
    spec = load_task_spec(folder)
    assert spec.entry == "ModelNew" and spec.eval_kwargs["size"].default == "file"
    assert (folder / "problem.py").read_bytes() == b"the reference"
    assert (folder / "kernel.py").read_bytes() == b"a\r\nkernel"


@pytest.mark.parametrize(("gpus", "devices"), [(("0", "1"), ["gpu0", "gpu1"]), (None, ["gpu0"])])
def test_on_gpus_each_scores_one_kernel_at_a_time(
    gpus: tuple[str, ...] | None, devices: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    planned: list[RunConfig] = []
    monkeypatch.setattr(evaluate, "backend_of", lambda config: SimpleNamespace(hosts=lambda: (Host(gpus=gpus),)))
    monkeypatch.setattr(evaluate, "plan_config", lambda config, **_: planned.append(config))
    assert evaluate.check_machine(gpu=True, build=False, say=print) == devices
    (config,) = planned
    assert config.sandbox.gpus == 1 and config.eval_kwargs == {"device": "cuda"}
    assert evaluate.check_machine(gpu=False, build=False, say=print) == ["cpu"]
    assert planned[1].sandbox.gpus == 0 and not planned[1].eval_kwargs


def test_without_gpus_the_server_does_not_start_on_gpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluate, "backend_of", lambda config: SimpleNamespace(hosts=lambda: (Host(gpus=()),)))
    with pytest.raises(EnvironmentUnavailable, match=r"^--gpu: the engine's host has no GPUs"):
        evaluate.check_machine(gpu=True, build=True, say=print)


def test_two_files_of_one_problem_are_refused(tmp_path: Path) -> None:
    for name in ("1_a.py", "1_b.py"):
        path = tmp_path / "level1" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("class Model: ...\ndef get_init_inputs(): ...\n")
    with pytest.raises(ConfigError, match=r"problem 1 of level 1 is in .*; remove one"):
        Problems.below([tmp_path])
