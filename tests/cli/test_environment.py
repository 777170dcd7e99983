"""doctor, clean and images on machines that lack something."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import NO_ENGINE, refused
from tests.cli.test_runs_look import on_a_terminal
from tests.engine_proxy import engine_proxy, without_apparmor_parser
from tests.integration.cli import cli


@pytest.mark.docker
def test_doctor_is_content_with_an_engine() -> None:
    done = cli("doctor")
    assert done.returncode == 0, done.stdout
    first = [line.split()[:2] for line in done.stdout.splitlines()][:3]
    assert first == [["ok", "python"], ["ok", "engine"], ["ok", "sandbox"]]


@pytest.mark.docker
def test_doctor_finds_an_engine_that_can_start_no_sandbox(tmp_path: Path) -> None:
    """It answers all that it is asked, and fails at the first start."""
    with engine_proxy(tmp_path) as proxy:
        without_apparmor_parser(proxy)
        done = cli("doctor", "--json", DOCKER_HOST=proxy.url)
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 3 and rows["engine"]["ok"]
    assert (rows["sandbox"]["ok"], rows["sandbox"]["needed"]) == (False, True)
    assert 'exec: "apparmor_parser": executable file not found in $PATH' in rows["sandbox"]["detail"]


@pytest.mark.docker
def test_doctor_is_short_on_a_terminal_and_complete_as_json() -> None:
    (line,) = [line for line in on_a_terminal("doctor", columns=100).splitlines() if " engine " in line]
    (row,) = [row for row in json.loads(cli("doctor", "--json").stdout) if row["name"] == "engine"]
    assert set(row) == {"name", "ok", "needed", "detail"}
    assert len(line) <= 100 and " cpus" in line and "storage_driver" not in line and "storage_driver" in row["detail"]
    assert ", runtimes " in row["detail"] and "runc" in row["detail"].partition(", runtimes ")[2]


def test_doctor_says_that_the_engine_is_missing(home: Path) -> None:
    done = cli("doctor", home=home, DOCKER_HOST=NO_ENGINE)
    assert done.returncode == 3 and done.stderr == ""
    (line,) = [line for line in done.stdout.splitlines() if line.split()[1] == "engine"]
    assert line.startswith("MISSING") and "nonexistent" in line and "--backend local" in line
    assert not home.exists()


def test_doctor_as_json_names_what_is_needed() -> None:
    done = cli("doctor", "--json", DOCKER_HOST=NO_ENGINE)
    rows = {row["name"]: row for row in json.loads(done.stdout)}
    assert done.returncode == 3
    assert (rows["engine"]["ok"], rows["engine"]["needed"], rows["images"]["needed"]) == (False, True, False)


@pytest.mark.parametrize(
    "command", [["clean"], ["images", "build", "core"], ["images", "pull", "x/y@sha256:" + "0" * 64]]
)
def test_what_needs_an_engine_says_so(command: list[str], home: Path) -> None:
    said = refused(*command, code=3, home=home, DOCKER_HOST=NO_ENGINE)
    assert "nonexistent" in said and "local" in said


def test_clean_knows_its_backends() -> None:
    assert "no backend is called 'nope'; known are auto, docker, local" in refused("clean", "--backend", "nope")


def test_clean_knows_no_run_that_never_was(tmp_path: Path) -> None:
    clean = ("clean", "--backend", "local", "--runs-dir", str(tmp_path))
    for more in ((), ("--json",)):
        assert "no sandbox belongs to a run '20000101'" in refused(*clean, "--run", "20000101", *more)
    state = str(tmp_path / "state")
    done = cli(*clean, TRACE_BENCH_STATE_DIR=state)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "nothing to clean\n")
    done = cli(*clean, "--json", TRACE_BENCH_STATE_DIR=state)
    assert (done.returncode, json.loads(done.stdout)) == (0, [])


def test_images_are_listed_without_an_engine(home: Path) -> None:
    done = cli("images", "list", home=home, DOCKER_HOST=NO_ENGINE)
    assert done.returncode == 0
    assert [line.split("\t")[:3] for line in done.stdout.splitlines()] == [
        [family, "-", "not built"]
        for family in ("base", "core", "kernelbench-cpu", "kernelbench-cuda", "lean", "llm4ad")
    ]
    assert {row["family"] for row in json.loads(cli("images", "list", "--json", home=home).stdout)} >= {"core"}


def test_lock_of_nothing_is_an_empty_object(home: Path) -> None:
    done = cli("images", "lock", home=home)
    assert (done.returncode, done.stdout) == (0, "{}\n")


@pytest.mark.parametrize("command", ["build", "verify"])
def test_an_unknown_family_lists_the_known_ones(command: str, home: Path) -> None:
    assert (
        "unknown image family 'nope'; choose one of base, core, kernelbench-cpu, kernelbench-cuda, lean, llm4ad"
        in refused("images", command, "nope", home=home)
    )


@pytest.mark.docker
def test_an_unknown_family_is_not_pushed(home: Path) -> None:
    said = refused("images", "push", "nope", "--registry", "127.0.0.1:1", home=home)
    assert "unknown image family 'nope'" in said


def test_nothing_locked_is_not_verified(home: Path) -> None:
    assert "images build" in refused("images", "verify", code=3, home=home)
    assert "images build" in refused("images", "verify", "core", code=3, home=home)


@pytest.mark.parametrize("name", ["http://x", "x y", ""])
def test_what_is_no_registry_is_refused(name: str, home: Path) -> None:
    assert "is not a registry" in refused("images", "push", "core", "--registry", name, home=home)


@pytest.mark.parametrize("reference", ["x", "x:latest", "x@sha256:12"])
def test_only_digests_are_pulled(reference: str, home: Path) -> None:
    assert "names no digest" in refused("images", "pull", reference, home=home)


def test_a_damaged_lock_is_named(home: Path) -> None:
    home.mkdir()
    (home / "images.lock.json").write_text('{"version": 1, "images": 3}')
    said = refused("images", "list", code=3, home=home, DOCKER_HOST=NO_ENGINE)
    assert "images.lock.json: images:" in said and "build the images again" in said


def test_a_home_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    said = refused("images", "list", code=3, home=tmp_path / "file", DOCKER_HOST=NO_ENGINE)
    assert str(tmp_path / "file") in said


def test_doctor_names_the_keys_that_it_finds_and_never_shows_one(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("GROQ_API_KEY=planted-key-of-a-file\n")
    env = {"MISTRAL_API_KEY": "planted-key-of-the-environment", "DOCKER_HOST": NO_ENGINE}
    done = cli("doctor", "--json", cwd=tmp_path, **env)
    (row,) = [row for row in json.loads(done.stdout) if row["name"] == "models"]
    assert "GROQ_API_KEY in .env" in row["detail"] and "MISTRAL_API_KEY" in row["detail"], row
    assert "planted" not in done.stdout + done.stderr and not row["needed"]
