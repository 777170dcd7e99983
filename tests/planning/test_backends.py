"""Where commands look for sandboxes: never where a run's folder says, always where its user started it."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.analysis.folders import make_run
from trace_bench.artifacts.records import EnvInfo
from trace_bench.artifacts.writers import write_json, write_text
from trace_bench.config import parse_config
from trace_bench.config.places import DockerConfig, DockerHostConfig
from trace_bench.errors import ConfigError, EnvironmentUnavailable
from trace_bench.planning import backends
from trace_bench.planning.backends import BackendChoice
from trace_bench.sandbox.engine import Engine

FAR = DockerConfig(hosts=(DockerHostConfig(url="ssh://me@far", slots=3, gpus=("0", "1"), labels=("lab",)),))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACE_BENCH_HOME", str(tmp_path / "home"))
    monkeypatch.delenv("SANDBOX_BACKEND", raising=False)
    return tmp_path / "home"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, dict[str, Any]]]:
    """The backends that were made, and what with."""
    found: list[tuple[str, dict[str, Any]]] = []

    def get(name: str, **options: Any) -> Any:
        found.append((name, options))
        return SimpleNamespace(name=name)

    monkeypatch.setattr(backends, "get_backend", get)
    return found


def _config(**config: Any) -> Any:
    return parse_config({"tasks": ["internal:numeric_param"], **config})


def test_the_backend_is_the_config_s_then_that_of_the_variable_then_docker(
    asked: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    backends.backend_of(_config())
    monkeypatch.setenv("SANDBOX_BACKEND", "modal")
    backends.backend_of(_config())
    backends.backend_of(_config(backend="local"))
    hosts = [{"url": "ssh://me@far"}]
    backends.backend_of(_config(backend="docker", docker={"hosts": hosts}))
    assert [name for name, _ in asked] == ["docker", "modal", "local", "docker"]
    assert asked[0][1] == {} and asked[1][1]["settings"].app == "trace-bench"
    assert asked[3][1]["hosts"][0].url == "ssh://me@far"


def test_a_variable_that_names_no_backend_is_named_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_BACKEND", "modla")
    with pytest.raises(ConfigError, match=r"the variable SANDBOX_BACKEND is 'modla', .*; known are auto, docker"):
        backends.backend_of(_config())


def test_an_address_or_certificates_that_cannot_be_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvironmentUnavailable, match=rf"the folder of tls has no file {tmp_path}/ca\.pem; correct"):
        Engine("tcp://127.0.0.1:2376", tls=str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "tcp://far:99999")
    with pytest.raises(EnvironmentUnavailable, match=r"cannot be reached: Port out of range.*; set DOCKER_HOST"):
        Engine()


def test_places_of_a_run_are_remembered_by_its_user_and_forgotten_with_it(home: Path) -> None:
    mine = BackendChoice(backend="docker", docker=FAR)
    backends.remember_backend("20260102-030405-0123abcd", mine)
    assert backends.backend_choice_of_run("20260102-030405-0123abcd") == mine
    (kept,) = (home / "places").iterdir()
    assert kept.stat().st_mode & 0o077 == 0, "addresses are nobody else's business"
    assert backends.backend_choice_of_run("another") == BackendChoice()
    backends.forget_backend("20260102-030405-0123abcd")
    assert backends.backend_choice_of_run("20260102-030405-0123abcd") == BackendChoice()


def test_what_is_usual_is_not_kept_and_takes_the_place_of_what_was(home: Path) -> None:
    backends.remember_backend("mine", BackendChoice(backend="docker"))
    backends.remember_backend("local", BackendChoice(backend="local"))
    assert not (home / "places").exists()
    backends.remember_backend("mine", BackendChoice(backend="modal"))
    assert backends.backend_choice_of_run("mine").backend == "modal"
    backends.remember_backend("mine", BackendChoice(backend="docker"))
    assert backends.backend_choice_of_run("mine") == BackendChoice()


def test_only_the_newest_are_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backends, "REMEMBERED", 3)
    for number in range(5):
        backends.remember_backend(f"run{number}", BackendChoice(backend="modal"))
        os.utime(home / "places" / f"run{number}.json", (number, number))
    assert sorted(path.stem for path in (home / "places").iterdir()) == ["run2", "run3", "run4"]


@pytest.mark.parametrize("run_id", ["../../etc/passwd", "", ".", "a/b", "x" * 200, "a\0b"])
def test_no_name_of_a_run_leads_out_of_the_folder(run_id: str, home: Path) -> None:
    backends.remember_backend(run_id, BackendChoice(backend="modal"))
    assert not home.exists() and backends.backend_choice_of_run(run_id) == BackendChoice()


def test_a_home_that_cannot_be_written_fails_no_run(home: Path) -> None:
    home.write_text("a file")
    backends.remember_backend("mine", BackendChoice(backend="modal"))
    assert backends.backend_choice_of_run("mine") == BackendChoice()


def test_hosts_in_a_stranger_s_run_are_never_asked(tmp_path: Path, asked: list[tuple[str, dict[str, Any]]]) -> None:
    run = make_run(tmp_path / "runs", "theirs", ended=False)
    write_text(run.config_snapshot, "backend: docker\ndocker:\n  hosts:\n  - url: ssh://evil@elsewhere\n")
    env = {"backend": "docker", "hosts": {"elsewhere": {}}}
    write_json(
        run.env, EnvInfo(captured_at="2026-01-02T03:04:05Z", env={}, python_version="3", platform="x", backend=env)
    )
    backends.connect_backend(backends.backend_choice_of_run("theirs", run))
    assert asked == [("docker", {})]
    write_text(run.salt, "00")
    assert backends.has_unknown_hosts(run), "who wonders why nothing is found is told"
    backends.remember_backend("theirs", BackendChoice(backend="docker", docker=FAR))
    assert not backends.has_unknown_hosts(run)


def test_a_damaged_record_is_as_none(home: Path) -> None:
    backends.remember_backend("mine", BackendChoice(backend="modal"))
    (home / "places" / "mine.json").write_text('{"backend": 3')
    assert backends.backend_choice_of_run("mine") == BackendChoice()
