"""Whatever is done to a valid config, it becomes jobs, or sentences that each begin with its place.

Trees are mutated (values deleted, renamed, retyped, doubled, moved, put in) and texts (lines dropped, doubled,
indented, signs of YAML strewn in). The examples are the same in every run.
"""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trace_bench.config import load_config
from trace_bench.config.models import Section
from trace_bench.config.names import keys_of
from trace_bench.config.resolve import resolve
from trace_bench.errors import ConfigError
from trace_bench.matrix import expand

LARGE = """\
name: all keys   # a comment
runs-dir: out
seeds: [1, 2]
max_workers: 2
fail_fast: false
resume: auto
job_timeout: 30
tags: [a, "1"]
eval_kwargs: {num_train: 2}
splits: {validate: 2}
ps_steps: 2
verbose: true
optimizer_kwargs: {memory_size: 1}
backend: docker
sandbox: &small {cpus: 1, memory: 512m, pids: 64, gpus: 0, require_controls: [seccomp], allow_weaker: [ipc]}
llm: {provider: openai, api_base: "http://localhost:1/v1", model: m, api_key_env: OPENAI_API_KEY}
budget: {calls: 10, usd: 0.5}
tasks:
  - circle_packing
  - id: internal:numeric_param
    eval_kwargs: {start: 1e-3}
    sandbox: {<<: *small, memory: 1g}
  - {key: "example:greeting_stub"}
trainers:
  - NoOp
  - name: PrioritySearch
    threads: 2
    logger: none
    optimizer: OptoPrime
    optimizer_kwargs: {max_tokens: 100}
    params_variants:
      - {}
      - {num_steps: 3, score_function: ucb, optimizer_kwargs: {memory_size: 2}}
"""
SMALL = "tasks: [internal:numeric_param]\ntrainers:\n  - id: PrioritySearch\n    params: {num_candidates: 3}\nseed: 4\n"
BASES = (LARGE, SMALL)
KEYS = sorted({key for section in Section.__subclasses__() for key in keys_of(section)})
# No dots and slashes: a task root must not be some folder of this machine.
WORDS = st.text(st.characters(exclude_characters="./~"), max_size=6)
KNOWN = st.sampled_from(
    ["2g", "none", "stub", "auto", "internal:numeric_param", "circle_packing", "NoOp", "PrioritySearch", "OptoPrime",
     "seccomp", "default", "1e3", "<<", "mean", "-1", "null"]
)  # fmt: skip
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | WORDS | KNOWN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORDS | st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=5,
)
SIGNS = ("\t", "\n", ": ", "- ", "{", "}", "[", "]", '"', "'", "!!", "!x", "&a ", "*a", "*small", "<<: ", "#", "|\n",
         "? ", ",", "%", "@", "---\n", "\x00", "\u2028", "é", "😀", "\ufeff", "0x", "1e999", ".nan", "~")  # fmt: skip
HERE = settings(
    derandomize=True,
    database=None,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path] if path else []
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, (*path, index))
    return found


def parent_of(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path[:-1]:
        tree = tree[key]
    return tree


def mutate(tree: dict[str, Any], data: st.DataObject) -> None:
    """One change at a random place of `tree`."""
    found = places(tree)
    if not found:
        tree["tasks"] = data.draw(VALUES)
        return
    path = data.draw(st.sampled_from(found))
    node, key = parent_of(tree, path), path[-1]
    match data.draw(st.sampled_from(["delete", "rename", "retype", "double", "insert", "move", "wrap"])):
        case "delete":
            del node[key]
        case "rename" if isinstance(node, dict):
            node[data.draw(WORDS | st.sampled_from(KEYS))] = node.pop(key)
        case "double" if isinstance(node, list):
            node.insert(key, copy.deepcopy(node[key]))
        case "insert" if isinstance(node, dict):
            node[data.draw(WORDS | st.sampled_from(KEYS))] = data.draw(VALUES)
        case "move":
            value = copy.deepcopy(node[key])
            other = data.draw(st.sampled_from(places(tree)))
            parent_of(tree, other)[other[-1]] = value
        case "wrap":
            node[key] = data.draw(st.sampled_from([[node[key]], {"id": node[key]}, [[node[key], node[key]]]]))
        case _:
            node[key] = data.draw(VALUES)


def becomes_jobs_or_sentences(path: Path) -> bool:
    """True for jobs."""
    try:
        config = load_config(path)
        found = resolve(config)
        jobs = expand(config, found.tasks, found.trainers)
    except ConfigError as error:
        lines = str(error).splitlines()
        assert lines
        for line in lines:
            assert re.match(rf"{re.escape(str(path))}(, line \d+)?: \S", line), line
            assert line.isprintable() and "Traceback" not in line and "pydantic" not in line, line
        return False
    assert jobs and len({job.job_id for job in jobs}) == len(jobs)
    return True


@pytest.mark.parametrize("text", BASES)
def test_what_is_mutated_is_valid(text: str, tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    assert becomes_jobs_or_sentences(path)


@HERE
@given(data=st.data())
def test_a_mutated_tree_becomes_jobs_or_sentences(data: st.DataObject, tmp_path: Path) -> None:
    tree = yaml.safe_load(data.draw(st.sampled_from(BASES)))
    for _ in range(data.draw(st.sampled_from([1, 1, 2, 3]))):
        mutate(tree, data)
    if data.draw(st.booleans()):
        path = tmp_path / "c.yaml"
        path.write_text(yaml.safe_dump(tree, allow_unicode=data.draw(st.booleans())), encoding="utf-8")
    else:
        path = tmp_path / "c.json"
        path.write_text(json.dumps(tree, indent=data.draw(st.sampled_from([None, 1]))), encoding="utf-8")
    becomes_jobs_or_sentences(path)


@HERE
@given(data=st.data())
def test_a_mutated_text_becomes_jobs_or_sentences(data: st.DataObject, tmp_path: Path) -> None:
    lines = data.draw(st.sampled_from(BASES)).splitlines(keepends=True)
    for _ in range(data.draw(st.sampled_from([1, 1, 2, 4]))):
        at = data.draw(st.integers(0, len(lines) - 1))
        match data.draw(st.sampled_from(["drop", "double", "indent", "swap", "sign", "cut"])):
            case "drop" if len(lines) > 1:
                del lines[at]
            case "double":
                lines.insert(data.draw(st.integers(0, len(lines))), lines[at])
            case "indent":
                lines[at] = data.draw(st.sampled_from(["", " ", "    ", "\t"])) + lines[at].lstrip()
            case "swap":
                other = data.draw(st.integers(0, len(lines) - 1))
                lines[at], lines[other] = lines[other], lines[at]
            case "sign":
                column = data.draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:column] + data.draw(st.sampled_from(SIGNS)) + lines[at][column:]
            case _:
                start = data.draw(st.integers(0, len(lines[at])))
                lines[at] = lines[at][:start] + lines[at][start + data.draw(st.integers(1, 8)) :]
    path = tmp_path / "c.yaml"
    path.write_text("".join(lines), encoding="utf-8")
    becomes_jobs_or_sentences(path)
