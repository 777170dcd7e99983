"""A key identifies contents, and nothing but contents."""

from __future__ import annotations

import os
import shutil
from email.message import Message
from pathlib import Path

import pytest

from tests.images.conftest import TOP
from trace_bench.errors import ConfigError
from trace_bench.images import build
from trace_bench.images.recipe import (
    PARTS,
    dependencies_key,
    image_key,
    load_families,
    worker_sources_hash,
)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    shutil.copytree(TOP / "images", tmp_path / "images")
    return tmp_path / "images"


def test_shipped_families_stand_on_each_other() -> None:
    families = load_families()
    assert [f.name for f in families["llm4ad"].lineage] == ["base", "core", "llm4ad"]
    assert families["llm4ad"].arguments == {"PRELOAD": "numpy"}
    assert families["core"].arguments == {"PRELOAD": ""}


def _key(images: Path) -> str:
    return image_key(load_families(images)["core"].recipe, "packages:0")


OF_THE_IMAGE = ("core/Dockerfile", "base/Dockerfile", "worker.Dockerfile", "core/requirements.txt", "bootstrap.txt")
OF_THE_WORKER = ("__init__.py", "errors.py", "worker/problem.py", "trainers/base.py", "suites/base.py")


def test_key_changes_with_each_input_and_with_nothing_else(images: Path, tmp_path: Path) -> None:
    package = tmp_path / "trace_bench"
    shutil.copytree(TOP / "trace_bench", package, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (*images.rglob("*"), *package.rglob("*")):
        os.utime(path, (1, 1))
        if path.is_file():
            path.chmod(0o600)
    keys = [_key(images)]
    assert keys == [image_key(load_families()["core"].recipe, "packages:0")], "place, times and modes do not count"
    for name in ("llm4ad/Dockerfile", "llm4ad/requirements.txt"):
        _edit(images / name)
    assert [_key(images)] == keys
    for name in OF_THE_IMAGE:
        _edit(images / name)
        keys.append(_key(images))
    assert len(set(keys)) == len(keys) == 6
    hashes = [worker_sources_hash(package)]
    assert hashes == [worker_sources_hash()] == [load_families()["core"].recipe.worker]
    _edit(package / "resources.py")
    (package / "worker" / "__pycache__").mkdir()
    (package / "worker" / "__pycache__" / "x.cpython-311.pyc").write_bytes(b"0")
    (package / "worker" / ".problem.py.swp").write_bytes(b"0")
    assert [worker_sources_hash(package)] == hashes
    for name in OF_THE_WORKER:
        _edit(package / name)
        hashes.append(worker_sources_hash(package))
    (package / "worker" / "problem.py").rename(package / "worker" / "renamed.py")
    hashes.append(worker_sources_hash(package))
    assert len(set(hashes)) == len(hashes) == 7


def _edit(path: Path) -> None:
    with path.open("a") as file:
        file.write("\n# another line\n")


@pytest.mark.parametrize(
    "remote",
    ["https://user:word@example.org:8443/lab/trace-bench", "git@example.org:lab/trace-bench.git",
     "ssh://git@example.org/lab/trace-bench.git", "/srv/somewhere/trace-bench"],
)  # fmt: skip
def test_labels_name_a_public_source_without_user_and_password(monkeypatch: pytest.MonkeyPatch, remote: str) -> None:
    monkeypatch.setattr(build, "_git", lambda *arguments: remote if arguments[0] == "remote" else "0" * 40)
    monkeypatch.setattr(build.metadata, "metadata", lambda name: Message())
    labels = build._provenance(load_families()["core"])
    source = None if remote.startswith("/srv") else "https://example.org/lab/trace-bench"
    assert labels.get("org.opencontainers.image.source") == source
    assert labels["org.opencontainers.image.revision"] == "0" * 40


def test_key_changes_with_the_packages_of_debian(images: Path) -> None:
    before = load_families(images)["core"]
    (images / "core" / "debian.txt").write_text("g++\n")
    after = load_families(images)["core"]
    assert before.debian is None and after.debian == images / "core" / "debian.txt"
    assert image_key(after.recipe, "x") != image_key(before.recipe, "x")
    assert dependencies_key(after, "x") != dependencies_key(before, "x")


def test_key_changes_with_base_and_with_preload(images: Path) -> None:
    recipe = load_families(images)["core"].recipe
    assert image_key(recipe, "packages:0") != image_key(recipe, "packages:1")
    (images / "core" / "family.toml").write_text('title = "x"\nparent = "base"\npreload = ["json"]\n')
    changed = load_families(images)["core"].recipe
    assert image_key(changed, "packages:0") != image_key(recipe, "packages:0")
    assert [p for p in PARTS if changed.parts("x").get(p) != recipe.parts("x").get(p)] == ["arguments"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('title = "x"\nbase = "y"\n', "unknown key 'base'"),
        ("preload = []\n", "title must be a text"),
        ('title = "x"\npreload = ["os; import evil"]\n', "preload must be a list of module names"),
        ('title = "x"\nparent = "nobody"\n', "parent 'nobody' is not a family"),
        ('title = "x"\nparent = "llm4ad"\n', "makes a circle"),
        ("title = \n", "Invalid value"),
    ],
)
def test_a_wrong_family_is_one_sentence_with_its_file(images: Path, text: str, said: str) -> None:
    (images / "core" / "family.toml").write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_families(images)
    assert said in str(caught.value)
    assert "family.toml" in str(caught.value)


def test_requirements_are_hashed_and_name_no_index() -> None:
    files = [*TOP.glob("images/**/*.txt"), *TOP.glob("requirements/*.txt")]
    assert len(files) >= 8
    for path in files:
        text = path.read_text("utf-8")
        assert "://" not in text and "--index" not in text and "--find-links" not in text, path
        assert text.count("==") <= text.count("--hash=sha256:"), path
