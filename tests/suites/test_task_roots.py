"""Task roots with an ``index.json``, and roots that hold no task."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from trace_bench.config import parse_config
from trace_bench.config.selectors import catalog_of, select
from trace_bench.errors import ConfigError
from trace_bench.suites.registry import discover, resolve

BUILDER = "def build_trace_problem(**kwargs):\n    return {}\n"


def indexed(root: Path, *entries: dict[str, Any], folders: tuple[str, ...] = ()) -> Path:
    """A root with these entries in its index, and folders with a builder."""
    root.mkdir()
    (root / "index.json").write_text(json.dumps(list(entries)))
    for name in folders:
        (root / name).mkdir(parents=True)
        (root / name / "__init__.py").write_text(BUILDER)
    return root


def test_an_index_names_tasks_and_the_paths_of_their_folders_still_do(tmp_path: Path) -> None:
    root = indexed(
        tmp_path / "tasks",
        {"key": "optimization/tsp_construct", "module": "optimization_tsp_construct", "entry": "select_next_node"},
        {"key": "optimization/co_bench/graph_colouring_co_bench", "module": "gone", "wrapper": "optimization_graphs"},
        folders=("optimization_tsp_construct", "optimization_graphs", "unnamed"),
    )
    assert [entry.id for entry in discover(["llm4ad"], [root])] == [
        "llm4ad:optimization/co_bench/graph_colouring_co_bench",
        "llm4ad:optimization/tsp_construct",
        "llm4ad:unnamed",
    ], "it takes the place of the tasks that ship"
    by_key = resolve("llm4ad:optimization/tsp_construct", [root])
    assert by_key.folder == root / "optimization_tsp_construct"
    for written in ("optimization_tsp_construct", "llm4ad:optimization_tsp_construct", "tsp_construct"):
        assert resolve(written, [root]) == by_key
    assert resolve("optimization/graph_colouring", [root]).folder == root / "optimization_graphs"
    config = parse_config({"tasks": ["llm4ad:optimization_tsp_construct", "llm4ad:*graph*"], "trainers": ["NoOp"]})
    assert [task.id for task in select(config, catalog_of(config, [root])).tasks] == [
        "llm4ad:optimization/tsp_construct",
        "llm4ad:optimization/co_bench/graph_colouring_co_bench",
    ]


def test_the_modules_of_an_index_may_be_dotted(tmp_path: Path) -> None:
    root = indexed(tmp_path / "tasks", {"key": "a/b", "module": "group.task_b"}, folders=("group/task_b",))
    assert resolve("a/b", [root]).folder == root / "group" / "task_b"


def test_a_json_file_that_names_no_tasks_is_no_index(tmp_path: Path) -> None:
    root = indexed(tmp_path / "tasks", {"key": "x"}, {"module": "unnamed"}, folders=("unnamed",))
    assert "llm4ad:circle_packing" in {entry.id for entry in discover(["llm4ad"], [root])}
    (root / "index.json").write_text('{"any": "thing"}')
    assert resolve("unnamed", [root]).folder == root / "unnamed"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"key": "a",\n "module"', r"index.json, line 2: is not JSON"),
        ('[{"key": "a", "module": "../b"}]', r"entry 1: the folder '../b' is outside of .*; move it below"),
        ('[{"key": "../a", "module": "b"}]', r"entry 1: the key '../a' is no name of a task"),
        ('[{"key": "a", "module": "t"}, {"key": "b", "module": "t"}]', r"entry 2: the folder 't' is also that of"),
        ('[{"key": "a", "module": "t"}, {"key": "a", "module": "u"}]', r"entry 2: the key 'a' is there twice"),
    ],
)
def test_a_broken_index_is_a_mistake_with_its_place(tmp_path: Path, text: str, message: str) -> None:
    root = indexed(tmp_path / "tasks", folders=("t",))
    (root / "index.json").write_text(text)
    with pytest.raises(ConfigError, match=message):
        discover(None, [root])


def test_a_root_without_tasks_says_what_was_looked_for_and_what_is_missing(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    with pytest.raises(ConfigError) as error:
        discover(None, [empty])
    assert str(error.value) == (
        f"the task root {empty} has no task: no folder in it has a task.toml, a module that defines "
        "build_trace_problem at its top level, an evaluation.py with a template.py (LLM4AD), a config.py that defines "
        "solve, load_data and eval_func (CO-Bench), an evaluator.py with an initial_program.py (OpenEvolve), or an "
        "evaluate.py with an initial.py (ShinkaEvolve); it has no Python file at all"
    )
    (empty / "code").mkdir()
    (empty / "code" / "x.py").write_text("x = 1\n")
    with pytest.raises(ConfigError, match=r"there are Python files in .*/empty/code$"):
        discover(None, [empty])
    (empty / "code" / "evaluation.py").write_text("class E(Evaluation):\n    pass\n")
    with pytest.raises(ConfigError, match=r"code/evaluation.py has no template.py beside it that assigns template_pro"):
        discover(None, [empty])
    (empty / "code" / "evaluation.py").unlink()
    (empty / "code" / "config.py").write_text("def solve(**k):\n    pass\ndef load_data(path):\n    pass\n")
    with pytest.raises(ConfigError, match=r"code/config.py defines no eval_func at its top level"):
        discover(None, [empty])


def test_an_index_whose_folders_are_gone_is_named(tmp_path: Path) -> None:
    root = indexed(tmp_path / "tasks", {"key": "a", "module": "gone"}, {"key": "b", "module": "other"})
    with pytest.raises(
        ConfigError, match=r"index.json names 2 folders, and none of them is there \(the first is gone\)"
    ):
        discover(None, [root])
    (root / "gone").mkdir()
    (root / "gone" / "__init__.py").write_text("")
    with pytest.raises(ConfigError, match=r"index.json names 2 folders, of which 1 are there, such as gone"):
        discover(None, [root])
    (root / "gone" / "__init__.py").write_text(BUILDER)
    with pytest.raises(ConfigError, match=r"'b'; .*index.json names the folder 'other' for it, which is no task"):
        resolve("b", [root])
