"""Task specs: read, checked, hashed and packed without importing anything of the task."""

from __future__ import annotations

import io
import os
import tarfile
import tomllib
from pathlib import Path
from typing import Any

import pytest

from trace_bench.errors import ConfigError
from trace_bench.suites import task_files
from trace_bench.suites.registry import discover
from trace_bench.suites.spec import TaskSpec, load_task_spec, resolve_eval_kwargs
from trace_bench.suites.task_files import content_hash, pack_task

GOOD = '''\
title = "Packing"
statement = """
Put circles
in a square.
"""
interaction = "solve"
entry = "pack"
signature = "def pack(n): ..."
tags = ["a"]

[score]
direction = "maximize"
failure = 0
range = [0.0, 3]

[splits]
train = 2
validate = 1

[limits]
wall_seconds = 5

[eval_kwargs.n]
type = "int"
default = 26
minimum = 1
maximum = 200

[eval_kwargs.kind]
type = "str"
default = "hex"
choices = ["hex", "grid"]

[eval_kwargs.weights]
type = "list"

[eval_kwargs.scale]
type = "float"
default = 1

[candidates]
template = "template.py"
alternatives = ["alternatives/better.py"]
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    task = tmp_path / "task"
    (task / "alternatives").mkdir(parents=True)
    (task / "task.toml").write_text(GOOD)
    for name in ("template.py", "evaluator.py", "alternatives/better.py"):
        (task / name).write_text(f"# {name}\n")
    return task


def where(key: str) -> str:
    return f"c.yaml, line 3: eval_kwargs.{key}"


def test_a_spec_is_read_with_defaults(folder: Path) -> None:
    spec = load_task_spec(folder)
    assert (spec.title, spec.interaction, spec.entry, spec.is_code_task) == ("Packing", "solve", "pack", True)
    assert (spec.splits.train, spec.splits.validate_, spec.splits.test) == (2, 1, 0)
    assert (spec.limits.wall_seconds, spec.limits.cpu_seconds, spec.limits.memory_mb) == (5.0, 30.0, 1024)
    assert spec.score.failure == 0.0 and spec.score.range == (0.0, 3.0) and spec.tolerance == 1e-9
    assert spec.candidates is not None and spec.candidates.alternatives == ("alternatives/better.py",)
    assert spec.raw["eval_kwargs"]["n"]["default"] == 26 and spec.raw["statement"] == "Put circles\nin a square.\n"


def test_every_shipped_task_has_a_good_spec() -> None:
    entries = discover()
    assert len(entries) >= 10
    for entry in entries:
        spec = load_task_spec(entry.folder)
        assert resolve_eval_kwargs(spec, {}, where).keys() == spec.eval_kwargs.keys()
        assert len(content_hash(entry.folder)) == 64 and pack_task(entry.folder)


@pytest.mark.parametrize(
    ("old", "new", "line", "part"),
    [
        ("entry =", "entri =", 7, "did you mean 'entry'?"),
        ('"solve"', '"solv"', 6, "'solve'"),
        ('"maximize"', '"up"', 12, "'maximize' or 'minimize'"),
        ("failure = 0", "failure = true", 13, "number"),
        ("failure = 0\n", "", 11, "'score.failure' is missing"),
        ("failure = 0", "failure = nan", 13, "finite"),
        ('title = "Packing"', "title = 5", 1, "string"),
        ("train = 2", "train = 0", 17, "greater than or equal to 1"),
        ("train = 2", "trian = 2", 17, "did you mean 'train'?"),
        ("wall_seconds = 5", "wall_seconds = -5", 21, "greater than 0"),
        ('type = "int"', 'type = "integer"', 24, "'int'"),
        ("default = 26", "default = 0", 23, "at least 1"),
        ('default = "hex"', 'default = "hax"', 29, "did you mean 'hex'?"),
        ('"template.py"', '"missing.py"', 42, "does not exist in the task folder"),
        ('"template.py"', '"../../etc/passwd"', 42, "leaves the task folder"),
        ("[score]", "[score", 11, "not valid TOML"),
        ("title", "title = 1\ntitle", 2, "not valid TOML"),
        ("[candidates]", "[candidates", 41, "not valid TOML"),
    ],
)
def test_a_bad_spec_is_named_with_file_and_line(old: str, new: str, line: int, part: str, folder: Path) -> None:
    assert old in GOOD
    path = folder / "task.toml"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(ConfigError) as caught:
        load_task_spec(folder)
    message = str(caught.value).splitlines()[0]
    assert message.startswith(f"{path}, line {line}: ") and part in message, message


def test_all_problems_of_a_spec_are_listed(folder: Path) -> None:
    text = GOOD.replace("entry =", "entri =").replace('"solve"', '"solv"').replace("train = 2", "train = 0")
    (folder / "task.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_task_spec(folder)
    assert len(str(caught.value).splitlines()) == 3


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda f: (f / "task.toml").unlink(), "does not exist"),
        (lambda f: (f / "task.toml").write_bytes(b"\xff"), "not UTF-8"),
        (lambda f: (f / "task.toml").write_text("a = " + "[" * 5000), "TOML|nested"),
        (lambda f: (f / "task.toml").write_text('a = """'), "not valid TOML"),
        (lambda f: (f / "evaluator.py").unlink(), "no evaluator.py"),
    ],
)
def test_a_folder_that_is_no_task_is_one_sentence(make: Any, part: str, folder: Path) -> None:
    make(folder)
    with pytest.raises(ConfigError, match=part) as caught:
        load_task_spec(folder)
    assert "\n" not in str(caught.value) and str(caught.value).startswith(str(folder))


def test_a_code_task_needs_entry_and_signature() -> None:
    with pytest.raises(ValueError, match="must also say 'signature'"):
        TaskSpec.model_validate(
            {
                "title": "x",
                "statement": "x",
                "interaction": "solve",
                "entry": "f",
                "score": {"direction": "maximize", "failure": 0},
                "candidates": {"template": "t.py"},
            }
        )


# --------------------------------------------------------------------------------------------------- eval_kwargs


def test_eval_kwargs_get_defaults_and_common_ones_only_if_given(folder: Path) -> None:
    spec = load_task_spec(folder)
    defaults = {"n": 26, "kind": "hex", "weights": None, "scale": 1}
    assert resolve_eval_kwargs(spec, {}, where) == defaults
    given = {"n": 3, "num-train": 5, "timeout_seconds": 2, "scale": 2, "weights": [1, 2]}
    values = resolve_eval_kwargs(spec, given, where)
    assert values == defaults | {"n": 3, "num_train": 5, "timeout_seconds": 2.0, "scale": 2.0, "weights": [1, 2]}
    assert type(values["timeout_seconds"]) is float and type(values["scale"]) is float


def test_a_default_has_the_type_it_declares(folder: Path) -> None:
    assert type(resolve_eval_kwargs(load_task_spec(folder), {}, where)["scale"]) is float


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"m": 1}, "c.yaml, line 3: eval_kwargs.m: the task takes no 'm'"),
        ({"num_trian": 1}, "did you mean 'num_train'?"),
        ({"n": 0}, "c.yaml, line 3: eval_kwargs.n must be at least 1, not the number 0"),
        ({"n": 201}, "must be at most 200"),
        ({"n": 2.5}, "must be a whole number, not the number 2.5"),
        ({"n": True}, "must be a whole number, not true"),
        ({"n": None}, "must be a whole number, not nothing (null)"),
        ({"n": "3"}, "must be a whole number, not '3'"),
        ({"kind": "grit"}, "must be one of hex, grid, not 'grit'; did you mean 'grid'?"),
        ({"kind": 5}, "must be a string, not the number 5; put it in quotes"),
        ({"weights": "x"}, "must be a list"),
        ({"scale": float("inf")}, "must be a finite number"),
        ({"scale": 10**400}, "must be a finite number"),
        ({"num_train": 0}, "must be at least 1"),
        ({"timeout_seconds": 0}, "must be at least 0.001"),
        ({"num_test": -1}, "must be at least 0"),
    ],
)
def test_bad_eval_kwargs_are_refused_with_their_place(given: dict[str, Any], message: str, folder: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        resolve_eval_kwargs(load_task_spec(folder), given, where)
    assert message in str(caught.value) and "\n" not in str(caught.value)


def test_common_eval_kwargs_are_for_code_tasks_and_may_be_redefined(folder: Path) -> None:
    (folder / "task.toml").write_text(GOOD + "\n[eval_kwargs.num_train]\ntype = 'int'\ndefault = 7\nminimum = 7\n")
    spec = load_task_spec(folder)
    assert resolve_eval_kwargs(spec, {}, where)["num_train"] == 7
    with pytest.raises(ConfigError, match="at least 7"):
        resolve_eval_kwargs(spec, {"num_train": 6}, where)
    (folder / "task.toml").write_text(GOOD.split("[candidates]")[0])
    (folder / "problem.py").write_text("")
    with pytest.raises(ConfigError, match="takes no 'num_train'"):
        resolve_eval_kwargs(load_task_spec(folder), {"num_train": 6}, where)


# -------------------------------------------------------------------------------------------------- hash and tar


def copy(folder: Path, target: Path) -> Path:
    """The same content, made in another order, with other times and modes."""
    for path in sorted(folder.rglob("*"), reverse=True):
        if path.is_file():
            out = target / path.relative_to(folder)
            out.parent.mkdir(parents=True, exist_ok=True)
            out.write_bytes(path.read_bytes())
            out.chmod(0o755)
            os.utime(out, (1, 1))
    return target


def test_hash_and_tar_depend_on_names_and_bytes_alone(folder: Path, tmp_path: Path) -> None:
    twin = copy(folder, tmp_path / "elsewhere")
    (twin / "__pycache__").mkdir()
    (twin / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"x")
    (twin / ".git").mkdir()
    (twin / ".git" / "HEAD").write_text("x")
    (twin / "stale.pyc").write_bytes(b"x")
    assert content_hash(twin) == content_hash(folder) and pack_task(twin) == pack_task(folder)


@pytest.mark.parametrize(
    "change",
    [
        lambda f: (f / "template.py").write_text("# template.py"),
        lambda f: (f / "new.py").write_text(""),
        lambda f: (f / "template.py").rename(f / "templaté.py"),
        lambda f: (f / "alternatives" / "better.py").unlink(),
        lambda f: (f / "alternatives" / "better.py").rename(f / "better.py"),
        lambda f: ((f / "a").write_text("b"), (f / "template.py").write_text("# template.py\n1:a1:b"))[0],
    ],
)
def test_any_change_of_a_file_changes_the_hash(change: Any, folder: Path) -> None:
    before = content_hash(folder), pack_task(folder)
    change(folder)
    assert content_hash(folder) != before[0] and pack_task(folder) != before[1]


def test_the_tar_is_plain_and_unpacks_to_the_same_task(folder: Path, tmp_path: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(pack_task(folder))) as tar:
        members = tar.getmembers()
        tar.extractall(tmp_path / "out", filter="data")
    assert [m.name for m in members] == sorted(m.name for m in members)
    assert {(m.uid, m.gid, m.mtime, m.uname, m.gname) for m in members} == {(0, 0, 0, "", "")}
    assert {(m.isdir(), m.mode) for m in members} == {(True, 0o755), (False, 0o644)}
    assert content_hash(tmp_path / "out") == content_hash(folder)


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (lambda f: (f / "link").symlink_to("/etc/passwd"), "is a link"),
        (lambda f: (f / "dir").symlink_to(f), "is a link"),
        (lambda f: os.mkfifo(f / "pipe"), "is not a plain file"),
        (lambda f: (f / os.fsdecode(b"\xff")).mkdir(), "not UTF-8"),
    ],
)
def test_what_is_no_plain_file_is_refused(make: Any, part: str, folder: Path) -> None:
    make(folder)
    for use in (content_hash, pack_task):
        with pytest.raises(ConfigError, match=part):
            use(folder)


def test_a_task_folder_has_a_limit(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / "data.bin").open("wb") as file:
        file.truncate(task_files.MAX_TASK_BYTES)
    with pytest.raises(ConfigError, match="holds 64 MiB; a task folder may hold 64 MiB"):
        pack_task(folder)


@pytest.mark.parametrize(
    ("said", "repeats"),
    [("", True), ("deterministic = true", True), ("deterministic = false", False), ("timing_sensitive = true", False)],
)
def test_a_task_says_whether_a_score_stands_for_the_next_one(said: str, repeats: bool) -> None:
    assert TaskSpec.model_validate(tomllib.loads(f"{said}\n{GOOD}")).repeats is repeats
