"""What a change can affect is found by imports, by names, and by the folders of tasks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests import changes
from tests.changes import affected_tests, changed_tasks

TOP = Path(__file__).resolve().parents[1]
KNAPSACK = "benchmarks/LLM4AD/optimization/knapsack_construct"


def test_a_module_affects_who_imports_it_and_nearer_ones_come_first() -> None:
    found = affected_tests(["trace_bench/worker/codec.py"])
    assert found["tests/worker/test_codec.py"] == 1
    assert found["tests/trainers/test_graph_ops.py"] > 1
    assert list(found.values()) == sorted(found.values())
    assert "tests/analysis/test_testing.py" not in found


def test_a_test_affects_itself_and_a_helper_the_tests_that_use_it() -> None:
    assert affected_tests(["tests/worker/test_codec.py"]) == {"tests/worker/test_codec.py": 0}
    found = affected_tests(["tests/trainers/scripted_search.py"])
    assert "tests/trainers/test_classic.py" in found and "tests/worker/test_codec.py" not in found


def test_a_conftest_affects_the_tests_below_it() -> None:
    found = affected_tests(["tests/suites/llm4ad/conftest.py"])
    assert "tests/suites/llm4ad/test_llm4ad_tours.py" in found and "tests/suites/test_spec.py" not in found


def test_what_makes_a_fixture_affects_the_tests_that_ask_for_it() -> None:
    found = affected_tests(["tests/recorded.py"])
    assert "tests/report/test_report.py" in found and "tests/worker/test_codec.py" not in found


def test_the_module_of_a_command_affects_tests_that_run_the_command_by_name() -> None:
    found = affected_tests(["trace_bench/cli/commands/compare.py"])
    assert found["tests/cli/test_compare.py"] == 1
    assert "tests/cli/test_attach.py" not in found


def test_the_module_of_a_trainer_affects_tests_that_name_the_trainer() -> None:
    assert "tests/integration/test_gepa.py" in affected_tests(["trace_bench/trainers/gepa_ucb.py"])


def test_a_page_affects_the_tests_that_read_pages_and_none_of_the_code() -> None:
    found = affected_tests(["docs/how-to/replay.md"])
    assert found["tests/cli/test_docs.py"] == found["tests/cli/test_replay.py"] == 1
    assert "tests/worker/test_codec.py" not in found


def test_a_task_affects_the_battery_and_the_tests_that_name_it() -> None:
    found = affected_tests([f"{KNAPSACK}/evaluator.py"])
    assert found["tests/suites/llm4ad/test_llm4ad_suite.py"] == 1
    assert found["tests/suites/llm4ad/test_llm4ad_packing_knapsack.py"] == 1


def test_a_file_that_is_gone_or_read_by_none_affects_no_test() -> None:
    assert affected_tests(["trace_bench/worker/no_such_module.py", "".join(["NOT", "HING.txt"])]) == {}


def test_a_task_has_changed_with_its_folder_or_with_the_code_that_all_share() -> None:
    tasks = [
        ("llm4ad:knapsack", TOP / KNAPSACK),
        ("llm4ad:other", TOP / "benchmarks/LLM4AD/optimization/tsp_construct"),
    ]
    assert changed_tasks(tasks, [f"{KNAPSACK}/task.toml", "README.md"]) == {"llm4ad:knapsack"}
    assert changed_tasks(tasks, ["trace_bench/suites/judge.py"]) == {"llm4ad:knapsack", "llm4ad:other"}
    assert changed_tasks(tasks, [f"{KNAPSACK}_two/task.toml"]) == set()


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one commit on `main`, in place of this one."""
    monkeypatch.setattr(changes, "TOP", tmp_path)
    changes.changed_files.cache_clear()
    for name in ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "tests@example.org")
    git(tmp_path, "init", "-q", "-b", "main")
    commit(tmp_path, "first")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, name: str) -> None:
    (folder / name).write_text(name)
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", name)


def changed(base: str = "") -> tuple[str, ...]:
    changes.changed_files.cache_clear()
    return changes.changed_files(base)


def test_a_branch_is_compared_with_where_it_left_main(repository: Path) -> None:
    git(repository, "switch", "-q", "-c", "branch")
    commit(repository, "second")
    commit(repository, "third")
    (repository / "not added").write_text("")
    assert changed() == ("not added", "second", "third")
    assert changed("HEAD~1") == ("not added", "third")


def test_main_is_compared_with_the_commit_before_the_last(repository: Path) -> None:
    commit(repository, "second")
    assert changed() == ("second",)
    (repository / "first").write_text("otherwise")
    assert changed() == ("first", "second")


def test_a_base_that_is_no_commit_is_a_mistake(repository: Path) -> None:
    with pytest.raises(ValueError, match="no commit 'nowhere'"):
        changed("nowhere")


def test_without_git_nothing_has_changed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(changes, "TOP", tmp_path)
    assert changed() == ()


def test_the_tests_stop_beginning_when_their_time_is_over() -> None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "--at-most=0",
        "tests/worker/test_codec.py",
    ]
    env = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=TOP, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and " passed" not in done.stdout
    assert "did not begin within the 0 seconds of --at-most" in done.stdout
