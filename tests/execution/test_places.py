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
from trace_bench.planning import places
from trace_bench.planning.places import Places
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

    monkeypatch.setattr(places, "get_backend", get)
    return found


def _config(**config: Any) -> Any:
    return parse_config({"tasks": ["internal:numeric_param"], **config})


def test_the_backend_is_the_config_s_then_that_of_the_variable_then_docker(
    asked: list[tuple[str, dict[str, Any]]], monkeypatch: pytest.MonkeyPatch
) -> None:
    places.backend_of(_config())
    monkeypatch.setenv("SANDBOX_BACKEND", "modal")
    places.backend_of(_config())
    places.backend_of(_config(backend="local"))
    hosts = [{"url": "ssh://me@far"}]
    places.backend_of(_config(backend="docker", docker={"hosts": hosts}))
    assert [name for name, _ in asked] == ["docker", "modal", "local", "docker"]
    assert asked[0][1] == {} and asked[1][1]["settings"].app == "trace-bench"
    assert asked[3][1]["hosts"][0].url == "ssh://me@far"


def test_a_variable_that_names_no_backend_is_named_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SANDBOX_BACKEND", "modla")
    with pytest.raises(ConfigError, match=r"the variable SANDBOX_BACKEND is 'modla', .*; known are auto, docker"):
        places.backend_of(_config())


def test_an_address_or_certificates_that_cannot_be_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(EnvironmentUnavailable, match=rf"there is no {tmp_path}/ca\.pem, which tls is to hold; mend"):
        Engine("tcp://127.0.0.1:2376", tls=str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", "tcp://far:99999")
    with pytest.raises(EnvironmentUnavailable, match=r"cannot be asked: Port out of range.*; set DOCKER_HOST"):
        Engine()


def test_places_of_a_run_are_remembered_by_its_user_and_forgotten_with_it(home: Path) -> None:
    mine = Places(backend="docker", docker=FAR)
    places.remember("20260102-030405-0123abcd", mine)
    assert places.places_of_run("20260102-030405-0123abcd") == mine
    (kept,) = (home / "places").iterdir()
    assert kept.stat().st_mode & 0o077 == 0, "addresses are nobody else's business"
    assert places.places_of_run("another") == Places()
    places.forget("20260102-030405-0123abcd")
    assert places.places_of_run("20260102-030405-0123abcd") == Places()


def test_what_is_usual_is_not_kept_and_takes_the_place_of_what_was(home: Path) -> None:
    places.remember("mine", Places(backend="docker"))
    places.remember("local", Places(backend="local"))
    assert not (home / "places").exists()
    places.remember("mine", Places(backend="modal"))
    assert places.places_of_run("mine").backend == "modal"
    places.remember("mine", Places(backend="docker"))
    assert places.places_of_run("mine") == Places()


def test_only_the_newest_are_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "REMEMBERED", 3)
    for number in range(5):
        places.remember(f"run{number}", Places(backend="modal"))
        os.utime(home / "places" / f"run{number}.json", (number, number))
    assert sorted(path.stem for path in (home / "places").iterdir()) == ["run2", "run3", "run4"]


@pytest.mark.parametrize("run_id", ["../../etc/passwd", "", ".", "a/b", "x" * 200, "a\0b"])
def test_no_name_of_a_run_leads_out_of_the_folder(run_id: str, home: Path) -> None:
    places.remember(run_id, Places(backend="modal"))
    assert not home.exists() and places.places_of_run(run_id) == Places()


def test_a_home_that_cannot_be_written_fails_no_run(home: Path) -> None:
    home.write_text("a file")
    places.remember("mine", Places(backend="modal"))
    assert places.places_of_run("mine") == Places()


def test_hosts_in_a_stranger_s_run_are_never_asked(tmp_path: Path, asked: list[tuple[str, dict[str, Any]]]) -> None:
    run = make_run(tmp_path / "runs", "theirs", ended=False)
    write_text(run.config_snapshot, "backend: docker\ndocker:\n  hosts:\n  - url: ssh://evil@elsewhere\n")
    env = {"backend": "docker", "hosts": {"elsewhere": {}}}
    write_json(
        run.env, EnvInfo(captured_at="2026-01-02T03:04:05Z", env={}, python_version="3", platform="x", backend=env)
    )
    places.backend_at(places.places_of_run("theirs", run))
    assert asked == [("docker", {})]
    write_text(run.salt, "00")
    assert places.names_others(run), "who wonders why nothing is found is told"
    places.remember("theirs", Places(backend="docker", docker=FAR))
    assert not places.names_others(run)


def test_a_damaged_record_is_as_none(home: Path) -> None:
    places.remember("mine", Places(backend="modal"))
    (home / "places" / "mine.json").write_text('{"backend": 3')
    assert places.places_of_run("mine") == Places()
