"""Task entries that stand for many tasks, and short names."""

from __future__ import annotations

from pathlib import Path

import pytest

from trace_bench.config import load_config
from trace_bench.config.models import RunConfig
from trace_bench.config.resolve import resolve
from trace_bench.config.selectors import catalog_of, select
from trace_bench.errors import ConfigError
from trace_bench.suites.registry import discover, short_names

SPEC = """title = "x"
statement = "y"
interaction = "value"
tags = ["{tag}"]
{suite}
[score]
direction = "maximize"
failure = 0.0
{kwargs}
"""
KWARGS = '[eval_kwargs.size]\ntype = "int"\ndefault = 1\n'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name, tag, kwargs in (("a/one", "red", KWARGS), ("a/two", "blue", ""), ("b/one_b", "red", KWARGS)):
        folder = tmp_path / "root" / name
        folder.mkdir(parents=True)
        (folder / "problem.py").write_text("")
        (folder / "task.toml").write_text(SPEC.format(tag=tag, suite='suite = "trace_examples"', kwargs=kwargs))
    return tmp_path / "root"


def selected(root: Path, tasks: str) -> RunConfig:
    path = root.parent / "c.yaml"
    path.write_text(f"tasks:\n{tasks}")
    loaded = load_config(path)
    return select(loaded, catalog_of(loaded, [root]))


def ids(config: RunConfig) -> list[str]:
    return [task.id.removeprefix("trace_examples:") for task in config.tasks]


def refusal(root: Path, tasks: str) -> str:
    with pytest.raises(ConfigError) as caught:
        chosen = selected(root, tasks)
        resolve(chosen, catalog_of(chosen, [root]))
    return str(caught.value).replace(str(root.parent / "c.yaml"), "c.yaml")


def test_a_pattern_a_tag_and_all_select(root: Path) -> None:
    assert ids(selected(root, "- trace_examples:a/*\n")) == ["a/one", "a/two"]
    assert ids(selected(root, "- trace_examples:*one*\n")) == ["a/one", "b/one_b"]
    assert ids(selected(root, "- trace_examples:tag=red\n")) == ["a/one", "b/one_b"]
    everything = [e.id for e in discover(["trace_examples"], [root])]
    assert [t.id for t in selected(root, "- trace_examples:all\n").tasks] == everything and len(everything) == 7


def test_a_folder_of_tasks_is_all_tasks_below_it(root: Path) -> None:
    assert ids(selected(root, "- trace_examples:a\n")) == ["a/one", "a/two"]
    config = selected(root, "- {id: trace_examples:a, eval_kwargs: {size: 3}}\n- trace_examples:a/two\n")
    assert [(t.id, dict(t.eval_kwargs)) for t in config.tasks] == [
        ("trace_examples:a/one", {"size": 3}), ("trace_examples:a/two", {})
    ]  # fmt: skip
    assert "there is no task 'trace_examples:c'" in refusal(root, "- trace_examples:c\n")
    for group, count in (("hf:bbeh", 23), ("hf:bbeh_eight", 8), ("optimization/co_bench", 36)):
        found = selected(root, f"- {group}\n").tasks
        assert len(found) == count and all(f"{group}/" in task.id for task in found)


def test_a_task_with_an_entry_of_its_own_is_left_out_of_selectors_and_none_is_selected_twice(root: Path) -> None:
    config = selected(root, "- example:tag=red\n- example:a/*\n- {id: trace_examples:a/one, eval_kwargs: {size: 5}}\n")
    assert ids(config) == ["b/one_b", "a/two", "a/one"]
    assert config.tasks[2].eval_kwargs == {"size": 5}


def test_arguments_of_a_selector_are_for_the_tasks_that_take_them(root: Path) -> None:
    config = selected(root, "- {id: 'trace_examples:a/*', eval_kwargs: {size: 3}}\n")
    assert [dict(task.eval_kwargs) for task in config.tasks] == [{"size": 3}, {}]
    said = refusal(root, "- id: trace_examples:a/*\n  eval_kwargs:\n    siez: 3\n")
    assert said == (
        "c.yaml, line 4: tasks[0].eval_kwargs.siez: no task that 'trace_examples:a/*' fits takes 'siez'; "
        "did you mean 'size'?"
    )


def test_what_fits_nothing_is_an_error_with_its_line(root: Path) -> None:
    assert refusal(root, "- trace_examples:c/*\n").startswith(
        "c.yaml, line 2: tasks[0].id: 'trace_examples:c/*' fits no"
    )
    assert "did you mean 'blue'?" in refusal(root, "- trace_examples:tag=bleu\n")


def test_what_is_wrong_with_a_selected_task_is_told_at_the_selectors_line(root: Path) -> None:
    config = selected(root, "- internal:code_param\n- trace_examples:a/*\n")
    assert config.source.where(("tasks", 2, "id")).endswith("c.yaml, line 3: tasks[2].id")
    said = refusal(root, "- {id: 'trace_examples:a/*', eval_kwargs: {size: many}}\n")
    assert said.startswith("c.yaml, line 2: tasks[0]") and "size" in said


def test_a_config_without_selectors_stays_as_it_is(root: Path) -> None:
    path = root.parent / "c.yaml"
    path.write_text("tasks: [internal:code_param, trace_examples:a/one]\n")
    config = load_config(path)
    assert select(config, catalog_of(config, [root])) is config


def test_short_names_resolve_where_only_one_task_is_meant(root: Path) -> None:
    assert ids(selected(root, "- trace_examples:two\n")) == ["a/two"]
    with pytest.raises(ConfigError, match="there is no task 'trace_examples:one'"):
        chosen = selected(root, "- trace_examples:one\n")
        resolve(chosen, catalog_of(chosen, [root]))
    (tasks,) = selected(root, "- graph_colouring\n").tasks
    assert tasks.id == "llm4ad:optimization/co_bench/graph_colouring_co_bench"
    short = short_names(["s:x/y/z_y", "s:x/w"])
    assert short == {f"s:{n}": "s:x/y/z_y" for n in ("z_y", "x/z_y", "z", "x/z", "x/y/z")} | {"s:w": "s:x/w"}
