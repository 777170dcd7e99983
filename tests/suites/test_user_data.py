"""Published data: which files are found, whose split they are, and that a task is judged on them."""

from __future__ import annotations

import io
import os
import tarfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from trace_bench.config import parse_config
from trace_bench.config.resolve import resolve
from trace_bench.errors import ConfigError
from trace_bench.suites import user_data
from trace_bench.suites.data_files import DataError, Files, Numbers
from trace_bench.suites.judge import Judge
from trace_bench.suites.registry import resolve as find_task
from trace_bench.suites.spec import Task, load_task_spec
from trace_bench.suites.task_files import content_hash, pack_task
from trace_bench.worker.folders import HELD_OUT, let_in, unpack
from trace_bench.worker.problem import CandidateError, Problem, ProblemError

COLOURING = "llm4ad:optimization/co_bench/graph_colouring_co_bench"
FOLDER = find_task(COLOURING).folder
SPEC = load_task_spec(FOLDER)
assert SPEC.data is not None
BuildTask = Callable[..., Problem]


def graph(nodes: int) -> str:
    """A path, which has as many edges as there are nodes, less one."""
    return f"p edge {nodes} {nodes - 1}\n" + "".join(f"e {i} {i + 1}\n" for i in range(1, nodes))


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "co-bench" / "graph-Colouring"
    folder.mkdir(parents=True)
    for number in range(1, 8):
        (folder / f"gcol{number}.txt").write_text(graph(10 + number))
    (folder / "README.md").write_text("no data")
    return tmp_path / "co-bench"


def unpacked(root: Path, to: Path) -> Path:
    """The task as a sandbox has it."""
    assert SPEC.data is not None
    unpack(pack_task(FOLDER, user_data.find(SPEC.data, root)), to)
    return to


def config(root: Path, *tasks: str) -> Any:
    return parse_config({"tasks": list(tasks), "data_root": str(root)})


def test_files_are_found_in_the_tasks_folder_or_by_themselves_and_dealt_by_name(root: Path) -> None:
    assert SPEC.data is not None
    found = user_data.find(SPEC.data, root)
    assert user_data.find(SPEC.data, root / "graph-Colouring") == found and len(found) == 7
    of = {name.split("/")[2]: name.split("/")[1] for name, _ in found}
    assert sorted(of.values()) == ["test", "test", "train", "train", "train", "validate", "validate"]


def test_the_data_are_part_of_the_tasks_identity_and_their_place_is_not(root: Path, tmp_path: Path) -> None:
    task = resolve(config(root, COLOURING)).tasks[COLOURING]
    before = task.content_hash
    moved = tmp_path / "elsewhere"
    root.rename(moved)
    again = resolve(config(moved, COLOURING)).tasks[COLOURING]
    assert again.content_hash == before != content_hash(FOLDER)
    (moved / "graph-Colouring" / "gcol3.txt").write_text(graph(4))
    assert resolve(config(moved, COLOURING)).tasks[COLOURING].content_hash != before
    assert Task(COLOURING, task.suite, FOLDER, task.spec).content_hash == content_hash(FOLDER)


def test_a_problem_is_built_of_the_files_and_the_score_is_that_of_the_file(
    root: Path, tmp_path: Path, build_at: BuildTask
) -> None:
    folder = unpacked(root, tmp_path / "task")
    problem = build_at(folder, test_seed=1)
    assert [len(problem.train), len(problem.validate), len(problem.test)] == [3, 2, 2]
    sizes = [e.reference["n"] for e in (*problem.train, *problem.validate, *problem.test)]
    assert sorted(sizes) == [11, 12, 13, 14, 15, 16, 17]
    two = "def solve(n, edges):\n    return [i % 2 for i in range(n)]\n"
    score, feedback, metrics = problem.guide(None, two, problem.train[0].reference)  # type: ignore[misc]
    assert (score, metrics["normalised"]) == (2.0, 1.0) and "No answer can score below 2" in feedback
    assert problem.failure_score == max(e.reference["n"] for e in (*problem.train, *problem.validate)) + 1


def test_how_many_are_used_can_be_said_and_more_than_there_are_is_an_error(
    root: Path, tmp_path: Path, build_at: BuildTask
) -> None:
    folder = unpacked(root, tmp_path / "task")
    problem = build_at(folder, test_seed=1, n_instance=1)
    assert [len(problem.train), len(problem.validate), len(problem.test)] == [1, 1, 1]
    with pytest.raises(ProblemError, match="num_train is 4, and the data hold 3 instances for train"):
        build_at(folder, num_train=4)


def test_a_broken_file_is_the_tasks_fault_with_file_and_line(root: Path, tmp_path: Path, build_at: BuildTask) -> None:
    for path in (root / "graph-Colouring").glob("*.txt"):
        path.write_text("p edge 3 1\ne 1 four\n")
    with pytest.raises(ProblemError, match=r"data file gcol\d.txt: line 2: a node must be a number, not 'four'"):
        build_at(unpacked(root, tmp_path / "task"))


@pytest.mark.skipif(os.getuid() != 0, reason="needs another user's rights to be refused")
def test_test_files_are_closed_to_phases_until_scoring(root: Path, tmp_path: Path, build_at: BuildTask) -> None:
    folder = unpacked(root, tmp_path / "task")
    for place in (tmp_path, *tmp_path.parents):
        if place.stat().st_uid == 0 and len(place.parts) > 2:
            place.chmod(0o755)
    let_in(folder / HELD_OUT, False)
    assert read_as_another(folder / HELD_OUT) == "PermissionError" and read_as_another(folder / "data/train") == ""
    let_in(folder / HELD_OUT, True)
    assert oct((folder / HELD_OUT).stat().st_mode & 0o777) == "0o750"


def read_as_another(folder: Path) -> str:
    """What listing `folder` raises for a user who is not root."""
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setgid(65534)
        os.setuid(65534)
        try:
            list(folder.iterdir())
            os.write(write, b"-")
        except OSError as error:
            os.write(write, type(error).__name__.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    with os.fdopen(read) as pipe:
        return pipe.read().strip("-")


def test_what_is_missing_or_read_by_nobody_is_an_error(root: Path, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="data_root: no task of this config reads published data; delete it"):
        resolve(config(root, "internal:code_param"))
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match=r"no file gcol\*.txt, neither in a folder 'Graph colouring' nor by itself"):
        resolve(config(tmp_path / "empty", COLOURING))
    with pytest.raises(ConfigError, match="cannot be listed: No such file"):
        resolve(config(tmp_path / "nowhere", COLOURING))


def test_two_folders_that_could_be_meant_are_an_error(root: Path) -> None:
    (root / "Graph Colouring").mkdir()
    with pytest.raises(
        ConfigError, match="two folders for 'Graph colouring', Graph Colouring and graph-Colouring; keep"
    ):
        resolve(config(root, COLOURING))


def test_what_was_hashed_is_what_is_sent(root: Path) -> None:
    task = resolve(config(root, COLOURING)).tasks[COLOURING]
    before = task.content_hash
    for path in (root / "graph-Colouring").iterdir():
        path.unlink()
    with tarfile.open(fileobj=io.BytesIO(pack_task(task.folder, task.data))) as tar:
        assert sum(name.startswith("data/") and name.endswith(".txt") for name in tar.getnames()) == 7
    assert content_hash(task.folder, task.data) == before


def test_what_a_reader_chokes_on_is_the_files_fault_and_it_reads_each_file_once(tmp_path: Path) -> None:
    asked: list[str] = []

    def read(text: str, name: str) -> list[Any]:
        asked.append(name)
        return [{"n": int(text)}]

    module: Any = SimpleNamespace(instance=print, answer=print, score=print, worst=print, read=read)
    for split, name, text in (("train", "a.txt", "3"), ("validate", "b.txt", "x"), ("test", "c.txt", "4")):
        (tmp_path / "data" / split).mkdir(parents=True)
        (tmp_path / "data" / split / name).write_text(text)
    judge = Judge(module, {}, Files.of(tmp_path))
    assert judge.instances("train", 1, 1) == judge.instances("train", 2, 1) == [{"n": 3}] and asked == ["a.txt"]
    with pytest.raises(ProblemError, match=r"data file b.txt is not of the format that this task reads \(ValueError: "):
        judge.split_sizes()


def test_numbers_are_those_of_the_format_not_of_python() -> None:
    with pytest.raises(DataError, match="line 1: a node must be a number, not '1_000'"):
        Numbers("1_000").integer("a node")
    with pytest.raises(DataError, match=r"jobs must be within 1 \.\. 9, not 0"):
        Numbers("0").count("jobs", least=1, most=9)


def test_the_archive_has_the_files_of_each_split(root: Path) -> None:
    assert SPEC.data is not None
    with tarfile.open(fileobj=io.BytesIO(pack_task(FOLDER, user_data.find(SPEC.data, root)))) as tar:
        names = tar.getnames()
    assert {"data", "data/test", "data/train", "data/validate", "evaluator.py"} <= set(names)


def test_a_failure_costs_what_is_worst_on_that_very_instance(root: Path, tmp_path: Path, build_at: BuildTask) -> None:
    problem = build_at(unpacked(root, tmp_path / "task"))
    for example in problem.train:
        with pytest.raises(CandidateError) as caught:
            problem.guide(None, "def solve(n, edges):\n    return [0] * n\n", example.reference)
        assert caught.value.score == example.reference["n"] + 1
