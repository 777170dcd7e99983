"""Collections that are fetched, from a server that answers as the hub and as a web server do, or from a copy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.cli import cli
from tests.suites.publisher import REVISION, Publisher
from trace_bench.errors import ConfigError
from trace_bench.suites.data_sources import SOURCES, located

ASSIGN = "2\n1 9\n9 1\n"


@pytest.fixture
def publisher() -> Iterator[Publisher]:
    one = Publisher()
    one.files = {"assign100.txt": ASSIGN.encode(), "assign200.txt": b"2\n3 4\n5 6\n"}
    repository = one.publish(
        str(SOURCES["co-bench"].repository), {f"Assignment problem/{name}": text for name, text in one.files.items()}
    )
    repository.names["v1"] = REVISION
    yield one
    one.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRACE_BENCH_HOME", str(tmp_path))
    for variable in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(variable, raising=False)
    return tmp_path


def folder(home: Path, name: str) -> Path:
    return home / "data" / name


def test_files_of_a_web_server_are_fetched_once_and_recorded(publisher: Publisher, home: Path) -> None:
    done = cli("data", "fetch", "or-library", "--mirror", publisher.url)
    assert done.returncode == 0, done.stderr
    at = folder(home, "or-library")
    assert f"or-library: 2 files, 0.0 MiB, in {at}" in done.stdout
    assert "\ncite: J. E. Beasley" in done.stderr and "\\n" not in done.stderr
    assert "does not have" in done.stderr and "airland1.txt" in done.stderr
    assert (at / "Assignment problem" / "assign100.txt").read_text() == ASSIGN
    digest = hashlib.sha256(ASSIGN.encode()).hexdigest()
    assert f"{digest}  Assignment problem/assign100.txt\n" in (at / "SHA256SUMS").read_text()
    publisher.asked.clear()
    assert cli("data", "fetch", "or-library", "--mirror", publisher.url).returncode == 0
    assert "/assign100.txt" not in publisher.asked, "what is there with its sum stays"


def test_a_file_that_has_changed_is_refused(publisher: Publisher, home: Path) -> None:
    assert cli("data", "fetch", "or-library", "--mirror", publisher.url).returncode == 0
    (folder(home, "or-library") / "Assignment problem" / "assign100.txt").unlink()
    publisher.files["assign100.txt"] = b"1\n1\n"
    done = cli("data", "fetch", "or-library", "--mirror", publisher.url)
    assert done.returncode == 2 and "Assignment problem/assign100.txt: its SHA-256 is" in done.stderr


def test_a_repository_is_fetched_at_a_revision(publisher: Publisher, home: Path) -> None:
    pytest.importorskip("huggingface_hub")
    done = cli("data", "fetch", "co-bench", "--mirror", publisher.url, "--revision", "v1")
    assert done.returncode == 0, done.stderr
    assert f"co-bench: 2 files, 0.0 MiB, revision {REVISION}" in done.stdout
    at = folder(home, "co-bench")
    assert (at / "Assignment problem" / "assign200.txt").is_file() and not (at / ".cache").exists()
    assert json.loads((at / "SOURCE.json").read_text())["revision"] == REVISION
    lost = cli("data", "fetch", "co-bench", "--mirror", publisher.url, "--revision", "nowhere")
    assert lost.returncode == 2 and "has no revision 'nowhere'" in lost.stderr


def test_an_unreachable_server_is_one_sentence(home: Path) -> None:
    for name in ("or-library", "co-bench"):
        done = cli("data", "fetch", name, "--mirror", "http://127.0.0.1:9", HF_HUB_DISABLE_TELEMETRY="1")
        assert done.returncode == 3 and f"{name} cannot be fetched" in done.stderr and "--from" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_place_that_takes_no_files_is_one_sentence(publisher: Publisher, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    home = str(tmp_path / "file" / "home")
    for more in (("--mirror", publisher.url), ("--from", str(tmp_path))):
        done = cli("data", "fetch", "or-library", *more, TRACE_BENCH_HOME=home)
        assert done.returncode == 3 and "files cannot be kept there" in done.stderr and "Traceback" not in done.stderr


def test_a_copy_on_disk_is_taken_and_can_be_named(home: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy" / "Assignment problem"
    copy.mkdir(parents=True)
    (copy / "assign100.txt").write_text(ASSIGN)
    sums = tmp_path / "sums"
    sums.write_text(f"{hashlib.sha256(ASSIGN.encode()).hexdigest()}  Assignment problem/assign100.txt\n")
    done = cli("data", "fetch", "or-library", "--from", str(copy.parent), "--checksums", str(sums))
    assert done.returncode == 0, done.stderr
    config = tmp_path / "config.yaml"
    config.write_text(
        "tasks: ['llm4ad:optimization/co_bench/assignment_problem_co_bench']\ntrainers: [NoOp]\nseeds: [1]\n"
    )
    assert cli("validate", str(config), "--data", "or-library").returncode == 0
    sums.write_text(f"{'0' * 64}  Assignment problem/assign100.txt\n")
    assert cli("data", "fetch", "or-library", "--from", str(copy.parent), "--checksums", str(sums)).returncode == 2
    assert cli("data", "fetch", "or-library", "--from", str(tmp_path / "nowhere")).returncode == 2


def test_the_list_says_what_is_here_and_what_is_damaged(publisher: Publisher, home: Path) -> None:
    rows = {row["name"]: row for row in json.loads(cli("data", "list", "--json").stdout)}
    assert rows["or-library"]["state"] == "not fetched" and rows["co-bench"]["files"] == 0
    assert cli("data", "fetch", "or-library", "--mirror", publisher.url).returncode == 0
    assert cli("data", "list").returncode == 0
    (folder(home, "or-library") / "Assignment problem" / "assign100.txt").write_text("other")
    done = cli("data", "list", "--json")
    (row,) = (row for row in json.loads(done.stdout) if row["name"] == "or-library")
    assert done.returncode == 3 and row["damaged"] == ["Assignment problem/assign100.txt"]


def test_a_collection_that_was_not_fetched_says_how_to_get_it(home: Path) -> None:
    with pytest.raises(ConfigError, match="trace-bench data fetch co-bench"):
        located("co-bench")
    assert located("./co-bench") == Path("co-bench")
    done = cli("data", "fetch", "co-bnech")
    assert done.returncode == 2 and "did you mean 'co-bench'" in done.stderr


def test_names_of_files_fit_the_patterns_of_the_tasks_that_read_them() -> None:
    from fnmatch import fnmatchcase

    from trace_bench.suites.registry import discover
    from trace_bench.suites.spec import load_task_spec

    patterns: dict[str, tuple[str, ...]] = {}
    for entry in discover(["llm4ad"]):
        spec = load_task_spec(entry.folder)
        if spec.data is not None:
            patterns[spec.data.folder] = spec.data.files
    for task, name in SOURCES["or-library"].wanted():
        assert any(fnmatchcase(name, pattern) for pattern in patterns[task]), (task, name)
