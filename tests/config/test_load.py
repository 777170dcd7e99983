"""Good configs: what is read, under which names, with which defaults, and that a snapshot is the same config again."""

from __future__ import annotations

import copy
import json
import pickle
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from trace_bench.config import RunConfig, load_config, parse_config
from trace_bench.config.models import BudgetConfig
from trace_bench.config.names import ALIASES, KNOBS, keys_of, sections_of
from trace_bench.config.values import Section
from trace_bench.errors import ConfigError
from trace_bench.resources import data_dir

FULL = """\
name: everything
run-id: my-run.1
runs_root: out
mode: stub
seeds: [1, 2]
n-concurrent: 4
fail_fast: true
resume: failed
job-timeout: 30
score_timeout: 1.5
retries: 0
tags: [a, "1", no, 1:30, 2024-01-01]
eval_kwargs: {num_train: 3}
trainer_kwargs: {num_batches: 2}
optimizer_kwargs: {memory_size: 1}
ps-steps: 3
threads: 1
task_roots: [extra]
backend: docker
images: {base: "debian@sha256:0", accept-drift: true}
sandbox:
  {cpus: 2, memory: 1.5g, disk: 64 MiB, tmp: 1048576, pids: 64, gpus: 2, runtime: runsc, require_controls: [seccomp]}
tasks:
  - circle_packing
  - id: internal:numeric_param
    eval_kwargs: {start: 1e-3}
    sandbox: {memory: 512m}
  - {task: "example:greeting_stub"}
trainers:
  - NoOp
  - name: PrioritySearch
    ps_candidates: 3
    optimizer: OptoPrime
    optimizer_kwargs: {memory_size: 2}
    guide: default
    logger: ConsoleLogger
    params_variants:
      - {}
      - {num_steps: 2, nested: {deep: [1, {x: null}]}}
budget: {calls: 10, tokens: 1000, usd: 0.5, seconds: 60}
splits: {validate: 2}
objective: score
"""


def write(tmp_path: Path, text: str, name: str = "c.yaml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def test_every_key_is_read(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, FULL))
    assert (config.name, config.run_id, config.runs_dir) == ("everything", "my-run.1", "out")
    assert config.seeds == (1, 2) and config.max_workers == 4 and config.fail_fast and config.resume == "failed"
    assert (config.job_timeout, config.score_timeout, config.retries) == (30.0, 1.5, 0)
    assert config.tags == ("a", "1", "no", "1:30", "2024-01-01")
    assert config.trainer_kwargs == {"num_batches": 2, "ps_steps": 3, "threads": 1}
    assert config.sandbox.memory == 3 << 29 and config.sandbox.disk == 64 << 20 and config.sandbox.tmp == 1 << 20
    assert config.images.accept_drift and config.images.base == "debian@sha256:0"
    assert [t.id for t in config.tasks] == [
        "llm4ad:circle_packing",
        "internal:numeric_param",
        "trace_examples:greeting_stub",
    ]
    assert config.tasks[1].eval_kwargs == {"start": 0.001}
    own = config.tasks[1].sandbox
    assert own is not None and own.over(config.sandbox).memory == 512 << 20 and own.over(config.sandbox).pids == 64
    assert config.trainers[1].id == "PrioritySearch" and config.trainers[1].knobs == {"ps_candidates": 3}
    assert config.trainers[1].params_variants[1] == {"num_steps": 2, "nested": {"deep": (1, {"x": None})}}
    assert config.splits.validate_ == 2 and config.budget.usd == 0.5


def test_a_bare_config_gets_the_documented_defaults(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "tasks: [circle_packing]\n"))
    assert config.seeds == (123,) and config.max_workers == 1 and config.resume == "auto" and config.mode == "stub"
    assert [t.id for t in config.trainers] == ["PrioritySearch"] and config.trainers[0].params_variants == ({},)
    assert config.warnings == () and config.backend == "auto"
    assert (config.job_timeout, config.score_timeout, config.retries) == (None, 600.0, 2)
    assert config.sandbox.gpus == 0


@pytest.mark.parametrize("text", [FULL, "tasks: [circle_packing]\n", "tasks: [a]\nseeds: []\njob_timeout: 0\n"])
def test_a_snapshot_loads_again_to_an_equal_config(text: str, tmp_path: Path) -> None:
    config = load_config(write(tmp_path, text))
    snapshot = config.to_snapshot()
    again = load_config(write(tmp_path, yaml.safe_dump(snapshot), "snapshot.yaml"))
    assert again == config and again.to_snapshot() == snapshot and again.warnings == ()
    assert parse_config(json.loads(json.dumps(snapshot))) == config


def test_every_shipped_config_loads_and_survives_its_snapshot() -> None:
    paths = sorted(data_dir("configs").glob("*.yaml"))
    assert {p.stem for p in paths} >= {"smoke", "m1_matrix_smoke", "m1_validation"}
    for path in paths:
        config = load_config(path)
        assert config.warnings == () and parse_config(config.to_snapshot()) == config
        head = path.read_text().splitlines()
        assert head[0].startswith("# ") and any(f"trace-bench run configs/{path.name}" in line for line in head[:6])


def test_configs_differ_where_any_value_differs(tmp_path: Path) -> None:
    one = load_config(write(tmp_path, "tasks: [a]\n"))
    assert one != load_config(write(tmp_path, "tasks: [a]\nseeds: [1]\n"))
    assert one == load_config(write(tmp_path, "\n\ntasks:\n - llm4ad:a\n", "elsewhere.yaml"))


def test_values_are_frozen(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, FULL))
    with pytest.raises(ValueError, match="frozen"):
        config.max_workers = 3  # type: ignore[misc]
    for mapping in (config.trainer_kwargs, config.trainers[1].params_variants[1]["nested"], config.eval_kwargs):
        with pytest.raises(TypeError, match="frozen"):
            mapping["x"] = 1
        with pytest.raises(TypeError, match="frozen"):
            mapping.update(x=1)
    bare = load_config(write(tmp_path, "tasks: [a]\n"))
    for mapping in (bare.trainer_kwargs, bare.tasks[0].eval_kwargs, bare.trainers[0].params_variants[0]):
        with pytest.raises(TypeError, match="frozen"):
            mapping["x"] = 1
    frozen = config.trainers[1].params_variants[1]
    assert copy.deepcopy(frozen) == frozen == pickle.loads(pickle.dumps(frozen))
    assert json.loads(json.dumps(frozen)) == {"num_steps": 2, "nested": {"deep": [1, {"x": None}]}}


def test_empty_seeds_become_123_with_a_warning_that_names_the_line(tmp_path: Path) -> None:
    path = write(tmp_path, "tasks: [a]\nseeds: []\n")
    config = load_config(path)
    assert config.seeds == (123,) and config.warnings == (f"{path}, line 2: seeds is empty; the seed 123 is used",)


def test_what_mode_stub_does_not_use_is_a_recorded_warning(tmp_path: Path) -> None:
    config = load_config(write(tmp_path, "tasks: [a]\nllm: {model: m}\nscore_timeout: 0\n"))
    assert config.score_timeout is None and len(config.warnings) == 2
    assert any("line 2: llm is not used in mode stub" in w for w in config.warnings)
    assert any("line 3: score_timeout 0 is read as no limit" in w for w in config.warnings)


def test_overrides_replace_keys_under_any_of_their_names(tmp_path: Path) -> None:
    path = write(tmp_path, "tasks: [a]\nn_concurrent: 2\nseed: 4\njob_timeout: 5\n")
    config = load_config(path, {"max-workers": 7, "seeds": [1, 2], "job_timeout": None, "resume": "none"})
    assert (config.max_workers, config.seeds, config.job_timeout, config.resume) == (7, (1, 2), None, "none")
    assert load_config(path, {"tasks": ["internal:numeric_param"]}).tasks[0].id == "internal:numeric_param"


@pytest.mark.parametrize("word", ["no", "off", "yes", "on", "n", "y", "NO", "Off"])
def test_words_that_old_yaml_reads_as_booleans_stay_strings(word: str, tmp_path: Path) -> None:
    config = load_config(write(tmp_path, f"tasks: [a]\nname: {word}\ntags: [{word}]\nrun_id: {word}\n"))
    assert (config.name, config.tags, config.run_id) == (word, (word,), word)


def test_numbers_of_yaml_and_json_are_read_alike(tmp_path: Path) -> None:
    text = "{tasks: [a], eval_kwargs: {a: 1e-3, b: 1E5, c: -0.5, d: 0x10, e: 0o17, f: 12:30, g: '1', h: +3, i: 007}}"
    config = load_config(write(tmp_path, text))
    expected = {"a": 0.001, "b": 1e5, "c": -0.5, "d": 16, "e": 15, "f": "12:30", "g": "1", "h": 3, "i": 7}
    assert config.eval_kwargs == expected and type(config.eval_kwargs["b"]) is float


def test_anchors_and_merge_keys_work(tmp_path: Path) -> None:
    text = """\
tasks: [a]
trainers:
  - id: PrioritySearch
    params_variants:
      - &base {num_steps: 1, num_batches: 2}
      - <<: *base
        num_steps: 5
      - <<: [*base, {num_steps: 9, num_proposals: 4}]
"""
    variants = load_config(write(tmp_path, text)).trainers[0].params_variants
    assert variants[1] == {"num_steps": 5, "num_batches": 2}
    assert variants[2] == {"num_steps": 1, "num_batches": 2, "num_proposals": 4}


def test_json_with_tabs_escapes_and_no_spaces_is_the_same_config(tmp_path: Path) -> None:
    text = (
        '{\n\t"tasks":["internal:numeric_param"],\t"name":"tab\\\\ \\u00e9 \\ud83d\\ude00 \\/",\n\t"seeds":[1,2]\n}\n'
    )
    for name in ("c.json", "c.yaml"):
        config = load_config(write(tmp_path, text, name))
        assert config.name == "tab\\ é 😀 /" and config.seeds == (1, 2)


def test_a_byte_order_mark_and_windows_lines_do_no_harm(tmp_path: Path) -> None:
    path = tmp_path / "c.yaml"
    path.write_bytes(b"\xef\xbb\xbftasks: [a]\r\nmax_workers: 3\r\n")
    assert load_config(path).max_workers == 3


def test_all_second_names_and_knobs_lead_somewhere() -> None:
    for section, aliases in ALIASES.items():
        assert set(aliases.values()) <= set(section.model_fields)
        assert not set(aliases) & set(section.model_fields)
    assert set(KNOBS) <= set(keys_of(RunConfig)) and not set(KNOBS) & set(RunConfig.model_fields)


# ------------------------------------------------------------------------------------ anything else is a ConfigError

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["2g", "none", "stub", "internal:numeric_param", "PrioritySearch", "~", "1e3", "<<", "&a", "*a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


def places(value: object, path: tuple[object, ...] = ()) -> list[tuple[object, ...]]:
    found = [path]
    if isinstance(value, dict):
        for key, item in value.items():
            found += places(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            found += places(item, (*path, index))
    return found


def loads_or_is_refused(path: Path) -> None:
    try:
        config = load_config(path)
    except ConfigError as error:
        assert str(error).strip() and all(line.startswith(str(path)) for line in str(error).splitlines())
        return
    assert parse_config(config.to_snapshot()) == config


HERE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@HERE
@given(data=st.data())
def test_a_mutated_config_loads_or_is_refused(data: st.DataObject, tmp_path: Path) -> None:
    tree = yaml.safe_load(FULL.replace("1:30", "x").replace("2024-01-01", "y").replace(", no,", ", 'no',"))
    for _ in range(data.draw(st.integers(1, 3))):
        path = data.draw(st.sampled_from(places(tree)))
        value = data.draw(VALUES)
        if not path:
            tree = value
            break
        node = tree
        for key in path[:-1]:
            node = node[key]
        if isinstance(node, dict) and data.draw(st.booleans()):
            node[data.draw(st.text(max_size=6) | st.sampled_from(keys_of(RunConfig)))] = value
        else:
            node[path[-1]] = value
    if data.draw(st.booleans()):
        loads_or_is_refused(write(tmp_path, yaml.safe_dump(tree, allow_unicode=data.draw(st.booleans()))))
    else:
        loads_or_is_refused(write(tmp_path, json.dumps(tree), "c.json"))


@HERE
@given(data=st.data())
def test_a_config_with_mangled_text_loads_or_is_refused(data: st.DataObject, tmp_path: Path) -> None:
    raw = bytearray(FULL.encode())
    for _ in range(data.draw(st.integers(1, 6))):
        at = data.draw(st.integers(0, len(raw) - 1))
        bits = data.draw(st.binary(max_size=3) | st.sampled_from([b"\t", b"\n", b": ", b"- ", b"{", b"]", b'"', b"!!"]))
        raw[at : at + data.draw(st.integers(0, 4))] = bits
    path = tmp_path / "c.yaml"
    path.write_bytes(bytes(raw))
    loads_or_is_refused(path)


# ------------------------------------------------------------------------------------------------------------- docs


def test_every_key_is_documented_under_its_section() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reference" / "config.md").read_text(encoding="utf-8")
    chapters = {part.split("\n", 1)[0]: part for part in page.split("\n## ")}
    sections = {"Top level": RunConfig, **{key: kind for key, kind in sections_of(RunConfig).items() if key != "llms"}}
    inside = {inner: title for title, section in sections.items() for inner in sections_of(section).values()
              if title != "Top level" and inner not in sections.values()}  # fmt: skip
    assert {*Section.__subclasses__(), BudgetConfig} == {*sections.values(), *inside}
    for inner, title in inside.items():
        for key in keys_of(inner):
            assert f"`{key}`" in chapters[title], f"{title}: {key} is not in docs/reference/config.md"
    for title, section in sections.items():
        for key in keys_of(section):
            assert f"`{key}`" in chapters[title], f"{title}: {key} is not in docs/reference/config.md"
